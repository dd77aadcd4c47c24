"""Stop strings cut at the same character however the text is cut into tokens, and nothing shown is taken back."""

from hypothesis import given
from hypothesis import strategies as st

from suite.sampling.text import StopText


class Pieces:
    """A stream whose token ids index a list of texts, and which holds the last piece back until the flush."""

    def __init__(self, pieces: list[str], held: str = "") -> None:
        self.pieces, self.held = pieces, held

    def push(self, token: int) -> str:
        return self.pieces[token]

    def flush(self) -> str:
        return self.held


def run(pieces: list[str], stop: list[str], held: str = "") -> tuple[list[str], bool]:
    """What is released piece by piece, and whether a stop string was met."""
    text = StopText(Pieces(pieces, held), stop)
    released = []
    for token in range(len(pieces)):
        released.append(text.push(token))
        if text.stopped:
            return released, True
    released.append(text.flush())
    return released, text.stopped


def reference(text: str, stop: list[str]) -> tuple[str, bool]:
    """Character by character: the first end of any stop string, the longest of those that end there."""
    for end in range(1, len(text) + 1):
        found = [word for word in stop if text[:end].endswith(word)]
        if found:
            return text[: end - max(map(len, found))], True
    return text, False


LETTERS = st.text("ab", max_size=4)


@given(st.lists(LETTERS, max_size=8), st.lists(st.text("ab", min_size=1, max_size=4), max_size=3), LETTERS)
def test_where_text_stops_does_not_depend_on_tokens(pieces: list[str], stop: list[str], held: str) -> None:
    released, stopped = run(pieces, stop, held)
    assert ("".join(released), stopped) == reference("".join(pieces) + held, stop)


def test_text_that_may_become_a_stop_string_is_held_back() -> None:
    """A stream that prints "EN" before it knows of "END" cannot take it back."""
    assert run(["a E", "N", "D b"], ["END"]) == (["a ", "", ""], True)
    assert run(["a E", "N", "T b"], ["END"]) == (["a ", "", "ENT b", ""], False)


def test_what_is_held_at_the_end_is_text() -> None:
    assert run(["a E", "N"], ["END"]) == (["a ", "", "EN"], False)
