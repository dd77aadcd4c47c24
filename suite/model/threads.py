"""How many threads compute: as many as there are cores that this process may use.

Two threads on one core share its arithmetic units, and the system does not count a container's quota among its cores.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import torch

from suite.errors import ConfigError


def set_threads(number: int | None = None) -> int:
    """Set the threads that PyTorch and the compiled step use; returns their number.

    Args:
        number: None for the environment variable SUITE_THREADS; where that is not set either, OMP_NUM_THREADS counts,
            which PyTorch knows, and else the cores that this process may use.

    Raises:
        ConfigError: SUITE_THREADS is no number from 1 on.
    """
    if number is None and (named := os.environ.get("SUITE_THREADS")):
        if not named.isdecimal() or not int(named):
            raise ConfigError(f"SUITE_THREADS is {named!r}, but must be a number from 1 on")
        number = int(named)
    if number is None and not os.environ.get("OMP_NUM_THREADS"):
        number = usable_cores()
    if number is not None and number != torch.get_num_threads():
        torch.set_num_threads(number)
    return torch.get_num_threads()


def usable_cores(root: Path = Path("/")) -> int | None:
    """Physical cores that this process may use, by its affinity and its container's quota; None if unknown.

    Args:
        root: where the system's folders sys/ and proc/ are.
    """
    if not hasattr(os, "sched_getaffinity"):
        return None
    cores = set()
    for cpu in os.sched_getaffinity(0):
        topology = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        try:
            cores.add(tuple((topology / name).read_text().strip() for name in ("physical_package_id", "core_id")))
        except OSError:
            cores.add((f"{cpu}",))
    quota = _quota(root)
    return len(cores) if quota is None else max(1, min(len(cores), int(quota)))


def _quota(root: Path) -> float | None:
    """CPUs that the process's control group may use at a time; None for all of them."""
    folder = root / "sys/fs/cgroup"
    with suppress(OSError, ValueError):
        own = [line.partition("::")[2] for line in (root / "proc/self/cgroup").read_text().splitlines() if "::" in line]
        for path in (*(folder / one.lstrip("/") for one in own), folder):
            with suppress(OSError):
                limit, period = (path / "cpu.max").read_text().split()
                if limit != "max":
                    return int(limit) / int(period)
    with suppress(OSError, ValueError):  # the first version of control groups
        limit, period = ((folder / "cpu" / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period"))
        return int(limit) / int(period) if int(limit) > 0 else None
    return None
