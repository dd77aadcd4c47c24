"""What an extraction leaves behind is no text to learn from; prose is left alone."""

from __future__ import annotations

import pytest

from suite.data.cleaning import clean_article, clean_paragraphs


@pytest.mark.parametrize(
    "junk",
    [
        "where:",
        "12 nmi",
        '">em;',
        "margin-left:2.76em;",
        "The zeros of formula_12 are known.",
        "1 2 3 4 5 6 7 8 9 10.",
        "",
    ],
)
def test_what_is_no_prose_goes(junk: str) -> None:
    assert clean_paragraphs(f"Before it.\n{junk}\nAfter it.") == "Before it.\nAfter it."


@pytest.mark.parametrize(
    "prose",
    [
        "It lies on the Rhône.",
        'He said: "No."',
        "In 1905, Einstein published four papers (one of them on light).",
        "Visit example.com or U.S.A. today.",
        "Он родился в Москве.",
    ],
)
def test_prose_stays_as_it_is(prose: str) -> None:
    assert clean_paragraphs(prose) == prose


def test_coordinates_and_glued_sentences_are_mended_in_place() -> None:
    text = "Buckle Island (66°50'S., 163°12'E.) is uninhabited.It was found in 1839."
    assert clean_paragraphs(text) == "Buckle Island is uninhabited. It was found in 1839."


def test_a_heading_over_nothing_goes() -> None:
    sections = [{"heading": "Gallery", "text": "Fig. 1"}, {"heading": "History", "text": "It is old."}]
    record = {"title": "Lyon", "lead": "Lyon is a city.", "sections": sections}
    assert clean_article(record) == "Lyon\n\nLyon is a city.\n\nHistory\nIt is old."
