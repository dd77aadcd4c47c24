"""A container with a quota, or two logical CPUs on a core, must not get more threads than there are cores."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from suite.errors import ConfigError
from suite.model.threads import set_threads, usable_cores


@pytest.fixture(autouse=True)
def same_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def machine(root: Path, cores: dict[int, int]) -> Path:
    """The system's folders for logical CPUs, each with the number of its core."""
    for cpu, core in cores.items():
        topology = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "core_id").write_text(f"{core}\n")
        (topology / "physical_package_id").write_text("0\n")
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text("0::/work\n")
    (root / "sys/fs/cgroup/work").mkdir(parents=True)
    return root


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="only Linux tells which CPUs a process may use")
@pytest.mark.parametrize(
    ("allowed", "quota", "expected"),
    [
        ({0, 1, 2, 3}, "max 100000", 2),
        ({0, 2}, "max 100000", 1),
        ({0, 1}, "max 100000", 2),
        ({0, 1}, "150000 100000", 1),
        ({0, 1}, "50000 100000", 1),
        ({0, 1}, "800000 100000", 2),
    ],
)
def test_cores_that_may_be_used(
    allowed: set[int], quota: str, expected: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    root = machine(tmp_path, {0: 0, 1: 1, 2: 0, 3: 1})
    (root / "sys/fs/cgroup/work/cpu.max").write_text(quota + "\n")
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: allowed)
    assert usable_cores(root) == expected


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="only Linux tells which CPUs a process may use")
def test_a_quota_of_the_first_version_of_control_groups(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    root = machine(tmp_path, {0: 0, 1: 1})
    folder = root / "sys/fs/cgroup/cpu"
    folder.mkdir()
    (folder / "cpu.cfs_period_us").write_text("100000\n")
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1})
    for quota, expected in (("-1", 2), ("100000", 1)):
        (folder / "cpu.cfs_quota_us").write_text(quota)
        assert usable_cores(root) == expected


def test_the_option_goes_before_the_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    torch.set_num_threads(1)
    monkeypatch.delenv("SUITE_THREADS", raising=False)
    assert set_threads() == 1
    monkeypatch.setenv("SUITE_THREADS", "2")
    assert set_threads() == 2 and set_threads(3) == 3
    for wrong in ("none", "0", "-1"):
        monkeypatch.setenv("SUITE_THREADS", wrong)
        with pytest.raises(ConfigError, match=f"SUITE_THREADS is '{wrong}'"):
            set_threads()
