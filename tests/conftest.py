"""What all tests share: few Hypothesis examples unless a profile is named, and no waiting for the disk."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

EXAMPLES = 25  # of each property, where no --hypothesis-profile is named; .ci/run names `ci`, which leaves all of them
REAL_FSYNC = os.fsync

os.environ.setdefault("SUITE_STEP", "torch")  # tests of the compiled step ask for it; others must not start to compile

settings.register_profile("local", max_examples=EXAMPLES, deadline=None)  # a busy machine is no fault
settings.load_profile("local")  # before the tests are imported, and before the plugin loads the profile that is named


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave scripts alone, which --doctest-modules would import to look for examples."""
    return True if collection_path.suffix == ".py" and not collection_path.name.startswith("test_") else None


def pytest_itemcollected(item: pytest.Item) -> None:
    """Keep a file's tests in one process, and cap the examples of a test that asks for more by itself.

    A file's tests share what they trained; those that share nothing, and take long, have a mark `xdist_group` of their
    own. A profile does not reach a test's own number of examples.
    """
    if item.get_closest_marker("xdist_group") is None:
        item.add_marker(pytest.mark.xdist_group(str(item.path)))
    test = getattr(item, "function", None)
    own = getattr(test, "_hypothesis_internal_use_settings", None)
    if own is not None and own.max_examples > EXAMPLES and not item.config.getoption("--hypothesis-profile"):
        test._hypothesis_internal_use_settings = settings(own, max_examples=EXAMPLES)


@pytest.fixture(scope="session", autouse=True)
def no_fsync() -> Iterator[None]:
    """Write to the page cache alone: no test cuts the power, and a loaded disk takes seconds for a sync."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(autouse=True)
def real_fsync(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests marked `fsync` get the real one."""
    with pytest.MonkeyPatch.context() as patch:
        if request.node.get_closest_marker("fsync"):
            patch.setattr(os, "fsync", REAL_FSYNC)
        yield
