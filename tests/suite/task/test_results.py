"""What pipelines take: one input gives one result, a sequence a list, and everything else one line of an error."""

from typing import Any

import numpy as np
import pytest

from suite.errors import DataError
from suite.task.results import listed, several


@pytest.mark.parametrize(
    "given", [None, 5, b"ab", {"a": 1}, {"a"}, [None], ["a", 5], np.array("ab"), np.array([1, 2]), (b"a",)]
)
def test_what_is_no_text_is_one_line(given: Any) -> None:
    """An array without dimensions says that it is iterable and is not, which ended in a traceback."""
    with pytest.raises(DataError) as caught:
        several(given)
    assert "\n" not in str(caught.value)


def test_one_is_told_from_several() -> None:
    assert several(np.str_("ab")) == (["ab"], False) and type(several(np.str_("ab"))[0][0]) is str
    for given in (["ab", "cd"], ("ab", "cd"), (text for text in ("ab", "cd")), np.array(["ab", "cd"])):
        assert several(given) == (["ab", "cd"], True)
    assert several([]) == ([], True)
    assert listed([("a", "b"), 5]) == ([("a", "b"), 5], True) and listed("ab") == (["ab"], False)
