"""What a run tells: `metrics.jsonl` always, a progress bar or plain lines on stderr, TensorBoard if asked."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tqdm import tqdm

from suite.errors import CheckpointError, ConfigError


class Reporter:
    """Writes rows of numbers, and shows them to a person.

    Args:
        metrics: the JSON-lines file, appended to.
        steps: of the whole run.
        start: step that this session starts from.
        tensorboard: directory of event files, or None.
        silent: whether to write nothing at all (ranks other than the first).
        show: whether a person looks on.
    """

    def __init__(
        self, metrics: Path, steps: int, start: int, tensorboard: Path | None, silent: bool, show: bool = True
    ) -> None:
        self.silent, self.show = silent, show and not silent
        self.metrics, self.steps, self.first = metrics, steps, start
        self.bar: Any = None
        self.events: Any = None
        if silent:
            return
        if show and sys.stderr.isatty():
            self.bar = tqdm(total=steps, initial=start, unit="step", file=sys.stderr, dynamic_ncols=True)
        if tensorboard is not None:
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError as error:
                raise ConfigError('run.tensorboard needs: pip install "decoder-suite[tensorboard]"') from error
            self.events = SummaryWriter(str(tensorboard))

    def advance(self) -> None:
        """Count one step."""
        if self.bar is not None:
            self.bar.update()

    def say(self, line: str) -> None:
        """Show a line to a person."""
        if not self.show:
            return
        if self.bar is not None:
            self.bar.write(line, file=sys.stderr)
        else:
            print(line, file=sys.stderr, flush=True)

    def row(self, row: dict[str, Any], eta: float | None = None) -> None:
        """Keep a row of numbers; a training row comes with `eta`, the seconds that are left."""
        if self.silent:
            return
        try:
            self.metrics.parent.mkdir(parents=True, exist_ok=True)
            with self.metrics.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        except OSError as error:
            raise CheckpointError(f"could not write {self.metrics}: {error}; the saved state is intact") from error
        if self.events is not None:
            for name, value in row.items():
                if name != "step" and value is not None:
                    self.events.add_scalar(name, value, row["step"])
        if eta is None:
            best = "  best so far" if row["best"] else ""
            self.say(f"step {row['step']}/{self.steps}  valid loss {row['valid_loss']:.4f}{best}")
        elif self.bar is not None:
            self.bar.set_postfix_str(f"loss {row['loss']:.3f}, {row['tokens_per_second']:,.0f} tok/s")
        else:
            minutes, seconds = divmod(round(eta), 60)
            self.say(
                f"step {row['step']}/{self.steps}  loss {row['loss']:.4f}  lr {row['lr']:.2e}  "
                f"{row['tokens_per_second']:,.0f} tok/s  eta {minutes // 60}:{minutes % 60:02}:{seconds:02}"
            )

    def close(self) -> None:
        """Finish the bar and the event files."""
        if self.bar is not None:
            self.bar.close()
        if self.events is not None:
            self.events.close()
