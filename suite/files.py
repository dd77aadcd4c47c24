"""Write files and folders atomically: they appear complete or not at all. Locks, and files that users name."""

import errno
import hashlib
import io
import os
import secrets
import shutil
import stat
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any


def write_atomic(path: Path, content: bytes | Callable[[Path], None]) -> None:
    """Write a file atomically (temporary name, sync, rename), so that a crash or full disk never leaves half of it.

    Args:
        path: the file; its directory is created if missing.
        content: the bytes to write, or a function that writes the file to a given path.

    Raises:
        OSError: the file could not be written; its previous version is unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        temporary.touch()
        mode = temporary.stat().st_mode
        if isinstance(content, bytes):
            temporary.write_bytes(content)
        else:
            content(temporary)
            temporary.chmod(mode)  # safetensors writes files that only their owner may read, whatever the umask
        _sync(temporary)
        temporary.replace(path)
        _sync(path.parent)  # the rename is on disk only once the directory is synced
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def free_name(path: Path) -> Path:
    """A free name beside `path` for a damaged file: `NAME.damaged`, then `NAME.damaged-2`."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged{'' if number == 1 else f'-{number}'}")).exists():
        number += 1
    return aside


def move_aside(path: Path, why: object) -> None:
    """Rename a damaged file or folder of a cache, so that it is made again, and warn of it."""
    aside = free_name(path)
    path.rename(aside)
    warnings.warn(
        f"{path} was damaged ({why}); it is now {aside.name}, and is made again", DamagedWarning, stacklevel=3
    )


class DamagedWarning(UserWarning):
    """A damaged file was moved aside, to be made again; the command line shows the message alone."""


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder to fill, then rename it to `path`; if another process was first, its folder is kept."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    temporary.mkdir(parents=True)
    try:
        yield temporary
        for file in temporary.iterdir():
            _sync(file)
        try:
            temporary.rename(path)
        except OSError:
            if not path.is_dir():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


# ---- files that a user names


def check_output(path: Path) -> None:
    """Refuse to replace what is no regular file.

    Raises:
        OSError: the path is a folder, a device or a pipe.
    """
    if path.is_dir():
        raise OSError(errno.EISDIR, "is a directory; name a file to write to", str(path))
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "is a device or a pipe; name a regular file to write to", str(path))


def write_output(path: Path, content: bytes | Callable[[Path], None]) -> None:
    """Write a file that a user named, as `write_atomic` does; a link stays a link, and the file it leads to is written.

    Raises:
        OSError: the path is a folder, a device or a pipe, or the file could not be written.
    """
    check_output(path)
    write_atomic(path.resolve(), content)


def open_input(path: Path) -> IO[bytes]:
    """Open a file that a user named. A pipe is read like a file, such as the shell's `<(command)`.

    Raises:
        OSError: it cannot be opened, is a device, or is a pipe that no process writes to, whose reader would wait for
            ever.
    """
    mode = path.stat().st_mode
    if stat.S_ISFIFO(mode):
        return io.BufferedReader(_Pipe(path))
    if stat.S_ISCHR(mode) or stat.S_ISBLK(mode):
        raise OSError(errno.EINVAL, "is a device; pipe it in as -, or save it to a file", str(path))
    return path.open("rb")


class _Pipe(io.RawIOBase):
    """A named pipe. To read is the only way to tell whether a process has it open for writing."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        self._start: bytes | None = None
        with suppress(BlockingIOError):  # a process is there and has not written yet
            self._start = os.read(self._descriptor, 1 << 16)
        if self._start == b"":
            self.close()
            fault = "is a pipe that no process writes to; save it to a file, or pipe it in as -"
            raise OSError(errno.ENXIO, fault, str(path))
        os.set_blocking(self._descriptor, True)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._start:
            return os.readv(self._descriptor, [buffer])
        content, self._start = self._start[: len(buffer)], self._start[len(buffer) :]
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        if not self.closed:
            os.close(self._descriptor)
        super().close()


# ---- locks


@contextmanager
def locked(path: Path, taken: Exception) -> Iterator[None]:
    """Hold a lock on a path while it is written; the system releases it when a process dies, however it dies.

    Args:
        path: what is written; no file of this name is needed.
        taken: raised where another process holds the lock.
    """
    from filelock import FileLock, Timeout

    name = hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:32]
    user = os.getuid() if hasattr(os, "getuid") else ""  # nobody may open the locks of others
    lock = FileLock(Path(tempfile.gettempdir()) / f"suite-{user}-{name}.lock")
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise taken from None
    try:
        yield
    finally:
        lock.release()


# ---- where things are kept


def cache_directory() -> Path:
    """Where tokenised text, compiled code and the like is kept: $SUITE_CACHE, or suite/ in the user's cache folder."""
    if named := os.environ.get("SUITE_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "suite"
