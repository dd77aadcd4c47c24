"""Files are whole, or as they were."""

import os
from pathlib import Path

import pytest

from suite.files import write_atomic


@pytest.mark.fsync
def test_contents_are_on_disk_before_their_name_is_and_the_name_before_it_returns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rename that reached the disk before its contents would leave an empty file after a power cut."""
    synced: list[tuple[bool, str]] = []
    sync = os.fsync

    def recorded(descriptor: int) -> None:
        sync(descriptor)
        kind = "folder" if os.fstat(descriptor).st_ino == tmp_path.stat().st_ino else "contents"
        synced.append(((tmp_path / "a.txt").exists(), kind))

    monkeypatch.setattr(os, "fsync", recorded)
    write_atomic(tmp_path / "a.txt", b"one")
    assert synced == [(False, "contents"), (True, "folder")]
