"""Articles in MediaWiki's markup, as in Wikipedia.

mwparserfromhell reads links and templates. What encloses paragraphs (templates, tables, references) is found here, and
it gets one paragraph at a time: brackets that nobody closed cost it time that grows with the square of the text.
"""

# ruff: noqa: RUF001 (dashes are meant)

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from html import unescape
from typing import TYPE_CHECKING, NamedTuple

from suite.data.articles import Article
from suite.data.paragraphs import tidy

if TYPE_CHECKING:
    from mwparserfromhell.wikicode import Wikicode


def _set(words: str) -> frozenset[str]:
    return frozenset(word.strip() for line in words.strip().split("\n") for word in line.split("|"))


# headings of sections that hold lists of works and links, in English, German and French
_LISTS = _set(
    """
    references|notes|notes and references|references and notes|footnotes|citations|sources|bibliography|works cited
    external links|see also|further reading|einzelnachweise|anmerkungen|weblinks|literatur|quellen|siehe auch
    références|notes et références|liens externes|lien externe|voir aussi|bibliographie|annexes
    """
)
FILES = _set("file|image|media|category|datei|bild|kategorie|fichier|catégorie")  # links that are not text
_REDIRECT = re.compile(r"\s*#\s*(?:redirect\w*|weiterleitung)\s*:?\s*\[\[\s*([^\]|#]+)", re.IGNORECASE)


def read_wikitext(
    markup: str, left: Counter[str], *, title: str = "", where: str = "", files: Collection[str] = FILES
) -> Article:
    """Read a page in MediaWiki's markup.

    Tables, references, files and sections of references and links are left out, and templates too, but for those that
    stand for a few words of a sentence, such as `{{convert|5|km}}`. An item of a list is a paragraph.

    Args:
        markup: of the page.
        left: what is left out is counted here.
        title: of the page.
        where: the page comes from.
        files: what links to files and categories begin with, in lower case.

    Example:
        >>> read_wikitext("A '''bee''' is an [[insect]].<ref>Yes.</ref>", Counter()).body
        'A bee is an insect.'
    """
    text = _MATH.sub(lambda match: f"${_escape(match[2].strip())}$", _COMMENT.sub("", markup))
    text = _NOWIKI.sub(lambda match: _escape(match[1]), text)
    text = _TAG.sub(lambda match: "\n\n" if match[1].lower() in _BLOCKS else " ", _without_enclosed(text, left))
    return Article.from_parts(title, _parts(text, left, files), where)


def redirect_target(markup: str) -> str:
    """The page that a page only leads to; "" if it is none of these.

    Example:
        >>> redirect_target("#REDIRECT [[Honey bee#Queens]]")
        'Honey bee'
    """
    match = _REDIRECT.match(markup)
    return match[1].strip() if match else ""


# ---- what encloses paragraphs

_COMMENT = re.compile(r"<!--(?:.*?-->|.*)", re.DOTALL)
_MATH = re.compile(r"<(math|chem|ce)\b[^<>]*>([^<]*)</\1\s*>", re.IGNORECASE)
_NOWIKI = re.compile(r"<nowiki\s*>([^<]*)</nowiki\s*>", re.IGNORECASE)
_ENDS = {"{{": "}}", "{|": "|}"}
_NOUNS = {"{{": "template", "{|": "table", "table": "table", "ref": "reference", "gallery": "picture block"}
_NOUNS |= {"math": "formula", "chem": "formula"}
_TOKEN = re.compile(
    r"(?P<open>\{\{|^[ \t:*#]*\{\|)|(?P<close>\}\}|^[ \t]*\|\}(?!\}))|<(?P<end>/?)"
    r"(?P<tag>ref|table|math|chem|gallery|timeline|score|syntaxhighlight|source|pre|imagemap|graph|mapframe|hiero)"
    r"\b[^<>]*?(?P<alone>/?)>",
    re.MULTILINE | re.IGNORECASE,
)


class _Enclosed(NamedTuple):
    """A part of a text that a template, table or tag encloses; of no kind if it is half of such a pair."""

    start: int
    end: int
    kind: str


def _enclosed(text: str) -> list[_Enclosed]:
    """The outermost parts that something encloses, in order."""
    opened: list[_Enclosed] = []
    depth: Counter[str] = Counter()
    found: list[_Enclosed] = []
    for token in _TOKEN.finditer(text):
        start, end = token.span()
        sign = (token["open"] or token["close"] or "").strip(" \t:*#")
        kind = token["tag"].lower() if token["tag"] else sign
        if token["open"] or (token["tag"] and not token["end"] and not token["alone"]):
            opened.append(_Enclosed(start, end, kind))
            depth[kind] += 1
            continue
        kind = next((opener for opener, closer in _ENDS.items() if closer == sign), kind)
        if token["alone"]:
            pass
        elif not depth[kind]:
            kind = ""
        else:
            while opened[-1].kind != kind:
                depth[opened.pop().kind] -= 1
            start = opened.pop().start
            depth[kind] -= 1
        while found and found[-1].start >= start:
            found.pop()
        found.append(_Enclosed(start, end, kind))
    return sorted([*found, *(half._replace(kind="") for half in opened)])


def _without_enclosed(text: str, left: Counter[str], depth: int = 0) -> str:
    """The text without what is enclosed in it, but for templates that stand for words."""
    pieces = []
    position = 0
    for start, end, kind in _enclosed(text):
        pieces.append(text[position:start])
        position = end
        words = _words(text[start:end], left, depth) if kind == "{{" else None
        if words is not None:
            pieces.append(words)
        elif kind:
            left[_NOUNS.get(kind, "code block")] += 1
            pieces.append("" if kind in ("{{", "ref", "math", "chem") else "\n\n")
    return "".join([*pieces, text[position:]])


def _escape(text: str) -> str:
    """Text that is no markup, until the end."""
    return re.sub(r"[\[\]{}|<>'=*#:;]", lambda match: f"&#{ord(match[0])};", text)


# ---- templates that stand for words

_LONG = 5_000  # characters that mwparserfromhell gets at once
_DEEP = 5  # templates in one another

_FIXED = {"'": "'", "'s": "'s", "!": "|", "=": "=", "ndash": "–", "en dash": "–", "mdash": "—", "em dash": "—"}
_FIXED |= dict.fromkeys(("snd", "spnd", "spaced ndash", "spaced en dash"), " – ")
_FIXED |= dict.fromkeys(("nbsp", "space", "dot", "·", "•"), " ")
_QUOTATIONS = _set("quote|blockquote|cquote|quotation|poemquote")
# which of a template's arguments is the text
_ARGUMENT = dict.fromkeys(_set("lang|langx|color|colour"), 1)
_ARGUMENT |= dict.fromkeys(_set("transl|transliteration|translit|script"), -1)
_ARGUMENT |= dict.fromkeys(
    _set("nowrap|nobr|small|smaller|big|em|strong|abbr|tooltip|bdi|mvar|var|math|mono|code|val|sic"), 0
)
_ARGUMENT |= dict.fromkeys(_set("nihongo|ill|illm|vanchor|chem2") | _QUOTATIONS, 0)
# what stands before a template's first argument
_BEFORE = {"circa": "c. ", "c.": "c. ", "floruit": "fl. ", "fl.": "fl. ", "reign": "r. ", "r.": "r. "}
_BEFORE |= {"as of": "As of "}
_BEFORE |= {"us$": "US$", "usd": "US$", "gbp": "£", "£": "£", "eur": "€", "€": "€", "inr": "₹", "yen": "¥", "¥": "¥"}
_BEFORE |= {ship: f"{ship.upper()} " for ship in _set("uss|hms|ss|ms|mv|rms|sms|hmas|hmcs|usns")}
_RANGES = {"-": "–", "–": "–", "to": " to ", "and": " and ", "or": " or ", "by": " by ", "x": " x ", "+/-": " ± "}


def _words(template: str, left: Counter[str], depth: int) -> str | None:
    """The words that a template stands for; None if it stands for none."""
    name = template[2:-2].partition("|")[0].replace("_", " ").strip().lower()
    if name in _FIXED:
        return _FIXED[name]
    special = name.startswith("lang-") or name in ("convert", "cvt", "frac", "fraction", "ship")
    if not (special or name in _ARGUMENT or name in _BEFORE) or len(template) > _LONG or depth >= _DEEP:
        return None
    import mwparserfromhell

    parsed = next(iter(mwparserfromhell.parse(template, skip_style_tags=True).filter_templates()), None)
    if parsed is None:
        return None
    values = [
        _without_enclosed(str(parameter.value), left, depth + 1).strip()
        for parameter in parsed.params
        if not parameter.showkey or str(parameter.name).strip() in ("1", "2", "text")
    ]
    if not values:
        return None
    if name in _BEFORE:
        return _BEFORE[name] + values[0]
    if name == "ship":
        return " ".join(values[:2])
    if name in ("convert", "cvt"):
        return _quantity(values)
    if name in ("frac", "fraction"):
        return " ".join([*values[:-2], "/".join(values[-2:])])
    place = _ARGUMENT.get(name, 0)
    if place >= len(values):
        return None
    return f"\n\n{values[place]}\n\n" if name in _QUOTATIONS else values[place]


def _quantity(values: Sequence[str]) -> str:
    """As `{{convert}}` writes it, without the conversion."""
    quantity, *rest = values
    while len(rest) > 1 and rest[0] in _RANGES:
        quantity += _RANGES[rest[0]] + rest[1]
        rest = rest[2:]
    return " ".join([quantity, *rest[:1]])


# ---- paragraphs

_TAG = re.compile(r"</?([a-zA-Z][\w-]*)\b[^<>]*>")
_BLOCKS = _set("p|div|blockquote|center|poem|li|ul|ol|dl|dd|dt|hr|section")
_QUOTES = re.compile(r"'{2,}")
_SWITCH = re.compile(r"__[A-Z]+__")
_LANGUAGE = re.compile(r"[a-z]{2,3}(?:-[a-z]+)*:")
_HALVES = re.compile(r"\[\[|\]\]")
# what is left where templates and files were: "(, )", "(; born 1900)", "aboard ,"
_GAPS = [(re.compile(r" ?\([ ,;:]*\)"), ""), (re.compile(r"\([ ,;:]+"), "("), (re.compile(r"[ ,;:]+\)"), ")")]
_GAPS += [(re.compile(r" ([,.])(?= |$)"), r"\1")]


def _parts(text: str, left: Counter[str], files: Collection[str]) -> Iterator[tuple[str, list[str]]]:
    """The paragraphs under each heading; those before the first under none."""
    heading = ""
    paragraphs: list[str] = []
    lines: list[str] = []  # of a paragraph
    skipped = 0  # level of the heading whose section is left out

    def end_paragraph() -> None:
        if lines and not skipped:
            paragraph = _plain(" ".join(lines), left, files)
            if any(map(str.isalnum, paragraph)):
                paragraphs.append(paragraph)
        lines.clear()

    for line in map(str.strip, text.split("\n")):
        level = _level(line)
        if level:
            end_paragraph()
            if not skipped:
                yield heading, paragraphs
            heading, paragraphs = _plain(line[level:-level], left, files), []
            if not skipped or level <= skipped:
                skipped = level if heading.lower() in _LISTS else 0
                left.update(["reference section"] if skipped else [])
        elif line[:1] in ("*", "#", ":", ";"):
            end_paragraph()
            lines.append(line.lstrip("*#:; "))
            end_paragraph()
        elif line[:1] in ("|", "!"):
            left.update([] if skipped else ["table row"])  # of a table whose start or end is missing
        elif line:
            lines.append(line)
        else:
            end_paragraph()
    end_paragraph()
    if not skipped:
        yield heading, paragraphs


def _level(line: str) -> int:
    """How deep a heading is; 0 if the line is none."""
    if len(line) < 3 or line[0] != "=" or line[-1] != "=":
        return 0
    start, end = len(line) - len(line.lstrip("=")), len(line) - len(line.rstrip("="))
    return min(start, end, 6) if start < len(line) else 0


def _plain(text: str, left: Counter[str], files: Collection[str]) -> str:
    """A paragraph without links, emphasis and entities."""
    if "[" in text:
        import mwparserfromhell

        parsed = (mwparserfromhell.parse(piece, skip_style_tags=True) for piece in _pieces(text))
        text = "".join(_without_links(piece, left, files) for piece in parsed)
    text = _QUOTES.sub(lambda match: "'" * ({4: 1}.get(len(match[0]), max(0, len(match[0]) - 5))), text)
    text = tidy(unescape(_SWITCH.sub("", _HALVES.sub("", text))))
    for gap, filled in _GAPS:
        text = gap.sub(filled, text)
    return text


def _pieces(text: str) -> Iterator[str]:
    """Cut a long paragraph, where links end if it can be."""
    start = 0
    while start < len(text):
        end = text.rfind("]]", start, start + _LONG) + 2
        if end < start + 2 or len(text) <= start + _LONG:
            end = start + _LONG
        yield text[start:end]
        start = end


def _without_links(code: Wikicode, left: Counter[str], files: Collection[str]) -> str:
    from mwparserfromhell.nodes import ExternalLink, Tag, Wikilink

    words = []
    for node in code.nodes:
        if isinstance(node, Wikilink):
            target = str(node.title).strip()
            if target.partition(":")[0].strip().lower() in files:
                left["category or file link"] += 1
            elif node.text is not None:
                words.append(_without_links(node.text, left, files))
            elif not _LANGUAGE.match(target):  # else a link to the same page in another language
                words.append(target.removeprefix(":"))
        elif isinstance(node, ExternalLink):
            words.append(_without_links(node.title, left, files) if node.title is not None else "")
        elif isinstance(node, Tag):
            words.append(_without_links(node.contents, left, files) if node.contents is not None else "")
        else:
            words.append(str(node))
    return "".join(words)
