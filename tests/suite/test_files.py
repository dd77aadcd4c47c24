"""Files are whole, or as they were."""

import os
import threading
from pathlib import Path

import pytest

from suite.files import locked, open_input, write_atomic, write_output


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


def test_a_file_that_a_user_names_is_written_through_its_link_and_replaces_no_pipe(tmp_path: Path) -> None:
    """A rename put a file in the place of a link, of a pipe, or of /dev/null."""
    (tmp_path / "far").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "far" / "file")
    write_output(tmp_path / "link", b"one")
    assert (tmp_path / "link").is_symlink() and (tmp_path / "far" / "file").read_bytes() == b"one"
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "null").symlink_to("/dev/null")
    for name in ("pipe", "null"):
        with pytest.raises(OSError, match="is a device or a pipe"):
            write_output(tmp_path / name, b"one")
    with pytest.raises(IsADirectoryError, match="is a directory"):
        write_output(tmp_path / "far", b"one")
    assert (tmp_path / "pipe").is_fifo()


def test_a_pipe_that_nobody_writes_to_is_refused_and_another_is_read(tmp_path: Path) -> None:
    """To open the first waited for ever."""
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="is a pipe that no process writes to"):
        open_input(tmp_path / "pipe")
    with pytest.raises(OSError, match="is a device"):
        open_input(Path("/dev/zero"))
    reading, writing = os.pipe()  # as the shell's <(command), whose process may take its time
    with open_input(Path(f"/proc/self/fd/{reading}")) as stream:
        timer = threading.Timer(0.05, lambda: (os.write(writing, b"one\ntwo"), os.close(writing)))
        timer.start()
        assert stream.read() == b"one\ntwo"
    os.close(reading)


def test_a_lock_is_free_again_in_the_same_process(tmp_path: Path) -> None:
    for _ in range(2):
        with locked(tmp_path / "b.txt", OSError("taken")):
            pass
    with (
        locked(tmp_path / "b.txt", OSError("taken")),
        pytest.raises(OSError, match="taken"),
        locked(tmp_path / "b.txt", OSError("taken")),
    ):
        pass
