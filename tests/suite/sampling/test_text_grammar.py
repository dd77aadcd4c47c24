"""A grammar over text: which tokens may come next depends on what they spell, not on how a text is split."""

import numpy as np
import torch

from suite.model import ModelConfig, Transformer
from suite.sampling import Sampling, generate
from suite.sampling.text_grammar import TextGrammar, TokenTrie


class Spelling:
    """Reads the beginnings of a few words, with a space between."""

    def __init__(self, *words: str) -> None:
        self.words = words

    def start(self) -> str:
        return ""

    def step(self, state: str, character: str) -> str | None:
        if character == " ":
            return "" if state in self.words else None
        return state + character if any(word.startswith(state + character) for word in self.words) else None

    def may_end(self, state: str) -> bool:
        return state in self.words


PIECES = [
    b"",
    *(bytes((one,)) for one in range(1, 256)),
    "ö".encode(),
    b"Lo",
    b"Lon",
    b"don",
    b" Lon",
    b"n K",
    b"London K",
]


def grammar() -> TextGrammar[str]:
    return TextGrammar(TokenTrie(PIECES), Spelling("London", "Köln"), alphabet="ö", ends=[0])


def reads(found: TextGrammar[str], pieces: list[bytes]) -> bool:
    state = found.start([])
    for piece in pieces:
        token = PIECES.index(piece)
        if not found.allowed(state)[token]:
            return False
        state = found.advance(state, token)
    return bool(found.allowed(state)[0])


def test_every_way_to_split_a_word_is_allowed_and_no_other_word() -> None:
    """A check on tokens would have to know all splits; half a character is a token too."""
    one = grammar()
    assert (
        reads(one, [b"Lon", b"don"]) and reads(one, [b"Lo", b"n", b"don"]) and reads(one, [*map(bytes, zip(b"London"))])
    )
    assert reads(one, [b"K", "ö".encode(), b"l", b"n"]) and reads(one, [b"K", b"\xc3", b"\xb6", b"l", b"n"])
    assert not reads(one, [b"Lon"]) and not reads(one, [b"don"]) and not reads(one, [b"K", b"\xc3", b"\xa4"])
    assert not reads(one, [b"Lon", b"don", b"Lon"]) and not reads(one, [b"K", b"\xc3"])
    assert reads(one, [b"Lon", b"don", b" Lon", b"don"])


def test_masks_are_those_of_each_token_alone() -> None:
    """What is remembered of shorter beginnings is what reading each token byte by byte gives, in every state."""
    one = grammar()
    random = np.random.default_rng(0)
    state = one.start([])
    for _ in range(200):
        mask = one.allowed(state)
        for token, piece in enumerate(PIECES[1:], 1):
            after = state
            for byte in piece:
                after = one._read(after, byte) if after is not None else None
            assert bool(mask[token]) == (after is not None)
        choices = np.flatnonzero(mask.numpy())
        assert len(choices)
        token = int(random.choice(choices))
        state = one.start([]) if token == 0 else one.advance(state, token)


def test_a_model_writes_only_what_can_be_read() -> None:
    """Whatever an untrained model prefers, its text is of the words."""
    torch.manual_seed(0)
    model = Transformer(ModelConfig(vocab_size=len(PIECES), context=64, d_model=16, n_layer=1, n_head=2))
    rows = generate(
        model,
        [[1], [2]],
        max_new_tokens=30,
        sampling=Sampling(temperature=2.0),
        grammar=grammar(),
        stop_tokens=[0],
        seed=5,
    )
    for row in rows:
        words = b"".join(PIECES[token] for token in row.tokens).decode(errors="ignore").split(" ")
        assert set(words[:-1]) <= {"London", "Köln"} and any(one.startswith(words[-1]) for one in ("London", "Köln"))
