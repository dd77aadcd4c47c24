"""Read the documents of a text corpus from files or hub data sets."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from suite.data.cleaning import clean_article
from suite.data.hub import load_hub, parse_hub_name
from suite.data.record_files import check_surrogates, read_records, read_text
from suite.data.sources import TABLES, File, Source, find_all
from suite.data.tables import Notes, read_table, read_tables
from suite.errors import DataError

_FORMAT = 2  # version of the reading; raised when the same files would give different texts
# without .csv and .tsv: in a folder of texts, they usually hold metadata
_FOLDERS = (".txt", ".md", ".jsonl", ".ndjson", ".json", ".parquet")


class _Origin(NamedTuple):
    """Source of documents: files of a single kind, or a hub data set."""

    kind: str
    files: tuple[File, ...] = ()
    name: str = ""


def read_documents(source: Source, *, column: str = "text", split: str | None = None) -> Iterator[str]:
    """Yield the text of each document of a corpus, in order; empty documents are left out.

    Args:
        source: a source or several, see `suite.data.sources`; all files must be of the same kind. A text file (.txt,
            .md) is a document; JSON lines (.jsonl, .json), JSON lists, tables (.csv, .tsv) with names in the first
            line, and parquet hold a document per record. In folders and zip files, .csv and .tsv are skipped.
        column: field of the record with the text. Records with `title`, `lead` and `sections` need none: they become
            articles as text, cleaned by `suite.data.cleaning.clean_article`.
        split: split of a hub data set if its name gives none; the training split by default.

    Raises:
        DataError: a source does not exist, or a file is not UTF-8 or JSON, is damaged, or lacks the column.
    """
    origin = _find(source)
    texts = map(read_text, origin.files) if origin.kind == "text" else _read_records(origin, column, split)
    return (text for text in texts if text)


def read_lines(source: Source, *, column: str = "text") -> Iterator[str]:
    """Yield the lines of text files, or of a column of records, stripped of spaces; empty lines are left out.

    Args:
        source, column: as for `read_documents`.

    Raises:
        DataError: as for `read_documents`.
    """
    for document in read_documents(source, column=column):
        yield from filter(None, map(str.strip, document.split("\n")))


def source_digest(source: Source, *, column: str = "text", split: str | None = None) -> str:
    """Return a hash of what `read_documents` reads: contents of the files, or the hub data set as cached by `datasets`.

    For a file at a URL, its checksum or ETag is used in place of the contents if there is one.
    """
    origin = _find(source)
    digest = hashlib.sha256(json.dumps([_FORMAT, origin.kind, origin.name, column, split]).encode())
    cached = [] if origin.files else load_hub(origin.name, split).cache_files
    for file in origin.files or [File.of(one["filename"]) for one in cached]:
        digest.update(file.digest())
    return digest.hexdigest()


def _find(source: Source) -> _Origin:
    found = find_all(source)
    if not found:
        raise DataError("no text source is given")
    chosen = [
        (name, [file for file in files or () if not file.inside or file.suffix in _FOLDERS]) for name, files in found
    ]
    if len(found) == 1 and found[0][1] is None and parse_hub_name(found[0][0]):
        return _Origin("hub", name=found[0][0])
    if missing := [name for name, files in chosen if not files]:
        raise DataError(f"{missing[0]}: no such file, and no folder or pattern of {' '.join(_FOLDERS)} files")
    files = tuple(file for _, some in chosen for file in some)
    kinds = {_kind(file) for file in files}
    if len(kinds) > 1:
        raise DataError(
            f"{source}: a mixture of {', '.join(sorted(kinds))} files; choose one kind, such as folder/*.txt"
        )
    return _Origin(kinds.pop(), files)


def _kind(file: File) -> str:
    if file.suffix not in TABLES:
        return "text"
    return {".jsonl": "json", ".ndjson": "json", ".tab": "tsv"}.get(file.suffix, file.suffix[1:])


def _read_records(origin: _Origin, column: str, split: str | None) -> Iterator[str]:
    notes = Notes()
    if origin.kind == "hub":
        tables = read_tables(origin.name, notes, only=(column,), split=split)
    elif origin.kind == "json":
        for record in (record for file in origin.files for record in read_records(file)):
            if not isinstance(record.value, dict):
                raise DataError(f"{record.where}: expected a JSON object, not {type(record.value).__name__}")
            yield _text_of(record.value, column, record.where)
        return
    else:
        named = not column.isdecimal()
        tables = (read_table(file, notes, header=named, only=(column,)) for file in origin.files)
    for table in tables:
        for where, row in table.rows:
            yield _text_of(row, column, where)


def _text_of(record: Mapping[str, Any], column: str, where: str) -> str:
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
