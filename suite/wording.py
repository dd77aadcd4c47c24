"""Words that messages of the core, the tasks and the data readers share."""

from __future__ import annotations


def count(number: int, noun: str, plural: str = "") -> str:
    """A number with its noun in the singular or the plural.

    Args:
        number: how many; thousands get a comma.
        noun: in the singular.
        plural: where it is not the noun with an s.

    Example:
        >>> count(1, "row"), count(1200, "row"), count(2, "class", "classes")
        ('1 row', '1,200 rows', '2 classes')
    """
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
