"""A grammar over the text of tokens: an automaton reads characters, and a token may come where it can read all of it.

Byte-level BPE can split a word in many ways, and in the middle of a character. The rules are therefore about the bytes
that are written, whichever tokens write them.

Shapes: `V` vocabulary.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

S = TypeVar("S", bound=Hashable)
Ids = NDArray[np.int64]
SHARED = 2  # bytes: what may follow a shorter beginning of a token is remembered, because many states share it


class TextAutomaton(Protocol[S]):
    """Reads a text character by character. Some character must be readable from each state that may not be the last."""

    def start(self) -> S:
        """Return the state before the text."""
        ...

    def step(self, state: S, character: str, /) -> S | None:
        """Return the state after one more character; None if it may not come next."""
        ...

    def may_end(self, state: S, /) -> bool:
        """Whether the text may end here."""
        ...


class TokenTrie:
    """The tokens of a vocabulary by their bytes.

    Args:
        pieces: V, the bytes of each token; b"" for a token without text, which is left out.
    """

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = tuple(pieces)
        self.root = _Node(depth=0)
        for id, piece in enumerate(self.pieces):
            if not piece:
                continue
            node = self.root
            for byte in piece:
                node = node.children.setdefault(byte, _Node(depth=node.depth + 1))
            node.ids.append(id)


class _Node:
    """A beginning of tokens: the ids of those that end here, and the longer beginnings by their next byte."""

    __slots__ = ("children", "depth", "ids")

    def __init__(self, depth: int) -> None:
        self.ids: list[int] = []
        self.children: dict[int, _Node] = {}
        self.depth = depth


class Written(NamedTuple, Generic[S]):
    """The state of `TextGrammar`: that of its automaton, and the bytes of an unfinished character."""

    inner: S
    pending: bytes


class TextGrammar(Generic[S]):
    """Allows the tokens whose text an automaton can read; implements `suite.sampling.Grammar`.

    Args:
        trie: the vocabulary.
        automaton: the rules.
        alphabet: the characters that may be written besides ASCII.
        ends: ids of the tokens that end a text.

    Example:
        >>> class Digits:
        ...     def start(self): return ""
        ...     def step(self, state, character): return "some" if character.isdigit() else None
        ...     def may_end(self, state): return state == "some"
        >>> trie = TokenTrie([b"", b"1", b"23", b"4a", b"b"])
        >>> grammar = TextGrammar(trie, Digits(), alphabet="", ends=[0])
        >>> state = grammar.start([])
        >>> grammar.allowed(state).tolist(), grammar.allowed(grammar.advance(state, 1)).tolist()
        ([False, True, True, False, False], [True, True, True, False, False])
    """

    def __init__(
        self, trie: TokenTrie, automaton: TextAutomaton[S], *, alphabet: Iterable[str], ends: Collection[int]
    ) -> None:
        self.trie, self.automaton, self.ends = trie, automaton, tuple(ends)
        self.alphabet = {one.encode(): one for one in alphabet if not one.isascii()}
        self.beginnings: dict[bytes, list[str]] = {}  # bytes of an unfinished character -> characters they may become
        for code, one in self.alphabet.items():
            for length in range(1, len(code)):
                self.beginnings.setdefault(code[:length], []).append(one)
        self.steps: dict[tuple[S, str], S | None] = {}
        self.shared: dict[tuple[int, Written[S]], Ids] = {}
        self._kept: dict[Written[S], Tensor] = {}

    def start(self, prompt: Sequence[int], /) -> Written[S]:
        """Return the state before the text, whatever the prompt."""
        return Written(self.automaton.start(), b"")

    def advance(self, state: Written[S], token: int, /) -> Written[S]:
        """Return the state after one more token, which must be an allowed one."""
        for byte in self.trie.pieces[token]:
            after = self._read(state, byte)
            assert after is not None
            state = after
        return state

    def allowed(self, state: Written[S], /) -> Tensor:
        """(V,) bool, True for tokens whose text may come next."""
        mask = self._kept.get(state)
        if mask is None:
            allowed = np.zeros(len(self.trie.pieces), dtype=np.bool_)
            allowed[self._below(self.trie.root, state)] = True
            if not state.pending and self.automaton.may_end(state.inner):
                allowed[list(self.ends)] = True
            mask = self._kept[state] = torch.from_numpy(allowed)
        return mask

    def _below(self, node: _Node, state: Written[S]) -> Ids:
        """Return the ids of the tokens at a node and below it whose remaining bytes can be read from a state."""
        key = (id(node), state)
        if (known := self.shared.get(key)) is None:
            own: list[int] = []
            known = self.shared[key] = np.concatenate([*self._parts(node, state, own), np.array(own, dtype=np.int64)])
        return known

    def _parts(self, node: _Node, state: Written[S], own: list[int]) -> list[Ids]:
        """Append the ids to `own`, except those that are remembered, which are returned."""
        own += node.ids
        parts = []
        for byte, child in node.children.items():
            after = self._read(state, byte)
            if after is None:
                continue
            if child.depth <= SHARED and child.children:
                parts.append(self._below(child, after))
            else:
                parts += self._parts(child, after, own)
        return parts

    def _read(self, state: Written[S], byte: int) -> Written[S] | None:
        """Return the state after one more byte; None if it may not come next."""
        if not state.pending and byte < 128:
            inner = self._step(state.inner, chr(byte))
            return None if inner is None else Written(inner, b"")
        code = state.pending + bytes((byte,))
        if code in self.alphabet:
            inner = self._step(state.inner, self.alphabet[code])
            return None if inner is None else Written(inner, b"")
        if any(self._step(state.inner, one) is not None for one in self.beginnings.get(code, ())):
            return Written(state.inner, code)
        return None

    def _step(self, inner: S, character: str) -> S | None:
        key = (inner, character)
        if key not in self.steps:
            self.steps[key] = self.automaton.step(inner, character)
        return self.steps[key]
