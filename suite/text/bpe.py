"""Byte-level byte-pair encoding with tiktoken; gives the same ids as the merges of a `tokenizer.json`."""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise

import tiktoken

from suite.errors import CheckpointError

Merges = Sequence[tuple[bytes, bytes]]

# GPT-2's pattern that splits text into words, in tiktoken's form (possessive, so that long words need no backtracking).
# Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners"; openai/gpt-2, encoder.py.
_WORDS = r"""'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"""
# `\s+(?!\S)` alone backtracks: about 10^6 characters of white space overflow the stack of the regular expression.
_LONG_SPACE = 100_000
_SPACES = re.compile(rf"[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]{{{_LONG_SPACE},}}")


def _printable_bytes() -> dict[int, str]:
    """Return the printable character that stands for each byte in GPT-2's vocabulary files."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {byte: chr(256 + n) for n, byte in enumerate(others)}


_CHARACTER_OF = _printable_bytes()
_BYTE_OF = {character: byte for byte, character in _CHARACTER_OF.items()}


def write_bytes(token: bytes) -> str:
    """Write the bytes of a token in printable characters, as GPT-2's files do."""
    return "".join(_CHARACTER_OF[byte] for byte in token)


def read_bytes(written: str) -> bytes:
    """Return the bytes that `write_bytes` wrote."""
    return bytes(_BYTE_OF[character] for character in written)


class BytePairEncoder:
    """Encodes text to token ids by byte-pair merges.

    Args:
        vocabulary: bytes of each token -> id, including all 256 single bytes.
        merges: pairs of tokens in the order they are merged; each merged token is in the vocabulary.

    Raises:
        CheckpointError: the merges use a token before the merge that makes it.

    Source: Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units".
    """

    def __init__(self, vocabulary: Mapping[bytes, int], merges: Merges) -> None:
        ranks = _rank_tokens(merges)
        ids = [vocabulary[token] for token in ranks if len(token) > 1]
        self._id_of_rank: list[int] | None = None
        if all(earlier < later for earlier, later in pairwise(ids)):  # then ids can serve as ranks
            ranks = {token: vocabulary[token] for token in ranks}
        else:
            self._id_of_rank = [0] * (1 + max(ranks.values()))
            for token, rank in ranks.items():
                self._id_of_rank[rank] = vocabulary[token]
        self._encoding = tiktoken.Encoding("suite", pat_str=_WORDS, mergeable_ranks=ranks, special_tokens={})

    def encode(self, text: str) -> list[int]:
        """Return the token ids of a text, which must not contain lone surrogates."""
        if len(text) < _LONG_SPACE:
            ids = self._encoding.encode_ordinary(text)
        else:
            ids = [id for part in _split_at_long_space(text) for id in self._encoding.encode_ordinary(part)]
        return ids if self._id_of_rank is None else [self._id_of_rank[rank] for rank in ids]


def _rank_tokens(merges: Merges) -> dict[bytes, int]:
    """Return the rank of each token that BPE can build: 256 plus the index of its merge; a byte is its own rank.

    tiktoken joins any two neighbours that make a token, BPE only the pairs that it learned. The two agree if every
    ranked token is one that BPE builds from its own bytes, because it then always builds it from the same pair.
    """
    ranks = {bytes([byte]): byte for byte in range(256)}
    order = {pair: 256 + n for n, pair in enumerate(merges)}
    halves: dict[bytes, tuple[bytes, bytes]] = {}
    unmade: set[bytes] = set()
    for pair, rank in order.items():
        token = pair[0] + pair[1]
        if not all(half in ranks for half in pair):
            unmade.update(half for half in pair if half not in ranks)
        elif token not in ranks and _reachable(pair, rank, order, halves):
            ranks[token], halves[token] = rank, pair
    if early := unmade & ranks.keys():  # training never produces this, and the argument above does not hold for it
        raise CheckpointError(f"tokenizer: merges are out of order, {min(early)!r} is used before it is made")
    return ranks


def _reachable(
    pair: tuple[bytes, bytes],
    rank: int,
    order: Mapping[tuple[bytes, bytes], int],
    halves: Mapping[bytes, tuple[bytes, bytes]],
) -> bool:
    """Return whether BPE on the bytes of a pair builds that pair: no merge across the border comes earlier.

    Undoes the merges that made the two halves, last merge first. At each step two tokens meet at the border; if
    merging them ranks before the merge just undone, BPE would have merged across the border instead.
    """
    left, right = pair
    while True:
        left_rank = order[halves[left]] if left in halves else -1
        right_rank = order[halves[right]] if right in halves else -1
        if left_rank == right_rank == -1:
            return True
        if left_rank > right_rank:
            left = halves[left][1]
            across_wins = order.get((left, right), rank) < left_rank
        else:  # of equal merges the leftmost comes first, which is the merge across the border
            right = halves[right][0]
            across_wins = order.get((left, right), rank) <= right_rank
        if across_wins:
            return False


def _split_at_long_space(text: str) -> list[str]:
    """Split a text at very long white space, at its start and before its last character, as GPT-2's pattern does."""
    cuts = [cut for run in _SPACES.finditer(text) if run.end() < len(text) for cut in (run.start(), run.end() - 1)]
    return [text[start:stop] for start, stop in pairwise([0, *cuts, len(text)])]
