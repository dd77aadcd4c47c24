"""Clean extracted articles: drop headings without text, rows of figures and remnants of style sheets."""

# ruff: noqa: RUF001 (marks of other scripts are meant)

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

_SHORT = 40  # characters; a shorter paragraph that ends no sentence is a label, an item or a cell
_LETTERS = 0.65  # share of letters and spaces below which a paragraph is a table's row or a formula
_CLOSED = re.compile(r"[.!?…。！？][\"'”’»)\]]*$")
_STYLE = re.compile(
    r"\b(?:margin|width|height|padding|font|text|border|background)(?:-\w+)*:[^.]{0,40};|\bem;|formula_\d"
)
_COORDINATES = re.compile(r"\s?\(\d{1,3}°[^)]{0,60}\)")
# a full stop without a space after it, between words that do not look like an address or abbreviation
_GLUED = re.compile(r"(?<=[a-z]{3}[.?!])(?=[A-Z][a-z]*\s)")


def clean_paragraphs(text: str) -> str:
    r"""Return the paragraphs that are prose, separated by line breaks; missing spaces between sentences are added.

    Example:
        >>> clean_paragraphs("Lyon is a city.It lies on the Rhône.\nArea:\n12 nmi\nwidth:5.24em;")
        'Lyon is a city. It lies on the Rhône.'
    """
    kept = []
    for paragraph in text.split("\n"):
        paragraph = _GLUED.sub(" ", _COORDINATES.sub("", paragraph)).strip()
        letters = sum(character.isalpha() or character == " " for character in paragraph)
        short = len(paragraph) < _SHORT and not _CLOSED.search(paragraph)
        if not short and letters >= _LETTERS * len(paragraph) and not _STYLE.search(paragraph):
            kept.append(paragraph)
    return "\n".join(kept)


def clean_article(record: Mapping[str, Any]) -> str:
    """Return an article of `title`, `lead` and `sections` as text, without headings that have no text left under them.

    Raises:
        KeyError, TypeError, AttributeError: the record is not such an article.
    """
    parts = [record["title"], clean_paragraphs(record["lead"])]
    for section in record["sections"]:
        text = clean_paragraphs(section["text"])
        if text:
            parts.append(f"{section['heading']}\n{text}".lstrip("\n"))
    return "\n\n".join(part for part in parts if part)
