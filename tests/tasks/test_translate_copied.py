"""The made test of what survives translation: two hundred sentences unlike the made training pairs."""

from __future__ import annotations

import runpy
from pathlib import Path

from suite.tasks.translate import made
from suite.tasks.translate.names import KNOWN

BENCHMARK = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "copied_items.py"))


def test_two_hundred_items_none_made_of_what_is_trained_on() -> None:
    items = BENCHMARK["items"]()
    assert len(items) == 200 and items == BENCHMARK["items"]()
    assert not set(BENCHMARK["NAMES"]) & set(KNOWN)
    trained = {text for group in (made.SALUTATIONS, made.CLOSINGS, made.SENTENCES) for row in group for text in row}
    tested = {text for kind in BENCHMARK["SENTENCES"].values() for texts in kind.values() for text in texts}
    assert not {text.format_map(_Slots()) for text in trained} & tested
    for item in items:
        if item.kind != "date":  # months differ
            assert item.survives(item.text)
        assert not item.survives("Nothing of it.")


class _Slots(dict[str, str]):
    """Every slot as the test sentences write it."""

    def __missing__(self, key: str) -> str:
        return "{}"


def test_separators_of_numbers_may_change_but_no_digit() -> None:
    item = BENCHMARK["Item"](kind="number", source="en", target="de", text="7,628 books", wanted=("7628",))
    assert item.survives("7.628 Bücher") and item.survives("7\u202f628 Bücher") and item.survives("7628.")
    assert not item.survives("768 Bücher") and not item.survives("17628 Bücher")
