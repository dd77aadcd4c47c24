"""Articles with a title, a lead that summarises the body, and the body in sections."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from suite.wording import count


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of an article's body.

    Attributes:
        heading: the heading; "" if there is none.
        text: paragraphs separated by line breaks, without tables, lists of references or markup.
    """

    heading: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Article:
    """An article, whose lead is the summary of its body.

    Attributes:
        title: the title; "" if there is none.
        lead: text before the first heading, paragraphs separated by line breaks; "" if it is yet to be written.
        sections: the body, in order.
        where: origin for errors: file, and line or record in it.
    """

    title: str = ""
    lead: str = ""
    sections: Sequence[Section] = field(default=())
    where: str = ""

    @classmethod
    def from_parts(cls, title: str, parts: Iterable[tuple[str, Iterable[str]]], where: str = "") -> Article:
        """Make an article from headings and the paragraphs under them.

        Args:
            title: title of the article.
            parts: heading and paragraphs of each part. The first part has no heading; it is the lead if any later part
                has text, else the body.
            where: origin, for errors.

        Example:
            >>> Article.from_parts("Bee", [("", ["A bee is an insect."]), ("Food", ["Nectar."])]).lead
            'A bee is an insect.'
            >>> Article.from_parts("Bee", [("", ["A bee is an insect."])]).body
            'A bee is an insect.'
        """
        first, *rest = (Section(heading=heading, text="\n".join(paragraphs)) for heading, paragraphs in parts)
        if any(section.text for section in rest):
            return cls(title=title, lead=first.text, sections=tuple(rest), where=where)
        return cls(title=title, sections=(first,), where=where)

    @cached_property
    def body(self) -> str:
        """Text of all sections without headings, paragraphs separated by line breaks."""
        return "\n".join(section.text for section in self.sections if section.text)


def told(left: Mapping[str, int]) -> str:
    """Message about what was left out, from numbers by kind; "" if nothing was.

    Example:
        >>> told({"table": 2, "reference": 1})
        'left out 2 tables, 1 reference'
    """
    return f"left out {', '.join(count(number, noun) for noun, number in left.items())}" if left else ""
