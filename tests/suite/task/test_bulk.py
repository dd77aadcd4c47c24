"""Bulk work loses, repeats and reorders no record, whatever stops it, and gives back what it read."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from suite.errors import ConfigError, DataError
from suite.task.kit.bulk import BulkFormat, Done, process
from suite.task.kit.bulk_rows import read_rows


@dataclass(frozen=True)
class Shout:
    text: str


def shout(texts: list[str]) -> list[Shout]:
    return [Shout(text.upper()) for text in texts]


def run(source: Path, output: Path | None, **options: Any) -> Done:
    return process(source, output, options.pop("answer", shout), options.pop("form", BulkFormat()), **options)


TABLE = 'id,text\r\n1,"a, b"\r\n2,c\r\n\r\n3,"d\ne"\r\n'


def test_a_table_keeps_its_bytes_and_gets_a_column(tmp_path: Path) -> None:
    """A byte order mark, line ends and quotes stay; a blank line stays a row."""
    (tmp_path / "a.csv").write_bytes(b"\xef\xbb\xbf" + TABLE.encode())
    done = run(tmp_path / "a.csv", tmp_path / "b.csv")
    expected = '\ufeffid,text,result\r\n1,"a, b","A, B"\r\n2,c,C\r\n,,\r\n3,"d\ne","D\nE"\r\n'
    assert (tmp_path / "b.csv").read_bytes().decode() == expected
    assert (done.records, done.before, done.empty) == (4, 0, 1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "b.csv"]


@pytest.mark.parametrize("suffix", ["csv", "tsv", "jsonl"])
def test_formats_turn_into_each_other(tmp_path: Path, suffix: str) -> None:
    (tmp_path / "a.csv").write_text("id,text\n1,a\n2,b\n")
    run(tmp_path / "a.csv", tmp_path / f"b.{suffix}")
    text = (tmp_path / f"b.{suffix}").read_text()
    if suffix == "jsonl":
        assert [json.loads(line) for line in text.splitlines()] == [
            {"id": "1", "text": "a", "result": "A"},
            {"id": "2", "text": "b", "result": "B"},
        ]
    else:
        assert list(csv.reader(io.StringIO(text), delimiter="," if suffix == "csv" else "\t"))[2] == ["2", "b", "B"]


def test_lines_stay_lines(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n\n  \nlast")
    run(tmp_path / "a.txt", tmp_path / "b.txt", answer=lambda texts: [Shout(f"{text}\nmore") for text in texts])
    assert (tmp_path / "b.txt").read_text() == "one more\n\n\nlast more\n"


def test_line_ends_in_a_result_are_spaces_in_tsv_where_the_task_says_so(tmp_path: Path) -> None:
    """A text that a model wrote freely ended the work at its first line end."""
    (tmp_path / "a.tsv").write_text("text\na\n")
    form = BulkFormat(columns=("result", "several"), values=lambda result: (result.text, [result.text]), flat=True)
    run(tmp_path / "a.tsv", tmp_path / "b.tsv", answer=lambda texts: [Shout("A\r\n\tB")], form=form)
    assert (tmp_path / "b.tsv").read_text() == 'text\tresult\tseveral\na\tA B\t["A\\r\\n\\tB"]\n'
    with pytest.raises(DataError, match=r"does not fit a \.tsv file"):
        run(tmp_path / "a.tsv", tmp_path / "c.tsv", answer=lambda texts: [Shout("A\nB")])


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", '{"text": "a"}\n{"text": "b", "x": "\\ud800"}\n', "a.jsonl, line 2: half of a surrogate pair"),
        ("a.jsonl", '{"text": "a"}\n{"text": "b", "x": NaN}\n', "a.jsonl, line 2: not JSON"),
        (
            "a.jsonl",
            '{"text": "a"}\n{"text": "b", "x": 1e999}\n',
            "a.jsonl, line 2: not JSON .1e999 is not",
        ),
        ("a.jsonl", '{"text": "a"}\n[1]\n', "a.jsonl, line 2: a JSON object is needed"),
        ("a.jsonl", '{"text": "a"}\n{"body": "b"}\n', "a.jsonl, line 2: no field 'text'"),
        ("a.csv", "id,label\n1,a\n", "a.csv: which column has the text"),
        ("a.csv", "id,text\n1,a\n2,b,c\n", "a.csv, line 3: 3 cells, where the first row has 2"),
        ("a.csv", 'id,text\n1,a\n2,"b\n', "a.csv, line 3: not CSV"),
        ("a.csv>tsv", 'id,text\n1,a\n2,"b\nc"\n', "a.csv, line 3: a cell with a tab or a line end"),
        ("a.txt", "a\n\udcff\n", "a.txt, line 2: not UTF-8, byte 0xff at offset 2"),
    ],
)
def test_a_bad_row_is_refused_before_anything_is_answered(
    tmp_path: Path, name: str, content: str, message: str
) -> None:
    """A lone surrogate outside the text field once ended the work after all rows were done, on every run again."""
    name, _, suffix = name.partition(">")
    (tmp_path / name).write_bytes(content.encode(errors="surrogateescape"))

    def never(texts: list[str]) -> Sequence[Shout]:
        raise AssertionError("answered")

    with pytest.raises(DataError, match=message):
        run(tmp_path / name, tmp_path / f"out.{suffix or Path(name).suffix[1:]}", answer=never)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("stop", [1, 2, 3])
@pytest.mark.parametrize("suffix", ["txt", "csv", "tsv", "jsonl"])
def test_a_run_that_stopped_goes_on(tmp_path: Path, suffix: str, stop: int) -> None:
    source = tmp_path / f"a.{suffix}"
    rows = [f"text {number}" for number in range(200)]
    if suffix == "jsonl":
        source.write_text("".join(json.dumps({"text": row}) + "\n" for row in rows))
    else:
        source.write_text(("" if suffix == "txt" else "text\n") + "".join(f"{row}\n" for row in rows))
    run(source, tmp_path / f"whole.{suffix}")
    calls = 0
    asked: list[str] = []

    def breaks(texts: list[str]) -> list[Shout]:
        nonlocal calls
        calls += 1
        if calls == stop:
            raise KeyboardInterrupt
        return shout(texts)

    output = tmp_path / f"b.{suffix}"
    with pytest.raises(KeyboardInterrupt):
        run(source, output, answer=breaks)
    assert not output.exists()
    done = run(source, output, answer=lambda texts: (asked.extend(texts), shout(texts))[1])
    assert output.read_bytes() == (tmp_path / f"whole.{suffix}").read_bytes()
    assert asked == rows[done.before :], "what was done is not done again"


def test_what_was_written_after_the_journal_is_cut_off(tmp_path: Path) -> None:
    """As after `kill -9` between the two writes."""
    (tmp_path / "a.txt").write_text("".join(f"{number}\n" for number in range(130)))

    def breaks(texts: list[str]) -> list[Shout]:
        if texts[0] == "64":
            with (tmp_path / "b.txt.part").open("ab") as file:
                file.write(b"half a li")
            raise KeyboardInterrupt
        return shout(texts)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "a.txt", tmp_path / "b.txt", answer=breaks)
    run(tmp_path / "a.txt", tmp_path / "b.txt")
    assert (tmp_path / "b.txt").read_text() == (tmp_path / "a.txt").read_text()


def test_a_run_goes_on_only_as_it_was_begun(tmp_path: Path) -> None:
    def breaks(texts: list[str]) -> list[Shout]:
        if texts[0] != "0":
            raise KeyboardInterrupt
        return shout(texts)

    source, output = tmp_path / "a.txt", tmp_path / "b.txt"
    source.write_text("".join(f"{number}\n" for number in range(100)))
    with pytest.raises(KeyboardInterrupt):
        run(source, output, answer=breaks, settings={"beams": 5})
    with pytest.raises(DataError, match="another beams"):
        run(source, output, settings={"beams": 1})
    source.write_text("other\n")
    with pytest.raises(DataError, match="another input"):
        run(source, output, settings={"beams": 5})
    (tmp_path / "b.txt.part.json").write_text("[[[")
    with pytest.raises(DataError, match="is in the way"):
        run(source, output)


def test_a_part_that_was_changed_in_its_middle_is_not_gone_on_with(tmp_path: Path) -> None:
    """Only its size was looked at, so that the changed rows came out as results."""
    (tmp_path / "a.txt").write_text("".join(f"{number}\n" for number in range(130)))

    def breaks(texts: list[str]) -> list[Shout]:
        if texts[0] == "64":
            raise KeyboardInterrupt
        return shout(texts)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "a.txt", tmp_path / "b.txt", answer=breaks)
    with (tmp_path / "b.txt.part").open("r+b") as file:
        file.seek(10)
        file.write(b"x")
    with pytest.raises(DataError, match=r"b.txt.part does not hold what b.txt.part.json says; remove both"):
        run(tmp_path / "a.txt", tmp_path / "b.txt")


def test_a_part_of_nobody_is_not_overwritten(tmp_path: Path) -> None:
    """A file that happened to be called OUTPUT.part was lost, the unfinished output of another version too."""
    (tmp_path / "a.txt").write_text("a\n")
    (tmp_path / "b.txt.part").write_text("my notes\n")
    with pytest.raises(DataError, match=r"b\.txt\.part is in the way, and is not the unfinished output"):
        run(tmp_path / "a.txt", tmp_path / "b.txt")
    assert (tmp_path / "b.txt.part").read_text() == "my notes\n"


def test_a_failed_command_is_no_obstacle(tmp_path: Path) -> None:
    """What it began has no records, and the command put right, with other settings, starts over."""

    def fails(texts: list[str]) -> Sequence[Shout]:
        raise ConfigError("no such language")

    (tmp_path / "a.txt").write_text("a\n")
    with pytest.raises(ConfigError):
        run(tmp_path / "a.txt", tmp_path / "b.txt", answer=fails, settings={"to": "xx"})
    run(tmp_path / "a.txt", tmp_path / "b.txt", settings={"to": "en"})
    assert (tmp_path / "b.txt").read_text() == "A\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b.txt"]


def test_a_run_killed_as_it_finished_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the output and the removal of its journal; the same command met a file that was in its way."""
    (tmp_path / "a.txt").write_text("a\nb\n")
    whole = Path.unlink

    def unlink(path: Path, missing_ok: bool = False) -> None:
        if path.name.endswith(".part.json"):
            raise KeyboardInterrupt
        whole(path, missing_ok)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Path, "unlink", unlink)
        run(tmp_path / "a.txt", tmp_path / "b.txt")
    asked: list[str] = []
    done = run(tmp_path / "a.txt", tmp_path / "b.txt", answer=lambda texts: (asked.extend(texts), shout(texts))[1])
    assert (asked, done.records, done.before) == ([], 2, 2) and (tmp_path / "b.txt").read_text() == "A\nB\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "b.txt"]
    with pytest.raises(ConfigError, match="exists already"):
        run(tmp_path / "a.txt", tmp_path / "b.txt")


def test_what_is_no_number_in_json_is_null(tmp_path: Path) -> None:
    """NaN and Infinity are not JSON: other readers refuse the whole file."""
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    form = BulkFormat(columns=("one", "two"), values=lambda _: (float("nan"), {"x": [float("-inf"), 1.5]}))
    run(tmp_path / "a.jsonl", tmp_path / "b.jsonl", form=form)
    assert json.loads((tmp_path / "b.jsonl").read_text()) == {"text": "a", "one": None, "two": {"x": [None, 1.5]}}


def test_what_must_not_be_overwritten_is_not(tmp_path: Path) -> None:
    """An output that is the input, also through a link, once replaced it."""
    source = tmp_path / "a.txt"
    source.write_text("a\n")
    (tmp_path / "link.txt").symlink_to(source)
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "there.txt").write_text("old\n")
    for name, message in (
        ("a.txt", "is the input"),
        ("link.txt", "is the input"),
        ("pipe.txt", "a device or a pipe"),
        ("there.txt", "exists already"),
        ("b.gz", "bulk work reads and writes|not packed"),
    ):
        with pytest.raises(ConfigError, match=message):
            run(source, tmp_path / name)
    assert source.read_text() == "a\n" and (tmp_path / "there.txt").read_text() == "old\n"
    with pytest.raises(ConfigError, match="is a directory"):
        run(source, tmp_path)
    with pytest.raises(DataError, match="a pipe or a device"):
        run(tmp_path / "pipe.txt", tmp_path / "c.txt")


def test_a_link_is_written_through(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    (tmp_path / "far").mkdir()
    (tmp_path / "b.txt").symlink_to(tmp_path / "far" / "b.txt")
    run(tmp_path / "a.txt", tmp_path / "b.txt")
    assert (tmp_path / "b.txt").is_symlink() and (tmp_path / "far" / "b.txt").read_text() == "A\n"


def test_two_runs_do_not_write_one_output(tmp_path: Path) -> None:
    """Both once died, with the output interleaved. A killed process leaves no lock behind."""
    (tmp_path / "a.txt").write_text("a\n")
    code = (
        "import sys, time; from pathlib import Path; from suite.files import locked\n"
        "with locked(Path(sys.argv[1]), OSError()): print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "b.txt")], stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "held\n"
        with pytest.raises(ConfigError, match="another process writes"):
            run(tmp_path / "a.txt", tmp_path / "b.txt")
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    run(tmp_path / "a.txt", tmp_path / "b.txt")
    assert (tmp_path / "b.txt").read_text() == "A\n"


def test_columns_that_are_there_already_get_another_name(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n{"text": "b", "result": 1}\n')
    done = run(tmp_path / "a.jsonl", tmp_path / "b.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "b.jsonl").read_text().splitlines()]
    assert lines[1] == {"text": "b", "result": 1, "predicted_result": "B"} and done.columns == ("predicted_result",)


def test_standard_input_is_answered_line_by_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading, writing = os.pipe()
    monkeypatch.setattr("sys.stdin", os.fdopen(reading, "r"))
    threading.Thread(target=lambda: (os.write(writing, b"a\nb\n"), os.close(writing))).start()
    assert run(Path("-"), tmp_path / "b.txt").records == 2
    assert (tmp_path / "b.txt").read_text() == "A\nB\n"


# ---- pairs, other formats and what does not fit them


def both(pairs: list[tuple[str, str]]) -> list[Shout]:
    return [Shout(f"{first}+{second}") for first, second in pairs]


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.csv", "one,two\na,b\n,c\nd,\n", "one,two,result\na,b,a+b\n,c,\nd,,d+\n"),
        ("a.jsonl", '{"one": "a", "two": null}\n', '{"one": "a", "two": null, "result": "a+"}\n'),
    ],
)
def test_pairs_have_two_columns(tmp_path: Path, name: str, content: str, expected: str) -> None:
    source, output = tmp_path / name, tmp_path / f"b{Path(name).suffix}"
    source.write_text(content)
    run(source, output, answer=both, column="one", second="two")
    assert output.read_text() == expected
    with pytest.raises(DataError, match=r"no (column|field) 'three'"):
        run(source, tmp_path / f"c{Path(name).suffix}", answer=both, column="one", second="three")
    source.write_text("a,b\n" if name == "a.csv" else '{"1": "a", "2": "b"}\n')
    run(source, tmp_path / f"d{Path(name).suffix}", answer=both, column="1", second="2")
    assert "a+b" in (tmp_path / f"d{Path(name).suffix}").read_text()


def test_pairs_go_on_only_with_the_same_column(tmp_path: Path) -> None:
    source, output = tmp_path / "a.csv", tmp_path / "b.csv"
    source.write_text("a,b,c\n" + "x,y,z\n" * 100)

    calls = iter([both])  # the second call ends it

    def breaks(pairs: list[tuple[str, str]]) -> list[Shout]:
        for answer in calls:
            return answer(pairs)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(source, output, answer=breaks, column="a", second="b")
    with pytest.raises(DataError, match="another second"):
        run(source, output, answer=both, column="a", second="c")
    run(source, output, answer=both, column="a", second="b")
    assert output.read_text() == "a,b,c,result\n" + "x,y,z,x+y\n" * 100


def test_a_format_may_say_what_stands_for_an_empty_text(tmp_path: Path) -> None:
    """A list of labels that is null breaks who reads the file where an empty one would not."""
    (tmp_path / "a.txt").write_text("a\n \n")
    form = BulkFormat(empty=([],), empty_line=lambda text: f"<{text}>", line=lambda text, result: result.text + text)
    assert run(tmp_path / "a.txt", tmp_path / "b.txt", form=form).empty == 1
    assert (tmp_path / "b.txt").read_text() == "Aa\n< >\n"
    run(tmp_path / "a.txt", tmp_path / "b.jsonl", form=form)
    assert json.loads((tmp_path / "b.jsonl").read_text().splitlines()[1])["result"] == []


def test_a_format_may_say_how_many_rows_are_answered_together(tmp_path: Path) -> None:
    """In chunks of 64 short texts a classifier took a quarter longer. A large file is never held as a whole."""
    (tmp_path / "a.txt").write_text("a\n" * 250 + "b" * 40 + "\n" + "c" * 50 + "\n")
    asked: list[int] = []
    run(
        tmp_path / "a.txt",
        tmp_path / "b.txt",
        answer=lambda texts: (asked.append(len(texts)), shout(texts))[1],
        form=BulkFormat(rows=100, characters=100),
    )
    assert asked == [100, 100, 1 + 50, 1]


def test_lines_written_as_a_table_have_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first text stood where a reader of .csv files looks for the names; so it did for standard input."""
    (tmp_path / "a.txt").write_text("a, b\nc\n")
    expected = 'text,result\n"a, b","A, B"\nc,C\n'
    run(tmp_path / "a.txt", tmp_path / "b.csv")
    assert (tmp_path / "b.csv").read_text() == expected
    monkeypatch.setattr("sys.stdin", (tmp_path / "a.txt").open())
    run(Path("-"), tmp_path / "c.csv")
    assert (tmp_path / "c.csv").read_text() == expected


def test_standard_output_may_be_json(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_text("a\n")
    run(tmp_path / "a.txt", None, as_json=True)
    monkeypatch.setattr("sys.stdin", (tmp_path / "a.txt").open())
    run(Path("-"), None, as_json=True)
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [{"text": "a", "result": "A"}] * 2


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "text,n,n\na,b,c\n", "a.csv: two columns of the name 'n', of which a JSON object holds one"),
        (
            "a.jsonl",
            '{"text": "a"}\n{"text": "b", "n": 1e400}\n',
            "a.jsonl, line 2: not JSON .1e400 is not a JSON value",
        ),
    ],
)
def test_what_json_cannot_hold_is_refused(tmp_path: Path, name: str, content: str, message: str) -> None:
    """Of two columns of one name the first was lost, and infinity was written as `Infinity`, which is no JSON."""
    (tmp_path / name).write_text(content)
    with pytest.raises(DataError, match=message):
        run(tmp_path / name, tmp_path / "b.jsonl")


@pytest.mark.parametrize("options", [{"column": "1"}, {"second": "2"}])
def test_standard_input_has_no_columns(options: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """A column was taken without a word."""
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\n")))
    with pytest.raises(ConfigError, match="lines of text have no columns"):
        run(Path("-"), None, **options)


@given(
    st.lists(
        st.lists(st.text(st.characters(codec="utf-8", exclude_characters="\0")), min_size=2, max_size=2), min_size=1
    )
)
def test_what_the_csv_module_writes_is_read_back_row_by_row(cells: list[list[str]]) -> None:
    stream = io.StringIO()
    csv.writer(stream).writerows([["id", "text"], *cells])
    lines = io.StringIO(stream.getvalue(), newline="").readlines()
    found = read_rows(lines, "a.csv", "csv", "text")
    rows = list(found.rows)
    assert [row.cells for row in rows] == cells
    assert found.head + found.end + "".join(row.raw + row.end for row in rows) == stream.getvalue()
