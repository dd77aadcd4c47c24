"""What a task is to the core, and how the core finds tasks without importing one.

A task says how its records are written as token sequences and how a result is read back from one. Everything between,
the transformer, the training loop and the sampler, knows no task. Tasks register under the entry-point group
`suite.tasks`; a package of somebody else adds one the same way as ours do.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import EntryPoint, entry_points
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from suite.errors import ConfigError

if TYPE_CHECKING:  # `suite --help` finds tasks without paying for torch
    import click

    from suite.data.tokenizer import Tokenizer
    from suite.hub import Model
    from suite.training.batches import Example, ExampleSource
    from suite.training.loss import LossFunction
    from suite.training.recipe import Recipe

GROUP = "suite.tasks"


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """The start of a sequence that a model continues.

    Attributes:
        tokens: ids, at least one.
        prefix: how many of them, from the start, see each other both ways.
    """

    tokens: Sequence[int]
    prefix: int = 0


@dataclass(frozen=True, kw_only=True)
class TrainingData:
    """What a task hands to the training loop.

    Attributes:
        train: endless examples, each a pure function of its index.
        valid: the examples on which validation loss is taken, in order.
        tokenizer: saved with the checkpoint; None where tokens are not text.
        vocab_size: token ids the model needs.
        extra: settings the task wants to find again in the checkpoint, plain JSON.
        outputs: of the head that reads a row's last token (`suite.model.heads.Headed`); 0 for no head.
        loss: of the model, headed or not (None: next-token prediction as the recipe's `loss` says).
        finish: takes the trained model and returns what to add to `extra`, such as figures measured on it; tensors
            among that are stored beside the weights.
        unfinished: what to add to `extra` in the checkpoint of a run that is not at its end, in place of what `finish`
            would return.
        notes: one line each of what the data is and what was left out, for the person at the terminal.
    """

    train: ExampleSource
    valid: Sequence[Example]
    tokenizer: Tokenizer | None
    vocab_size: int
    extra: Mapping[str, Any]
    outputs: int = 0
    loss: LossFunction | None = None
    finish: Callable[[Any], Mapping[str, Any]] | None = None
    unfinished: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()


class Task(Protocol):
    """The contract. A task's module imports torch only inside functions, so that `suite --help` stays quick.

    Attributes:
        name: as on the command line.
        summary: one line for `suite --help`.
    """

    name: str
    summary: str

    def prepare(self, recipe: Recipe, cache: Path) -> TrainingData:
        """Read a recipe's data (the table `data`, and the task's own), trained tokenizer included.

        Args:
            recipe: of the run.
            cache: a directory for what need not be worked out twice.
        """
        ...

    def pipeline(self, model: Model, **options: Any) -> Callable[..., Any]:
        """What `suite.pipeline` returns: a callable from inputs to results."""
        ...

    def evaluate(self, model: Model, data: Sequence[str], **options: Any) -> Mapping[str, Any]:
        """The task's metrics on data, beside their baselines; plain JSON values."""
        ...

    def run_command(self) -> click.Command:
        """`suite run NAME`."""
        ...

    def eval_command(self) -> click.Command:
        """`suite eval NAME`."""
        ...

    def default_recipe(self, base: bool = False) -> Path:
        """The TOML file that `suite train NAME --data ...` starts from; with `base`, for a model to start from."""
        ...


class PackagedTask:
    """The part of the contract that a package's layout answers.

    Beside the module of a task that inherits this stand `cli`, with the commands `run` and `evaluate`; `evaluate`, with
    a function of that name; `small.toml`, which learns a user's own data on a laptop; and `finetune.toml`, which does
    so from a model that is there, unless `small.toml` does.
    """

    def evaluate(self, model: Model, data: Sequence[str], **options: Any) -> Mapping[str, Any]:
        """As `Task.evaluate`; see the package's `evaluate.evaluate`."""
        found: Mapping[str, Any] = self._beside("evaluate").evaluate(model, data, **options)
        return found

    def run_command(self) -> click.Command:
        """As `Task.run_command`."""
        command: click.Command = self._beside("cli").run
        return command

    def eval_command(self) -> click.Command:
        """As `Task.eval_command`."""
        command: click.Command = self._beside("cli").evaluate
        return command

    def default_recipe(self, base: bool = False) -> Path:
        """As `Task.default_recipe`."""
        small, finetune = (Path(str(files(self._package()) / name)) for name in ("small.toml", "finetune.toml"))
        return finetune if base and finetune.is_file() else small

    def _beside(self, module: str) -> Any:
        return importlib.import_module(f"{self._package()}.{module}")

    def _package(self) -> str:
        return type(self).__module__.rpartition(".")[0]


def registered() -> dict[str, EntryPoint]:
    """Names of the installed tasks, and where each is; nothing is imported."""
    return {point.name: point for point in entry_points(group=GROUP)}


def embedded() -> dict[str, Path]:
    """Installed tasks that came with a checkpoint, the folder `checkpoint` beside their module; no task is imported."""
    found = {}
    for name, point in registered().items():
        with contextlib.suppress(ModuleNotFoundError):  # registered by a package that is gone
            directory = Path(str(files(point.module.rpartition(".")[0]) / "checkpoint"))
            if (directory / "config.json").is_file():
                found[name] = directory
    return found


def find_task(name: str) -> Task:
    """The task of that name.

    Raises:
        ConfigError: there is none; the message lists those there are and the nearest.
    """
    points = registered()
    if name not in points:
        raise ConfigError(f"no task {name!r}; {suggest(name, points)}")
    task: Task = points[name].load()()
    return task


def suggest(name: str, choices: Iterable[str]) -> str:
    """The end of an error message: "did you mean 'x'?" where one is near, or all choices."""
    choices = sorted(choices)
    near = difflib.get_close_matches(name, choices, n=1)
    return f"did you mean {near[0]!r}?" if near else f"there is {', '.join(choices) or 'none'}"
