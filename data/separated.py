"""Split lines of CSV (with any delimiter) and of TSV into rows of cells."""

from __future__ import annotations

import contextlib
import csv
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from suite.errors import DataError

LONGEST = 64 << 20  # characters of a field; a longer one means that a quote was left open

SAMPLE = 20  # lines from which the delimiter is guessed
_LONE = "\ud80d"  # stands for a carriage return within a field; decoded text never holds a lone surrogate
_HINT = "a field starts and ends with a quote, and quotes inside it are doubled"


def csv_rows(lines: Iterable[str], name: str) -> tuple[str, Iterator[tuple[int, list[str]]]]:
    """Read CSV.

    Args:
        lines: with their ends.
        name: of the file, for errors.

    Returns:
        the delimiter (named by a first line such as Excel's `sep=;`, or else guessed among comma, semicolon and tab),
        and the rows, each with the number of the line where it starts.

    Raises:
        DataError: while reading; it is not CSV.

    Example:
        >>> delimiter, rows = csv_rows(["a fine film, nr 1;good\\n", "no, and no again;bad\\n"], "films.csv")
        >>> delimiter, next(rows)
        (';', (1, ['a fine film, nr 1', 'good']))
    """
    lines = iter(lines)
    sample = list(islice(lines, SAMPLE))
    delimiter, named = find_delimiter(sample)
    rows = split_rows(chain(sample[named:], lines), name, delimiter, 1 + named)
    return delimiter, rows


def find_delimiter(sample: Sequence[str]) -> tuple[str, bool]:
    """Return the delimiter of CSV that begins with these lines, and whether the first line only names it.

    Example:
        >>> find_delimiter(["sep=;\\n", "a, b;c\\n"])
        (';', True)
    """
    named = re.match(r"sep=([^\w\s\"]|\t)\s*\Z", sample[0], re.IGNORECASE) if sample else None
    return (named[1], True) if named else (max(",;\t", key=lambda sign: _likelihood(sample, sign)), False)


def _likelihood(lines: Sequence[str], sign: str) -> tuple[int, int, int]:
    """Rank a sign as delimiter: lines with as many fields as the first, fields without a space before them, fields."""
    rows: list[tuple[int, list[str]]] = []
    with contextlib.suppress(DataError):  # it is not CSV by this sign, or the sample ends within quotes
        rows.extend((number, row) for number, row in split_rows(lines, "", sign, 1) if row)
    width = len(rows[0][1]) if rows else 0
    if width < 2:
        return 0, 0, 0
    alike = sum(len(row) == width for _, row in rows)
    return alike, -sum(cell.startswith(" ") for _, row in rows for cell in row[1:]), width


def split_rows(lines: Iterable[str], name: str, delimiter: str, start: int) -> Iterator[tuple[int, list[str]]]:
    """Yield each row of CSV with the line where it starts; no line is read before the row that needs it.

    Args:
        lines: with their ends.
        name: of the file, for errors.
        delimiter: separates the fields.
        start: number of the first line.

    Raises:
        DataError: while reading; it is not CSV.
    """
    # Python's own writer leaves a lone carriage return without quotes, and its reader refuses it there
    lines = (re.sub("\r(?!\n)", _LONE, line) if "\r" in line else line for line in lines)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    before = start
    while True:
        limit = csv.field_size_limit(LONGEST)  # a setting of the whole process, so for one row only
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise DataError(f"{name}, line {start}: not CSV ({error}); {_HINT}") from None
        finally:
            csv.field_size_limit(limit)
        if row is None:
            return
        yield start, [cell.replace(_LONE, "\r") for cell in row]
        start = before + reader.line_num


def tab_fields(line: str) -> tuple[list[str], int]:
    """Return the fields of a TSV line, and the number of fields whose quotes were removed.

    A quote never spans tabs or lines, because quotes in SST-2 and TREC are unbalanced. Quotes around a field are
    removed only where a CSV writer must have added them: quotes within the field are doubled, or every field of the
    line is quoted.

    Example:
        >>> tab_fields('"A ""fine"" film"\\t"Good" it is\\n')
        (['A "fine" film', '"Good" it is'], 1)
    """
    row = line.removesuffix("\n").removesuffix("\r").split("\t")
    quoted = [_is_quoted(cell) for cell in row]
    undone = 0
    for place, cell in enumerate(row):
        if quoted[place] and (all(quoted) or '""' in cell[1:-1]):
            row[place] = cell[1:-1].replace('""', '"')
            undone += 1
    return row, undone


def _is_quoted(cell: str) -> bool:
    return len(cell) > 1 and cell[0] == cell[-1] == '"' and '"' not in cell[1:-1].replace('""', "")
