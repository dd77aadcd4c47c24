"""What `import suite` promises."""

import importlib
import subprocess
import sys

import pytest

import suite
from suite.errors import DataError


def test_import_costs_nothing() -> None:
    code = "import suite, sys; print([name for name in ('torch', 'numpy', 'click') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there_whatever_was_imported_before() -> None:
    """A submodule named like a function hid the function from the second import on."""
    for module in ("checkpoint.hub", "pipelines", "sampling.generate"):
        importlib.import_module(f"suite.{module}")
    for name in suite.__all__:
        assert callable(getattr(suite, name)), name
    assert set(suite.__all__) <= set(dir(suite))


def test_one_input_gives_one_result_and_several_a_list() -> None:
    """Each task had a rule of its own; the language model's gave a list of one."""
    write = suite.pipeline("lm", temperature=0)
    one = write("The river", max_new_tokens=3)
    assert str(one) == one.text and one.to_dict()["prompt"] == "The river"
    assert [each.prompt for each in write(("The river", "The sea"), max_new_tokens=3)] == ["The river", "The sea"]
    assert [len(each) for each in write(["The river"], max_new_tokens=3, samples=2)] == [2]
    for wrong in (None, 1, b"The river", {"text": "The river"}, [None]):
        with pytest.raises(DataError, match="string"):
            write(wrong)
