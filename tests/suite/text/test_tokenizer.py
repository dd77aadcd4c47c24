"""The tokenizer: lossless, the ids of Hugging Face's `tokenizers` from the same file, whole characters in streams."""

import json
import os
import string
from pathlib import Path

import pytest
import tokenizers
from hypothesis import example, given, reject, settings
from hypothesis import strategies as st

from suite.errors import CheckpointError, DataError
from suite.text.tokenizer import Tokenizer

SPECIALS = ("<pad>", "<bos>", "<sep>", "<eos>", "<cls>", "<en>", "<de>")
TEXTS = [
    "The planet earth, the third planet from the sun, is the only planet known to have life.",
    "Der Planet Erde, der dritte Planet von der Sonne aus; größer als die Venus — 1000000 mal schöner?",
    "they're    there,\n\n\tisn't it?  2 + 2 = 22 \U0001f600\U0001f600 日本語の文 日本語の文",
] * 3
text = st.text(st.characters(exclude_categories=["Cs"]))  # all that UTF-8 can hold
words = st.text("ea thr\n1' ,é日", max_size=60)


@pytest.fixture(scope="module")
def bpe() -> Tokenizer:
    return Tokenizer.train(TEXTS, 400, SPECIALS)


def reference(tokenizer: Tokenizer, folder: Path) -> tokenizers.Tokenizer:
    tokenizer.save(folder)
    return tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))


# ---- round trips


@settings(deadline=None)
@given(text | words)
@example("")
@example("\0\x00")
@example("\r\n \u3000\u2028\x85")
@example("<eos><pad>")
def test_text_survives(bpe: Tokenizer, text: str) -> None:
    """A tokenizer that normalises, strips or knows specials in the text would lose something."""
    for tokenizer in (bpe, Tokenizer.bytes(), Tokenizer.characters(text or " ")):
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids) == text
        assert tokenizer.decode_bytes(ids) == text.encode()
        assert not set(ids) & set(tokenizer.specials.values())
        assert int(tokenizer.token_widths[ids].sum()) == len(text.encode())


@settings(deadline=None)
@given(st.lists(st.integers(0, 262)))
@example([0xE2, 0x82, 256, 0xAC])
@example([0xE2, 0x82, 0x41])
@example([0xF0, 0x9F])
def test_stream_is_the_whole(ids: list[int]) -> None:
    """What was streamed and flushed is what decode gives, for any ids, also those that are no text."""
    tokenizer = Tokenizer.bytes(SPECIALS)
    for skip_specials in (True, False):
        stream = tokenizer.stream(skip_specials=skip_specials)
        streamed = "".join(map(stream.push, ids)) + stream.flush()
        assert streamed == tokenizer.decode(ids, skip_specials=skip_specials)


def test_stream_holds_half_a_character_back() -> None:
    """A replacement character was shown for each half of a character cut by a token's edge."""
    tokenizer = Tokenizer.bytes()
    stream = tokenizer.stream()
    assert [stream.push(id) for id in tokenizer.encode("é😀!")] == ["", "é", "", "", "", "😀", "!"]
    assert stream.flush() == ""
    assert [stream.push(id) for id in "😀".encode()[:2]] == ["", ""]
    assert stream.flush() == "\ufffd"


# ---- the ids of the reference


@given(text | words)
@settings(max_examples=300, deadline=None)
def test_ids_are_those_of_the_file_in_tokenizers(bpe: Tokenizer, hf: tokenizers.Tokenizer, text: str) -> None:
    """tiktoken's ranks, or its word pattern, could differ from the merges in the file."""
    if not any(special in text for special in SPECIALS):  # which `tokenizers` would see as the special tokens
        assert bpe.encode(text) == hf.encode(text).ids


@pytest.fixture(scope="module")
def hf(bpe: Tokenizer, tmp_path_factory: pytest.TempPathFactory) -> tokenizers.Tokenizer:
    return reference(bpe, tmp_path_factory.mktemp("tokenizer"))


@st.composite
def merge_lists(draw: st.DrawFn) -> list[tuple[bytes, bytes]]:
    """Merges in an order that training could not have found: tokens made twice, or never reached."""
    tokens = [b"a", b"b", b"c"]
    merges: list[tuple[bytes, bytes]] = []
    for _ in range(draw(st.integers(1, 25))):
        pair = draw(st.sampled_from(tokens)), draw(st.sampled_from(tokens))
        if pair not in merges and len(pair[0] + pair[1]) < 12:
            merges.append(pair)
            tokens.append(pair[0] + pair[1])
    return merges


@given(merge_lists(), st.lists(st.text("abc", min_size=1, max_size=200), min_size=1, max_size=5), st.booleans())
@settings(max_examples=300, deadline=None)
@example([(b"a", b"a"), (b"a", b"aa")], ["aaa", "aaaaaa"], False)
@example([(b"b", b"c"), (b"a", b"b"), (b"ab", b"c")], ["abc"], False)
def test_tokens_out_of_reach_are_not_used(merges: list[tuple[bytes, bytes]], texts: list[str], reverse: bool) -> None:
    """tiktoken joins any two neighbours that make a token, also where no merge in the file joins those two."""
    made = list(dict.fromkeys(left + right for left, right in merges if len(left + right) > 1))
    vocabulary = {bytes([byte]): byte for byte in range(256)}
    vocabulary |= {token: 256 + n for n, token in enumerate(reversed(made) if reverse else made)}
    tokenizer = Tokenizer(vocabulary, merges, {})
    hf = tokenizers.Tokenizer.from_str(json.dumps(tokenizer._to_json()))
    try:
        tokenizer.encode("")
    except CheckpointError:  # see the next test
        reject()
    for text in texts:
        assert tokenizer.encode(text) == hf.encode(text).ids
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_merges_out_of_order_are_refused() -> None:
    """A token used in a merge before the merge that makes it: tiktoken's ranks cannot say that, ids would differ."""
    made = [b"aa", b"aaa", b"aaaa", b"aaaaaaaa"]
    vocabulary = {bytes([byte]): byte for byte in range(256)} | {token: 256 + n for n, token in enumerate(made)}
    merges = [(b"a", b"a"), (b"aa", b"a"), (b"a", b"aaa"), (b"aaaa", b"aaaa"), (b"aa", b"aa")]
    with pytest.raises(CheckpointError, match="out of order, b'aaaa' is used before it is made"):
        Tokenizer(vocabulary, merges, {}).encode("aaaa")


@pytest.mark.parametrize("space", [" ", "\n", " \n", "\u3000"])
def test_long_white_space(hf: tokenizers.Tokenizer, bpe: Tokenizer, space: str) -> None:
    """A million spaces before a word overflowed the stack of the word pattern."""
    for text in ("a" + space * 120_000 + "b", space * 120_000 + ".", "a" + space * 120_000):
        assert bpe.encode(text) == hf.encode(text).ids
    long = "a" + space * 1_000_000 + "b"
    assert bpe.decode(bpe.encode(long)) == long


def test_long_word(bpe: Tokenizer) -> None:
    """Merging a word of a million letters pair by pair would take quadratic time."""
    assert bpe.decode(bpe.encode("the" * 333_333)) == "the" * 333_333


@pytest.mark.skipif("SUITE_GPT2_BPE" not in os.environ, reason="SUITE_GPT2_BPE names no folder with GPT-2's own files")
def test_gpt2(tmp_path_factory: pytest.TempPathFactory) -> None:
    """With GPT-2's files, ids are GPT-2's on any string."""
    tokenizer = Tokenizer.gpt2(os.environ["SUITE_GPT2_BPE"])
    assert (tokenizer.vocab_size, tokenizer.eos, tokenizer.specials["<|endoftext|>"]) == (50257, 50256, 50256)
    assert tokenizer.encode("Hello world<|endoftext|>")[:2] == [15496, 995]
    hf = reference(tokenizer, tmp_path_factory.mktemp("gpt2"))

    @given(text | words)
    @settings(max_examples=1000, deadline=None)
    def same(text: str) -> None:
        assert tokenizer.encode(text) == hf.encode(text).ids
        assert tokenizer.decode(tokenizer.encode(text)) == text

    same()


# ---- special tokens


def test_specials_are_never_read_from_text(bpe: Tokenizer) -> None:
    """Somebody's text could end a document, or turn the model to another language."""
    assert {name: bpe.specials[name] for name in SPECIALS} == {name: id for id, name in enumerate(SPECIALS)}
    assert bpe.eos == 3
    ids = [bpe.specials["<bos>"], *bpe.encode("a <eos> b"), bpe.specials["<eos>"]]
    assert ids.count(3) == 1
    assert bpe.decode(ids) == "a <eos> b"
    assert bpe.decode(ids, skip_specials=False) == "<bos>a <eos> b<eos>"


def test_tokens_for_showing(bpe: Tokenizer) -> None:
    """A token that is half a character was shown as U+FFFD, and could not be told from another."""
    assert bpe.token_text(3) == "<eos>"
    assert [bpe.token_text(id) for id in Tokenizer.bytes().encode("a")] != [""]
    assert [Tokenizer.bytes().token_text(id) for id in "aé".encode()] == ["a", "\\xc3", "\\xa9"]
    with pytest.raises(DataError, match="token id 400 is not in the vocabulary"):
        bpe.token_text(400)


# ---- files


def test_save_and_load(bpe: Tokenizer, tmp_path: Path) -> None:
    """A loaded tokenizer must be the saved one, whatever its kind."""
    for number, tokenizer in enumerate((bpe, Tokenizer.bytes(SPECIALS), Tokenizer.characters("añ\n\u2028", ()))):
        tokenizer.save(tmp_path / str(number))
        for path in (tmp_path / str(number), tmp_path / str(number) / "tokenizer.json"):
            loaded = Tokenizer.load(path)
            assert loaded.digest == tokenizer.digest
            assert loaded.specials == tokenizer.specials
            assert loaded.encode("ña\n") == tokenizer.encode("ña\n")


def test_transformers_loads_it(bpe: Tokenizer, tmp_path: Path) -> None:
    """A checkpoint written here opens in `transformers`, with the same ids and the roles of special tokens."""
    transformers = pytest.importorskip("transformers")
    bpe.save(tmp_path)
    loaded = transformers.AutoTokenizer.from_pretrained(tmp_path)
    assert loaded(TEXTS[2]).input_ids == bpe.encode(TEXTS[2])
    assert loaded.decode(bpe.encode("wait , what 's that ?")) == "wait , what 's that ?"
    assert (loaded.eos_token_id, loaded.pad_token_id, loaded.cls_token_id) == (3, 0, 4)


def test_vocabulary_and_merges_files(bpe: Tokenizer, tmp_path: Path) -> None:
    """GPT-2's first form: two files, and the end of text found under the role it plays."""
    document = bpe._to_json()
    vocabulary = {word: id for word, id in document["model"]["vocab"].items() if word not in SPECIALS}
    (tmp_path / "vocab.json").write_text(json.dumps({**vocabulary, "<|endoftext|>": 3}))
    (tmp_path / "merges.txt").write_text(
        "#version: 0.2\n" + "\n".join(map(" ".join, document["model"]["merges"])) + "\n"
    )
    loaded = Tokenizer.load(tmp_path)
    assert loaded.encode(TEXTS[1]) == bpe.encode(TEXTS[1])
    assert loaded.specials == {"<|endoftext|>": 3, "<eos>": 3}
    loaded.save(tmp_path / "new")
    assert Tokenizer.load(tmp_path / "new").specials == loaded.specials
    (tmp_path / "merges.txt").write_text("t h\nth zzz\n")
    with pytest.raises(CheckpointError, match=r"merges.txt: does not belong to vocab.json"):
        Tokenizer.load(tmp_path)


def test_training_is_repeatable_and_bounded() -> None:
    """The same texts must give the same tokenizer, and a vocabulary no larger than asked."""
    first, second = (Tokenizer.train(iter(TEXTS), 300, ("<eos>",)) for _ in range(2))
    assert first.digest == second.digest
    assert first.vocab_size == 300
    with pytest.raises(DataError, match="no room for 256 bytes and 7 special tokens"):
        Tokenizer.train(TEXTS, 260, SPECIALS)
    with pytest.raises(DataError, match="named twice"):
        Tokenizer.train(TEXTS, 300, ("<eos>", "<eos>"))


def test_failed_save_leaves_the_old_file(bpe: Tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk must not cost the tokenizer that was there."""
    bpe.save(tmp_path)

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(CheckpointError, match="cannot be written \\(No space left on device\\)"):
        Tokenizer.bytes().save(tmp_path)
    assert Tokenizer.load(tmp_path).digest == bpe.digest
    assert {path.name for path in tmp_path.iterdir()} == {"tokenizer.json", "tokenizer_config.json"}


# ---- bad input


@pytest.mark.parametrize("bad", ["ab\ud800", "ab\udc00c", "ab\ud83d\ude00"])
def test_surrogates_are_refused(bpe: Tokenizer, bad: str) -> None:
    """tiktoken replaces a lone surrogate silently, so that the text does not come back."""
    for encode in (bpe.encode, Tokenizer.bytes().encode, Tokenizer.characters):
        with pytest.raises(DataError, match=r"lone surrogate \(U\+D[0-9A-F]{3}\) at character 2"):
            encode(bad)


def test_unknown_character_is_named() -> None:
    """A character vocabulary must not skip what it does not know."""
    tokenizer = Tokenizer.characters(string.ascii_lowercase)
    with pytest.raises(DataError, match=r"character 'é' \(U\+00E9\) at offset 3 is not among the 26"):
        tokenizer.encode("café")
    with pytest.raises(DataError, match="no characters"):
        Tokenizer.characters("")


def test_batches(bpe: Tokenizer) -> None:
    """Threads must keep the order."""
    assert bpe.encode_batch(TEXTS, threads=3) == [bpe.encode(text) for text in TEXTS] == bpe.encode_batch(TEXTS)


def changed(document: dict[str, object], **fields: object) -> str:
    return json.dumps({**document, **fields})


def test_foreign_and_damaged_files(bpe: Tokenizer, tmp_path: Path) -> None:
    """A tokenizer that would be read wrong is refused, with the reason."""
    document = bpe._to_json()
    words = {"type": "WordLevel", "vocab": {"hello": 0, "a": 1}, "unk_token": "<unk>"}
    shifted = {**document["model"], "vocab": {**document["model"]["vocab"], "!": 9}}
    lacking = {**document["model"], "vocab": {k: v for k, v in document["model"]["vocab"].items() if k != "!"}}
    for content, message in (
        ("{", "damaged, not JSON"),
        ("[]", "not a tokenizer file"),
        (json.dumps({"model": {}}), "not a tokenizer file"),
        (changed(document, model=words), "a vocabulary of words"),
        (changed(document, model=shifted), "shares the id 9 with"),
        (changed(document, model=lacking), "byte 0x21 has no token"),
    ):
        (tmp_path / "tokenizer.json").write_text(content)
        with pytest.raises(CheckpointError, match=message):
            Tokenizer.load(tmp_path)
    with pytest.raises(CheckpointError, match="no tokenizer here"):
        Tokenizer.load(tmp_path / "nowhere")
