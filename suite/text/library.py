"""Tokenizers of other models: any `tokenizer.json` of byte-level BPE, SentencePiece-like BPE or unigrams.

The library `tokenizers` encodes; decoding is done here from each token's bytes, so that text can be streamed.
"""

import hashlib
import json
import re
import secrets
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from suite.errors import CheckpointError, DataError
from suite.files import write_atomic
from suite.text.bpe import read_bytes
from suite.text.tokenizer import Tokenizer, check_encodable, role_tokens

KINDS = ("BPE", "Unigram")
_BYTE = re.compile(r"<0x([0-9A-F]{2})>")
Message = Mapping[str, Any]


class LibraryTokenizer(Tokenizer):
    """A tokenizer that the library `tokenizers` runs.

    Special tokens have names inside the library that nobody can guess, made anew in each process: no text is ever read
    as one, whatever is in it.

    Args:
        document: content of `tokenizer.json`.
        settings: content of `tokenizer_config.json`, with the chat template wherever that was stored.
        source: the file, for errors.

    Raises:
        CheckpointError: the model or its decoder is of an unsupported kind, or the file is damaged.

    Attributes:
        opening: ids that every text begins with, where the model was trained so.
    """

    def __init__(self, document: dict[str, Any], settings: Mapping[str, Any], source: str) -> None:
        self.document, self.settings, self.source = document, dict(settings), source
        self.merges, self.vocabulary = None, {}
        try:
            model, added = document["model"], document.get("added_tokens") or []
            if model["type"] not in KINDS:
                raise CheckpointError(f"{source}: a tokenizer of kind {model['type']!r} is not supported")
            pieces = model["vocab"] if model["type"] == "BPE" else [piece for piece, _ in model["vocab"]]
            words: dict[str, int] = dict(pieces) if model["type"] == "BPE" else {w: n for n, w in enumerate(pieces)}
            roles = role_tokens(settings)
            ids = words | {token["content"]: token["id"] for token in added}
            names = [token["content"] for token in added if token["special"]] + list(roles.values())
            self.specials = {name: ids[name] for name in names if name in ids}
            self._names = {id: name for name, id in self.specials.items()}
            for role, name in roles.items():
                if name in ids:
                    self.specials.setdefault(f"<{role}>", ids[name])
            self.vocab_size = 1 + max(ids.values())
            to_bytes, self._stripped = decoding(document.get("decoder"), source)
            self._bytes = [b""] * self.vocab_size
            for word, id in words.items():
                self._bytes[id] = b"" if id in self._names else to_bytes(word)
            for token in added:
                self._bytes[token["id"]] = b"" if token["id"] in self._names else token["content"].encode()
            self.opening = _opening(document.get("post_processor"), self.settings, self.specials)
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise CheckpointError(f"{source}: not a tokenizer file ({type(error).__name__}: {error})") from None

    @classmethod
    def read(cls, document: dict[str, Any], settings: Mapping[str, Any], file: Path) -> "LibraryTokenizer":
        """Make a tokenizer of the files in a directory, and try it once, so that damage shows now."""
        template = file.parent / "chat_template.jinja"
        if template.is_file():
            settings = {**settings, "chat_template": template.read_text(encoding="utf-8")}
        tokenizer = cls(document, settings, str(file))
        tokenizer.encode("a")
        return tokenizer

    # ---- text to ids

    @cached_property
    def _secret_names(self) -> dict[int, str]:
        """Names of the special tokens inside the library."""
        return {id: f"<{secrets.token_hex(16)}>" for id in self._names}

    @cached_property
    def _library(self) -> Any:
        import tokenizers

        model = dict(self.document["model"])
        secret = {name: self._secret_names[id] for id, name in self._names.items()}
        if model["type"] == "BPE":
            model["vocab"] = {secret.get(word, word): id for word, id in model["vocab"].items()}
            model["unk_token"] = secret.get(str(model.get("unk_token")), model.get("unk_token"))
        else:
            model["vocab"] = [[secret.get(word, word), score] for word, score in model["vocab"]]
        added = [
            {**token, "content": secret[token["content"]], "normalized": False} if token["content"] in secret else token
            for token in self.document.get("added_tokens") or []
        ]
        changed = {"model": model, "added_tokens": added, "post_processor": None, "truncation": None, "padding": None}
        try:
            return tokenizers.Tokenizer.from_str(json.dumps({**self.document, **changed}))
        except Exception as error:  # the library raises plain exceptions
            raise CheckpointError(f"{self.source}: the tokenizer cannot be read ({error})") from None

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text, without `opening`. The name of a special token is encoded as plain text.

        Raises:
            DataError: the text has a lone surrogate.
        """
        check_encodable(text)
        ids: list[int] = self._library.encode(text, add_special_tokens=False).ids
        return ids

    def encode_batch(self, texts: Sequence[str], threads: int = 1) -> list[list[int]]:
        """Return the token ids of each text; the library has its own threads."""
        for text in texts:
            check_encodable(text)
        return [found.ids for found in self._library.encode_batch(list(texts), add_special_tokens=False)]

    # ---- ids to text

    def decode(self, ids: Iterable[int], *, skip_specials: bool = True, continues: bool = False) -> str:
        """Return the text of token ids; invalid UTF-8 becomes U+FFFD.

        Args:
            ids: the token ids.
            skip_specials: whether special tokens are skipped, or shown by name.
            continues: whether the ids continue a text, so that a space at their start stays. SentencePiece puts a space
                before the first word of a text, which is removed otherwise.
        """
        text = self.decode_bytes(ids, skip_specials=skip_specials).decode(errors="replace")
        return text if continues else text.removeprefix(" " * self._stripped)

    # ---- conversations

    def chat(self, messages: Sequence[Message], **options: Any) -> list[int]:
        """Token ids of a conversation, up to where the model's answer begins.

        The template writes special tokens; a message cannot: their names in it stay plain text.

        Args:
            messages: mappings with "role" and "content".
            options: variables of the template, such as `enable_thinking`.

        Raises:
            DataError: the tokenizer has no chat template, or the template refuses the messages.
        """
        import tokenizers
        from transformers import PreTrainedTokenizerFast

        if not (template := self.settings.get("chat_template")):
            raise DataError(f"{self.source} has no chat template; this is no model for conversations")
        # messages have marks in the place of names while the template is at work
        marks = {name: f"<{secrets.token_hex(16)}>" for name in self._names.values()}
        marked = [
            {key: _replace(value, marks) if isinstance(value, str) else value for key, value in message.items()}
            for message in messages
        ]
        renderer: Any = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
            tokenizer_object=tokenizers.Tokenizer(tokenizers.models.BPE()),
            chat_template=template if isinstance(template, str) else {one["name"]: one["template"] for one in template},
            **{f"{role}_token": name for role, name in role_tokens(self.settings).items()},
        )
        try:
            text: str = renderer.apply_chat_template(marked, tokenize=False, add_generation_prompt=True, **options)
        except Exception as error:  # a template can raise anything
            reason = (str(error) or type(error).__name__).splitlines()[0]
            raise DataError(f"{self.source}: the chat template refuses the messages: {reason}") from None
        text = _replace(text, {name: self._secret_names[id] for id, name in self._names.items()})
        return self.encode(_replace(text, {mark: name for name, mark in marks.items()}))

    # ---- files

    def save(self, directory: str | Path) -> None:
        """Write `tokenizer.json` as it was read, and `tokenizer_config.json` so that `transformers` reads it as it is.

        Raises:
            CheckpointError: a file cannot be written; its previous version is unchanged.
        """
        directory = Path(directory)
        settings = {key: value for key, value in self.settings.items() if key not in ("auto_map", "tokenizer_file")}
        settings |= {f"{role}_token": name for role, name in role_tokens(self.settings).items()}
        settings["tokenizer_class"] = "PreTrainedTokenizerFast"
        try:
            directory.mkdir(parents=True, exist_ok=True)
            write_atomic(directory / "tokenizer.json", json.dumps(self.document, ensure_ascii=False).encode())
            write_atomic(directory / "tokenizer_config.json", json.dumps(settings, indent=2).encode())
        except OSError as error:
            raise CheckpointError(f"{directory}: the tokenizer cannot be written ({error.strerror})") from None

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the file and of the roles of special tokens, as hexadecimal digits."""
        content = json.dumps([self.document, self.specials, self.opening], sort_keys=True)
        return hashlib.sha256(content.encode()).hexdigest()


def decoding(decoder: Mapping[str, Any] | None, source: str) -> tuple[Callable[[str], bytes], int]:
    """How a decoder turns a token into bytes, and how many spaces it strips from the start of a text.

    Raises:
        CheckpointError: it has a step of an unsupported kind.
    """
    steps = [] if decoder is None else decoder["decoders"] if decoder["type"] == "Sequence" else [decoder]
    replaced: dict[str, str] = {}
    stripped, kinds = 0, {step["type"] for step in steps}
    for step in steps:
        if step["type"] == "Replace" and "String" in step["pattern"]:
            replaced[step["pattern"]["String"]] = step["content"]
        elif step["type"] == "Metaspace":
            replaced[step["replacement"]] = " "
            always = step.get("add_prefix_space", True)
            stripped = 0 if step.get("prepend_scheme", "always" if always else "never") == "never" else 1
        elif step["type"] == "Strip" and step["content"] == " " and not step["stop"]:
            stripped = step["start"]
        elif step["type"] not in ("ByteLevel", "ByteFallback", "Fuse"):
            raise CheckpointError(f"{source}: a decoder with the step {step['type']!r} is not supported")
    if not steps:
        raise CheckpointError(f"{source}: it has no decoder, so its tokens cannot be read as text")

    def to_bytes(word: str) -> bytes:
        if "ByteFallback" in kinds and (byte := _BYTE.fullmatch(word)):
            return bytes([int(byte[1], 16)])
        if "ByteLevel" in kinds:
            try:
                return read_bytes(word)
            except KeyError:  # an added token stands as it is
                return word.encode()
        return _replace(word, replaced).encode()

    return to_bytes, stripped


def _opening(
    processor: Mapping[str, Any] | None, settings: Mapping[str, Any], specials: Mapping[str, int]
) -> tuple[int, ...]:
    """Ids that are put before a text: the settings decide if they say anything, else the post-processor."""
    if isinstance(wanted := settings.get("add_bos_token"), bool):
        return (specials["<bos>"],) if wanted and "<bos>" in specials else ()
    if processor is None:
        return ()
    for step in processor["processors"] if processor["type"] == "Sequence" else [processor]:
        if step["type"] == "TemplateProcessing":
            ids: list[int] = []
            for part in step["single"]:
                if "Sequence" in part:
                    return tuple(ids)
                ids += step["special_tokens"][part["SpecialToken"]["id"]]["ids"]
    return ()


def _replace(text: str, changes: Mapping[str, str]) -> str:
    """Replace all keys in one pass, where several begin at a place the longest."""
    if not changes:
        return text
    pattern = "|".join(re.escape(key) for key in sorted(changes, key=len, reverse=True))
    return re.sub(pattern, lambda found: changes[found[0]], text)
