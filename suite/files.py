"""Files and folders that appear whole or not at all."""

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path


def write_atomic(path: Path, content: bytes | Callable[[Path], None]) -> None:
    """Write a file so that a reader, a crash or a full disk never meets half of it: temporary name, sync, rename.

    Args:
        path: the file; its directory is made if need be.
        content: what it shall hold, or a function that writes it to the path it is given.

    Raises:
        OSError: it could not be written; what was there before is unchanged.
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
            temporary.chmod(mode)  # safetensors writes files that nobody else may read, whatever the umask
        _sync(temporary)
        temporary.replace(path)
        _sync(path.parent)  # the rename itself is on disk only once the directory is
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Give a temporary folder to fill, which becomes `path` at the end; whoever comes second finds the first's work."""
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
