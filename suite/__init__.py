"""One decoder-only transformer that does real jobs.

    >>> from suite import pipeline
    >>> pipeline("lm")("The planet earth", max_new_tokens=20).text  # doctest: +SKIP

Names are imported when they are first used, so that `import suite` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from suite.checkpoint import Model, load
    from suite.errors import SuiteError
    from suite.model import ModelConfig, Transformer
    from suite.pipelines import pipeline
    from suite.sampling import Sampling, generate, stream

_HOMES = {
    "Model": "suite.checkpoint",
    "ModelConfig": "suite.model",
    "Sampling": "suite.sampling",
    "SuiteError": "suite.errors",
    "Transformer": "suite.model",
    "generate": "suite.sampling",
    "load": "suite.checkpoint",
    "pipeline": "suite.pipelines",
    "stream": "suite.sampling",
}

__all__ = [
    "Model",
    "ModelConfig",
    "Sampling",
    "SuiteError",
    "Transformer",
    "generate",
    "load",
    "pipeline",
    "stream",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'suite' has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
