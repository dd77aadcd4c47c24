"""The documents of a text corpus, from files or hub data sets.

Text and JSON lines are read here, so that an error can name the byte or the line; parquet and hub data sets are read
by Hugging Face `datasets`.
"""

import glob
import hashlib
import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from suite.data.cleaning import clean_article
from suite.data.packed import open_packed, unpacked_suffix
from suite.errors import DataError

Source = str | Path | Sequence[str | Path]

_FORMAT = 2  # counted up when the same files would give other texts
_KINDS = {".txt": "text", ".md": "text", ".jsonl": "json", ".json": "json", ".parquet": "parquet"}


class _Origin(NamedTuple):
    """Where documents come from: files of one kind, or a hub data set."""

    kind: str
    files: tuple[Path, ...] = ()
    name: str = ""


def read_documents(source: Source, *, column: str = "text", split: str | None = None) -> Iterator[str]:
    """Read the documents of a corpus in order, one text each; empty ones are left out.

    Args:
        source: a file, a folder, a pattern such as `corpus/*.jsonl.gz`, several of these, or the name of a hub data set
            (`owner/name` or `owner/name:configuration`). A text file (.txt, .md) is one document; JSON lines (.jsonl,
            .json) and parquet hold one a record. All but parquet may be packed (.gz, .bz2).
        column: the record's field with the text. Records with `title`, `lead` and `sections` need none: they are
            written out as articles, cleaned by `suite.data.cleaning.clean_article`.
        split: which split of a hub data set; its training split by default.

    Raises:
        DataError: a source is not there, or a file is not UTF-8 or JSON, is damaged, or lacks the column.
    """
    origin = _find(source)
    if origin.kind == "text":
        texts: Iterable[str] = map(read_text, origin.files)
    elif origin.kind == "json":
        texts = (
            _text_of(record, column, f"{file}, line {number}")
            for file in origin.files
            for number, record in json_lines(file)
        )
    else:
        texts = _read_records(origin, column, split)
    return (text for text in texts if text)


def read_lines(source: Source, *, column: str = "text") -> Iterator[str]:
    """Read the lines of text files, or a column of records, one text each; empty ones are left out.

    Args:
        source, column: as for `read_documents`.

    Raises:
        DataError: as for `read_documents`.
    """
    for document in read_documents(source, column=column):
        yield from filter(None, map(str.strip, document.split("\n")))


def source_digest(source: Source, *, column: str = "text", split: str | None = None) -> str:
    """Return a hash of what `read_documents` reads: the files' contents, or the data set as `datasets` cached it."""
    origin = _find(source)
    digest = hashlib.sha256(json.dumps([_FORMAT, origin.kind, origin.name, column, split]).encode())
    cached = [] if origin.files else load_hub(origin.name, split).cache_files
    for path in origin.files or [Path(file["filename"]) for file in cached]:
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()


# ---- finding files


def _find(source: Source) -> _Origin:
    items = [source] if isinstance(source, str | Path) else list(source)
    if not items:
        raise DataError("no text source is given")
    found = [_matches(str(item)) for item in items]
    if len(items) == 1 and not found[0] and may_be_hub_name(str(items[0])):
        return _Origin("hub", name=str(items[0]))
    if missing := [str(item) for item, files in zip(items, found, strict=True) if not files]:
        raise DataError(f"{missing[0]}: no such file, and no folder or pattern of {' '.join(_KINDS)} files")
    files = tuple(file for matches in found for file in matches)
    kinds = {_kind(file) for file in files}
    if len(kinds) > 1:
        raise DataError(
            f"{source}: a mixture of {', '.join(sorted(kinds))} files; choose one kind, such as folder/*.txt"
        )
    return _Origin(kinds.pop(), files)


def _matches(name: str) -> list[Path]:
    path = Path(name)
    if path.is_dir():
        return sorted(file for file in path.rglob("*") if file.is_file() and unpacked_suffix(file) in _KINDS)
    if path.is_file():
        return [path]
    matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207 (a Path cannot take an absolute pattern)
    return [Path(match) for match in matches if Path(match).is_file()]


def _kind(file: Path) -> str:
    return _KINDS.get(unpacked_suffix(file), "text")


def may_be_hub_name(name: str) -> bool:
    """Whether a name that no file has may be a hub data set's."""
    plain = Path(name).suffix not in {*_KINDS, ".gz", ".bz2"} and not any(sign in name for sign in "*?[\\")
    return plain and not name.startswith((".", "/", "~")) and name.count("/") <= 1


# ---- reading


def read_bytes(file: Path) -> bytes:
    """Return what a file holds, unpacked if it is packed."""
    try:
        with open_packed(file) as stream:
            return stream.read()
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{file}: cannot be read ({error})") from None


def decode(content: bytes, file: Path, offset: int = 0) -> str:
    """Decode UTF-8 that starts at byte `offset` of a file; an error names the file and the byte."""
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        byte = content[error.start]
        raise DataError(f"{file}: not UTF-8, byte {byte:#04x} at offset {offset + error.start}; convert it") from None


def read_text(file: Path) -> str:
    """Return the text of a UTF-8 file, its line ends as they are, without a byte order mark."""
    return decode(read_bytes(file), file).removeprefix("\ufeff")


def json_lines(file: Path) -> Iterator[tuple[int, Any]]:
    """Give each line's number and JSON value; empty lines are passed over."""
    offset = 0
    for number, line in enumerate(read_bytes(file).splitlines(keepends=True), 1):
        if line.strip():
            text = decode(line, file, offset).removeprefix("\ufeff")
            try:
                record = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise DataError(f"{file}, line {number}: not JSON ({json_fault(error)})") from None
            yield number, record
        offset += len(line)


def json_fault(error: ValueError | RecursionError) -> str:
    """What `json.loads` found wrong."""
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg} at column {error.colno}"
    return "nested too deeply" if isinstance(error, RecursionError) else "a number with too many digits"


def _text_of(record: Any, column: str, where: str) -> str:
    if not isinstance(record, Mapping):
        raise DataError(f"{where}: each line must be a JSON object, not {type(record).__name__}")
    if column in record:
        text = record[column]
    elif column == "text" and {"title", "lead", "sections"} <= record.keys():
        try:
            text = clean_article(record)
        except (KeyError, TypeError, AttributeError) as error:
            raise DataError(f"{where}: not an article with title, lead and sections ({error!r})") from None
    else:
        raise DataError(f"{where}: no column {column!r}; available: {', '.join(map(str, record)) or 'none'}")
    if not isinstance(text, str):
        raise DataError(f"{where}: column {column!r} contains {type(text).__name__}, not text")
    check_surrogates(text, where)
    return text


def check_surrogates(text: str, where: str) -> None:
    """Raise DataError for half of a surrogate pair, which JSON can hold and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(f"{where}: half of a surrogate pair at character {error.start} of the text") from None


def _read_records(origin: _Origin, column: str, split: str | None) -> Iterator[str]:
    if origin.kind == "parquet":
        for file in origin.files:
            yield from _texts_of(load_parquet(file), column, str(file))
    else:
        yield from _texts_of(load_hub(origin.name, split), column, origin.name)


def _texts_of(records: Any, column: str, where: str) -> Iterator[str]:
    if column in (records.column_names or ()):
        records = records.select_columns([column])  # the others may be images
    for number, record in enumerate(records):
        yield _text_of(record, column, f"{where}, record {number}")


def load_parquet(file: Path) -> Any:
    """Open a parquet file as a `datasets` data set that streams."""
    import datasets

    try:
        return datasets.load_dataset("parquet", data_files=str(file), split="train", streaming=True)
    except Exception as error:  # the library lets through whatever its parsers raise
        raise DataError(f"{file}: cannot be read as Parquet ({_first_line(error)})") from error


def load_hub(name: str, split: str | None) -> Any:
    """Load a split of the hub data set `owner/name` or `owner/name:configuration`."""
    import datasets
    from huggingface_hub import HfApi, constants

    name, _, configuration = name.partition(":")
    try:
        if not constants.HF_HUB_OFFLINE:
            HfApi().dataset_info(name, timeout=10)  # `datasets` alone retries for half a minute without a network
        return datasets.load_dataset(name, configuration or None, split=split or "train")
    except Exception as error:  # the network, the hub, and the data set's own files fail in many ways
        raise DataError(
            f"{name}: not a file, and it cannot be loaded from the Hugging Face hub ({_first_line(error)}); "
            "offline, HF_HUB_OFFLINE=1 uses an earlier download"
        ) from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
