"""Read articles with leads for training and evaluation, from records, WikiText, MediaWiki dumps or hub data sets."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from suite.data.articles import Article, Section
from suite.data.mediawiki_dumps import read_dump
from suite.data.paragraphs import tidy, unwrap
from suite.data.record_files import check_surrogates, text_lines
from suite.data.sources import File, Source, find_all
from suite.data.tables import Notes, RecordTable, read_table, read_tables
from suite.errors import DataError
from suite.wording import count

_WIKITEXT = (".txt", ".tokens", ".raw")
_TABLES = (".jsonl", ".ndjson", ".json", ".csv", ".tsv", ".parquet")
_DUMP = ".xml"  # a prefix, as Wikipedia names the parts of a dump .xml-p1p41242.bz2
_TITLE = "title"
# common column names, most likely first
_LEADS = ("summary", "highlights", "lead", "abstract", "tldr", "target", "headline")
_BODIES = ("document", "article", "documents", "text", "body", "source", "content", "report", "dialogue", "description")
_KNOWN = {_TITLE, *_LEADS, *_BODIES}


def read_articles(
    sources: Source, notes: Notes, *, title: str = _TITLE, lead: str = "", body: str = ""
) -> Iterator[Article]:
    """Yield the articles that have both a lead and a body; others are left out.

    Args:
        sources: a source or several, see `suite.data.sources`. Files, which may be compressed, are
            - records (.jsonl, .json, .csv, .tsv, .parquet), either with `title`, `lead` and `sections` (a list of
              `heading` and `text`), or with a column for the text and a column for its summary. A list in the text's
              column is a text in sentences; in the summary's column, several summaries, of which the first is used;
            - dumps of MediaWiki (.xml);
            - WikiText (.txt, .tokens, .raw, and the hub's `wikitext`), whose tokenisation is undone.
        notes: receives messages about what was guessed or left out; complete once everything is read.
        title: column of the title; may be missing.
        lead: column of the summary; guessed by default.
        body: column of the text; guessed by default.

    Raises:
        DataError: a source, column or field is missing or cannot be read, or a source has no articles.

    Example:
        >>> next(read_articles("data/samples/articles.jsonl.gz", Notes())).title
        'Charge of the Goddess'
    """
    wanted = _Columns(title, lead, body)
    for source, files in find_all(sources):
        lacking: Counter[str] = Counter()
        given = 0
        for article in _read(source, files, wanted, notes):
            if article.lead and article.body:
                given += 1
                yield article
            else:
                lacking["a lead" if article.body else "a body"] += 1
        left = " and ".join(f"{count(number, 'article')} without {what}" for what, number in lacking.items())
        if not given:
            raise DataError(f"{source}: no article has both a lead and a body{f' ({left})' if left else ''}")
        if left:
            notes.add(source, f"left out {left}")


class _Columns(NamedTuple):
    """Names of columns; "" for a column to be guessed, or that does not exist."""

    title: str
    lead: str
    body: str


def _read(source: str, files: Sequence[File] | None, wanted: _Columns, notes: Notes) -> Iterator[Article]:
    named = f"{wanted.lead}{wanted.body}"
    header = True if named and not named.isdecimal() else None
    if files is None:  # not a file, so a hub data set if anything
        for table in read_tables(source, notes, header=header, known=_KNOWN):
            yield from _read_rows(table, wanted, notes)
    kinds = (*_TABLES, _DUMP, *_WIKITEXT)
    for file in files or ():
        if file.suffix.startswith(_DUMP):
            yield from read_dump(file, file.name, notes)
        elif file.suffix in _WIKITEXT:
            yield from _read_wikitext(text_lines(file), file.name, notes)
        elif file.suffix in _TABLES:
            yield from _read_rows(read_table(file, notes, header=header, known=_KNOWN), wanted, notes)
        elif not file.inside:
            raise DataError(f"{file.name}: not a file of articles; those end in {' '.join(kinds)}")


# ---- records


def _read_rows(table: RecordTable, wanted: _Columns, notes: Notes) -> Iterator[Article]:
    if table.columns == ["text"] and not (wanted.lead or wanted.body):
        lines = (str(row["text"]) for _, row in table.rows)
        needed = "title, lead and sections, or a column with the text and one with its summary"
        hint = f"; 'text' is the only column, but articles as records need {needed}"
        yield from _read_wikitext(lines, table.name, notes, hint)
        return
    if {"lead", "sections"} <= {*table.columns} and not (wanted.lead or wanted.body):
        for where, row in table.rows:
            yield _of_sections(row, where)
        return
    columns = _choose(table, wanted)
    if columns != wanted:
        listed = ", ".join(table.columns)
        notes.add(table.name, f"lead from column {columns.lead!r}, body from {columns.body!r} of {listed}")
    several = 0
    for where, row in table.rows:
        title, leads, body = (_texts(row, column, where) for column in columns)
        several += len(leads) > 1
        yield Article(
            title=tidy(" ".join(title)),
            lead="\n".join(unwrap("".join(leads[:1]))),
            sections=(Section(heading="", text="\n".join(unwrap(" ".join(body)))),),
            where=where,
        )
    if several:
        notes.add(table.name, f"used the first lead of {count(several, 'article')} with several")


def _choose(table: RecordTable, wanted: _Columns) -> _Columns:
    def find(column: str, names: Sequence[str], taken: str = "") -> str:
        if column and column not in table.columns:
            raise DataError(f"{table.name}: no column {column!r}; available: {', '.join(table.columns)}")
        by_name = {name.lower(): name for name in table.columns if name != taken}
        return column or next((by_name[name] for name in names if name in by_name), "")

    lead = find(wanted.lead, _LEADS, wanted.body)
    body = find(wanted.body, _BODIES, lead)
    title = "" if wanted.title == _TITLE and _TITLE not in table.columns else find(wanted.title, ())
    if not lead or not body:
        missing = "body" if lead else "lead"
        raise DataError(f"{table.name}: which column is the {missing}? Name one of {', '.join(table.columns)}")
    return _Columns(title, lead, body)


def _texts(row: Mapping[str, Any], column: str, where: str) -> list[str]:
    """The text of a cell as a list, or the cell's list of texts; empty if the cell is."""
    value = row.get(column)
    texts = value if isinstance(value, list) else [] if value is None else [value]
    for text in texts:
        if not isinstance(text, str):
            raise DataError(f"{where}: column {column!r} contains {type(text).__name__}, not text")
        check_surrogates(text, where)
    return texts


def _of_sections(row: Mapping[str, Any], where: str) -> Article:
    try:
        sections = [(tidy(section["heading"]), _paragraphs(section["text"])) for section in row["sections"]]
        article = Article(
            title=tidy(row.get("title") or ""),
            lead=_paragraphs(row["lead"] or ""),
            sections=tuple(Section(heading=heading, text=text) for heading, text in sections),
            where=where,
        )
    except (KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{where}: not an article with title, lead and sections ({error!r})") from None
    check_surrogates("".join([article.title, article.lead, *(f"{heading}{text}" for heading, text in sections)]), where)
    return article


def _paragraphs(text: str) -> str:
    return "\n".join(filter(None, map(tidy, text.split("\n"))))


# ---- WikiText

_HEADING = re.compile(r"((?:= )+)([^=].*?)((?: =)+)")
_ESCAPED = re.compile(r" @([-,.])@ ")
_RANGE = re.compile(r"(?<=\d) – (?=\d)| (?=°)| ‑ ")  # noqa: RUF001


def _read_wikitext(lines: Iterable[str], name: str, notes: Notes, hint: str = "") -> Iterator[Article]:
    """Yield articles whose titles are ` = Title = ` between blank lines, and whose headings are ` = = Heading = = `.

    `hint` is appended to the error if there are no articles.
    """
    from sacremoses import MosesDetokenizer

    detokenizer = MosesDetokenizer(lang="en")

    def written(text: str) -> str:
        """Undo the tokenisation of a text."""
        text = detokenizer.detokenize(_ESCAPED.sub(r"\1", text).split())
        return _RANGE.sub(lambda match: match[0].strip(), text)

    title = ""
    parts: list[tuple[str, list[str]]] = []
    unknown = before = 0
    previous = ""
    for line, following in itertools.pairwise(itertools.chain(map(str.strip, lines), [""])):
        heading = _HEADING.fullmatch(line)
        if heading and len(heading[1]) == 2 and not previous and not following:
            if parts:
                yield Article.from_parts(title, parts, f"{name}, {title!r}")
            title = written(heading[2])
            parts = [("", [])]
        elif heading and len(heading[1]) > 2 and parts:
            parts.append((written(heading[2]), []))
        elif line and parts:
            parts[-1][1].append(written(line))
            unknown += line.count("<unk>")
        elif line:
            before += 1
        previous = line
    if not parts:
        raise DataError(
            f"{name}: no article title found; WikiText writes it as ` = Title = ` between blank lines{hint}"
        )
    yield Article.from_parts(title, parts, f"{name}, {title!r}")
    if before:
        notes.add(name, f"left out {count(before, 'line')} before the first title")
    if unknown:
        notes.add(name, f"{count(unknown, 'word')} outside WikiText's vocabulary, written as <unk>")
