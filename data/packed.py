"""Byte streams that may be packed: gzip, bzip2, xz and Zstandard, recognised by their first bytes.

A stream that is damaged, or that unpacks to far more than a text can, raises an error that names the file.
"""

from __future__ import annotations

import bz2
import gzip
import importlib
import io
import lzma
import re
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from suite.errors import DataError

SUFFIXES = (".gz", ".bz2", ".xz", ".zst")
# text packs to a fifth or a tenth, tables of numbers to a hundredth; gzip's limit, which files of NULs reach, is 1032
MAX_RATIO = 200
FREE = 64 << 20  # bytes that any packed file may unpack to, whatever its ratio

_BUFFER = 1 << 18
# bz2's second mark is that of an empty file; "BZh" alone may begin a text
_MAGIC = re.compile(
    rb"(?P<gz>\x1f\x8b)|(?P<bz2>BZh[1-9](?:1AY&SY|\x17rE8P\x90))|(?P<xz>\xfd7zXZ\0)|(?P<zst>\x28\xb5\x2f\xfd)"
)


class Damaged(DataError):
    """A stream that cannot be read, with the reason apart, for errors that also know the line."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"{name}: cannot be read ({reason})")
        self.reason = reason


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, or its type where it has none."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def unpacked_suffix(name: str | Path) -> str:
    """Return the suffix that a file has once unpacked, in lower case.

    Example:
        >>> unpacked_suffix("pages.XML.bz2"), unpacked_suffix("notes.md")
        ('.xml', '.md')
    """
    path = Path(name)
    return Path(path.stem if path.suffix.lower() in SUFFIXES else path.name).suffix.lower()


def open_packed(source: Path | bytes, name: str) -> io.BufferedReader:
    """Open a file or bytes as a stream, unpacked if the first bytes are a packer's; `name` is for errors.

    Raises:
        OSError: there is no such file.
        Damaged: while reading; it cannot be unpacked.
    """
    return unpack(io.BytesIO(source) if isinstance(source, bytes) else source.open("rb"), name)


def unpack(
    stream: IO[bytes], name: str, *, packed: int | None = None, suffix: str = "", close: bool = True
) -> io.BufferedReader:
    """Return a buffered stream of another stream's content, unpacked if it is packed.

    Args:
        stream: to read from.
        name: for errors.
        packed: size of `stream` in its archive, in bytes.
        suffix: last suffix of the file's name; one of `SUFFIXES` says that it must be packed.
        close: close `stream` together with the returned one.

    Raises:
        Damaged: here or while reading; the stream is damaged, not packed as its suffix says, or unpacks to too much.
    """
    outer = _Checked(stream, name, None if packed is None else lambda: packed, close=close)
    found: io.BufferedReader = io.BufferedReader(outer, _BUFFER)
    try:
        match = _MAGIC.match(found.peek(10))
        kind = str(match.lastgroup) if match else ""
        if suffix.lower() in SUFFIXES and f".{kind}" != suffix.lower():
            raise Damaged(name, f"its name ends in {suffix}, but it is not packed that way")
        if not kind:
            return found
        inner = _OPEN[kind](found)
    except ModuleNotFoundError:
        found.close()
        raise DataError(f"{name}: packed with Zstandard; to read it, pip install zstandard") from None
    except DataError:
        found.close()
        raise
    limit = outer.size if packed is None else lambda: packed
    return io.BufferedReader(_Checked(inner, name, limit, below=found), _BUFFER)


class _Checked(io.RawIOBase):
    """A stream that raises `Damaged` for every fault, and where it unpacks to more than `MAX_RATIO` allows."""

    def __init__(
        self,
        stream: Any,
        name: str,
        packed: Callable[[], int] | None,
        *,
        below: io.BufferedReader | None = None,
        close: bool = True,
    ) -> None:
        super().__init__()
        self._stream, self._name, self._packed = stream, name, packed
        self._closing = [*([stream] if close else []), *([below] if below is not None else [])]
        self._read: Callable[[int], bytes] = getattr(stream, "read1", stream.read)
        self._size = 0

    def size(self) -> int:
        """Bytes read so far."""
        return self._size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            content = self._read(len(buffer))
        except DataError:
            raise
        except Exception as error:  # each packer, and each network's library, raises its own kinds
            raise Damaged(self._name, first_line(error)) from error
        self._size += len(content)
        if self._packed is not None and self._size > max(FREE, MAX_RATIO * self._packed()):
            much = f"it unpacks to more than {MAX_RATIO} times its size; if that is intended, unpack it first"
            raise Damaged(self._name, much)
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        if not self.closed:
            for stream in self._closing:
                stream.close()
        super().close()


def _open_gzip(stream: io.BufferedReader) -> gzip.GzipFile:
    return gzip.GzipFile(fileobj=stream)


def _open_zstd(stream: io.BufferedReader) -> Any:
    try:  # from Python 3.14 on
        return importlib.import_module("compression.zstd").ZstdFile(stream)
    except ModuleNotFoundError:
        return _Zstandard(stream, importlib.import_module("zstandard"))


class _Zstandard:
    """Reader of consecutive frames. The package's own `stream_reader` reports no error where a file is cut off."""

    def __init__(self, stream: io.BufferedReader, package: Any) -> None:
        self._stream = stream
        self._start = package.ZstdDecompressor().decompressobj
        self._frame: Any = None
        self._ready = b""
        self._left = b""  # bytes after the frame that has ended

    def read1(self, size: int) -> bytes:
        while not self._ready:
            # a block of four bytes may unpack to 128 KB, so a little at a time
            packed = self._left or self._stream.read(1024)
            self._left = b""
            if not packed and self._frame is None:
                return b""
            if not packed:
                raise EOFError("it ends within a frame")
            self._frame = self._frame or self._start()
            self._ready = self._frame.decompress(packed)
            if self._frame.eof:
                self._left, self._frame = self._frame.unused_data, None
        content, self._ready = self._ready[:size], self._ready[size:]
        return content

    read = read1

    def close(self) -> None:
        self._ready = self._left = b""


_OPEN: dict[str, Callable[[Any], Any]] = {
    "gz": _open_gzip,
    "bz2": bz2.BZ2File,
    "xz": lzma.LZMAFile,
    "zst": _open_zstd,
}
