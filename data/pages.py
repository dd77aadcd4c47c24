"""Pages to sum up: plain text, Markdown, HTML, a MediaWiki page, or a dump of several."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from suite.data.articles import Article, told
from suite.data.mediawiki import read_wikitext, redirect_target
from suite.data.mediawiki_dumps import read_dump
from suite.data.packed import open_packed, unpacked_suffix
from suite.data.paragraphs import tidy, unwrap
from suite.data.record_files import check_surrogates, decode
from suite.data.tables import Notes
from suite.data.webpages import read_html, read_markdown
from suite.errors import DataError
from suite.files import open_input

Kind = Literal["text", "markdown", "html", "mediawiki", "dump"]

_SUFFIXES: dict[str, Kind] = {
    **dict.fromkeys((".txt", ".text"), "text"),
    **dict.fromkeys((".md", ".markdown", ".mdown", ".mkd"), "markdown"),
    **dict.fromkeys((".html", ".htm", ".xhtml"), "html"),
    **dict.fromkeys((".wiki", ".mediawiki", ".wikitext"), "mediawiki"),
}
_RECORDS = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
# how files begin that are no text, and what makes text of them
_FOREIGN = {
    b"%PDF": "a PDF; convert it to text, for example with `pdftotext`",
    b"PK\x03\x04": "a zip file or an office document; unpack it, or save it as text or HTML",
    b"\xd0\xcf\x11\xe0": "an office document; save it as text or HTML",
    b"{\\rtf": "rich text; save it as text or HTML",
}
_START = 4096  # characters that tell the kind
_HTML = re.compile(
    r"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.*?-->\s*)*<(?:!doctype html|html|head|body|title|meta)\b", re.I | re.S
)
_TAGS = re.compile(r"<(?:p|div|h[1-6]|article|section|ul|table|br)\b[^<>]*>", re.IGNORECASE)
_WIKITEXT = re.compile(r"^==+[^=\n]+==+[ \t]*$|\[\[[^\[\]\n]+\]\]|'''[^'\n]+'''|^\{\{", re.MULTILINE)
_MARKDOWN = re.compile(r"^#{1,6} \S|^```|^[=-]{3,}[ \t]*$|\[[^\]\n]+\]\([^)\s]+\)|\*\*[^*\n]+\*\*", re.MULTILINE)
_HEADED = re.compile(r"\s*#{1,6} \S")
_ENDED = re.compile(r"[.!?…:;,][\W_]{0,3}$")
_TITLE = 100  # characters that a plain text's title may have


def read_pages(
    source: Path | bytes | str, notes: Notes, *, name: str = "", kind: Kind | None = None
) -> Iterator[Article]:
    """Read a page, or the pages of a dump, as articles.

    What stands before the first heading is the article's lead, if text follows it under a heading; else it is the body.
    A plain text has no headings; its first line is its title if it stands alone and does not end as a sentence does.

    Args:
        source: a file, or the content of one, perhaps packed (gzip or bzip2), or a text.
        notes: say what was left out.
        name: of the source, for errors; that of the file by default.
        kind: told by the name's suffix by default, or else by the content.

    Raises:
        DataError: the source cannot be read, is no text in UTF-8, has no text in it, or is a page that only leads to
            another one.

    Example:
        >>> [article.body for article in read_pages("It rained\\nall day.", Notes())]
        ['It rained all day.']
    """
    name = name or (str(source) if isinstance(source, Path) else "the text")
    if isinstance(source, str):
        check_surrogates(source, name)
    elif isinstance(source, Path):
        if not source.exists() or source.is_dir():
            raise DataError(f"{name}: no such file")
        if not source.is_file():
            source = _read_once(source, name)  # a pipe
    kind = kind or _kind_of_name(name)
    if kind == "dump" and not isinstance(source, str):
        yield from read_dump(source, name, notes)
        return
    text = source if isinstance(source, str) else _read(source, name)
    kind = kind or _kind_of_text(text)
    if kind == "dump":
        yield from read_dump(text.encode(), name, notes)
        return
    left: Counter[str] = Counter()
    if kind == "mediawiki":
        if target := redirect_target(text):
            raise DataError(f"{name}: this page is a redirect to {target!r}; use that page")
        article = read_wikitext(text, left, where=name)
    elif kind == "html":
        article = read_html(text, left, where=name)
    elif kind == "markdown":
        article = read_markdown(text, left, where=name)
    else:
        article = _read_plain(text, name)
    lost = told(left)
    if not (article.lead or article.body):
        raise DataError(f"{name}: no text found{f'; {lost}' if lost else ''}")
    if lost:
        notes.add(name, lost)
    yield article


def _kind_of_name(name: str) -> Kind | None:
    suffix = unpacked_suffix(name)
    if suffix in _RECORDS:
        raise DataError(f"{name}: contains records, not a page")
    return "dump" if suffix.startswith(".xml") else _SUFFIXES.get(suffix)  # parts of a dump are named .xml-p1p41242


def _read_once(source: Path, name: str) -> bytes:
    try:
        with open_input(source) as stream:
            return stream.read()
    except OSError as error:
        raise DataError(f"{name}: cannot be read ({error.strerror or error})") from None


def _read(source: Path | bytes, name: str) -> str:
    try:
        with open_packed(source, name) as stream:
            content = stream.read()
    except OSError as error:
        raise DataError(f"{name}: cannot be read ({error})") from None
    for start, what in _FOREIGN.items():
        if content.startswith(start):
            raise DataError(f"{name}: {what}")
    if (place := content.find(b"\0")) >= 0:
        raise DataError(f"{name}: not text, or not UTF-8: byte 0x00 at offset {place}; convert it")
    return decode(content, name).removeprefix("\ufeff")


def _kind_of_text(text: str) -> Kind:
    start = text[:_START]
    if "<mediawiki" in start:
        return "dump"
    tags, wikitext, markdown = (len(sign.findall(start)) for sign in (_TAGS, _WIKITEXT, _MARKDOWN))
    if _HTML.match(start) or tags > max(1, wikitext, markdown):
        return "html"
    if redirect_target(start) or wikitext > max(1, markdown):
        return "mediawiki"
    return "markdown" if markdown > 1 or _HEADED.match(start) else "text"


def _read_plain(text: str, name: str) -> Article:
    first, _, rest = text.strip().partition("\n")
    title = tidy(first)
    alone = not rest.partition("\n")[0].strip() and bool(rest)
    if not alone or len(title) > _TITLE or _ENDED.search(title):
        title, rest = "", text
    return Article.from_parts(title, [("", unwrap(rest))], name)


def places_in(text: str, body: str) -> list[int]:
    """For each character of an article's body that is no white space, where it stands in the plain text it came from.

    Unwrapping takes out white space, what cannot be seen, lines without a letter or digit, and the title before it all.

    Example:
        >>> places_in("Rain\\n\\nIt\\nrained.", "It rained.")
        [6, 7, 9, 10, 11, 12, 13, 14, 15]
    """
    seen = {character for character in set(text) if tidy(character)}
    places: list[int] = []
    start = 0
    for line in text.splitlines(keepends=True):
        if any(map(str.isalnum, line)):
            places += [place for place, character in enumerate(line, start) if character in seen]
        start += len(line)
    return places[len(places) - len("".join(body.split())) :]
