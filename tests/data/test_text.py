"""The tokenised corpus: cached by content, split without leaks, packed as a function of seed and index."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from suite.data.text import PackedDocuments, TokenDocuments, split_documents, tokenize_corpus
from suite.errors import DataError
from suite.files import DamagedWarning, new_folder
from suite.text.tokenizer import Tokenizer

SAMPLES = Path(__file__).parents[2] / "data" / "samples" / "articles.jsonl.gz"


def numbered(lengths: list[int]) -> TokenDocuments:
    """Documents whose tokens are all different: a token tells its place."""
    stops = np.cumsum(lengths)
    total = int(stops[-1])
    offsets = np.stack([stops - lengths, stops], axis=1).astype(np.int64)
    return TokenDocuments(
        memory=np.arange(total, dtype=np.uint16), offsets=offsets, widths=np.ones(total, dtype=np.uint16)
    )


# ---- tokenising


def test_documents_come_back(tmp_path: Path) -> None:
    """Each document is its text and `<eos>`, and the bytes counted are the text's."""
    (tmp_path / "a.jsonl").write_text('{"text": "né"}\n{"text": ""}\n{"text": "b<eos>"}\n')
    tokenizer = Tokenizer.bytes()
    documents = tokenize_corpus(tmp_path / "a.jsonl", tokenizer, tmp_path / "cache")
    assert [tokenizer.decode(ids, skip_specials=False) for ids in documents] == ["né<eos>", "b<eos><eos>"]
    assert (len(documents), documents.total, documents.bytes) == (2, 11, 9)
    assert documents.tokens.dtype == np.uint16
    assert documents.tokens.tolist() == [*"né".encode(), 256, *b"b<eos>", 256]


def test_large_vocabularies(tmp_path: Path) -> None:
    """Ids over 65,535 need more than two bytes."""
    (tmp_path / "a.txt").write_text("a")
    tokenizer = Tokenizer.bytes([*(f"<{n}>" for n in range(70_000)), "<eos>"])
    assert tokenize_corpus(tmp_path / "a.txt", tokenizer, tmp_path / "cache").tokens.tolist() == [97, 70_256]


def test_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same contents and tokenizer are found again; another text, tokenizer or column is not taken for it."""
    text = tmp_path / "a.txt"
    text.write_text("one")
    first = tokenize_corpus(text, Tokenizer.bytes(), tmp_path / "cache")
    (tmp_path / "b.txt").write_text("one")
    text.write_text("two")
    assert tokenize_corpus(text, Tokenizer.bytes(), tmp_path / "cache").tokens[0] == ord("t")
    assert tokenize_corpus(tmp_path / "b.txt", Tokenizer.characters("eno"), tmp_path / "cache").tokens[0] == 2
    monkeypatch.setattr(Tokenizer, "encode_batch", lambda *_: pytest.fail("tokenised again"))
    again = tokenize_corpus(tmp_path / "b.txt", Tokenizer.bytes(), tmp_path / "cache")
    assert again.tokens.tolist() == first.tokens.tolist()
    assert (again.bytes, len(again)) == (3, 1)


def test_failure_leaves_no_entry(tmp_path: Path) -> None:
    """Half a corpus, cached before the fault in it was met, would be trained on next time."""
    text = tmp_path / "a.jsonl"
    text.write_text('{"text": "' + "a" * 5_000_000 + '"}\n{"text": oops}')
    for _ in range(2):
        with pytest.raises(DataError, match="line 2: not JSON"):
            tokenize_corpus(text, Tokenizer.bytes(), tmp_path / "cache")
    assert not list((tmp_path / "cache").iterdir())


def test_two_at_once(tmp_path: Path) -> None:
    """Two processes may tokenise the same: the second finds the first's work, and neither fails."""
    with new_folder(tmp_path / "entry") as slow:
        (slow / "who").write_text("slow")
        with new_folder(tmp_path / "entry") as fast:
            (fast / "who").write_text("fast")
    assert (tmp_path / "entry" / "who").read_text() == "fast"
    assert [path.name for path in tmp_path.iterdir()] == ["entry"]


def test_bad_corpora(tmp_path: Path) -> None:
    """Each is one line, not an empty corpus or a traceback."""
    (tmp_path / "a.txt").write_text("")
    with pytest.raises(DataError, match="the corpus has no text in it"):
        tokenize_corpus(tmp_path / "a.txt", Tokenizer.bytes(), tmp_path / "cache")
    with pytest.raises(DataError, match="no <eos>"):
        tokenize_corpus(tmp_path / "a.txt", Tokenizer.bytes(()), tmp_path / "cache")


@pytest.mark.parametrize("name", ["tokens.bin", "offsets.npy", "widths.npy", "meta.json"])
@pytest.mark.parametrize("content", [b"", b"[]", b"\xff\xfe", b"\x93NUMPY\x01\x00v\x00"])
def test_a_damaged_cache_entry_is_moved_aside(name: str, content: bytes, tmp_path: Path) -> None:
    """An empty offsets.npy ended the resume of a run with a traceback."""
    (tmp_path / "a.txt").write_text("one text")
    whole = tokenize_corpus(tmp_path / "a.txt", Tokenizer.bytes(), tmp_path / "cache")[0].tolist()
    (entry,) = (tmp_path / "cache").iterdir()
    (entry / name).write_bytes(content)
    with pytest.warns(DamagedWarning, match=r"was damaged .* made again"):
        again = tokenize_corpus(tmp_path / "a.txt", Tokenizer.bytes(), tmp_path / "cache")
    assert again[0].tolist() == whole
    assert {path.name for path in entry.parent.iterdir()} == {entry.name, f"{entry.name}.damaged"}


# ---- the held-out part


@settings(deadline=None)
@given(st.lists(st.integers(1, 50), min_size=1, max_size=40), st.floats(0.01, 0.9), st.integers(0, 99))
def test_split(lengths: list[int], fraction: float, seed: int) -> None:
    """Held-out tokens in the training part would make every validation loss too good."""
    documents = numbered(lengths)
    train, held_out = split_documents(documents, fraction, seed)
    assert sorted([*train.tokens, *held_out.tokens]) == list(range(documents.total))
    assert train.bytes + held_out.bytes == documents.bytes
    assert held_out.total > 0
    assert split_documents(documents, fraction, seed)[1].tokens.tolist() == held_out.tokens.tolist()


def test_split_of_few_documents() -> None:
    """One document's end is held out: a part drawn from within would be told by what stands around it."""
    train, held_out = split_documents(numbered([100]), 0.1)
    assert (train.tokens[-1], held_out.tokens[0], len(held_out)) == (89, 90, 1)
    train, held_out = split_documents(numbered([10] * 100), 0.1)
    assert len(held_out) == 10
    for share in (0.001, 0.999):
        train, held_out = split_documents(numbered([20]), share)
        assert held_out.total == {0.001: 2, 0.999: 19}[share] and train.total == 20 - held_out.total
    for lengths in ([50, 50], [1, 99, 30], [10] * 6):
        train, held_out = split_documents(numbered(lengths), 0.001)
        assert (len(train), len(held_out)) == (len(lengths) - 1, 1), "whole documents, however small the share"
    assert split_documents(numbered([90, 5, 900]), 0.1)[1].total == 90, "about as much as was asked for"
    assert split_documents(numbered([1, 99]), 0.01)[1].total == 99, "a single token predicts nothing"
    with pytest.raises(DataError, match="not between 0 and 1"):
        split_documents(numbered([10]), 1.0)


# ---- packing


@settings(deadline=None)
@given(
    st.lists(st.integers(0, 30), min_size=1, max_size=12).filter(lambda lengths: sum(lengths) > 8),
    st.integers(1, 8),
    st.integers(0, 9),
)
def test_each_token_is_predicted_once_an_epoch(lengths: list[int], length: int, seed: int) -> None:
    """Windows that overlap by more, or miss tokens, would weigh some text twice."""
    documents = numbered(lengths)
    packed = PackedDocuments(documents, length, seed)
    ends = {int(document[-1]) for document in documents if len(document)}
    starts = {int(document[0]) for document in documents if len(document)}
    for epoch in range(2):
        first = epoch * packed.windows_per_epoch
        windows = [packed[index] for index in range(first, first + packed.windows_per_epoch)]
        assert {window.shape for window in windows} == {(length + 1,)}
        targets = Counter(token for window in windows for token in window[1:].tolist())
        assert max(targets.values()) == 1
        assert documents.total - len(targets) < length
        for window in windows:
            for now, after in zip(window[:-1].tolist(), window[1:].tolist(), strict=True):
                assert after == now + 1 or (now in ends and after in starts)


def test_a_window_depends_on_seed_and_index_alone() -> None:
    """A resumed run must see the batches that it would have seen, in whatever order they are asked for."""
    documents = numbered([40, 3, 77, 20, 60])
    packed = PackedDocuments(documents, 16, 1)
    windows = {index: packed[index].tolist() for index in range(60)}
    for index in (59, 0, 31, 12, 12, 58, 1):
        assert packed[index].tolist() == windows[index]
        assert PackedDocuments(documents, 16, 1)[index].tolist() == windows[index]
    assert [PackedDocuments(documents, 16, 2)[index].tolist() for index in range(3)] != [windows[n] for n in range(3)]
    epoch = packed.windows_per_epoch
    assert sorted(windows[index] for index in range(epoch)) != sorted(
        windows[index] for index in range(epoch, 2 * epoch)
    )


def test_neighbouring_windows_are_of_different_documents() -> None:
    """A batch of neighbours from one article would be a poor estimate of the gradient."""
    packed = PackedDocuments(numbered([1000] * 20), 10, 0)
    assert len({int(packed[index][0]) // 1000 for index in range(12)}) > 5


def test_too_short() -> None:
    """Nothing to train on is an error, not an endless loop."""
    with pytest.raises(DataError, match="8 tokens, too few for a window of 9"):
        PackedDocuments(numbered([8]), 8, 0)
    assert PackedDocuments(numbered([9]), 8, 0)[0].shape == (9,)


def test_samples(tmp_path: Path) -> None:
    """The articles in the repository train a tokenizer and fill windows, as in the README."""
    documents = tokenize_corpus(SAMPLES, Tokenizer.bytes(), tmp_path)
    train, held_out = split_documents(documents, 0.05, 0)
    assert (len(train), len(held_out)) == (73, 3)
    window = PackedDocuments(train, 256, 0)[12345]
    assert Tokenizer.bytes().decode(window)
