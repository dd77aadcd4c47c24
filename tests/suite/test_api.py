"""What `import suite` promises."""

import importlib
import subprocess
import sys

import suite


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
