"""Files and folders that appear whole or not at all."""

import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def write_atomic(path: Path, content: bytes) -> None:
    """Write a file so that a reader, a crash or a full disk never meets half of it: temporary name, sync, rename."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def new_folder(path: Path) -> Iterator[Path]:
    """Give a temporary folder to fill, which becomes `path` at the end; whoever comes second finds the first's work."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    temporary.mkdir(parents=True)
    try:
        yield temporary
        for file in temporary.iterdir():
            with file.open("rb") as written:
                os.fsync(written.fileno())
        try:
            temporary.rename(path)
        except OSError:
            if not path.is_dir():
                raise
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
