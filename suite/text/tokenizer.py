"""Text to token ids and back: byte-level BPE, characters, or bytes, all stored as a `tokenizer.json`.

The file has the format that Hugging Face's `tokenizers` and `transformers` read; encoding uses tiktoken, which
is much faster and needs only the ordered merges.
"""

import builtins
import codecs
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from suite.errors import CheckpointError, DataError
from suite.files import write_atomic
from suite.text.bpe import BytePairEncoder, Merges, write_bytes
from suite.text.document import check_ids, from_printable, read_document

# Other names of `<eos>`, so that every tokenizer has `specials["<eos>"]`.
_END_NAMES = ("<|endoftext|>", "</s>")


class Tokenizer:
    """Converts text to token ids and back.

    Args:
        vocabulary: bytes of each token -> id.
        merges: pairs of tokens in the order they are merged (byte-level BPE; () for plain bytes), or None where every
            token is one character.
        specials: name -> id of special tokens, which no text encodes to.

    Raises:
        CheckpointError: two tokens share an id, or a byte-level vocabulary lacks a byte.

    Example:
        >>> tokenizer = Tokenizer.bytes()
        >>> tokenizer.encode("hé"), tokenizer.decode([104, 195, 169])
        ([104, 195, 169], 'hé')
    """

    opening: tuple[int, ...] = ()  # ids that every text begins with, where the model was trained so

    def __init__(self, vocabulary: Mapping[bytes, int], merges: Merges | None, specials: Mapping[str, int]) -> None:
        names = _Specials(specials)
        end = next((names[name] for name in _END_NAMES if name in names), None)
        if end is not None:
            names.setdefault("<eos>", end)
        self.specials: dict[str, int] = names  # a name that is missing is a DataError
        self.merges = merges
        self._source = "the tokenizer"  # for errors in the merges, which are found with the first text
        self.vocabulary = dict(vocabulary)
        self.vocab_size: int = 1 + max([*self.vocabulary.values(), *names.values()])
        self._bytes: list[bytes] = [b""] * self.vocab_size
        self._names: dict[int, str] = {id: name for name, id in reversed(names.items())}
        for token, id in self.vocabulary.items():
            if self._bytes[id] or id in self._names:
                raise CheckpointError(f"tokenizer: token {token!r} shares the id {id} with another token")
            self._bytes[id] = token
        if merges is not None and (missing := [byte for byte in range(256) if bytes([byte]) not in self.vocabulary]):
            raise CheckpointError(f"tokenizer: not a byte-level vocabulary, byte {missing[0]:#04x} has no token")

    # ---- constructors

    @classmethod
    def train(cls, texts: Iterable[str], vocab_size: int, specials: Sequence[str] = ("<eos>",)) -> "Tokenizer":
        """Learn byte-level BPE from texts.

        Args:
            texts: the training texts, read once.
            vocab_size: total number of tokens, including the 256 bytes and the specials. A short text may give fewer.
            specials: names of special tokens, which no text encodes to; they take the first ids.

        Raises:
            DataError: `vocab_size` has no room for the bytes and the specials, or a special is named twice.
        """
        import tokenizers
        from tokenizers import decoders, models, pre_tokenizers, trainers

        if len(set(specials)) != len(specials):
            raise DataError(f"a special token is named twice in {', '.join(specials)}")
        if vocab_size < 256 + len(specials):
            raise DataError(
                f"a vocabulary of {vocab_size} has no room for 256 bytes and {len(specials)} special tokens"
            )
        model = tokenizers.Tokenizer(models.BPE())
        model.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        model.decoder = decoders.ByteLevel()
        trainer = trainers.BpeTrainer(
            vocab_size=vocab_size,
            min_frequency=2,
            special_tokens=list(specials),
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        )
        model.train_from_iterator(texts, trainer)
        return cls._from_json(json.loads(model.to_str()), "the trained tokenizer")

    @classmethod
    def gpt2(cls, directory: str | Path) -> "Tokenizer":
        """Read GPT-2's vocabulary from a directory with OpenAI's `encoder.json` and `vocab.bpe`."""
        return cls._from_vocabulary_and_merges(Path(directory) / "encoder.json", Path(directory) / "vocab.bpe")

    @classmethod
    def characters(cls, text: str, specials: Sequence[str] = ("<eos>",)) -> "Tokenizer":
        """Make a tokenizer with a token for each distinct character of a text (by code point), then the specials."""
        if not text:
            raise DataError("an empty text has no characters to make a vocabulary of")
        check_encodable(text)
        alphabet = sorted(set(text))
        vocabulary = {character.encode(): id for id, character in enumerate(alphabet)}
        return cls(vocabulary, None, {name: len(alphabet) + n for n, name in enumerate(specials)})

    @classmethod
    def bytes(cls, specials: Sequence[str] = ("<eos>",)) -> "Tokenizer":
        """Make a tokenizer with a token for each byte, whose id is the byte, then the specials."""
        vocabulary = {bytes([byte]): byte for byte in range(256)}
        return cls(vocabulary, (), {name: 256 + n for n, name in enumerate(specials)})

    @classmethod
    def load(cls, path: str | Path) -> "Tokenizer":
        """Read a `tokenizer.json`, or a directory with one or with `vocab.json` and `merges.txt`.

        Files that are not in the form which `save` writes, those of other models, are read by
        `suite.text.library.LibraryTokenizer`.

        Raises:
            CheckpointError: there is no tokenizer, it is damaged, or it is of an unsupported kind.
        """
        path = Path(path)
        file = path / "tokenizer.json" if path.is_dir() else path
        if file.is_file():
            return cls._from_files(_load_json(file), file)
        if (path / "vocab.json").is_file():
            return cls._from_vocabulary_and_merges(path / "vocab.json", path / "merges.txt")
        raise CheckpointError(f"{path}: no tokenizer here (tokenizer.json, or vocab.json and merges.txt)")

    @staticmethod
    def found(directory: str | Path) -> bool:
        """Whether a directory has files of a tokenizer."""
        return any((Path(directory) / name).is_file() for name in ("tokenizer.json", "vocab.json"))

    def save(self, directory: str | Path) -> None:
        """Write `tokenizer.json` (and `tokenizer_config.json`, for `transformers`) into a directory.

        Raises:
            CheckpointError: a file cannot be written; its previous version is unchanged.
        """
        directory = Path(directory)
        config = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
        for role in ("bos", "eos", "sep", "pad", "cls"):
            if (id := self.specials.get(f"<{role}>")) is not None:
                config[f"{role}_token"] = self._names[id]
        try:
            directory.mkdir(parents=True, exist_ok=True)
            write_atomic(directory / "tokenizer.json", json.dumps(self._to_json(), ensure_ascii=False).encode())
            write_atomic(directory / "tokenizer_config.json", json.dumps(config, indent=2).encode())
        except OSError as error:
            raise CheckpointError(f"{directory}: the tokenizer cannot be written ({error.strerror})") from None

    # ---- text to ids

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text. The name of a special token in it is encoded as plain text.

        Raises:
            DataError: the text has a lone surrogate, or a character that a character vocabulary lacks.
        """
        check_encodable(text)
        if self.merges is None:
            return self._encode_characters(text)
        return self._encoder.encode(text)

    def encode_batch(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        """Return the token ids of each text, encoded on `threads` threads; tiktoken releases Python's lock."""
        if threads == 1:
            return [self.encode(text) for text in texts]
        with ThreadPoolExecutor(threads) as pool:
            return list(pool.map(self.encode, texts))

    def _encode_characters(self, text: str) -> list[int]:
        try:
            return [self._id_of_character[character] for character in text]
        except KeyError as missing:
            character = missing.args[0]
            raise DataError(
                f"character {character!r} (U+{ord(character):04X}) at offset {text.index(character)} "
                f"is not among the {len(self.vocabulary)} of this vocabulary"
            ) from None

    # ---- ids to text

    def decode(self, ids: Iterable[int], *, skip_specials: bool = True, continues: bool = False) -> str:
        """Return the text of token ids, special tokens skipped or shown by name; invalid UTF-8 becomes U+FFFD.

        `continues` says that the ids continue a text; it matters to tokenizers that put a space before a text's start.
        """
        return self.decode_bytes(ids, skip_specials=skip_specials).decode(errors="replace")

    def decode_bytes(self, ids: Iterable[int], *, skip_specials: bool = True) -> builtins.bytes:
        """Return the bytes of token ids, special tokens skipped or shown by name."""
        if skip_specials:
            return b"".join([self.token_bytes(id) for id in ids])
        return b"".join([self._names[id].encode() if id in self._names else self.token_bytes(id) for id in ids])

    def stream(self, *, skip_specials: bool = True) -> "StreamDecoder":
        """Return a decoder that takes token ids one at a time."""
        return StreamDecoder(self, skip_specials)

    def token_bytes(self, id: int) -> builtins.bytes:
        """Return the bytes of a token; b"" for a special token.

        Raises:
            DataError: the id is not in the vocabulary.
        """
        if not 0 <= id < self.vocab_size:
            raise DataError(f"token id {id} is not in the vocabulary of {self.vocab_size}")
        return self._bytes[id]

    def token_text(self, id: int) -> str:
        """Return a token for display: the name of a special, or its text, with `\\xNN` for bytes that are not UTF-8."""
        token = self.token_bytes(id)
        return self._names[id] if id in self._names else token.decode(errors="backslashreplace")

    @property
    def eos(self) -> int | None:
        """The id of the token that ends a document; None if the vocabulary lacks it."""
        return self.specials.get("<eos>")

    @cached_property
    def token_widths(self) -> "np.ndarray[tuple[int], np.dtype[np.uint16]]":
        """(V,) number of UTF-8 bytes of each token; 0 for specials. Summed over a text's ids: its size in bytes."""
        return np.array([len(token) for token in self._bytes], dtype=np.uint16)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the vocabulary, merges and specials, as hexadecimal digits."""
        return hashlib.sha256(json.dumps(self._to_json()).encode()).hexdigest()

    # ---- the encoder

    @cached_property
    def _id_of_character(self) -> dict[str, int]:
        return {token.decode(): id for token, id in self.vocabulary.items()}

    @cached_property
    def _encoder(self) -> BytePairEncoder:
        assert self.merges is not None
        try:
            return BytePairEncoder(self.vocabulary, self.merges)
        except CheckpointError as error:
            raise CheckpointError(f"{self._source}: {error}") from None

    # ---- files

    def _to_json(self) -> dict[str, Any]:
        added = [
            {"id": id, "content": name, "single_word": False, "lstrip": False, "rstrip": False}
            | {"normalized": False, "special": True}
            for id, name in sorted(self._names.items())
        ]
        document: dict[str, Any] = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added}
        document |= {"normalizer": None, "post_processor": None}
        names = {name: id for id, name in self._names.items()}
        if self.merges is None:
            split = {"type": "Split", "pattern": {"Regex": r"[\s\S]"}, "behavior": "Isolated", "invert": False}
            vocabulary = {token.decode(): id for token, id in self.vocabulary.items()}
            model: dict[str, Any] = {"type": "WordLevel", "unk_token": "<unk>"}
            document |= {"pre_tokenizer": split, "decoder": {"type": "Fuse"}}
        else:
            level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
            vocabulary = {write_bytes(token): id for token, id in self.vocabulary.items()}
            model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None}
            model |= {"end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False}
            model["merges"] = [[write_bytes(left), write_bytes(right)] for left, right in self.merges]
            document |= {"pre_tokenizer": level, "decoder": level}
        model["vocab"] = dict(sorted((vocabulary | names).items(), key=lambda item: item[1]))
        return document | {"model": model}

    @classmethod
    def _from_files(cls, document: dict[str, Any], file: Path) -> "Tokenizer":
        settings = file.with_name("tokenizer_config.json")
        config = _load_json(settings) if settings.is_file() else {}
        if not isinstance(config, dict):
            raise CheckpointError(f"{settings}: does not contain a JSON object")
        if not _is_foreign(document, config):
            tokenizer = cls._from_json(document, str(file))
            for role, name in role_tokens(config).items():
                if name in tokenizer.specials:
                    tokenizer.specials.setdefault(f"<{role}>", tokenizer.specials[name])
            return tokenizer
        from suite.text.library import LibraryTokenizer

        return LibraryTokenizer.read(document, config, file)

    @classmethod
    def _from_json(cls, document: Any, source: str) -> "Tokenizer":
        parts = read_document(document, source)
        try:
            found = cls(*parts)
        except CheckpointError as error:
            raise CheckpointError(f"{source}: {error}") from None
        found._source = source
        return found

    @classmethod
    def _from_vocabulary_and_merges(cls, vocabulary: Path, merges: Path) -> "Tokenizer":
        words = check_ids(_load_json(vocabulary), str(vocabulary), "the vocabulary")
        specials = {name: words.pop(name) for name in _END_NAMES if name in words}
        lines = _read_text(merges).splitlines()
        pairs = [line.split(" ") for line in lines if line and not line.startswith("#version")]
        try:
            return cls(*from_printable(words, pairs, specials))
        except (ValueError, CheckpointError) as error:
            raise CheckpointError(f"{merges}: does not belong to {vocabulary.name} ({error})") from None


class _Specials(dict[str, int]):
    """Ids of special tokens by name."""

    def __missing__(self, name: str) -> int:
        raise DataError(f"the tokenizer has no special token {name}, which this task needs")


class StreamDecoder:
    """Decodes token ids one at a time; bytes of an unfinished character are held back."""

    def __init__(self, tokenizer: Tokenizer, skip_specials: bool) -> None:
        self._tokenizer = tokenizer
        self._skip_specials = skip_specials
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def push(self, id: int) -> str:
        """Append a token id; returns the text that is now final, which may be empty."""
        return self._decoder.decode(self._tokenizer.decode_bytes([id], skip_specials=self._skip_specials))

    def flush(self) -> str:
        """Return the text that is still held back: U+FFFD for a character that was never finished."""
        return self._decoder.decode(b"", final=True)


def role_tokens(settings: Mapping[str, Any]) -> dict[str, str]:
    """The special tokens that a `tokenizer_config.json` names, by role: "bos", "eos", "sep", "pad", "cls", "unk"."""
    found = {role: settings.get(f"{role}_token") for role in ("bos", "eos", "sep", "pad", "cls", "unk")}
    names = {role: name.get("content") if isinstance(name, dict) else name for role, name in found.items()}
    return {role: name for role, name in names.items() if isinstance(name, str)}


def _is_foreign(document: Any, settings: Mapping[str, Any]) -> bool:
    """Whether a `tokenizer.json` needs the library `tokenizers`; False for a damaged file: `_from_json` says why."""
    try:
        model, level, added = document["model"], document["pre_tokenizer"], document["added_tokens"]
        if model["type"] == "WordLevel":
            return False
        plain = model["type"] == "BPE" and level["type"] == "ByteLevel" and level.get("use_regex", True)
        plain = plain and not (document["normalizer"] or level["add_prefix_space"] or model.get("ignore_merges"))
        plain = plain and all(token["special"] for token in added) and not settings.get("chat_template")
        opens = "SpecialToken" in json.dumps(document.get("post_processor")) or settings.get("add_bos_token")
        return bool(not plain or opens)
    except (KeyError, TypeError, AttributeError):
        model = document.get("model") if isinstance(document, dict) else None
        return isinstance(model, dict) and "type" in model


def check_encodable(text: str) -> None:
    """Raise a `DataError` for a text that has no UTF-8 form."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        offset = error.start
        raise DataError(
            f"the text has a lone surrogate (U+{ord(text[offset]):04X}) at character {offset}, impossible in UTF-8"
        ) from None


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path}: cannot be read ({error})") from None


def _load_json(path: Path) -> Any:
    try:
        return json.loads(_read_text(path))
    except RecursionError:
        raise CheckpointError(f"{path}: damaged, nested too deeply") from None
    except ValueError as error:
        raise CheckpointError(f"{path}: damaged, not JSON ({error})") from None
