"""How long a run will take, judged by its first steps."""

from __future__ import annotations

from dataclasses import dataclass

# the time is foretold after this many steps of a session, or this many seconds
FORECAST_STEPS, FORECAST_SECONDS = 10, 30.0


@dataclass(frozen=True, kw_only=True)
class StepSpeed:
    """Seconds a step, and tokens a second."""

    seconds_per_step: float
    tokens_per_second: float


class Pace:
    """Measures the first steps of a session.

    Args:
        tokens: read before it.

    Attributes:
        known: whether the speed was given, so that no more steps need to be measured.
    """

    def __init__(self, tokens: int) -> None:
        self.known = False
        self._tokens = tokens
        self._steps: list[tuple[float, int]] = []  # seconds and tokens of each

    def add(self, seconds: float, tokens: int) -> StepSpeed | None:
        """The speed, once enough steps were measured.

        Args:
            seconds: of the last step.
            tokens: read in the whole run.
        """
        self._steps.append((seconds, tokens - self._tokens))
        self._tokens = tokens
        if len(self._steps) < FORECAST_STEPS and sum(taken for taken, _ in self._steps) < FORECAST_SECONDS:
            return None
        self.known = True
        steady = self._steps[1:] or self._steps  # a first step also compiles kernels and fills caches
        taken, read = sum(taken for taken, _ in steady), sum(tokens for _, tokens in steady)
        if not taken or not read:
            return None
        return StepSpeed(seconds_per_step=taken / len(steady), tokens_per_second=read / taken)
