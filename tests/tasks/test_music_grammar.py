"""The grammar that holds samples to music that can be played, and its bounds on density, keys and lengths."""

import json
from typing import Any

import numpy as np
import pytest
import torch

import suite
from suite.data.events import STEP_RATE, steps
from suite.data.performance import Note, Performance
from suite.errors import CheckpointError
from suite.tasks.music.bounds import WINDOWS, Bounds, sounding, struck, thinned
from suite.tasks.music.format import HIGHEST_KEY, LOWEST_KEY, Format
from suite.tasks.music.grammar import CODA, LONGEST_SILENCE, MusicGrammar

FORMAT = Format()
TABLE = FORMAT.table


def piece(count: int, seed: int = 0, pace: float = 0.2) -> Performance:
    """Random notes on the grid, one at a time on each key, the first at 0 s."""
    random = np.random.default_rng(seed)
    starts = np.cumsum(random.exponential(pace, count))
    notes = Performance(
        random.integers(40, 90, count),
        random.integers(1, 128, count),
        starts - starts[0],
        starts - starts[0] + random.uniform(0.05, 1.5, count),
    )
    return TABLE.decode(TABLE.encode(notes.without_unisons()).tokens.tolist()).without_unisons()


# ---- grammar


def walk(grammar: MusicGrammar, seed: int, prompt: list[int], hurry: float = 0.5) -> list[int]:
    """Tokens drawn from what a grammar allows, up to `<eos>`."""
    random = np.random.default_rng(seed)
    state, tokens = grammar.start(prompt), []
    while True:
        allowed = np.flatnonzero(grammar.allowed(state).numpy())
        assert len(allowed), "nothing may follow"
        shifts = allowed[(allowed >= TABLE.shift.start) & (allowed < TABLE.velocity.start)]
        choice = shifts if len(shifts) and random.random() < hurry else allowed
        token = int(random.choice(choice))
        if token == grammar.format.eos:
            return tokens
        tokens.append(token)
        state = grammar.advance(state, token)


@pytest.mark.parametrize("seed", range(4))
def test_masks_of_all_rows_are_those_of_each(seed: int) -> None:
    """In one piece and by themselves, whether or not a mask was made before; strokes as their definition has them."""
    melody = piece(12, seed, pace=0.3)
    limit = int(steps(np.array(melody.duration)))
    tokens = walk(MusicGrammar(FORMAT, limit=limit, melody=melody), seed, [FORMAT.special("<bos>")])
    grammar = MusicGrammar(FORMAT, limit=limit, melody=melody)
    states = [grammar.start([FORMAT.special("<bos>")])]
    for token in tokens:
        states.append(grammar.advance(states[-1], token))
    for group in (states[start : start + 7] for start in range(0, len(states), 7)):
        fresh = MusicGrammar(FORMAT, limit=limit, melody=melody)
        assert torch.equal(grammar.masks(group), torch.stack([fresh.allowed(state) for state in group]))
    for state in states:
        now = grammar._now(state)
        due = now[2] if now is not None and now[1] == 2 else None
        room = state.strokes < 12 and state.odds() > 0
        expected = {
            pitch
            for pitch in range(LOWEST_KEY, (HIGHEST_KEY + 1) if due is None else due)
            if room and pitch > state.after(2) and pitch not in state.sounding and pitch not in grammar._soon(state)
        }
        found = set(np.flatnonzero(grammar._strokes(state, now)).tolist())
        assert found == (expected if due is None else expected | {due})


@pytest.mark.parametrize("pedal", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_grammar_writes_what_the_encoder_would(pedal: bool, seed: int) -> None:
    """Any walk is the encoding of a performance of exactly the length asked for, with an end for every note."""
    format = Format(pedal=pedal)
    limit = int(np.random.default_rng(seed).integers(1, 3000))
    tokens = walk(MusicGrammar(format, limit=limit), seed, [format.special("<bos>")])
    performance = format.performance(tokens)
    assert round(performance.duration * STEP_RATE) == limit
    assert format.events(performance) == tokens
    on, off = (sum(token in kind.ids for token in tokens) for kind in (TABLE.on, TABLE.off))
    assert on == off == len(performance)
    assert performance.pitch.min() >= LOWEST_KEY and performance.pitch.max() <= HIGHEST_KEY
    assert not performance.pedal or not performance.pedal[-1].down


def test_grammar_bounds_silence_and_notes() -> None:
    """A walk that always waits as long as it may neither falls silent nor holds a key for ever."""
    performance = FORMAT.performance(walk(MusicGrammar(FORMAT, limit=12000), 1, [FORMAT.special("<bos>")], hurry=1.0))
    longest = (performance.end - performance.start).max()
    assert longest <= Bounds().lengths[-1] + 1 + CODA / STEP_RATE
    reached = np.maximum.accumulate(performance.end)[:-1]
    assert (performance.start[1:] - reached).max() * STEP_RATE <= LONGEST_SILENCE


@pytest.mark.parametrize("seed", range(12))
def test_grammar_keeps_a_melody(seed: int) -> None:
    """Every note of a melody is struck and ended when the melody does, whatever is drawn around it."""
    melody = piece(25, seed, pace=0.4)
    limit = int(steps(np.array(melody.duration)))
    tokens = walk(MusicGrammar(FORMAT, limit=limit, melody=melody), seed, [FORMAT.special("<bos>")])
    performance = FORMAT.performance(tokens)
    struck = {(note.pitch, round(note.start * STEP_RATE), round(note.end * STEP_RATE)) for note in performance.notes}
    assert {(note.pitch, round(note.start * STEP_RATE), round(note.end * STEP_RATE)) for note in melody.notes} <= struck
    assert len(performance) > len(melody) and round(performance.duration * STEP_RATE) == limit


def test_end_can_be_drawn() -> None:
    """Where a piece may end before the limit, `<eos>` is allowed once nothing sounds, and not before."""
    grammar = MusicGrammar(FORMAT, limit=5000, may_end=True)
    sounding = grammar.start([FORMAT.special("<bos>"), TABLE.velocity.id(9), 60, TABLE.shift.id(10)])
    assert not grammar.allowed(sounding)[FORMAT.eos]
    assert grammar.allowed(grammar.advance(sounding, 128 + 60))[FORMAT.eos]
    exact = MusicGrammar(FORMAT, limit=5000)
    assert not exact.allowed(exact.advance(sounding, 128 + 60))[FORMAT.eos]
    silent = grammar.start([FORMAT.special("<bos>"), TABLE.shift.id(10)])
    assert not grammar.allowed(silent)[FORMAT.eos], "a piece without a note is none"


# ---- bounds


NARROW = Bounds(strokes=((3.0, 5.0), (8.0, 10.0)), voices=(2.0, 3.0), lengths=(0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9))


@pytest.mark.parametrize("pedal", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_grammar_keeps_to_its_bounds(pedal: bool, seed: int) -> None:
    """Accompaniments had 32 to 44 notes a second in 17 voices: no walk, however eager to strike, exceeds the bounds."""
    format = Format(pedal=pedal)
    grammar = MusicGrammar(format, limit=3000, bounds=NARROW)
    tokens = walk(grammar, seed, [format.special("<bos>")], hurry=0.1)
    music = format.performance(tokens)
    assert format.events(music) == tokens and len(music) > 20
    for window, (_, most) in zip(WINDOWS, NARROW.strokes, strict=True):
        assert struck(music, music.start + 0.001, window).max() <= most
    assert sounding(music, music.start + 0.001).max() <= NARROW.voices[1]
    whole = music.end < music.duration - CODA / STEP_RATE
    assert (music.end - music.start)[whole].max() <= NARROW.lengths[-1] + 1


def test_long_notes_end_at_many_lengths() -> None:
    """Keys that are never let go ended after 8 s exactly, a spike in the histogram: each now has its own length."""
    grammar = MusicGrammar(FORMAT, limit=60_000)
    state, ends, struck_at = grammar.start([FORMAT.special("<bos>")]), [], 0
    state = grammar.advance(state, TABLE.velocity.id(9))
    for number in range(120):
        state = grammar.advance(state, 50 + number % 12)
        struck_at = state.step
        while not (mask := grammar.allowed(state))[128 + 50 + number % 12] or mask.sum() > 1:
            state = grammar.advance(state, TABLE.shift.id(10))
        ends.append(state.step - struck_at)
        state = grammar.advance(grammar.advance(state, 128 + 50 + number % 12), TABLE.shift.id(10))
    lengths = np.array(ends) / STEP_RATE
    low, *_, high = Bounds().lengths
    assert low <= lengths.min() and lengths.max() <= high + 0.1
    assert np.unique(lengths, return_counts=True)[1].max() < 30 and np.quantile(lengths, 0.9) > 3


def test_what_is_given_raises_the_bounds() -> None:
    """A dense primer, a melody of long notes, the thick chords after a gap: none of it is against the bounds."""
    chords = Performance.of(Note(40 + key, 66, time, time + 5.0) for time in (0.0, 5.0) for key in range(20))
    for prompt in (
        FORMAT.piece(chords),
        FORMAT.accompaniment(chords, piece(3))[0],
        FORMAT.fill(piece(3), chords, 200),
    ):
        bounds = MusicGrammar(FORMAT, limit=5000, bounds=NARROW).start(prompt).bounds
        assert bounds.voices[1] >= 20 and bounds.lengths[0] >= 5 and bounds.strokes[0][1] >= 20
        assert NARROW.raised(bounds) == bounds
    state = MusicGrammar(FORMAT, limit=5000, bounds=NARROW).start([FORMAT.special("<bos>")])
    assert state.bounds == NARROW


@pytest.mark.parametrize("seed", range(6))
def test_a_melody_denser_than_the_bounds_is_kept(seed: int) -> None:
    """The melody has its notes whatever the bounds are, and the walk never runs into a place without a way on."""
    melody = piece(60, seed, pace=0.05)
    limit = int(steps(np.array(melody.duration)))
    grammar = MusicGrammar(FORMAT, limit=limit, melody=melody, bounds=NARROW)
    music = FORMAT.performance(walk(grammar, seed, [FORMAT.special("<bos>")]))
    kept = {(note.pitch, round(note.start * STEP_RATE), round(note.end * STEP_RATE)) for note in music.notes}
    assert {(note.pitch, round(note.start * STEP_RATE), round(note.end * STEP_RATE)) for note in melody.notes} <= kept


def test_bounds_are_quantiles_of_music() -> None:
    """Ten notes a second, one key at a time, each a tenth of a second: the bounds say so, and survive a checkpoint."""
    music = Performance.of(Note(60 + place % 12, 66, place / 10, place / 10 + 0.1) for place in range(600))
    bounds = Bounds.of([music, Performance.of([])])
    assert bounds == Bounds(strokes=((10.0, 10.0), (40.0, 40.0)), voices=(1.0, 1.0), lengths=(0.1,) * 7)
    assert Bounds.from_dict({"bounds": json.loads(json.dumps(bounds.to_dict()))}, "mine") == bounds
    assert Bounds.of([Performance.of([])]) is None
    assert [thinned(count, (2, 4)) for count in (1, 2, 3, 4, 5)] == [1.0, 2 / 3, 1 / 3, 0.0, 0.0]


@pytest.mark.parametrize(
    "bounds",
    [
        3,
        {"strokes": [[1, 2]], "voices": [1, 2], "lengths": [1] * 7},
        {**Bounds().to_dict(), "voices": [4, 3]},
        {**Bounds().to_dict(), "lengths": [0, 1, 2, 3, 4, 5, 6]},
        {**Bounds().to_dict(), "lengths": ["long"] * 7},
    ],
)
def test_bounds_that_are_none(bounds: object) -> None:
    """A damaged config.json is named; one without bounds, of an older version, has the defaults."""
    with pytest.raises(CheckpointError, match=r"mine: extra\.bounds"):
        Bounds.from_dict({"bounds": bounds}, "mine")
    assert Bounds.from_dict(FORMAT.to_dict(), "mine") == Bounds()


def test_the_embedded_model_keeps_measured_bounds() -> None:
    """The defaults are those of the embedded model, as its documentation says."""
    assert Bounds.from_dict(suite.load("music").extra, "music") == Bounds()
    assert "bounds" in suite.load("music").extra


def logits(**given: float) -> torch.Tensor:
    """(V,) logits of which some tokens, named by kind and value ("on60"), have these and all others -20."""
    found = torch.full((FORMAT.vocab_size,), -20.0)
    for name, value in given.items():
        kind = name.rstrip("0123456789")
        found[getattr(TABLE, kind).id(int(name.removeprefix(kind)))] = value
    return found


def chances(grammar: MusicGrammar, state: Any, given: torch.Tensor) -> torch.Tensor:
    """(V,) the probabilities from which a token is drawn."""
    return grammar.steer(state, given).masked_fill(~grammar.allowed(state), -torch.inf).softmax(dim=-1)


def test_time_that_may_not_pass_is_not_given_to_strokes() -> None:
    """Before each melody note long waits are forbidden; their probability made accompaniments a rain of notes."""
    melody = Performance.of([Note(72, 66, 1.0, 1.5)])
    grammar = MusicGrammar(FORMAT, limit=300, melody=melody)
    state = grammar.start([FORMAT.special("<bos>"), TABLE.velocity.id(9), 40, TABLE.shift.id(50), 168])
    found = chances(grammar, state, logits(shift80=3.0, on50=0.0))
    assert found[TABLE.shift.id(50)] > 0.9 and found[50] < 0.1
    state = grammar.advance(state, TABLE.shift.id(50))
    found = chances(grammar, state, logits(shift80=3.0, on50=0.0))
    assert found[72] > 0.9, "the melody's note is due"


def test_a_melody_note_expected_too_soon_is_waited_for() -> None:
    """Forbidden to strike it early, a model had to strike some other key, again and again."""
    melody = Performance.of([Note(72, 66, 1.0, 1.5)])
    grammar = MusicGrammar(FORMAT, limit=300, melody=melody)
    state = grammar.start([FORMAT.special("<bos>"), TABLE.velocity.id(9), 40, TABLE.shift.id(90)])
    assert not grammar.allowed(state)[72]
    found = chances(grammar, state, logits(on72=3.0, on50=0.0))
    assert found[TABLE.shift.id(10)] > 0.9
    pending = grammar.advance(state, TABLE.velocity.id(20))
    assert chances(grammar, pending, logits(on72=3.0, on50=0.0))[TABLE.shift.id(10)] > 0.9
    held = grammar.advance(grammar.advance(state, TABLE.shift.id(10)), 72)
    held = grammar.advance(held, TABLE.shift.id(20))
    assert chances(grammar, held, logits(off72=3.0, on50=0.0))[TABLE.shift.id(30)] > 0.9


def test_strokes_are_thinned_towards_a_bound() -> None:
    """Between its two numbers a bound takes from the odds of a stroke little by little."""
    grammar = MusicGrammar(FORMAT, limit=3000, bounds=NARROW)
    state = grammar.start([FORMAT.special("<bos>"), TABLE.velocity.id(9), 40, TABLE.shift.id(1), 168])
    found = []
    for place in range(4):
        chance = chances(grammar, state, logits(on80=0.0, shift5=0.0))
        found.append(float(chance[80] / chance[TABLE.shift.id(5)]))
        for token in (50 + place, TABLE.shift.id(1), 178 + place):
            state = grammar.advance(state, token)
    assert found == pytest.approx([1, 1, 2 / 3, 1 / 3], abs=1e-4)
    assert not grammar.allowed(state)[: TABLE.off.start].any()
