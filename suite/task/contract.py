"""What a task is: how its records are written as token sequences, and how a result is read back from one.

Everything between (the transformer, the training loop, the sampler) is shared and knows no task. The defaults of `Task`
do the common thing; `examples/reverse/` is a whole task made of them, and `docs/new-task.md` walks through it.

A task's module imports torch only inside functions, so that `suite --help` stays quick.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from suite.task.registry import folder_of
from suite.task.tables import DataTable, NoOptions, TokenizerTable

if TYPE_CHECKING:
    import click

    from suite.checkpoint import Model
    from suite.evaluation import Report
    from suite.task.kit.bulk import BulkFormat
    from suite.task.tables import Tables
    from suite.text.tokenizer import Tokenizer
    from suite.training.batches import Example, ExampleSource
    from suite.training.loss import LossFunction
    from suite.training.recipe import Recipe

Record = TypeVar("Record")
Input = TypeVar("Input")
ResultT = TypeVar("ResultT")


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


class Codec(ABC, Generic[Record, Input, ResultT]):
    """How one task writes sequences. Made by `Task.codec`, from a recipe's options or a checkpoint's settings.

    Args:
        tokenizer: of the text in the sequences.
        settings: what `settings` gave when the model was trained, from the checkpoint; {} while training.
    """

    def __init__(self, tokenizer: Tokenizer, settings: Mapping[str, Any] | None = None) -> None:
        self.tokenizer = tokenizer
        self._settings = dict(settings or {})

    @abstractmethod
    def encode(self, record: Record) -> Example:
        """A record as a sequence to learn from."""

    @abstractmethod
    def prompt(self, given: Input) -> Prompt:
        """An input as the start of a sequence that its result continues."""

    @abstractmethod
    def decode(self, given: Input, tokens: Sequence[int]) -> ResultT:
        """The result that new tokens behind the prompt of `given` stand for."""

    def settings(self) -> dict[str, Any]:
        """What to find again in a checkpoint, plain JSON."""
        return self._settings


class Task(Generic[Record, Input, ResultT]):
    """The contract, with defaults for the common thing: prompt, generate, decode.

    A task says `name`, `summary`, `records` and `codec`; with `inputs` and `score` it can be evaluated. Whatever
    else it needs, it overrides.

    Attributes:
        name: as on the command line.
        summary: one line for `suite --help`.
        data_table, tokenizer_table, options_table: dataclasses of the recipe's tables `data`, `tokenizer` and the one
            named after the task; a key that they lack is an error.
        loss_keys: keys of the table `loss` that the task's loss reads.
        specials: special tokens of a tokenizer that is trained for the task.
    """

    name: str
    summary: str
    data_table: type = DataTable
    tokenizer_table: type = TokenizerTable
    options_table: type = NoOptions
    loss_keys: Sequence[str] = ("smoothing",)
    specials: Sequence[str] = ("<eos>", "<pad>", "<bos>", "<sep>", "<cls>")

    # ---- what a task writes

    def records(self, data: Sequence[str]) -> Iterable[Record]:
        """The records of sources (files, folders, globs, URLs, data-set names), in order.

        Raises:
            DataError: a source cannot be read; the message says "FILE, line N".
        """
        raise NotImplementedError

    def codec(self, tokenizer: Tokenizer, settings: Mapping[str, Any]) -> Codec[Record, Input, ResultT]:
        """How sequences are written.

        Args:
            tokenizer: of their text.
            settings: of the checkpoint; in training, the recipe's table named after the task.
        """
        raise NotImplementedError

    def input_of(self, record: Record) -> Input:
        """What a pipeline would be given for a record; by default the record itself, or the first of its fields."""
        return record if isinstance(record, str) else record[0]  # type: ignore[index, return-value]

    def texts(self, record: Record) -> Iterable[str]:
        """The text of a record that a tokenizer is trained on; by default its strings."""
        return [record] if isinstance(record, str) else [text for text in record if isinstance(text, str)]  # type: ignore[attr-defined]

    def score(self, result: ResultT, record: Record) -> Mapping[str, float]:
        """Figures of one result, by name, each from 0 (bad) to 1; their means stand in the report."""
        return {}

    def baselines(self, records: Sequence[Record]) -> Mapping[str, Callable[[Input], ResultT]]:
        """Simple ways to a result, by name, that stand beside the model in the report.

        Args:
            records: those of --train; none without it.
        """
        return {}

    def bulk_format(self, pipeline: Any) -> BulkFormat:
        """How a pipeline's results stand in files; by default a column `result`."""
        from suite.task.kit.bulk import BulkFormat

        return BulkFormat()

    # ---- what the defaults do with it

    def tables(self, recipe: Recipe) -> Tables:
        """The recipe's tables, each parsed once.

        Raises:
            ConfigError: a key that the task does not read, or a value of the wrong type.
        """
        from suite.task.tables import read_tables

        return read_tables(self, recipe)

    def prepare(self, recipe: Recipe, cache: Path) -> TrainingData:
        """Read a recipe's data, trained tokenizer included.

        Args:
            recipe: of the run.
            cache: a directory for what need not be worked out twice.
        """
        from suite.task.kit.prepare import prepare

        return prepare(self, recipe, cache)

    def pipeline(self, model: Model, **options: Any) -> Callable[..., Any]:
        """What `suite.pipeline` returns: one input gives one result, a sequence of them a list."""
        from suite.task.kit.pipeline import Pipeline

        return Pipeline(self, model, **options)

    def evaluate(self, model: Model, data: Sequence[str], **options: Any) -> Report:
        """The task's metrics on data, beside their baselines."""
        from suite.task.kit.evaluate import evaluate

        return evaluate(self, model, data, **options)

    def run_command(self) -> click.Command:
        """`suite run NAME`."""
        from suite.task.kit.commands import run_command

        return run_command(self)

    def eval_command(self) -> click.Command:
        """`suite eval NAME`."""
        from suite.task.kit.commands import eval_command

        return eval_command(self)

    def train_options(self) -> Sequence[click.Option]:
        """Options that `suite train NAME` has besides its own; each sets the key of the table `data` of its name."""
        return ()

    def default_recipe(self, base: bool = False) -> Path:
        """The TOML file that `suite train NAME --data ...` starts from; with `base`, for a model to start from.

        `small.toml` beside the task's module, or a general one; with `base`, `finetune.toml` where there is one.
        """
        folder = folder_of(type(self).__module__)
        for name in (["finetune.toml"] if base else []) + ["small.toml"]:
            if (folder / name).is_file():
                return folder / name
        return Path(__file__).parent / "kit" / "small.toml"


class PackagedTask(Task[Record, Input, ResultT]):
    """A task with modules of its own beside it: `cli` with the commands `run` and `evaluate`, and `evaluate`."""

    def beside(self, module: str) -> Any:
        """A module of the task's package, imported now."""
        return importlib.import_module(f"{type(self).__module__.rpartition('.')[0]}.{module}")

    def evaluate(self, model: Model, data: Sequence[str], **options: Any) -> Report:
        """As `Task.evaluate`; see the package's `evaluate.evaluate`."""
        report: Report = self.beside("evaluate").evaluate(model, data, **options)
        return report

    def run_command(self) -> click.Command:
        """As `Task.run_command`."""
        command: click.Command = self.beside("cli").run
        return command

    def eval_command(self) -> click.Command:
        """As `Task.eval_command`."""
        command: click.Command = self.beside("cli").evaluate
        return command
