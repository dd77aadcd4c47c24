"""The figures of summaries by hand, and the summaries that need no model."""

# ruff: noqa: RUF001 (typographic characters are among what is read)

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.data.articles import Article, Section
from suite.tasks.summarize import baselines, metrics
from suite.tasks.summarize.claims import claims, unsupported

SOURCE = """Canada Bill
Ada King was born in 1815 in the United States, and moved to Germany in May 1914–18. The board met twenty-five times.
Its 1,250 members (12.5 percent) lived near St. Ives. The World Health Organization (WHO) was there, and so was the EU.
Some 2,478,301 people had seen O’Brien’s Anglo-Saxon Façade by 1994, and paid $3 million; 498 of them twice. Henry VIII
had three sons in the Royal Society for the Protection of Birds."""


def texts(summary: str, source: str = SOURCE) -> list[str]:
    return [claim.text for claim in unsupported(summary, source)]


@pytest.mark.parametrize("source", ["He was ſixteen.", "1.23–18 and 1914–1.", "1,23-45/67"])
def test_odd_numbers_are_read(source: str) -> None:
    """Fifty megabytes of an encyclopaedia have each of these, and stopped there once."""
    assert texts("He was 16.", source) == ([] if "teen" in source else ["16"])


# ---- length


def test_truncate_gives_exactly_so_many_words_and_keeps_what_is_shorter() -> None:
    """Cut at a sentence's end, systems of unequal length would be compared, and ROUGE rises with length."""
    text = " One two.\nThree  four"
    assert [metrics.truncate(text, count) for count in range(6)] == [
        "",
        " One",
        " One two.",
        " One two.\nThree",
        text,
        text,
    ]


# ---- ROUGE


def test_rouge_counts_overlaps_by_precision_recall_and_f1() -> None:
    found = metrics.rouge(["the cat sat", ""], ["the cat sat on the mat", "a cat"])
    np.testing.assert_allclose(found["ROUGE-1"][0], [1, 0.5, 2 / 3])
    np.testing.assert_allclose(found["ROUGE-2"][0], [1, 0.4, 4 / 7])
    assert all(scores.shape == (2, 3) and not scores[1].any() for scores in found.values())
    assert {name: scores.shape for name, scores in metrics.rouge([], []).items()} == dict.fromkeys(found, (0, 3))


def test_rouge_stems() -> None:
    assert metrics.rouge(["connected violins"], ["connecting violin"])["ROUGE-2"][0, 2] == 1


def test_lsum_is_by_sentences_wherever_the_line_ends_are() -> None:
    """Without line ends the package takes a summary for one sentence, and RLsum falls by up to 15 points."""
    first, second = "It rained all day.", "Nobody came to see us."
    for joint in (" ", "\n"):
        scores = metrics.rouge([f"{second}{joint}{first}"], [f"{first} {second}"])
        assert scores["ROUGE-Lsum"][0, 2] == 1 > scores["ROUGE-L"][0, 2]


# ---- copying and repeating


def test_repeated_and_novel_ngrams() -> None:
    assert metrics.repeated_ngrams("A b c d. A B C D e") == (1, 6)
    assert metrics.repeated_ngrams("a b c") == (0, 0)
    assert metrics.novel_ngrams("The cat sat.", "the cat lay", 1) == (1, 3)
    assert metrics.novel_ngrams("The cat sat.", "the cat lay", 2) == (1, 2)


# ---- names and numbers


@pytest.mark.parametrize(
    "summary",
    [
        "In 1815 the King's wife came. Originally Ada King moved.",  # sentence starts, possessives, case
        "A German-born American, Ada met the Germans and the Canadians.",  # endings, and peoples without one
        "Members of the World Health Organisation's WHO met in the U.S. and the European Union.",
        "The US and E.U. sat beside W.H.O. in the USA.",
        "Canada Bill was there",  # the title is the source too
        "Saint Ives and Mr. O'Brien saw the Anglo‑Saxon Facade.",  # other quotes, hyphens and accents
        "The Twenty-Fifth Board met about 25 times, 25th; 1250 or 1,250 or 1\u202f250 members, 12.50%.",
        "In the 1990s, in the 90s, in the 20th century, in the nineteenth century and in 1918.",
        "The Son had 3,000,000 or 3m.",
        "From 1914-1918 and 1914–18, nearly 2.5 million people, almost 500 of them twice.",
        "Henry the 8th had 3 sons; Henry VIII and King III had two.",
        "He said, \"Nobody came\": Everyone had gone. I'm sure we've seen it.",
        "It was founded by the RSPB in 1815 AD.",
    ],
)
def test_what_is_in_the_source_in_another_form_is_no_warning(summary: str) -> None:
    """One false alarm in a list of three, and nobody reads the list any more."""
    assert texts(summary) == []


def test_what_is_not_in_the_source_is_listed_in_order_with_its_place() -> None:
    summary = "In Paris 1,251 members met Ada Lovelace on 7 June 1816. Lovelace's five sons had 26 or twenty-six cats."
    found = unsupported(summary, SOURCE)
    assert [(claim.text, claim.kind) for claim in found] == [
        ("Paris", "name"),
        ("1,251", "number"),
        ("Ada Lovelace", "name"),
        ("7", "number"),
        ("June", "name"),
        ("1816", "number"),
        ("Lovelace's", "name"),  # begins a sentence, but stood within one before
        ("26", "number"),
        ("twenty-six", "number"),
    ]
    assert all(summary[claim.start : claim.end] == claim.text for claim in found)


@pytest.mark.parametrize(
    ("summary", "listed"),
    [
        ("Ada met Johnson", ["Johnson"]),  # John would not do either
        ("the 1980s and the 17th century", ["1980s", "17th"]),
        ("from 1914-19", ["19"]),
        ("in about 1990", ["1990"]),  # years are not rounded
        ("about 600 and 2.6 million people", ["600", "2.6 million"]),
        ("Ada visited the BBC with J. R. R. Tolkien.", ["BBC", "J. R. R. Tolkien"]),
        ("with Henry IX and H5N7", ["Henry IX", "H5N7"]),
        ("by Dr. No. Berlin burned.", []),
        ("by Acme Corp. Berlin too, and the ITW.", ["Acme Corp", "Berlin", "ITW"]),  # of Ives. The World
        ("by Влади́мир Ива́нович", ["Влади́мир Ива́нович"]),  # accents do not part words
    ],
)
def test_what_is_only_like_the_source_is_listed(summary: str, listed: list[str]) -> None:
    assert texts(summary, f"{SOURCE} John's") == listed


def test_claims_count_what_is_supported_too() -> None:
    """A share of what was looked at needs both."""
    found = claims("Then Ada King saw Berlin in 1815 and 1816.", SOURCE)
    assert [(claim.text, claim.supported) for claim in found] == [
        ("Ada King", True),
        ("Berlin", False),
        ("1815", True),
        ("1816", False),
    ]
    assert claims("", "") == []


@given(st.text(st.sampled_from("AIVXbcéʼ’'. ,-–\n19\u0301\u00a0s%$ßİ²½٣०中\""), max_size=60))
@settings(max_examples=300, deadline=None)
def test_a_text_supports_itself(text: str) -> None:
    """What is copied word by word must never be warned of, whatever it is."""
    found = claims(text, f"title\n{text}")
    assert all(claim.supported and text[claim.start : claim.end] == claim.text != "" for claim in found)


def test_very_long_numbers_are_read() -> None:
    """decimal refuses remainders of numbers with more digits than its precision, and int those with 4,300."""
    digits = "1234567890" * 600
    assert texts(f"{digits}s, about {digits} and {digits} million", f"{digits}s") == []
    assert texts(digits + "1", digits) == [digits + "1"]


# ---- baselines

LINES = ["Ann ate. Bob ran. Cid hid.", "Dan sat. Eve saw two red foxes.", "Fay fed six grey geese."]
ARTICLE = Article(
    title="Names",
    lead="Eve saw two red foxes. Fay fed six grey geese. And more.",
    sections=[Section(heading="", text="\n".join(LINES[:2])), Section(heading="Fay", text=LINES[2])],
)
ALL = [baselines.lead_3, baselines.first_words, baselines.first_of_paragraphs, baselines.textrank, baselines.oracle]


def test_baselines_take_the_sentences_they_are_named_for() -> None:
    assert baselines.lead_3(ARTICLE, None) == "Ann ate.\nBob ran.\nCid hid."
    assert baselines.first_words(ARTICLE, 7) == "Ann ate.\nBob ran.\nCid hid.\nDan"
    assert baselines.first_of_paragraphs(ARTICLE, None) == "Ann ate.\nDan sat.\nFay fed six grey geese."
    assert baselines.oracle(ARTICLE, None) == "Eve saw two red foxes.\nFay fed six grey geese."
    assert baselines.oracle(ARTICLE, 4) == "Eve saw two red"
    twice = Article(lead="Red foxes, red foxes, red foxes.", sections=[Section(heading="", text="Red foxes. Hens.")])
    assert baselines.oracle(twice, None) == "Red foxes."


def test_textrank_takes_what_is_like_the_rest_in_the_order_of_the_text() -> None:
    """Scores are of a graph without loops: with them, a sentence would be held central for being like itself."""
    lines = [
        "Nothing similar stands here.",
        "Wolves hunt deer in winter.",
        "Deer fear wolves.",
        "Winter is cold, and wolves hunt.",
        "Elsewhere, trains were late.",
    ]
    article = Article(sections=[Section(heading="", text="\n".join(lines))])
    assert baselines.textrank(article, 14) == "\n".join(lines[1:4])


def test_textrank_is_pagerank_of_the_cosines() -> None:
    """Written out for a few sentences; one has no neighbours, one no words."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    sentences = ["wolves hunt deer", "deer fear wolves", "cold winter wolves", "winter trains", "lonely", "the of"]
    rows = TfidfVectorizer(stop_words="english").fit_transform(sentences).toarray()
    graph = rows @ rows.T
    np.fill_diagonal(graph, 0)
    sums = graph.sum(axis=1, keepdims=True)
    steps = np.divide(graph, sums, out=np.full(graph.shape, 1 / 6), where=sums > 1e-9)
    values, vectors = np.linalg.eig((0.15 / 6 + 0.85 * steps).T)
    wanted = np.real(vectors[:, values.argmax()])
    np.testing.assert_allclose(baselines._centrality(sentences), wanted / wanted.sum(), atol=1e-5)


@pytest.mark.parametrize("baseline", ALL)
def test_baselines_give_as_many_words_as_they_are_asked_for(baseline: Callable[[Article, int | None], str]) -> None:
    """Systems of other lengths cannot be compared."""
    text = "\n".join(f"Wolf{number} hunts deer {number} and deer{number % 7} fear." for number in range(40))
    article = Article(lead=text, sections=[Section(heading="", text=text)])
    for words in (1, 10, 16):
        assert len(baseline(article, words).split()) == words


@pytest.mark.parametrize("baseline", ALL)
def test_baselines_take_any_article(baseline: Callable[[Article, int | None], str]) -> None:
    for text in ("", "...", "The.", "x"):
        article = Article(sections=[Section(heading="empty", text=text)])
        for lead, words in itertools.product(("", "A lead."), (None, 5)):
            assert len(baseline(Article(lead=lead, sections=article.sections), words)) <= len(text)
