"""Pairs from tables, text files and records: what is read, what is dropped, and what is an error."""

import gzip
import json
from pathlib import Path

import pytest

from suite.data.parallel import Corpus, Pair, describe_dropped, filter_pairs, read_pairs
from suite.errors import DataError

SAMPLES = Path(__file__).parents[2] / "data" / "samples"


def read(name: object, columns: tuple[str, ...] = ()) -> list[tuple[str, str, int]]:
    return [tuple(pair) for pair in read_pairs(Corpus(source="en", target="de", name=str(name)), columns=columns)]


def write(path: Path, text: str | bytes) -> Path:
    content = text.encode() if isinstance(text, str) else text
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


@pytest.mark.parametrize("name", ["pairs.tsv", "pairs.tsv.gz", "pairs.txt"])
def test_a_table_gives_its_first_two_columns(tmp_path: Path, name: str) -> None:
    file = write(tmp_path / name, "Hi.\tHallo.\tby somebody\nBye.\tTschüs.\n")
    assert read(file) == [("Hi.", "Hallo.", 1), ("Bye.", "Tschüs.", 2)]


def test_columns_can_be_named_by_number_in_any_order(tmp_path: Path) -> None:
    file = write(tmp_path / "pairs.tsv", "7\tHallo.\tHi.\n")
    assert read(file, ("3", "2")) == [("Hi.", "Hallo.", 1)]
    with pytest.raises(DataError, match="numbers from 1, not 'en'"):
        read(file, ("en", "de"))


def test_sides_are_composed_and_stripped_and_lines_end_at_newlines_alone(tmp_path: Path) -> None:
    # U+0085 and U+2028 stand inside sentences of real corpora; str.splitlines would cut there and shift the rest
    file = write(tmp_path / "pairs.tsv", "u\u0308ber \t a\u0085b\u2028c\r\nx\ty")
    assert read(file) == [("\u00fcber", "a\u0085b\u2028c", 1), ("x", "y", 2)]


def test_a_missing_tab_names_the_line(tmp_path: Path) -> None:
    file = write(tmp_path / "pairs.tsv", "a\tb\nHow are you?\n")
    with pytest.raises(DataError, match=r"pairs\.tsv, line 2: no tab, but column 2 is needed: 'How are you\?'"):
        read(file)


def test_old_line_ends_do_not_join_sentences(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="line 1: a carriage return inside"):
        read(write(tmp_path / "pairs.tsv", "a\tb\rc\td\r"))


def test_invalid_utf8_names_the_byte(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="not UTF-8, byte 0xff at offset 4"):
        read(write(tmp_path / "pairs.tsv", b"a\tb\n\xff\tc\n"))


def test_two_files_are_read_side_by_side(tmp_path: Path) -> None:
    first = write(tmp_path / "x.en.gz", "one\n\nthree\n")
    second = write(tmp_path / "x.de", "eins\nzwei\ndrei")
    assert read(f"{first},{second}") == [("one", "eins", 1), ("", "zwei", 2), ("three", "drei", 3)]


def test_files_of_unequal_length_name_both_counts(tmp_path: Path) -> None:
    first, second = write(tmp_path / "a", "1\n2\n3\n"), write(tmp_path / "b", "1\n2\n")
    with pytest.raises(DataError, match=r"a has 3 lines and .*b has 2; they must"):
        read(f"{first},{second}")


def test_records_have_fields_by_language_or_name(tmp_path: Path) -> None:
    lines = [{"en": "Hi", "de": "Na"}, {"translation": {"de": "Zwei", "en": "two"}}]
    file = write(tmp_path / "pairs.jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    assert read(file) == [("Hi", "Na", 1), ("two", "Zwei", 2)]
    with pytest.raises(DataError, match=r"line 1: no field 'src'; available: en, de"):
        read(file, ("src", "tgt"))
    with pytest.raises(DataError, match="line 1: field 'en' contains int, not text"):
        read(write(tmp_path / "pairs.jsonl", '{"en": 1, "de": "x"}'))


def test_a_file_that_is_not_there_is_an_error_of_one_line(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no such file"):
        read(tmp_path / "nothing.tsv")
    with pytest.raises(DataError, match="is a folder"):
        read(tmp_path)


def test_a_corpus_may_name_its_languages() -> None:
    assert Corpus.parse("en-fr=a=b.tsv") == Corpus(source="en", target="fr", name="a=b.tsv")
    assert Corpus.parse("a=b.tsv", "en", "de") == Corpus(source="en", target="de", name="a=b.tsv")
    with pytest.raises(DataError, match="which languages"):
        Corpus.parse("pairs.tsv", "en")
    with pytest.raises(DataError, match="both 'en'"):
        Corpus.parse("en-en=pairs.tsv")


def test_filters_say_what_they_dropped_and_why() -> None:
    pairs = [
        Pair("Hi.", "Grüß Gott!", 1),  # three times as long, and right
        Pair("Hi.", "", 2),
        Pair("OK.", "OK.", 3),
        Pair("No.", "This is the translation of the sentence after.", 4),
        Pair("", "", 5),
    ]
    kept, dropped = filter_pairs(pairs)
    assert kept == pairs[:1]
    assert describe_dropped(dropped) == (
        "2 empty (first: line 2), 1 a copy of the source (first: line 3), 1 mismatched in length (first: line 4)"
    )
    kept, dropped = filter_pairs(pairs, max_ratio=0, keep_copies=True)
    assert [pair.place for pair in kept] == [1, 3, 4]


def test_the_samples_are_pairs() -> None:
    for language in ("de", "fr"):
        pairs = list(read_pairs(Corpus.parse(f"en-{language}={SAMPLES / f'tatoeba-en-{language}.tsv.gz'}")))
        kept, _ = filter_pairs(pairs)
        assert len(kept) == len(pairs) == 200
