"""Options that all commands of tasks share: the model, how to run it, and the form of the output."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from suite.cli.options import complete_model
from suite.cli.settings import setting, takes
from suite.cli.show import notice, write_json

if TYPE_CHECKING:
    from suite.checkpoint import Model

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True)
class Session:
    """The options that all commands of tasks have.

    Attributes:
        model: name of the model; "" for none.
        revision: branch, tag or commit of a Hugging Face id.
        device: where it runs.
        quantize: type of the weights while decoding.
        threads: on a CPU; None for those of SUITE_THREADS, or as many as there are cores.
        as_json: results are JSON, for machines.
        quiet: no notices on standard error.
    """

    model: str = setting(
        "",
        "Model to use: an embedded model, a directory or a Hugging Face id.",
        metavar="MODEL",
        shell_complete=complete_model,
    )
    revision: str | None = setting(None, "Branch, tag or commit of a Hugging Face model.", metavar="REV", shown="main")
    device: str = setting("cpu", "Device to run on: cpu, cuda, cuda:1 or mps.", metavar="NAME")
    quantize: Literal["float32", "float16", "bfloat16", "int8"] = setting(
        "float32", "Type of the weights in memory; smaller types are faster on a CPU."
    )
    threads: int | None = setting(
        None, "CPU threads to use.", min=1, metavar="N", shown="$SUITE_THREADS, or the cores that may be used"
    )
    as_json: bool = setting(False, "Write the result as JSON.", flags=("--json",))
    quiet: bool = setting(False, "Do not print notices to standard error.", flags=("-q", "--quiet"))

    def load(self, **changes: Any) -> Model:
        """The model that the options name; `changes` are arguments of `suite.load` instead of the session's."""
        from suite.checkpoint import load
        from suite.model.threads import set_threads

        set_threads(self.threads)
        options: dict[str, Any] = {"revision": self.revision, "device": self.device, "quantize": self.quantize}
        return load(changes.pop("name", self.model), **{**options, **changes})

    @property
    def named(self) -> bool:
        """Whether the user named a model."""
        source = click.get_current_context().get_parameter_source("model")
        return source is not click.core.ParameterSource.DEFAULT

    def notice(self, line: str) -> None:
        """Write a notice to standard error, unless --quiet is given."""
        if not self.quiet:
            notice(line)

    def json(self, value: Any) -> None:
        """Write one result as JSON."""
        write_json(value.to_dict() if hasattr(value, "to_dict") else value)

    def progress(self, desc: str, *, unit: str = "", total: int | None = None, delay: float = 0.0) -> Any:
        """A progress bar on standard error, on terminals alone."""
        from tqdm import tqdm

        disable = True if self.quiet else None
        return tqdm(
            desc=desc,
            unit=f" {unit}" if unit else "it",
            total=total,
            disable=disable,
            leave=False,
            delay=delay,
            unit_scale=True,
        )

    def track(self, items: Iterable[Item], desc: str, unit: str) -> Iterator[Item]:
        """The items, with a progress bar."""
        with self.progress(desc, unit=unit) as bar:
            for item in items:
                yield item
                bar.update()


def session(default: str) -> Callable[[Decorated], Decorated]:
    """Give a command the options of a `Session`, and its function the session as the argument `session`.

    Args:
        default: the model used where none is named.
    """
    return takes(Session, "session", model=default)
