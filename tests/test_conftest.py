"""The settings that all tests run under are in force."""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

SEEN: set[int] = set()


@settings(max_examples=60)
@given(st.integers())
def test_draws(number: int) -> None:
    SEEN.add(number)


def test_examples_are_few_unless_a_profile_is_named(request: pytest.FixtureRequest) -> None:
    """A test's own count goes before a profile's: the slowest tests, with hundreds of examples, kept them."""
    if not SEEN:
        pytest.skip("the test above did not run")
    assert len(SEEN) > 25 if request.config.getoption("--hypothesis-profile") else 1 < len(SEEN) <= 25


def test_nothing_waits_for_the_disk() -> None:
    """The real one refuses a descriptor that there cannot be."""
    os.fsync(-1)


@pytest.mark.fsync
def test_the_mark_gives_the_real_one() -> None:
    with pytest.raises(ValueError, match="negative"):
        os.fsync(-1)
