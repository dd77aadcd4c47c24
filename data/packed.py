"""Files and contents that may be packed with gzip or bzip2."""

from __future__ import annotations

import bz2
import gzip
import io
from pathlib import Path


def open_packed(source: Path | bytes) -> io.BufferedReader | gzip.GzipFile | bz2.BZ2File:
    """Open a file or content, unpacked if it is packed; its first bytes tell.

    Raises:
        OSError: it is not there, or is not a file.
    """
    if isinstance(source, Path):
        with source.open("rb") as file:
            start = file.read(3)
    else:
        start = source[:3]
    packed = source if isinstance(source, Path) else io.BytesIO(source)
    if start[:2] == b"\x1f\x8b":
        return gzip.GzipFile(packed) if isinstance(packed, Path) else gzip.GzipFile(fileobj=packed)
    if start == b"BZh":
        return bz2.BZ2File(packed)
    return packed.open("rb") if isinstance(packed, Path) else io.BufferedReader(packed)


def unpacked_suffix(name: str | Path) -> str:
    """The suffix that a file has once unpacked, in lower case.

    Example:
        >>> unpacked_suffix("pages.XML.bz2"), unpacked_suffix("notes.md")
        ('.xml', '.md')
    """
    path = Path(name)
    return Path(path.stem if path.suffix in (".gz", ".bz2") else path.name).suffix.lower()
