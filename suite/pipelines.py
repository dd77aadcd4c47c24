"""Combine a task and a model into a callable for use from Python.

The module is not called `pipeline`, because once imported it would hide the function `suite.pipeline`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from suite.checkpoint import Model, load
from suite.task import find_task


def pipeline(
    task: str,
    model: str | Model | None = None,
    *,
    device: str = "cpu",
    quantize: str | None = None,
    **options: Any,
) -> Callable[..., Any]:
    """Return a callable that performs a task with a model.

    Args:
        task: "lm", or another installed task.
        model: a loaded model, or its name: an embedded checkpoint, a directory, or a Hugging Face id (None: the
            checkpoint embedded for the task).
        device: device to load the model on.
        quantize: type of the weights while decoding on a CPU: "float16" or "int8" (None: float32).
        options: the task's own options; see the task.

    Returns:
        a callable: a single input gives a single result; a list, tuple, generator or array of inputs gives a list of
        results. A result prints as its text, and its `to_dict()` returns plain values; results of "lm" have
        `.text`, `.tokens` and `.logprobs`.

    Raises:
        SuiteError: there is no such task or model, or the model cannot be read.

    Example:
        >>> from suite import pipeline
        >>> write = pipeline("lm")
        >>> result = write("The planet earth", max_new_tokens=8, seed=1)
        >>> len(result.tokens)
        8
        >>> [again, other] = write(["The planet earth", "The river"], max_new_tokens=8, seed=1)
        >>> str(again) == result.text
        True
    """
    chosen = find_task(task)
    loaded = model if isinstance(model, Model) else load(model or task, device=device, quantize=quantize)
    return chosen.pipeline(loaded, **options)
