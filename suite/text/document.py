"""A `tokenizer.json` read and checked field by field; an error names the file and the field."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from suite.errors import CheckpointError
from suite.text.bpe import Merges, read_bytes

MOST_IDS = 2**24  # no vocabulary is larger; a list of bytes by id has this length
Parts = tuple[dict[bytes, int], Merges | None, dict[str, int]]  # vocabulary, merges, specials

_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = 60
_brief = _short.repr


def read_document(document: Any, source: str) -> Parts:
    """Vocabulary, merges and specials, as for `Tokenizer`, of the content of a `tokenizer.json`.

    Raises:
        CheckpointError: a field is missing or of the wrong type, fields contradict each other, or it is a tokenizer of
            a kind that is not supported; the message names the file and the field.
    """
    document = _typed(document, dict, source, "the content")
    model = _typed(document.get("model"), dict, source, "model")
    specials = _specials(document.get("added_tokens"), source)
    words = check_ids(model.get("vocab"), source, "model.vocab")
    for name, id in specials.items():
        if words.pop(name, id) != id:
            raise CheckpointError(
                f"{source}: special token {name!r} has one id in added_tokens, another in model.vocab"
            )
    longer = [word for word in words if len(word) != 1]
    if model.get("type") == "WordLevel" and longer:
        raise CheckpointError(f"{source}: a vocabulary of words ({_brief(longer[0])}) is not supported")
    taken = {id: name for name, id in specials.items()}
    if clash := next((word for word, id in words.items() if id in taken), None):
        raise CheckpointError(f"{source}: model.vocab: {clash!r} has the id of special token {taken[words[clash]]!r}")
    split = document.get("pre_tokenizer")
    kind = split.get("type") if isinstance(split, dict) else None
    if model.get("type") == "WordLevel":
        if document.get("normalizer") or kind != "Split":
            raise CheckpointError(f"{source}: only words of one character, not normalized, are supported")
        try:
            return {word.encode(): id for word, id in words.items()}, None, specials
        except UnicodeEncodeError as error:
            raise CheckpointError(f"{source}: model.vocab: {error.object!r} is impossible in UTF-8") from None
    known = model.get("type") == "BPE" and kind == "ByteLevel" and split.get("use_regex", True) is True
    changed = [key for key in _PLAIN if model.get(key)]
    if not known or document.get("normalizer") or split.get("add_prefix_space") is not False or changed:
        raise CheckpointError(f"{source}: only byte-level BPE with GPT-2's word pattern is supported")
    try:
        return from_printable(words, _pairs(model.get("merges"), source), specials)
    except ValueError as error:
        raise CheckpointError(f"{source}: {error}") from None


# fields of the model that change its merges where they are set
_PLAIN = ("dropout", "continuing_subword_prefix", "end_of_word_suffix", "byte_fallback", "ignore_merges")


def from_printable(words: Mapping[str, int], pairs: Iterable[Sequence[str]], specials: Mapping[str, int]) -> Parts:
    """Vocabulary, merges and specials of byte-level BPE, whose files write bytes as printable characters.

    Raises:
        ValueError: a token is empty or has another character, or a merge names an unknown token.
    """
    known = {word: _bytes(word, "vocab") for word in words}
    merges = [(_bytes(left, "merges"), _bytes(right, "merges")) for left, right in pairs]
    vocabulary = {token: words[word] for word, token in known.items()}
    unknown = next((token for pair in merges for token in pair if token not in vocabulary), None) or next(
        (left + right for left, right in merges if left + right not in vocabulary), None
    )
    if unknown is not None:
        raise ValueError(f"model.merges: token {_brief(unknown)} is not in the vocabulary")
    return vocabulary, merges, dict(specials)


def check_ids(vocabulary: Any, source: str, field: str) -> dict[str, int]:
    """A copy of a vocabulary, with every id checked.

    Raises:
        CheckpointError: it is not an object, an id is not a whole number in its range, or two tokens share an id.
    """
    words: dict[str, int] = dict(_typed(vocabulary, dict, source, field))
    ids = set(words.values()) if {int}.issuperset(map(type, words.values())) else set()
    if len(ids) == len(words) and min(ids, default=0) >= 0 and max(ids, default=0) < MOST_IDS:
        return words
    owners: dict[int, str] = {}  # find the id to name
    for word, id in words.items():
        _check_id(id, source, f"{field}: the id of {_brief(word)}")
        if id in owners:
            raise CheckpointError(f"{source}: {field}: {_brief(word)} shares the id {id} with {_brief(owners[id])}")
        owners[id] = word
    return words


def _specials(added: Any, source: str) -> dict[str, int]:
    """Ids of the special tokens by name."""
    specials: dict[str, int] = {}
    for place, token in enumerate(_typed(added, list, source, "added_tokens")):
        field = f"added_tokens[{place}]"
        token = _typed(token, dict, source, field)
        name = _typed(token.get("content"), str, source, f"{field}.content")
        if not _typed(token.get("special"), bool, source, f"{field}.special"):
            raise CheckpointError(f"{source}: added token {_brief(name)} is not special, which is not supported")
        _check_id(token.get("id"), source, f"{field}.id")
        if not name or name in specials or token["id"] in specials.values():
            raise CheckpointError(f"{source}: {field}: name or id of {_brief(name)} is empty or taken")
        try:
            name.encode()
        except UnicodeEncodeError:
            raise CheckpointError(f"{source}: {field}.content: {name!r} is impossible in UTF-8") from None
        specials[name] = token["id"]
    return specials


def _pairs(merges: Any, source: str) -> list[Sequence[str]]:
    """The merges as pairs; files have them as "a b" or ["a", "b"]."""
    found: list[Sequence[str]] = []
    for place, merge in enumerate(_typed(merges, list, source, "model.merges")):
        pair = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(pair, list) or len(pair) != 2 or not all(isinstance(half, str) for half in pair):
            raise CheckpointError(f"{source}: model.merges[{place}] must be two tokens, not {_brief(merge)}")
        found.append(pair)
    return found


def _bytes(word: str, field: str) -> bytes:
    try:
        token = read_bytes(word)
    except KeyError:
        raise ValueError(f"model.{field}: {_brief(word)} is not written in the characters of bytes") from None
    if not token:
        raise ValueError(f"model.{field} has an empty token")
    return token


def _check_id(id: Any, source: str, field: str) -> None:
    if type(id) is not int or not 0 <= id < MOST_IDS:
        raise CheckpointError(f"{source}: {field} must be a whole number from 0 to {MOST_IDS - 1:,}, not {_brief(id)}")


def _typed(value: Any, kind: type, source: str, field: str) -> Any:
    if type(value) is not kind:
        names = {dict: "an object", list: "a list", str: "a string", bool: "true or false"}
        raise CheckpointError(f"{source}: not a tokenizer file: {field} must be {names[kind]}, not {_brief(value)}")
    return value
