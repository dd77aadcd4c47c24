"""Articles from XML dumps of Wikipedia and other wikis of MediaWiki."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

from suite.data.articles import Article, told
from suite.data.mediawiki import FILES, read_wikitext, redirect_target
from suite.data.packed import Damaged, open_packed
from suite.data.sources import File
from suite.data.tables import Notes
from suite.errors import DataError
from suite.wording import count

_DISAMBIGUATION = re.compile(
    r"\{\{\s*(?:disambig\w*|dab|hndis|geodis|[a-z ]+disambiguation|begriffsklärung|homonymie)\s*[|}]", re.IGNORECASE
)


def read_dump(source: File | Path | bytes, name: str, notes: Notes) -> Iterator[Article]:
    """Read the articles of an XML dump one by one; only one page is in memory at a time.

    Redirects, disambiguation pages and pages outside the main namespace are left out. Of a page with several revisions,
    the last is read. From a dump that is damaged, the pages before the damage are given.

    Args:
        source: file or content, perhaps packed.
        name: of the source.
        notes: say what was left out, and where a dump is damaged.

    Raises:
        DataError: there is no article in it.
    """
    left: Counter[str] = Counter()
    damage: list[str] = []
    read = given = 0
    last = leads = ""
    for page in _pages(source, name, damage):
        read += 1
        last = page.title
        if page.namespace != 0:
            left["non-article page"] += 1
        elif target := page.redirect or redirect_target(page.markup):
            left["redirect"] += 1
            leads = f"{page.title!r} is a redirect to {target!r}"
        elif _DISAMBIGUATION.search(page.markup):
            left["disambiguation page"] += 1
        else:
            where = f"{name}, page {page.title!r}"
            article = read_wikitext(page.markup, left, title=page.title, where=where, files=page.files)
            if article.lead or article.body:
                given += 1
                yield article
            else:
                left["empty page"] += 1
    if not given:
        why = damage[0] if damage else leads if read == 1 and leads else told(left)
        raise DataError(f"{name}: no articles found{f' ({why})' if why else ''}")
    if left:
        notes.add(name, told(left))
    if damage:
        notes.add(name, f"read only {count(read, 'page')}, up to {last!r}: {damage[0]}")


class _Page(NamedTuple):
    title: str
    namespace: int
    redirect: str
    markup: str
    files: Collection[str]


def _pages(source: File | Path | bytes, name: str, damage: list[str]) -> Iterator[_Page]:
    """The pages of a dump; what is wrong with it goes into `damage`."""
    import mwxml
    from mwxml.errors import MalformedXML

    try:
        with source.open() if isinstance(source, File) else open_packed(source, name) as stream:
            if b"<mediawiki" not in stream.peek(4096):
                damage.append("not a MediaWiki dump; other kinds of XML are not supported")
                return
            # `read` would lose what it has when it meets the cut
            dump = mwxml.Dump.from_file(SimpleNamespace(read=stream.read1))
            spaces = dump.site_info.namespaces or ()
            files = FILES.union(space.name.lower() for space in spaces if space.id in (-2, 6, 14))
            for page in dump.pages:
                markup = ""
                for revision in page:
                    markup = revision.text or ""
                yield _Page(page.title, page.namespace, page.redirect or "", markup, files)
    except Damaged as error:
        damage.append(f"damaged or cut off: {error.reason}")
    except (OSError, MalformedXML, SyntaxError, ValueError, TypeError, AttributeError) as error:
        # the last four are what XML's parser and mwxml raise for what is not well formed, or lacks a title or number
        reason = str(error).partition("\n")[0]
        damage.append(f"damaged or cut off: {reason}")
