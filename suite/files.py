"""Write files and folders atomically: they appear complete or not at all."""

import os
import secrets
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


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
