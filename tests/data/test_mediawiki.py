"""MediaWiki: markup leaves the text that readers see, dumps give their articles, and damage is told where it is."""

# ruff: noqa: RUF001 (dashes are meant)

import bz2
import doctest
import gzip
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from xml.sax.saxutils import escape

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.data import mediawiki
from suite.data.articles import Article
from suite.data.mediawiki import read_wikitext, redirect_target
from suite.data.mediawiki_dumps import read_dump
from suite.data.tables import Notes
from suite.errors import DataError

HEAD = """<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.11/" version="0.11" xml:lang="en"><siteinfo>
<sitename>Wiki</sitename><namespaces><namespace key="0" /><namespace key="1">Talk</namespace>
<namespace key="6">Bestand</namespace><namespace key="14">Categorie</namespace></namespaces></siteinfo>
"""


def page(title: str, *markup: str, namespace: int = 0, redirect: str = "") -> str:
    to = f'<redirect title="{redirect}" />' if redirect else ""
    revisions = "".join(
        f"<revision><id>1</id><timestamp>2020-01-01T00:00:00Z</timestamp><contributor><username>U</username><id>1</id>"
        f"</contributor><model>wikitext</model><format>text/x-wiki</format><text>{escape(text)}</text></revision>"
        for text in markup
    )
    return f"<page><title>{escape(title)}</title><ns>{namespace}</ns><id>1</id>{to}{revisions}</page>\n"


def dump(*pages: str) -> bytes:
    return f"{HEAD}{''.join(pages)}</mediawiki>\n".encode()


BEE = page("Bee", "old", "A '''bee''' & an ''[[insect]]''.\n== Food ==\nNectar.[[Bestand:A.jpg|thumb|No [[text]]]]")
HIVE = page("Hive", "A hive {{cite}}.\n\nHome.")


def text_of(markup: str) -> str:
    article = read_wikitext(markup, Counter())
    return article.lead + article.body


def read(source: bytes | Path) -> tuple[list[Article], list[str]]:
    notes = Notes()
    return list(read_dump(source, "d.xml", notes)), notes.lines()


def test_examples() -> None:
    """The docstrings' examples are true."""
    assert doctest.testmod(mediawiki).failed == 0


@pytest.mark.parametrize(
    ("markup", "text"),
    [
        ("'''''Both''''' '''bold''''s L''italic''", "Both bold's Litalic"),
        ("[[Bus]]es, [[Red bus|red]] [[:Category:Bus]] [[de:Bus]][[Category:Bus]]", "Buses, red Category:Bus"),
        ("A [[File:A.jpg|thumb|[[One]] and [http://a.b two]]] b [http://a.b site] [http://a.b]", "A b site"),
        ("One<ref>Two {{cite|[[a]]}}</ref><ref name=a /> three<ref name='b'>\n\nfour</ref>.", "One three."),
        ("A &amp; b&nbsp;c &ndash; d <!-- not\n\nthis --> e", "A & b c – d e"),
        ("{{Infobox\n| a = {{b|[[c]]}}\n|}}\nText {{unknown|lost}} goes on.", "Text goes on."),
        ("{| class=a\n! b\n|-\n| c {{d}}\n{|\n| nested\n|}\n|}\nText.", "Text."),
        (
            "x {{convert|5|km|mi}}, {{cvt|5|-|10|kg|abbr=on}}, {{Nowrap|20 [[m]]}}, {{lang|fr|oui}}",
            "x 5 km, 5–10 kg, 20 m, oui",
        ),
        (
            "{{HMS|Bee|1915|6}} of {{circa|1915}} {{nowrap|{{frac|2|1|2}} t}}{{snd}}{{lang-de|ja}}",
            "HMS Bee of c. 1915 2 1/2 t – ja",
        ),
        ("A bee ({{IPA|b}}; {{lang|la|Apis}}) and ({{IPA|x}}, ) b {{x}}, c", "A bee (Apis) and b, c"),
        ("<nowiki>[[a]] {{b}} ''c''</nowiki> <math>\\frac{{a}}{{b}}</math>", "[[a]] {{b}} ''c'' $\\frac{{a}}{{b}}$"),
        ("a<br/>b <span style='x'>c</span> __NOTOC__ <gallery>\nA.jpg|d\n</gallery>", "a b c"),
        (
            "One\ntwo.\n\n* three\n* four\n: five\nsix<blockquote>seven</blockquote>",
            "One two.\nthree\nfour\nfive\nsix\nseven",
        ),
        ("{{quote|One ''two''.|Author}}\nthree", "One two.\nthree"),
        ("Unclosed {{a and [[b and <ref>c and {|", "Unclosed a and b and c and {|"),
        ("Closed }} and ]] and </ref> of\n|}\nnothing", "Closed and and of\nnothing"),
        ("{{Infobox\n| lost = its end\n\nText.", "Infobox\nText."),
        ("a < b > c <3", "a < b > c <3"),
    ],
)
def test_markup(markup: str, text: str) -> None:
    """What readers see is left, and brackets that nobody closed take nothing with them."""
    assert text_of(markup) == text


def test_sections() -> None:
    """Sections of references and links are left out with what is under them; all that is left out is counted."""
    left: Counter[str] = Counter()
    article = read_wikitext(
        "{{Infobox|a}}Lead.<ref>a</ref>\n==History==\n=== ''Early'' [[times|days]] ===\nOne.\n{|\n|a\n|}\n"
        "== See also ==\n* [[A]]\n=== Deeper ===\nB\n==Legacy==\nTwo.\n== References ==\n{{reflist}}\n[[Category:C]]",
        left,
        title="Bee",
    )
    assert (article.title, article.lead) == ("Bee", "Lead.")
    sections = [(section.heading, section.text) for section in article.sections]
    assert sections == [("History", ""), ("Early days", "One."), ("Legacy", "Two.")]
    assert left == {"template": 2, "reference": 1, "table": 1, "reference section": 2}


TOKENS = """
a b 1 ' = * : ; | ! # < > {{ }} {| |} [[ ]] [http://a ] <ref> </ref> <ref/> '' ''' == File: {{lang|de| {{convert|5|km
<!-- --> <nowiki> </nowiki> <math> </math> <br> {{{ }}} &amp;
"""


@settings(deadline=None, max_examples=150)
@given(st.lists(st.sampled_from([*TOKENS.split(), " ", "\n", "\n\n"]), max_size=40))
def test_broken_markup(tokens: list[str]) -> None:
    """Whatever the markup, tidy paragraphs come out."""
    for line in text_of("".join(tokens)).split("\n"):
        assert line == " ".join(line.split())


@pytest.mark.parametrize(
    "opener", ["{{a|", "[[a|", "<ref>a ", "{|\n", "'''a ", "[[File:a|b [[c]] ", "<b>", "[http://a "]
)
def test_unclosed_brackets_cost_no_more_than_their_number(opener: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """mwparserfromhell takes hours for what it takes as nested; it must never get much at once."""
    import mwparserfromhell

    sizes = []
    parse = mwparserfromhell.parse
    monkeypatch.setattr(mwparserfromhell, "parse", lambda text, **how: sizes.append(len(text)) or parse("", **how))
    for markup in (opener * 10_000, f"{{{{quote|{opener * 10_000}}}}}"):
        read_wikitext(markup, Counter())
    assert max(sizes, default=0) <= mediawiki._LONG
    assert sum(sizes) <= 2 * len(opener) * 10_000


def test_redirects() -> None:
    """The page that a redirect leads to is named, in other languages too."""
    assert redirect_target("\n# REDIRECT: [[Honey bee#Queen|x]] {{R}}") == "Honey bee"
    assert redirect_target("#WEITERLEITUNG [[Biene]]") == "Biene"
    assert redirect_target("Text #REDIRECT [[Bee]]") == ""


# ---- dumps


@pytest.mark.parametrize("pack", [bytes, gzip.compress, bz2.compress])
def test_dump(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    """Articles alone come out, the last revision of each, from files and contents; the rest is counted."""
    content = pack(
        dump(
            BEE,
            page("Apis", "#OHJAUS [[Bee]]", redirect="Bee"),
            page("Talk:Bee", "Hello", namespace=1),
            page("Bees", "#redirect [[Bee]]"),
            page("B", "B may be:\n* [[Bee]]\n{{Disambiguation}}"),
            page("Nothing", "{{Infobox}}"),
            HIVE,
        )
    )
    (tmp_path / "d.xml").write_bytes(content)
    found, notes = read(content)
    assert read(tmp_path / "d.xml") == (found, notes)
    assert [(article.title, article.lead, article.body) for article in found] == [
        ("Bee", "A bee & an insect.", "Nectar."),
        ("Hive", "", "A hive.\nHome."),
    ]
    assert found[0].where == "d.xml, page 'Bee'"
    assert notes == [
        "d.xml: left out 1 category or file link, 2 redirects, 1 non-article page, 1 disambiguation page, 2 templates, "
        "1 empty page"
    ]


@pytest.mark.parametrize(
    ("cut", "reason"),
    [
        (lambda content: content[:-60], "no element found: line"),
        (lambda content: content.replace(b"<title>Hive", b"<title>\xff"), "not well-formed (invalid token): line"),
        (lambda content: content.replace(b"<title>Hive</title>", b"<odd/>"), "Unexpected tag found when processing"),
        (lambda content: gzip.compress(content)[:-40], "Compressed file ended before the end-of-stream marker"),
    ],
)
def test_damaged_dump(cut: Callable[[bytes], bytes], reason: str) -> None:
    """The articles before the damage are given, and a note says where it is; the one it cuts is not given in part."""
    found, notes = read(cut(dump(BEE, HIVE)))
    assert [article.title for article in found] == ["Bee"]
    assert notes[-1].startswith(f"d.xml: read only 1 page, up to 'Bee': damaged or cut off: {reason}")
    assert "\n" not in notes[-1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "d.xml: no articles found (not a MediaWiki dump; other kinds of XML are not supported)"),
        (b"<rss></rss>", "d.xml: no articles found (not a MediaWiki dump"),
        (dump(), "d.xml: no articles found"),
        (dump(page("A", "#REDIRECT [[B]]")), "d.xml: no articles found ('A' is a redirect to 'B')"),
        (dump(page("A", "{|\n|a\n|}"), page("B", "#REDIRECT [[C]]")), "(left out 1 table, 1 empty page, 1 redirect)"),
        (dump(BEE)[:400], "d.xml: no articles found (damaged or cut off: "),
        (bz2.compress(dump(BEE))[:50], "d.xml: no articles found (damaged or cut off: Compressed file ended"),
    ],
)
def test_dump_without_articles(content: bytes, message: str) -> None:
    """A dump that gives nothing says why in one line."""
    with pytest.raises(DataError, match=re.escape(message)) as caught:
        read(content)
    assert "\n" not in str(caught.value)


def test_one_page_is_in_memory_at_a_time() -> None:
    """A dump is larger than any memory: the first article is there before the rest is read."""
    content = dump(BEE, *[HIVE] * 500)
    stream = read_dump(content[: len(content) // 2], "d.xml", Notes())
    assert next(stream).title == "Bee"  # the cut further on is not met yet
    assert sum(1 for _ in stream) > 200
