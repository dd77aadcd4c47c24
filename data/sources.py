"""Turn the name of a data source into a list of files, or recognise it as a hub data set.

A source is a file, a folder, a pattern, a zip file or a member of a zip file (`data.zip/train.csv`), each on disk or at
a URL that fsspec opens (`https://`, `s3://`, `hf://`, `memory://`, ...), `-` for standard input, or a data set of the
Hugging Face hub (`name`, `name:configuration`, `name:configuration:split`, `name::split`).
"""

from __future__ import annotations

import fnmatch
import glob
import hashlib
import io
import os
import re
import stat
import sys
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import IO, Any
from urllib.parse import urlsplit

from suite.data.packed import Damaged, first_line, unpack, unpacked_suffix
from suite.errors import DataError

Source = str | Path | Sequence[str | Path]

TEXTS = (".txt", ".md")
TABLES = (".csv", ".tsv", ".tab", ".jsonl", ".ndjson", ".json", ".parquet")
_STANDARD_INPUT = ("-", "/dev/stdin", "/dev/fd/0")
URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")  # two letters or more: C:\ is a drive
_PATTERN = re.compile(r"[*?\[]")
_CHECKSUMS = ("ETag", "etag", "sha256", "blob_id", "md5Hash", "md5", "content_hash", "checksum", "crc32c")


@dataclass(frozen=True)
class File:
    """A file to read.

    Args:
        name: name for errors: path or URL; for a member of a zip file, that of the zip file followed by the member's.
        place: path or URL of the file, or of the zip file that it is in; "" for standard input.
        member: path within the zip file; "" if it is in none.
        inside: path relative to the folder, zip file or URL given as the source; "" if the source is the file itself.
        content: the bytes of standard input.
    """

    name: str
    place: str
    member: str = ""
    inside: str = ""
    content: bytes | None = None

    @classmethod
    def of(cls, path: str | Path) -> File:
        """Make a `File` of a path on disk.

        Raises:
            DataError: it is a pipe or a device, which cannot be read twice, or not at all.
        """
        mode = _mode(str(path))
        if mode is not None and not stat.S_ISREG(mode) and not stat.S_ISDIR(mode):
            raise DataError(f"{path}: a pipe or a device; save it to a file, or pipe it in as -")
        return cls(str(path), str(path))

    @property
    def suffix(self) -> str:
        """Suffix of the name in lower case, without that of compression: ".csv" for a.csv.gz."""
        return unpacked_suffix(self._path)

    @property
    def _path(self) -> str:
        if self.member:
            return self.member
        web = self.place.lower().startswith(("http://", "https://"))
        return urlsplit(self.place).path if web else self.place

    def open(self) -> io.BufferedReader:
        """Open the file for reading, decompressed.

        Raises:
            Damaged: the file cannot be read; may be raised while reading.
        """
        raw, packed = self.open_raw()
        return unpack(raw, self.name, packed=packed, suffix=Path(self._path).suffix)

    def open_raw(self) -> tuple[IO[bytes], int | None]:
        """Open the file as stored, still compressed; also return the compressed size of a zip member, else None."""
        if self.content is not None:
            return io.BytesIO(self.content), None
        try:
            if not self.member:
                return _open_place(self.place), None
            archive = _archive(self.place)
            member = archive.getinfo(self.member)
            if member.flag_bits & 1:
                raise Damaged(self.name, "encrypted; unpack it with its password first")
            return archive.open(member), member.compress_size
        except DataError:
            raise
        except OSError as error:
            raise Damaged(self.name, error.strerror or first_line(error)) from None
        except Exception as error:  # zipfile and the network libraries raise many kinds
            raise Damaged(self.name, first_line(error)) from error

    def read(self, most: int = -1) -> bytes:
        """Return the decompressed contents, at most `most` bytes (-1: all)."""
        with self.open() as stream:
            return stream.read(most)

    def digest(self) -> bytes:
        """Return a hash of the contents as stored; for a URL, of its checksum or ETag if it has one."""
        if URL.match(self.place) and not self.member:
            info = _info(self.place)
            if mark := next((f"{key} {info[key]}" for key in _CHECKSUMS if info.get(key)), ""):
                return hashlib.sha256(f"{mark} {info.get('size')}".encode()).digest()
        raw, _ = self.open_raw()
        with raw:
            digest = hashlib.sha256()
            try:
                while piece := raw.read(1 << 20):
                    digest.update(piece)
            except Exception as error:  # as above
                raise Damaged(self.name, first_line(error)) from error
            return digest.digest()

    def stamp(self) -> list[Any]:
        """Return values that change with the file, without reading it: size and time, or what the server reports."""
        if self.content is not None:
            return [hashlib.sha256(self.content).hexdigest()]
        return _stamp(self.place).split() or [self.digest().hex()]


# ---- finding files


def find(source: str | Path) -> list[File] | None:
    """Return the files of a source in order; None if nothing of this name exists.

    For a folder or zip file, these are all files in it at any depth, except hidden files. A zip file inside a folder
    counts as a file and is not opened.

    Raises:
        DataError: the source is a pipe or a device, or a zip file or URL that cannot be read.
    """
    text = str(source)
    if not text.strip():
        raise DataError("an empty source; give a file, a folder or a data set")
    if text in _STANDARD_INPUT:
        return [File("standard input", "", content=_read_standard_input(sys.stdin.buffer))]
    if text.lower().startswith("file://"):
        text = _to_path(text)
    if URL.match(text):
        return _find_remote(text)
    if _mode(text) is not None:
        return _expand(text) if not Path(text).is_dir() else _find_folder(Path(text))
    if inside := _find_members(text):
        return inside
    matches = sorted(path for path in glob.glob(text, recursive=True) if Path(path).is_file())  # noqa: PTH207 (a Path takes no absolute pattern)
    return [file for match in matches for file in _expand(match)] or None


def find_all(sources: Source) -> list[tuple[str, list[File] | None]]:
    """Return each source as text, with its files; see `find`."""
    items = [sources] if isinstance(sources, str | Path) else list(sources)
    return [(str(item), find(item)) for item in items]


def _find_folder(folder: Path) -> list[File]:
    files = (path for path in folder.rglob("*") if path.is_file())
    inside = ((path, path.relative_to(folder)) for path in sorted(files))
    return [File(str(path), str(path), inside=part.as_posix()) for path, part in inside if not _is_hidden(part.parts)]


def _expand(place: str) -> list[File]:
    """Return the file, or the members if it is a zip file."""
    if unpacked_suffix(place) != ".zip":
        return [File(place, place) if URL.match(place) else File.of(place)]
    members = _archive(place).infolist()
    names = sorted(member.filename for member in members if not member.is_dir())
    return [
        File(f"{place}/{name}", place, member=name, inside=name)
        for name in names
        if not _is_hidden(PurePosixPath(name).parts)
    ]


def _is_hidden(parts: Iterable[str]) -> bool:
    return any(part.startswith(".") or part == "__MACOSX" for part in parts)


def _find_members(text: str) -> list[File] | None:
    """Return the members named by `data.zip/...`: a path, a pattern or a folder; None if there are none."""
    place, sign, pattern = re.sub(r"(?i)\.zip/", ".zip\0", text, count=1).partition("\0")
    place = text[: len(place)]
    if not sign or not pattern or not _is_there(place):
        return None
    members = _expand(place)
    found = [file for file in members if file.member == pattern] or [
        file for file in members if fnmatch.fnmatchcase(file.member, pattern)
    ]
    below = [file for file in members if file.member.startswith(pattern.rstrip("/") + "/")]
    return [File(file.name, file.place, member=file.member) for file in found] or below or None


def _is_there(place: str) -> bool:
    if not URL.match(place):
        return Path(place).is_file()
    system, path = _filesystem(place)
    try:
        return bool(system.isfile(path))
    except Exception as error:  # each network's library raises its own kinds
        raise DataError(f"{place}: cannot be read ({first_line(error)})") from error


def _mode(path: str) -> int | None:
    try:
        return Path(path).stat().st_mode
    except (OSError, ValueError):  # does not exist, or not a valid name
        return None


def _to_path(url: str) -> str:
    from urllib.request import url2pathname

    return url2pathname(urlsplit(url).path)


@lru_cache(maxsize=1)
def _read_standard_input(stream: IO[bytes]) -> bytes:
    return stream.read()  # cached, as some readers read a source twice


# ---- URLs and zip files


def _filesystem(url: str) -> tuple[Any, str]:
    import fsspec

    try:
        system, path = fsspec.core.url_to_fs(url)
    except Exception as error:  # an unknown protocol, or one whose package is not installed
        raise DataError(f"{url}: cannot be opened ({first_line(error)})") from None
    return system, str(path)


def _find_remote(url: str) -> list[File] | None:
    if inside := _find_members(url):
        return inside
    if url.lower().startswith(("http://", "https://")):
        return _expand(url)  # no patterns, as ? begins a query, and no folders
    system, path = _filesystem(url)
    try:
        if pattern := _PATTERN.search(path):
            start = path[: path.rfind("/", 0, pattern.start()) + 1]
            below = (str(match) for match in system.glob(path) if system.isfile(match))
            matches = sorted(name for name in below if not _is_hidden(name.removeprefix(start).split("/")))
            return [file for match in matches for file in _expand(system.unstrip_protocol(match))] or None
        if system.isfile(path):
            return _expand(url)
        if not system.isdir(path):
            return None
        names = sorted(map(str, system.find(path)))
    except DataError:
        raise
    except Exception as error:  # each network's library raises its own kinds
        raise DataError(f"{url}: cannot be read ({first_line(error)})") from error
    start = path.strip("/") + "/"
    inside_names = [name.strip("/").removeprefix(start) for name in names]
    return [
        File(str(system.unstrip_protocol(name)), str(system.unstrip_protocol(name)), inside=inside)
        for name, inside in zip(names, inside_names, strict=True)
        if not _is_hidden(inside.split("/"))
    ]


def _info(url: str) -> dict[str, Any]:
    system, path = _filesystem(url)
    try:
        return dict(system.info(path))
    except Exception as error:  # as above
        raise DataError(f"{url}: cannot be read ({first_line(error)})") from error


def _open_place(place: str) -> IO[bytes]:
    if not URL.match(place):
        return Path(place).open("rb")
    system, path = _filesystem(place)
    stream: IO[bytes] = system.open(path, "rb")
    return stream


def _stamp(place: str) -> str:
    if URL.match(place):
        info = _info(place)
        marks = [*_CHECKSUMS, "size", "LastModified", "last_modified", "mtime", "created"]
        return " ".join(f"{key}={info[key]}".replace(" ", "_") for key in marks if info.get(key))
    status = Path(place).stat()
    return f"{status.st_size} {status.st_mtime_ns}"


def _archive(place: str) -> zipfile.ZipFile:
    return _open_archive(place, "" if URL.match(place) else _stamp(place), os.getpid())


@lru_cache(maxsize=8)
def _open_archive(place: str, stamp: str, process: int) -> zipfile.ZipFile:
    """Open a zip file. A forked process opens its own, or both would move the same file position."""
    del stamp, process
    try:
        return zipfile.ZipFile(_open_place(place) if URL.match(place) else place)
    except DataError:
        raise
    except Exception as error:  # as above
        raise DataError(f"{place}: cannot be read as a zip file ({first_line(error)})") from None
