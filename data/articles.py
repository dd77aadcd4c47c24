"""Articles: a title, a lead that sums the body up, and the body in sections."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from suite.wording import count


@dataclass(frozen=True, kw_only=True)
class Section:
    """A part of an article's body.

    Attributes:
        heading: "" where it has none.
        text: paragraphs, one a line; never tables, lists of references or markup.
    """

    heading: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Article:
    """An article as it is summed up.

    Attributes:
        title: "" where it has none.
        lead: what stands before the first heading, paragraphs one a line; "" where it is to be written.
        sections: the body, in order.
        where: it comes from, for errors: a file, and a line or record in it.
    """

    title: str = ""
    lead: str = ""
    sections: Sequence[Section] = field(default=())
    where: str = ""

    @classmethod
    def from_parts(cls, title: str, parts: Iterable[tuple[str, Iterable[str]]], where: str = "") -> Article:
        """Make an article of what stands under each heading.

        Args:
            title: of the article.
            parts: heading and paragraphs of each part; the first has no heading, and is the lead if text follows it
                under a heading, else the body.
            where: it comes from.

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
        """The text of all sections without their headings, paragraphs one a line."""
        return "\n".join(section.text for section in self.sections if section.text)


def told(left: Mapping[str, int]) -> str:
    """Say what was left out of an article or of several; "" if nothing was.

    Example:
        >>> told({"table": 2, "reference": 1})
        'left out 2 tables, 1 reference'
    """
    return f"left out {', '.join(count(number, noun) for noun, number in left.items())}" if left else ""
