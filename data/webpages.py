"""The text of web pages and of Markdown.

selectolax reads the HTML: as browsers do, fast, and without libraries of its own. Which part of a page is the article
is told here, by rules that count what they leave out. Of the libraries that tell it, trafilatura keeps more of what
surrounds an article (F1 of 0.92 on 23 news pages, where these rules, which were made on them, have 0.97), takes a third
of a second for a page and needs thirteen packages; Resiliparse (0.88) keeps more still.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING

from suite.data.articles import Article
from suite.data.paragraphs import tidy, unwrap

if TYPE_CHECKING:
    from selectolax.lexbor import LexborNode


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_SKIPPED = _set("head script style noscript template svg object iframe canvas audio video map button select textarea")
# what surrounds an article or interrupts it: by tag, by role, by the words in a class or id
_FURNITURE = {
    **{tag: tag for tag in ("table", "figure", "form", "footer", "dialog")},
    "pre": "code block",
    "nav": "menu",
    "aside": "sidebar",
}
_ROLES = _set("navigation banner contentinfo complementary search dialog alert menu menubar toolbar")
_CLASSES = _set(
    """
    nav navbar navigation menu breadcrumb breadcrumbs pagination pager toc sidebar footer share sharing social comment
    comments disqus related newsletter subscribe cookie cookies consent popup modal promo ad ads advert advertisement
    sponsored outbrain taboola editsection reference reflist navbox infobox hatnote catlinks noprint headerlink
    """
)
_CLASS_WORD = re.compile(r"[a-z]+|[A-Z][a-z]*")
_HEADINGS = _set("h1 h2 h3 h4 h5 h6")
_BLOCKS = _HEADINGS | _set(
    """
    address article aside blockquote body br caption center dd details div dl dt fieldset figure footer form header hr
    li main nav ol p pre section summary table tbody td th tr ul
    """
)

_PROSE = 40  # characters from which on a paragraph is prose
_LINKED = 1 / 3  # share of it that links may be
_MOST = 0.6  # of the prose, where what stands beside it is mostly none
_NEARLY_ALL = 0.9  # of the prose, whatever stands beside it
_FRONT_MATTER = re.compile(r"---[ \t]*\n(?=[\w -]+:)(?:(?!---).*\n)*?---[ \t]*(?:\n|\Z)")
_FRONT_TITLE = re.compile(r"^title:(.+)$", re.MULTILINE)
_DEFINITION = re.compile(r"^ {0,3}\[[^\]\n]+\]:.*$", re.MULTILINE)  # of a link, perhaps far from where it is used
# the parser asks of each of these whether a paragraph is open, which takes a look at all that they stand in
_NESTING = re.compile(
    r"<(/?)(?:address|article|aside|blockquote|center|details|dialog|dir|div|dl|fieldset|fig(?:ure|caption)|footer"
    r"|header|hgroup|main|menu|nav|ol|pre|section|summary|ul)\b[^<>]*>",
    re.IGNORECASE,
)
_DEEPEST = 512  # elements within elements, as in browsers
_PIECE = 500_000  # characters of Markdown that are read at once: they take 40 times as much memory


@dataclass(slots=True)
class _Element:
    """An element of a page that may hold paragraphs.

    Attributes:
        parent: its place among the elements, which are in the page's order; the first is its own.
        end: place of the last element within it.
        furniture: what it is, if an article has no such part.
        article: whether it says that it is one.
        size: characters of text in it.
        prose: those of its prose.
        kept: whether it is read.
    """

    parent: int
    end: int
    furniture: str = ""
    article: bool = False
    size: int = 0
    prose: int = 0
    kept: bool = True


@dataclass(slots=True)
class _Block:
    """A heading or paragraph.

    Attributes:
        element: that it stands in.
        tag: "p", "pre" or a heading's.
        pieces: of its text, each with the element that it stands in.
        linked: how many characters of it are links.
        text: of the pieces that are kept.
    """

    element: int
    tag: str
    pieces: list[tuple[int, str]] = field(default_factory=list)
    linked: int = 0
    text: str = ""

    @property
    def size(self) -> int:
        return len(self.text)

    @property
    def is_prose(self) -> bool:
        return self.tag not in _HEADINGS and self.size >= _PROSE and self.linked < _LINKED * self.size


def read_html(html: str, left: Counter[str], *, where: str = "", whole: bool = False) -> Article:
    """Read the article of a web page.

    It is the element `article` or `main` that holds most of the page's prose, or else the smallest element that holds
    nearly all of it. Menus, forms, tables, figures, comments and the like are left out, and paragraphs that are mostly
    links; but none that holds most of the prose (old pages are laid out as tables).

    Args:
        html: of the page, well formed or not.
        left: what is left out is counted here.
        where: the page comes from.
        whole: whether all of the page is the article.

    Returns:
        the article; its title is its `h1`, or else what the page says its title is.

    Example:
        >>> read_html("<title>Bees</title><nav>Home</nav><p>A bee is an insect.", Counter()).body
        'A bee is an insect.'
    """
    from selectolax.lexbor import LexborHTMLParser

    page = LexborHTMLParser(_flattened(html))
    if page.body is None:
        return Article(where=where)
    elements, blocks = _walk(page.body, left)
    _add_up(elements, blocks)
    _leave_out(elements, left)
    _add_up(elements, blocks)
    start, end = (0, len(elements)) if whole else _article(elements)
    chosen: list[_Block] = []
    title = ""
    for block in blocks:
        if not any(map(str.isalnum, block.text)):
            continue
        if not start <= block.element <= end:
            if block.tag == "h1" and not chosen:
                title = block.text  # the last before the article
            else:
                left["surrounding paragraph"] += 1
        elif not whole and block.tag not in _HEADINGS and 2 * block.linked > block.size:
            left["paragraph of links"] += 1
        else:
            chosen.append(block)
    titles = [place for place, block in enumerate(chosen) if block.tag == "h1"]
    if len(titles) == 1 or titles[:1] == [0]:
        title = chosen.pop(titles[0]).text
    if not title and (tag := page.css_first("title")) is not None:
        title = tidy(tag.text())
    return Article.from_parts(title, _parts(chosen), where)


def read_markdown(text: str, left: Counter[str], *, where: str = "") -> Article:
    """Read Markdown (CommonMark and tables): text, headings, lists and what links say; code and tables are left out.

    Args:
        text: perhaps with a block between lines of "---" at its head, which may name a title.
        left: what is left out is counted here.
        where: the text comes from.

    Example:
        >>> article = read_markdown("# Bees\\n\\nA bee is an [insect](a.md).\\n\\n## Food\\n\\n*Nectar*.", Counter())
        >>> article.title, article.lead, article.body
        ('Bees', 'A bee is an insect.', 'Nectar.')
    """
    from markdown_it import MarkdownIt

    markdown = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    text = text.replace("\r\n", "\n")
    title = ""
    if matter := _FRONT_MATTER.match(text):
        text = text[matter.end() :]
        if named := _FRONT_TITLE.search(matter[0]):
            title = named[1].strip().strip("\"'")
    links: dict[str, object] = {}
    markdown.parse("\n\n".join(_DEFINITION.findall(text)), links)
    html = [f"<title>{escape(title)}</title>", *(markdown.render(piece, links) for piece in _pieces(text))]
    return read_html("".join(html), left, where=where, whole=True)


# ---- Markdown


def _pieces(text: str) -> Iterator[str]:
    """Cut a long text at blank lines that are in no block of code."""
    lines: list[str] = []
    size = 0
    in_code = False
    for line in text.splitlines(keepends=True):
        lines.append(line)
        size += len(line)
        in_code ^= line.lstrip().startswith(("```", "~~~"))
        if size >= _PIECE and not in_code and not line.strip():
            yield "".join(lines)
            lines, size = [], 0
    yield "".join(lines)


# ---- HTML


def _flattened(html: str) -> str:
    """The page without the tags of elements that stand deeper than `_DEEPEST`, whose text stays."""
    depth = 0

    def keep(match: re.Match[str]) -> str:
        nonlocal depth
        depth = max(0, depth - 1) if match[1] else depth + 1
        return match[0] if depth + bool(match[1]) <= _DEEPEST else ""

    return _NESTING.sub(keep, html)


def _walk(body: LexborNode, left: Counter[str]) -> tuple[list[_Element], list[_Block]]:
    """The elements and blocks of a page, in order."""
    elements = [_Element(parent=0, end=0)]
    blocks: list[_Block] = []
    block: _Block | None = None
    stack: list[tuple[LexborNode, int, str, bool] | None] = [(body, 0, "p", False)]
    while stack:
        if (top := stack.pop()) is None:
            block = None  # an element has ended
            continue
        node, place, tag, linked = top
        name = node.tag or ""
        if node.is_text_node:
            text = node.text_content or ""
            if block is None and text.strip():
                block = _Block(place, tag)
                blocks.append(block)
            if block is not None:
                block.pieces.append((place, text))
                block.linked += len(text.strip()) if linked else 0
        elif not node.is_element_node or name in _SKIPPED:
            pass
        elif name == "math":
            left["formula"] += 1
        elif name == "pre" and node.css_first("code") is not None:
            left["code block"] += 1
        else:
            attributes = node.attributes
            article = name in ("body", "article", "main") or attributes.get("role") == "main"
            furniture = "" if article else _furniture(name, attributes)
            if furniture or name in _BLOCKS:
                elements.append(_Element(place, len(elements), furniture, article))
                place = len(elements) - 1
            if name in _BLOCKS:
                block = None
                stack.append(None)
            tag = name if name in _HEADINGS or name == "pre" else tag
            children = []
            child = node.last_child
            while child is not None:
                children.append((child, place, tag, linked or name == "a"))
                child = child.prev
            stack.extend(children)
    return elements, blocks


def _furniture(name: str, attributes: Mapping[str, str | None]) -> str:
    """What an element is, if an article has no such part."""
    if name in _FURNITURE:
        return _FURNITURE[name]
    names = f"{attributes.get('class') or ''} {attributes.get('id') or ''}"
    if not _CLASSES.isdisjoint(word.lower() for word in _CLASS_WORD.findall(names)) or attributes.get("role") in _ROLES:
        return "page part"
    style = (attributes.get("style") or "").replace(" ", "")
    hidden = "hidden" in attributes or attributes.get("aria-hidden") == "true" or "display:none" in style
    return "hidden part" if hidden else ""


def _text(block: _Block, elements: Sequence[_Element]) -> str:
    text = "".join(piece for place, piece in block.pieces if elements[place].kept)
    return text if block.tag == "pre" else tidy(text)


def _add_up(elements: Sequence[_Element], blocks: Iterable[_Block]) -> None:
    """Tell for each element how much text and prose is kept in it, and where it ends."""
    for element in elements:
        element.size = element.prose = 0
    for block in blocks:
        block.text = _text(block, elements)
        for place, piece in block.pieces:
            elements[place].size += len(piece)
        elements[block.element].prose += block.size if block.is_prose else 0
    for element in reversed(elements[1:]):
        parent = elements[element.parent]
        parent.size += element.size
        parent.prose += element.prose
        parent.end = max(parent.end, element.end)


def _leave_out(elements: Sequence[_Element], left: Counter[str]) -> None:
    for element in elements[1:]:
        within = elements[element.parent].kept
        element.kept = within and not (element.furniture and 2 * element.prose <= elements[0].prose)
        if within and not element.kept and element.size:
            left[element.furniture] += 1


def _article(elements: Sequence[_Element]) -> tuple[int, int]:
    """The places of the first and the last element of the article."""
    page = elements[0]
    if not page.prose:
        return 0, page.end

    def holds_it(element: _Element) -> bool:
        beside = page.prose - element.prose
        if element.article or 2 * beside < page.size - element.size:
            return element.prose > _MOST * page.prose
        return element.prose >= _NEARLY_ALL * page.prose

    start = max(place for place, element in enumerate(elements) if holds_it(element))
    return start, elements[start].end


def _parts(blocks: Iterable[_Block]) -> Iterator[tuple[str, list[str]]]:
    """The paragraphs under each heading; those before the first under none."""
    heading = ""
    paragraphs: list[str] = []
    for block in blocks:
        if block.tag in _HEADINGS:
            yield heading, paragraphs
            heading, paragraphs = block.text.strip(" §¶#"), []  # signs that link to it
        elif block.tag == "pre":
            paragraphs += unwrap(block.text)
        else:
            paragraphs.append(block.text)
    yield heading, paragraphs
