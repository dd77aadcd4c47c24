"""Pages to sum up: the article's text and nothing else, nothing lost unsaid, and every fault in one line."""

import bz2
import doctest
import gzip
import os
import re
import textwrap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.data import articles, packed, pages, paragraphs, webpages
from suite.data.articles import Article
from suite.data.pages import Kind, read_pages
from suite.data.paragraphs import unwrap
from suite.data.tables import Notes
from suite.errors import DataError

PROSE = [
    "The honey bee gathers nectar, which it turns into honey in the hive over the summer.",
    "Its queen lays the eggs. Workers, all of them her daughters, feed the larvae and guard the entrance of the hive "
    "against wasps, mice and other robbers until the first frost.",
    "In winter the colony lives on what it has stored.",
]


def read(source: Path | bytes | str, kind: Kind | None = None, name: str = "") -> tuple[Article, str]:
    notes = Notes()
    (article,) = read_pages(source, notes, kind=kind, name=name)
    return article, "; ".join(notes.lines())


def read_html(body: str, head: str = "") -> tuple[Article, str]:
    return read(f"<!doctype html><html><head>{head}</head><body>{body}</body></html>")


def paragraphs_of(lines: list[str]) -> str:
    return "".join(f"<p>{line}</p>\n" for line in lines)


@pytest.mark.parametrize("module", [articles, packed, pages, paragraphs, webpages])
def test_examples(module: object) -> None:
    """The docstrings' examples are true."""
    assert doctest.testmod(module).failed == 0  # type: ignore[arg-type]


# ---- plain text


@pytest.mark.parametrize("width", [30, 45, 72, 100])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_hard_wrapped_text(width: int, end: str) -> None:
    """Lines that were full are set together, or else each would count as a sentence of its own."""
    text = "\n\n".join(textwrap.fill(paragraph, width) for paragraph in PROSE)
    assert list(unwrap(text.replace("\n", end))) == PROSE


def test_a_paragraph_a_line() -> None:
    """Long lines without blank ones between stay paragraphs: nothing was wrapped."""
    assert list(unwrap("\n".join(PROSE))) == PROSE


def test_indented_paragraphs() -> None:
    """Paragraphs that are told by their first line's indentation alone, as in old books, are parted."""
    text = "\n".join(textwrap.fill(paragraph, 50, initial_indent="    ") for paragraph in PROSE)
    assert list(unwrap(text)) == PROSE
    full = "    These lines are all full, and even the\nlast one of each paragraph has no room in\n"
    full += "it for the word with which the next begins.\n"
    assert len(list(unwrap(full * 3))) == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The committee met\nto talk of money,\nand then it left.\nNobody came.", 2),  # short lines, no blank one
        ("Bring:\n- milk\n- eggs that\n  are fresh\n1. one\n2) two\na) three\nb) four", 7),  # items may go on
        ("It ended.\niPhones rose.\nWell.", 3),
        ("First Citizen:\nSpeak.\n\nAll:\nSpeak, speak.", 4),
        ("-----\nOne.\n* * *\n\n~~~\n\nTwo.", 2),  # rules are no text
        ("Eine Reise nach Rom\nEin Hotel am Meer\nDer Weg zurück", 3),
        ("今日は天気がいいですね。明日も晴れるでしょうか。それはまだわか\nりませんが、そう願っています。", 2),
    ],
)
def test_blocks_of_short_lines(text: str, expected: int) -> None:
    """A text of short lines does not fall apart where a sentence goes on, and a list is no sentence."""
    assert len(list(unwrap(text))) == expected


def test_wrapped_chinese_gets_no_spaces() -> None:
    """Where a Chinese line was broken there was no space."""
    text = "今天天气很好我们去公园散步然后回家吃饭明天我们还要去学校上课所以今天要早点睡觉休息一下再说吧" * 3 + "。"
    assert list(unwrap("\n".join(textwrap.wrap(text, 30)))) == [text]


@given(st.text(st.sampled_from("aB.,; \t\n\r-*1é的\u2028\x85\u00a0\u00ad"), max_size=200))
def test_nothing_of_a_text_is_lost(text: str) -> None:
    """Every letter and digit comes through in order, in paragraphs of one tidy line."""
    found = list(unwrap(text))
    assert [sign for sign in "".join(found) if sign.isalnum()] == [sign for sign in text if sign.isalnum()]
    for paragraph in found:
        assert paragraph and len(paragraph.splitlines()) == 1
        assert paragraph == " ".join(paragraph.split())


def test_title_of_a_plain_text() -> None:
    """A line alone at the top is the title; a first sentence is not, and is kept."""
    article, _ = read(f"\n The bee \n\n{PROSE[0]}\n")
    assert (article.title, article.lead, article.body) == ("The bee", "", PROSE[0])
    article, _ = read("It rained.\n\nNobody came.")
    assert (article.title, article.body) == ("", "It rained.\nNobody came.")
    assert read("Just a few words")[0].body == "Just a few words"
    assert read("A line\nand the next\n\nMore.")[0].title == ""


# ---- Markdown


MARKDOWN = """---
title: "Front"
tags: [a]
---
# Bees and *honey*

A bee is an [insect](http://a.b "Title") that ![picture](a.png) **flies**,
says `buzz` and goes [home][1].

[1]: http://c.d

## Food

* Nectar from
  flowers
* Pollen

```python
# not a heading
x = 1
```

| a | b |
| - | - |
| 1 | 2 |

Set heading
-----------

> Quoted &amp; said. snake_case_name stays.

    code = indented

<details><summary>More</summary>

Within.

</details>
<script>alert(1)</script>
"""


def test_markdown() -> None:
    """Marks are undone, headings part sections, code and tables are left out and counted."""
    article, notes = read(MARKDOWN, "markdown")
    assert article.title == "Bees and honey"
    assert article.lead == "A bee is an insect that flies, says buzz and goes home."
    assert [(section.heading, section.text) for section in article.sections] == [
        ("Food", "Nectar from flowers\nPollen"),
        ("Set heading", "Quoted & said. snake_case_name stays.\nMore\nWithin."),
    ]
    assert notes == "the text: left out 2 code blocks, 1 table"
    assert read("---\r\ntitle: 'Front'\r\n---\r\nText.", "markdown")[0].title == "Front"
    assert read("---\nText.\n\n---\nMore.", "markdown")[0].body == "Text.\nMore."
    assert read("Text.\n\n# One\n\nA.\n\n# Two\n\nB.", "markdown")[0].title == ""  # none stands for the whole


def test_long_markdown_is_read_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cutting a long text to save memory changes nothing, not even where a blank line stands in code."""
    text = MARKDOWN + "\n```\na\n\n# no heading\n\n```\n\nLast.\n"
    whole = read(text, "markdown")
    monkeypatch.setattr(webpages, "_PIECE", 10)
    assert read(text, "markdown") == whole


# ---- HTML


def test_web_page() -> None:
    """The article comes out, and menus, scripts, forms, tables, comments and cookies stay behind, counted."""
    article, notes = read_html(
        f"""
        <header><nav><ul><li><a href=/>Home</a><li><a href=/n>News</a></ul></nav></header>
        <script>var a = "<p>not text, though it is long enough to be taken for some of it</p>";</script>
        <div class="cookie-banner"><p>{PROSE[1]}</p></div>
        <main><h1>Bees<a class="headerlink" href="#bees">¶</a></h1>
        <p>Lead&nbsp;of it, with <b>bold</b>&shy;ness and <a href=a>a link</a>.<sup class="reference">[1]</sup></p>
        <h2>§ Food <span class="mw-editsection">[edit]</span></h2>{paragraphs_of(PROSE)}
        <table><tr><td>1<td>2</table><figure><img src=a><figcaption>A picture</figcaption></figure>
        <ul><li>First<li>Second <i>item</i></ul><pre><code>x = 1</code></pre><p><a href=b>Read more of it</a></p>
        <aside>By the way</aside></main>
        <div id="comments"><p>Nice!</p></div><footer>© 2026</footer>
        """,
        "<title>Bees - The Site</title><style>p {color: red}</style>",
    )
    assert article.title == "Bees"
    assert article.lead == "Lead of it, with boldness and a link."
    assert [(section.heading, section.text) for section in article.sections] == [
        ("Food", "\n".join([*PROSE, "First", "Second item"]))
    ]
    assert notes == (
        "the text: left out 1 code block, 1 menu, 5 page parts, 1 table, 1 figure, 1 sidebar, 1 footer, "
        "1 paragraph of links"
    )


def test_an_article_without_marks() -> None:
    """Without `article` or `main`, it is what holds the prose; teasers beside it are counted, not read."""
    teasers = "".join(f"<div><b>Teaser {n}</b> <span>12:0{n}</span></div>" for n in range(9))
    article, notes = read_html(
        f"<h1>Site</h1><div><div><h1>Bees</h1>{paragraphs_of(PROSE)}</div><div>{teasers}</div></div>",
        "<title>x</title>",
    )
    assert article.body == "\n".join(PROSE)
    assert article.title == "Bees"
    assert notes == "the text: left out 9 surrounding paragraphs"
    article, _ = read_html(f"<h1>Bees</h1><div>{teasers}</div><div>{paragraphs_of(PROSE)}</div>")
    assert article.title == "Bees"


def test_sections_of_unequal_length_are_all_read() -> None:
    """The longest of several sections must not pass for the whole article."""
    sections = [PROSE * 5, PROSE[:1], PROSE[1:2]]
    body = "".join(f"<section><h2>{n}</h2>{paragraphs_of(lines)}</section>" for n, lines in enumerate(sections))
    article, notes = read_html(f"<div>{body}</div>")
    assert [section.text.split("\n") for section in article.sections] == sections
    assert notes == ""


@pytest.mark.parametrize(
    "around",
    [
        "<table><tr><td>Menu<td>{}</table>",  # pages of the nineties
        "<form action=x>{}</form>",  # pages of ASP.NET
        "<div class='advert-wrap'>{}</div>",
        "<div hidden>{}</div>",  # shown by a script
    ],
)
def test_no_rule_takes_the_whole_text(around: str) -> None:
    """What is furniture elsewhere is the article where it holds most of the prose."""
    assert read_html(around.format(paragraphs_of(PROSE)))[0].body.endswith("\n".join(PROSE))


def test_the_body_is_no_furniture() -> None:
    """A class of the whole page says what it has, not what it is; a page may be shorter than any prose."""
    assert read("<html><body class='no-sidebar has-comments'><nav>Home</nav><p>Short.")[0].body == "Short."


def test_text_in_pre_and_between_line_breaks() -> None:
    """A page that is one <pre> is unwrapped like a plain text; <br> parts paragraphs."""
    assert read_html(f"<pre>{textwrap.fill(PROSE[1], 60)}</pre>")[0].body == PROSE[1]
    assert read_html("<br><br>".join(PROSE))[0].body == "\n".join(PROSE)
    assert read_html(f"<div>{PROSE[0]}<p>{PROSE[1]}</p>{PROSE[2]}</div>")[0].body == "\n".join(PROSE)


PIECES = """
a b <p> </p> <div/class=nav> </div> <table> <td> <h1> <h2> </h2> <a/href=x> </a> <pre> <b> &amp; &#0; <!-- --> < >
<article> </article> <script> </script> <br> <li> <math>
"""


@settings(deadline=None, max_examples=100)
@given(st.lists(st.sampled_from([*PIECES.split(), " ", "\n", *PROSE]), max_size=60))
def test_broken_html(pieces: list[str]) -> None:
    """Whatever a page is made of, it gives tidy paragraphs or says in one line that it has no text."""
    try:
        article, _ = read("".join(pieces), "html")
    except DataError as error:
        assert "no text found" in str(error)
    else:
        for line in [*article.lead.split("\n"), *article.body.split("\n")]:
            assert line == " ".join(line.split())


# ---- kinds and sources


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        ("<!-- a -->\n<!DOCTYPE html><p>Text <b>bold</b>", "html"),
        ('<?xml version="1.0"?>\n<html><p>Text <b>bold</b>', "html"),
        ("<p>Text</p><p><b>bold</b></p>", "html"),
        ("# One\n\nText **bold** [x](y)", "markdown"),
        ("'''Text''' [[bold]]\n\n== One ==\nMore", "mediawiki"),
        ("Text with <b> and # signs\n\n-- \nbold", "text"),
    ],
)
def test_kind_is_told_by_the_content(content: str, kind: Kind, tmp_path: Path) -> None:
    """A page from a pipe has no suffix; a file's suffix goes before what its content looks like."""
    assert read(content) == read(content, kind)
    assert read(content.encode())[0].body == read(content)[0].body
    (tmp_path / "a.txt").write_text(content)
    assert read(tmp_path / "a.txt")[0].body == read(content, "text")[0].body


@pytest.mark.parametrize(
    ("name", "pack"), [("a.md", bytes), ("a.MD", bytes), ("a.md.gz", gzip.compress), ("a.markdown.bz2", bz2.compress)]
)
def test_files(tmp_path: Path, name: str, pack: "type[bytes]") -> None:
    """Packed files are unpacked, by their first bytes, and errors and notes name the file."""
    (tmp_path / name).write_bytes(pack("\ufeff1. *One*\n2. Two\n\n        code\n\n```\ncode\n```\n".encode()))
    article, notes = read(tmp_path / name)
    assert article.where == str(tmp_path / name)
    assert article.body.startswith("One\nTwo")
    assert notes.startswith(f"{tmp_path / name}: left out")


def test_a_pipe(tmp_path: Path) -> None:
    """A pipe can be read but once: `suite run summarize <(pdftotext a.pdf -)`."""
    reader, writer = os.pipe()
    os.write(writer, b"It rained.")
    os.close(writer)
    assert read(Path(f"/dev/fd/{reader}"))[0].body == "It rained."
    os.close(reader)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"", "a.txt: no text found"),
        ("a.txt", b" \n\n\t--- \n", "a.txt: no text found"),
        ("a.txt", b"hel\xe9lo", "a.txt, line 1: not UTF-8, byte 0xe9 at offset 3; convert it"),
        ("a.txt", "Text".encode("utf-16"), "a.txt: not text, or not UTF-8: byte 0x00 at offset 3; convert it"),
        ("a", b"\x89PNG\r\n\x1a\n\0\0", "a: not text, or not UTF-8: byte 0x00 at offset 8"),
        ("a.pdf", b"%PDF-1.7 ...", "a.pdf: a PDF; convert it to text, for example with `pdftotext`"),
        ("a.docx", b"PK\x03\x04...", "a.docx: a zip file or an office document"),
        (
            "a.txt.gz",
            gzip.compress(b"Text of it." * 9, mtime=0)[:-9],
            "a.txt.gz: cannot be read (Compressed file ended",
        ),
        ("a.jsonl", b'{"text": "a"}', "a.jsonl: contains records, not a page"),
        ("a.xml", b"<rss><item>a</item></rss>", "a.xml: no articles found (not a MediaWiki dump"),
        ("a.wiki", b"#REDIRECT [[Honey bee]]", "a.wiki: this page is a redirect to 'Honey bee'; use that page"),
        ("a", b"#redirect: [[Honey bee|x]]", "a: this page is a redirect to 'Honey bee'; use that page"),
        ("a.html", b"<table><tr><td>1<td>2</table><table><td>3</table>", "a.html: no text found; left out 2 tables"),
        ("a.html", b"<frameset></frameset>", "a.html: no text found"),
        ("a.md", b"```\ncode\n```", "a.md: no text found; left out 1 code block"),
    ],
)
def test_faults_are_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    """Each fault is one line with the file, what is wrong, and what was left out."""
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        list(read_pages(tmp_path / name, Notes()))
    assert "\n" not in str(caught.value)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    """A folder or a mistyped name is one line too, and so is text that UTF-8 has no bytes for."""
    for path in (tmp_path, tmp_path / "none.md", tmp_path / "none.xml.bz2"):
        with pytest.raises(DataError, match="no such file"):
            list(read_pages(path, Notes()))
    with pytest.raises(DataError, match="the text: half of a surrogate pair at character 1"):
        list(read_pages("a\ud800", Notes()))


def test_elements_deeper_than_in_a_browser_are_taken_apart() -> None:
    """20,000 nested elements took the parser six seconds and 40,000 four times as long; their text is read."""
    for count in (1_000, 2_000):
        html = "<DIV class=a>" * count + f"<p>{PROSE[0]}" + "</div>" * count + f"<div><p>{PROSE[1]}</div>"
        kept = webpages._flattened(html)
        assert kept.count("<DIV") == kept.count("</div>") - 1 == webpages._DEEPEST
        assert kept.endswith(f"<div><p>{PROSE[1]}</div>")
        assert read(html, "html")[0].body.split("\n") == PROSE[:2]
    assert webpages._flattened(f"<div>{html[:100]}") == f"<div>{html[:100]}"
