"""What a run tells: `metrics.jsonl` always, a progress bar or plain lines on stderr, TensorBoard if asked."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from tqdm import tqdm

from suite.errors import CheckpointError, ConfigError


def forecast(seconds: float, steps: int, tokens_per_second: float, *, early: bool = False) -> str:
    """How long a run will take, as a line.

    Args:
        seconds: that are left.
        steps: that are left.
        tokens_per_second: of training.
        early: whether it may stop early, by its validation loss.

    Example:
        >>> forecast(7790.0, 6000, 1480.2)
        'about 2 h 10 min for 6,000 steps at 1,480 tokens/s'
    """
    less = ", or less if the validation loss stops falling" if early else ""
    many = f"{steps:,} step{'s' if steps > 1 else ''}"
    return f"about {duration(seconds)} for {many} at {tokens_per_second:,.0f} tokens/s{less}"


def advice(seconds: float, steps: int, epochs: float, *, based: bool, limited: bool) -> str:
    """What would shorten a long run, as a line.

    Args:
        seconds: that are left.
        steps: of the whole run.
        epochs: that they are, where the recipe counts in epochs; else 0.
        based: whether it starts from another model, whose shape is given.
        limited: whether the run stops by the clock already.

    Example:
        >>> advice(7200.0, 6000, 0, based=False, limited=False).split("; ")[0]
        'to shorten it: fewer steps (--set run.steps=1500 for about 30 min)'
    """
    share = 1800 / seconds
    if epochs:
        fewer = f"fewer epochs (--set run.epochs={float(f'{epochs * share:.1g}'):g} for about 30 min)"
    else:
        fewer = f"fewer steps (--set run.steps={int(float(f'{max(1, steps * share):.2g}'))} for about 30 min)"
    smaller = "a smaller --base" if based else "a smaller model (--set model.n_layer=... or model.d_model=...)"
    stop = "" if limited else "; or --max-minutes 30, and the same command later to resume"
    return f"to shorten it: {fewer}; {smaller}{stop}"


def duration(seconds: float) -> str:
    """A time in two units at most.

    Example:
        >>> duration(7790), duration(100), duration(0.2)
        ('2 h 10 min', '1 min 40 s', '1 s')
    """
    whole = max(1, round(seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{minutes} min"
    hours, rest = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {rest} min" if rest else f"{hours} h"
    days, hours = divmod(round(seconds / 3600), 24)
    return f"{days} d {hours} h" if hours else f"{days} d"


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
            with suppress(OSError):  # a stderr that is full is no reason to stop
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
