"""Write files and folders atomically: they appear complete or not at all."""

import os
import secrets
import shutil
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


def cache_directory() -> Path:
    """Where tokenised text, compiled code and the like is kept: $SUITE_CACHE, or suite/ in the user's cache folder."""
    if named := os.environ.get("SUITE_CACHE"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "suite"
