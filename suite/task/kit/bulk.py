"""Bulk work: run a pipeline on every record of a file and write the results to another file, in order, each once.

The input is read once before anything is written, so that a bad row is refused at the start, with its line. Rows are
then processed a few at a time and appended to OUTPUT.part; after each write OUTPUT.part.json records how many rows and
bytes are complete. A run that was killed resumes there. The output gets its own name when all of it is done.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from suite.data.packed import SUFFIXES, unpack
from suite.data.record_files import decode_lines
from suite.errors import ConfigError, DataError
from suite.files import locked, write_atomic
from suite.task.kit.bulk_rows import (
    BulkRow,
    Input,
    Kind,
    Rows,
    check_fits,
    header,
    kind_of,
    one_file,
    read_rows,
    written_row,
)

ROWS, CHARACTERS = 64, 20_000  # default limits of what is processed between two writes
STANDARD_INPUT = Path("-")


@dataclass(frozen=True, kw_only=True)
class BulkFormat:
    """How the results of a task are written to files.

    Attributes:
        columns: names of the columns added to a record.
        values: maps a result to the JSON values of these columns.
        empty: values for a record without text, which is not given to the pipeline (none: null for each).
        in_tables: number of columns added to a CSV or TSV table (None: all); JSON objects get all.
        line: maps a text and its result to a line of a .txt file.
        empty_line: maps a text without words to its line.
        rows, characters: limits of a chunk, which is processed together and lost when a run is killed. Fast tasks want
            large chunks, so that texts of similar length can be batched.
        flat: whether tabs and line ends in a value become spaces in a .tsv file; otherwise such a value is an error.
    """

    columns: Sequence[str] = ("result",)
    values: Callable[[Any], Sequence[Any]] = lambda result: (result.text,)
    empty: Sequence[Any] = ()
    in_tables: int | None = None
    line: Callable[[str, Any], str] = lambda text, result: " ".join(result.text.splitlines())
    empty_line: Callable[[str], str] = lambda text: ""
    rows: int = ROWS
    characters: int = CHARACTERS
    flat: bool = False


@dataclass(frozen=True, kw_only=True)
class Done:
    """Counts of a finished bulk run.

    Attributes:
        records: number of records in the file.
        before: number of them that an earlier run had processed.
        empty: number of records without text, which have no result.
        columns: names of the added columns.
    """

    records: int
    before: int
    empty: int
    columns: tuple[str, ...]


def process(
    source: Path,
    output: Path | None,
    answer: Callable[[list[Any]], Sequence[Any]],
    form: BulkFormat,
    *,
    column: str | None = None,
    second: str | None = None,
    as_json: bool = False,
    settings: Mapping[str, Any] | None = None,
    progress: Callable[[int], object] = lambda records: None,
    seen: Callable[[BulkRow, Any], object] = lambda row, result: None,
    total: Callable[[int], object] = lambda records: None,
) -> Done:
    """Run a pipeline on every record of a file.

    Args:
        source: a .txt (one text a line), .csv, .tsv or .jsonl file, possibly compressed; "-" is standard input with one
            text a line, processed as the lines arrive.
        output: its suffix decides its format (None: standard output, in the format of the input).
        answer: maps non-empty texts to one result each; with `second`, it gets pairs (tuples) of texts.
        form: how results are written.
        column: column with the text; see `read_rows`.
        second: column with the second text of pairs.
        as_json: write JSON lines to standard output, whatever the format of the input.
        settings: plain JSON values that decide the results; a run resumes only with equal settings.
        progress: called with the number of records just done.
        seen: called with each newly processed row and its result.
        total: called with the number of records in the file, once they are counted.

    Raises:
        DataError: the input cannot be read, or what lies at OUTPUT.part is not an unfinished output from it.
        ConfigError: the output would overwrite something, is not a regular file, or another process writes it.
    """
    kind: Kind = "txt" if source == STANDARD_INPUT else kind_of(source)
    written: Kind = kind_of(output) if output is not None else "jsonl" if as_json else kind
    if written == "txt" and kind != "txt":
        raise ConfigError(f"{output}: records do not fit lines of text; name a .csv, .tsv or .jsonl file")
    if kind == "jsonl" and written != "jsonl":
        raise ConfigError(f"{output}: JSON objects need not have the same fields; name a .jsonl file")
    work = _Work(answer, form, written, progress, seen)
    if source == STANDARD_INPUT:
        return _stream(work, output, column or second)
    given = Input(file=one_file(source), kind=kind, column=column, second=second)
    survey = _survey(given, written, form.columns)
    total(survey.records)
    if output is None:
        with given.rows() as rows:
            work.names = survey.names(form, written)
            _write(sys.stdout, header(rows, work.names, written))
            for chunk in _chunks(rows.rows, form.rows, form.characters):
                _write(sys.stdout, work.answered(rows, chunk))
        return Done(records=survey.records, before=0, empty=work.empty, columns=tuple(work.names))
    about = {"input": survey.digest, "column": column, "output": written, **(settings or {})}
    if second is not None:
        about["second"] = second
    return _to_file(work, given, output, survey, json.loads(json.dumps(about)))


# ---- one pass before


@dataclass(frozen=True, kw_only=True)
class _Survey:
    """Results of the first pass over the input: number of records, digest, and whether a column name is taken."""

    records: int
    digest: str
    taken: bool

    def names(self, form: BulkFormat, written: Kind) -> list[str]:
        count = form.in_tables if written in ("csv", "tsv") and form.in_tables is not None else len(form.columns)
        return [f"predicted_{name}" if self.taken else name for name in form.columns[:count]]


def _survey(given: Input, written: Kind, columns: Sequence[str]) -> _Survey:
    """Read the whole input once to check, count and hash every row."""
    digest = hashlib.sha256()
    records = 0
    keys: set[str] = set()
    with given.rows() as rows:
        digest.update(rows.head.encode())
        keys.update(rows.names or ())
        if written == "jsonl" and rows.names is not None and len(set(rows.names)) < len(rows.names):
            twice = next(name for name in rows.names if rows.names.count(name) > 1)
            raise DataError(f"{given.file.name}: two columns of the name {twice!r}, of which a JSON object holds one")
        for row in rows.rows:
            digest.update((row.raw + row.end).encode())
            records += 1
            if written != rows.kind:
                check_fits(row, written)
            if isinstance(row.cells, dict):
                keys.update(row.cells)
    taken = any(name in keys for name in columns)
    if taken and (again := [name for name in columns if f"predicted_{name}" in keys]):
        raise DataError(
            f"{given.file.name}: there is a column 'predicted_{again[0]}' already; rename it or take it out"
        )
    return _Survey(records=records, digest=digest.hexdigest(), taken=taken)


# ---- answering and writing


class _Work:
    """Processes chunks of rows and formats their output."""

    def __init__(
        self,
        answer: Callable[[list[Any]], Sequence[Any]],
        form: BulkFormat,
        written: Kind,
        progress: Callable[[int], object],
        seen: Callable[[BulkRow, Any], object],
    ) -> None:
        self.answer, self.form, self.written, self.progress, self.seen = answer, form, written, progress, seen
        self.names: list[str] = list(form.columns)
        self.empty = 0

    def answered(self, rows: Rows, chunk: Sequence[BulkRow]) -> str:
        """Return the output lines of a chunk of rows."""
        asked = [row for row in chunk if row.text.strip()]
        texts = [row.text if row.second is None else (row.text, row.second) for row in asked]
        results = self.answer(texts) if asked else []
        if len(results) != len(asked):
            raise DataError(f"{chunk[0].where}: {len(asked)} texts got {len(results)} results; please report this")
        found = iter(results)
        lines = []
        for row in chunk:
            result = next(found) if row.text.strip() else None
            self.empty += result is None
            if result is not None:
                self.seen(row, result)
            if self.written == "txt":
                line = self.form.empty_line(row.text) if result is None else self.form.line(row.text, result)
                lines.append(line + row.end)
                continue
            empty = self.form.empty or [None] * len(self.names)
            values = (empty if result is None else self.form.values(result))[: len(self.names)]
            if self.form.flat and self.written == "tsv":
                values = [" ".join(re.split(r"[\t\r\n]+", one)) if isinstance(one, str) else one for one in values]
            lines.append(written_row(rows, row, self.names, values, self.written))
        self.progress(len(chunk))
        return "".join(lines)


def _stream(work: _Work, output: Path | None, column: str | None) -> Done:
    """Process standard input, one text a line, as the lines arrive; such a run cannot be resumed."""
    name = "standard input"
    stream = unpack(sys.stdin.buffer, name, close=False)
    rows = read_rows(decode_lines(stream, name, keep_mark=True), name, "txt", column)
    most = 1 if sys.stdin.isatty() else work.form.rows
    records = 0

    def fill(file: IO[str]) -> None:
        nonlocal records
        if work.written != "txt":
            _write(file, header(rows, work.names, work.written))
        for chunk in _chunks(rows.rows, most, work.form.characters):
            _write(file, work.answered(rows, chunk))
            records += len(chunk)

    if output is None:
        fill(sys.stdout)
    else:
        check_output(output, None)

        def to(path: Path) -> None:
            with path.open("w", encoding="utf-8", newline="") as file:
                fill(file)

        write_atomic(output.resolve(), to)
    return Done(records=records, before=0, empty=work.empty, columns=tuple(work.names))


def _write(file: IO[str], text: str) -> None:
    file.write(text)
    file.flush()


def _to_file(work: _Work, given: Input, output: Path, survey: _Survey, about: dict[str, Any]) -> Done:
    check_output(output, Path(given.file.place) if given.file.place else None)
    place = output.resolve()  # a link stays a link
    part = place.with_name(place.name + ".part")
    journal = part.with_name(part.name + ".json")
    place.parent.mkdir(parents=True, exist_ok=True)
    taken = ConfigError(f"another process writes {output}; wait for it, or name another output")
    with locked(place, taken):
        before, size = _resumed(part, journal, about, survey.records)
        work.names = survey.names(work.form, work.written)
        if output.exists() and not (before == survey.records and part.exists()):
            # only a run killed between the two last lines leaves a whole output and its journal
            if not (size and before == survey.records and place.stat().st_size == size):
                raise ConfigError(f"{output} exists already; remove it, or name another file to write to")
            journal.unlink()
            return Done(records=before, before=before, empty=0, columns=tuple(work.names))
        if not part.exists():
            before = size = 0
        work.progress(before)
        if not before:  # first of all, so that a part without a journal is somebody else's
            write_atomic(journal, json.dumps({**about, "records": 0, "bytes": 0}).encode())
        with part.open("r+b" if before or size else "wb") as file, given.rows() as rows:
            whole = _digest(file, size)
            file.truncate(size)

            def write(text: str) -> None:
                content = text.encode()
                file.write(content)
                whole.update(content)

            if not size:
                write(header(rows, work.names, work.written))
            for _ in range(before):
                next(rows.rows)
            done = before
            for chunk in _chunks(rows.rows, work.form.rows, work.form.characters):
                write(work.answered(rows, chunk))
                file.flush()
                done += len(chunk)
                state = {"records": done, "bytes": file.tell(), "digest": whole.hexdigest()}
                write_atomic(journal, json.dumps({**about, **state}).encode())
            os.fsync(file.fileno())
        part.replace(place)
        journal.unlink(missing_ok=True)
    return Done(records=survey.records, before=before, empty=work.empty, columns=tuple(work.names))


def check_output(output: Path, source: Path | None) -> None:
    """Refuse an output that would overwrite the input, or that is no regular file; a link is written through.

    Raises:
        ConfigError: says which.
    """
    if output.suffix in SUFFIXES:
        raise ConfigError(f"{output}: results are written as they are, not packed; leave out {output.suffix}")
    if output.is_dir():
        raise ConfigError(f"{output} is a directory; name a file to write to")
    if output.exists() and not output.is_file():
        raise ConfigError(f"{output} is a device or a pipe; name a regular file, or leave out --output and redirect")
    if source is not None and output.exists() and output.samefile(source):
        raise ConfigError(f"{output} is the input; name another file to write to")


def _resumed(part: Path, journal: Path, about: Mapping[str, Any], records: int) -> tuple[int, int]:
    """How many records and bytes of an unfinished output are whole.

    Raises:
        DataError: it is of another run, or of none.
    """
    if not journal.exists():
        if part.exists():
            raise DataError(f"{part} is in the way, and is not the unfinished output of this command: remove it")
        return 0, 0
    try:
        before = json.loads(journal.read_bytes())
        done, size, digest = int(before.pop("records")), int(before.pop("bytes")), before.pop("digest", None)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise DataError(f"{journal} is in the way, and is not the journal of an unfinished run: remove it") from None
    other = [name for name in {**about, **before} if about.get(name) != before.get(name)]
    if not done:  # nothing that could be lost
        return 0, 0
    if other and not part.exists():
        return 0, 0
    if other:
        raise DataError(f"{part} was begun with another {' and '.join(sorted(other))}; use the same, or remove it")
    if not 0 <= done <= records or (part.exists() and not _holds(part, size, digest)):
        raise DataError(f"{part} does not hold what {journal.name} says; remove both to start over")
    return done, size


def _holds(part: Path, size: int, digest: str | None) -> bool:
    """Whether a file begins with these bytes (None: bytes of any kind)."""
    if part.stat().st_size < size:
        return False
    with part.open("rb") as file:
        return digest in (None, _digest(file, size).hexdigest())


def _digest(file: IO[bytes], size: int) -> hashlib._Hash:
    """Hash of the next bytes of a file, which is left behind them."""
    digest = hashlib.sha256()
    while size and (piece := file.read(min(size, 1 << 20))):
        digest.update(piece)
        size -= len(piece)
    return digest


def _chunks(rows: Iterator[BulkRow], most: int, characters: int) -> Iterator[list[BulkRow]]:
    """Yield chunks of rows that are processed together."""
    chunk: list[BulkRow] = []
    size = 0
    for row in rows:
        length = len(row.text) + len(row.second or "")
        if chunk and (len(chunk) == most or size + length > characters):
            yield chunk
            chunk, size = [], 0
        chunk.append(row)
        size += length
        if most == 1:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk
