"""Time, memory and memory bandwidth, as all benchmarks measure them."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch


@dataclass(frozen=True, kw_only=True)
class Speed:
    """How fast one system decodes or trains.

    Attributes:
        system: which one, and the type of its weights or products: "suite int8".
        batch: sequences at a time.
        tokens_per_second: of each row in decoding, of the whole batch in training.
        ratio: to the baseline at the same batch; None without a baseline.
        bandwidth_share: bytes of weights read a second, as a share of the measured memory bandwidth; None in training.
        agrees: how many of the decoded tokens equal the baseline's; None in training.
    """

    system: str
    batch: int
    tokens_per_second: float
    ratio: float | None = None
    bandwidth_share: float | None = None
    agrees: int | None = None


def best_times(
    systems: dict[str, Callable[[], object]],
    repeats: int,
    limit: float = float("inf"),
    say: Callable[[str, float], object] = lambda name, seconds: None,
) -> dict[str, float]:
    """Seconds of each system's fastest turn; they take turns, after one turn each that does not count.

    Args:
        systems: functions to time, by name.
        repeats: turns of each that count.
        limit: seconds in all; a round that would exceed it is left out. If none is left, the first one counts.
        say: called with a system's name and the seconds of its first turn, as soon as they are known.
    """
    began = time.perf_counter()
    first: dict[str, float] = {}
    best: dict[str, float] = {}
    for turn in range(repeats + 1):
        if turn and time.perf_counter() - began + sum(first.values()) > limit:
            break
        for name, run in systems.items():
            start = time.perf_counter()
            run()
            taken = time.perf_counter() - start
            if turn:
                best[name] = min(best.get(name, taken), taken)
            else:
                first[name] = taken
                say(name, taken)
    return first | best


def memory_bandwidth() -> float:
    """Bytes a second that torch's threads read when they sum a large tensor: the best of several runs."""
    block = torch.ones(64 * 1024 * 1024)  # 256 MiB: larger than caches, or at least than a fair share of one
    return block.nbytes / best_times({"sum": lambda: block.sum()}, 8)["sum"]


def peak_memory() -> int:
    """The most memory that this process has held so far, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # Linux, where `getrusage` may report the process that started this one
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) * 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
