"""Music: the sequences, the grammar that holds samples to them, and what the pipeline makes of a model."""

import json
from typing import Any

import numpy as np
import pytest
import torch

import suite
from suite.checkpoint import save_checkpoint
from suite.data.events import STEP_RATE
from suite.data.performance import Note, Pedal, Performance
from suite.data.recordings import Recording
from suite.errors import CheckpointError, ConfigError, DataError
from suite.model import ModelConfig, Transformer
from suite.task import Result
from suite.tasks.music.examples import Windows, divide, part, skyline, validation_windows
from suite.tasks.music.format import Format
from suite.tasks.music.pipeline import Player
from suite.tasks.music.take import Take

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


def recording(count: int, seed: int = 0, name: str = "one.mid") -> Recording:
    performance = piece(count, seed)
    return Recording(
        name=name, piece=name, split="", performance=performance, melody=np.zeros(len(performance), dtype=bool)
    )


@pytest.fixture(scope="module", params=["rotary", "learned"])
def player(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Player:
    """A model that has learnt nothing: what holds of it holds of any."""
    torch.manual_seed(1)
    shape = {"context": 96, "d_model": 16, "n_layer": 1, "n_head": 2, "position": request.param}
    config = ModelConfig.from_dict({"vocab_size": FORMAT.vocab_size, **shape})
    directory = tmp_path_factory.mktemp("music")
    weights = Transformer(config).state_dict()
    save_checkpoint(directory, config, weights, None, task="music", extra=FORMAT.to_dict())
    return Player(suite.load(str(directory)))


# ---- sequences


def test_layouts() -> None:
    """The three layouts are what their description says, token by token."""
    low = Performance.of([Note(60, 66, 0.0, 0.5)])
    high = Performance.of([Note(72, 66, 0.0, 1.2)])
    velocity = TABLE.velocity.id(17)
    events = [velocity, 60, TABLE.shift.id(50), 128 + 60]
    assert FORMAT.piece(low) == [FORMAT.special("<bos>"), *events]
    tokens, target = FORMAT.accompaniment(high, low)
    assert tokens[target - 1] == FORMAT.special("<sep>") and tokens[target:] == events
    assert tokens[:2] == [FORMAT.special("<bos>"), FORMAT.special("<melody>")]
    tokens = FORMAT.fill(low, high, 230)
    waits = [TABLE.shift.id(100), TABLE.shift.id(100), TABLE.shift.id(30)]
    assert tokens[:5] == [FORMAT.special("<bos>"), FORMAT.special("<fill>"), *waits]
    assert FORMAT.music(tokens) == events and FORMAT.elapsed(tokens) == 50


def test_format_of_another_model() -> None:
    """A model of text, or of other special tokens, is refused by name instead of playing nonsense."""
    assert Format.from_dict(Format(pedal=True).to_dict(), "mine") == Format(pedal=True)
    with pytest.raises(CheckpointError, match="lm is not a music model"):
        Format.from_dict({}, "lm")
    with pytest.raises(CheckpointError, match="special tokens"):
        Format.from_dict({**FORMAT.to_dict(), "specials": ["<bos>"]}, "mine")


# ---- training examples


def test_windows_are_a_function_of_the_index() -> None:
    """A resumed run must see the same examples, in whatever order it asks for them."""
    recordings = [recording(400, 1), recording(900, 2)]
    kinds = {"transpose": 3, "stretch": 0.05, "accompaniment": 0.3, "fill": 0.3}
    first, second = (Windows(recordings, FORMAT, 128, 7, **kinds) for _ in range(2))
    for index in (5, 0, 11):
        assert np.array_equal(first[index].tokens, second[index].tokens)
    assert any(not np.array_equal(first[index].tokens, first[index + 1].tokens) for index in range(3))


def test_windows_fit_and_end() -> None:
    """Every example fits the context, and a conditional one has its loss on music alone, up to `<eos>`."""
    windows = Windows([recording(600, 3)], FORMAT, 160, 0, transpose=3, accompaniment=0.4, fill=0.4)
    seen = set()
    for index in range(80):
        example = windows[index]
        tokens = example.tokens.tolist()
        assert len(tokens) <= 161
        kind = next((name for name in ("<melody>", "<fill>") if FORMAT.special(name) in tokens), "piece")
        seen.add(kind)
        if kind != "piece":
            assert tokens[-1] == FORMAT.eos and tokens[0] == FORMAT.special("<bos>")
            assert all(token < TABLE.size for token in tokens[example.target : -1])
        if kind == "<melody>":
            assert tokens[example.target - 1] == FORMAT.special("<sep>")
            place = tokens.index(FORMAT.special("<sep>"))
            melody, whole = FORMAT.performance(tokens[2:place]), FORMAT.performance(tokens[place:-1])
            assert set(melody.notes) <= set(whole.notes)
    assert seen == {"piece", "<melody>", "<fill>"}


def test_filled_gap_is_the_music_that_was_there() -> None:
    """Before, middle and after of a fill example are one window again: nothing moved, nothing lost."""
    original = recording(300, 4)
    windows = Windows([original], FORMAT, 400, 0, fill=1.0)
    example = next(windows[index] for index in range(20) if FORMAT.special("<fill>") in windows[index].tokens)
    tokens = example.tokens.tolist()[:-1]
    place = tokens.index(FORMAT.special("<sep>"))
    gap = 0
    while tokens[2 + gap] in TABLE.shift.ids:
        gap += 1
    after = FORMAT.performance(tokens[2 + gap : place])
    before = FORMAT.performance(tokens[place + 1 : example.target])
    both = FORMAT.performance(tokens[place + 1 :])
    start = before.duration + TABLE.duration(np.array(tokens[2 : 2 + gap]))
    whole = both.joined(after.shifted(start))
    shape = [(note.pitch, round(note.start * STEP_RATE)) for note in whole.notes]
    notes = [(note.pitch, round(note.start * STEP_RATE)) for note in original.performance.notes]
    found = [
        first
        for first in range(len(notes))
        if [(pitch, step - notes[first][1]) for pitch, step in notes[first : first + len(shape)]] == shape
    ]
    assert found


def test_transposition_stays_on_the_piano() -> None:
    """The highest key of the piano is not moved beyond it."""
    top = Performance.of(Note(108 - place % 3, 80, place * 0.1, place * 0.1 + 0.05) for place in range(60))
    one = Recording(name="top", piece="top", split="", performance=top, melody=np.zeros(60, dtype=bool))
    windows = Windows([one], FORMAT, 64, 0, transpose=6)
    pitches = [FORMAT.performance(windows[index].tokens.tolist()).pitch.max() for index in range(20)]
    assert max(pitches) == 108 and min(pitches) < 108


def test_divide() -> None:
    """A note belongs to the part in which it starts, and ends with it."""
    notes = Performance.of([Note(60, 64, 0.0, 3.0), Note(62, 64, 1.0, 1.5), Note(64, 64, 2.0, 2.5)])
    before, middle, after = divide(notes, 1.0, 2.0)
    assert before.notes == (Note(60, 64, 0.0, 1.0),)
    assert middle.notes == (Note(62, 64, 1.0, 1.5),)
    assert after.notes == (Note(64, 64, 0.0, 0.5),)


def test_skyline() -> None:
    """A note under a longer one is no melody, a note alone is; of a rolled chord only the top."""
    notes = Performance.of(
        [
            Note(72, 64, 0.0, 1.0),
            Note(60, 64, 0.5, 1.0),
            Note(60, 64, 1.2, 1.5),
            Note(55, 64, 2.0, 3),
            Note(59, 64, 2.02, 3),
        ]
    )
    assert skyline(notes).tolist() == [True, False, True, False, True]


def test_validation_windows_read_everything_once() -> None:
    """Every token of a piece is predicted by exactly one window."""
    one = recording(200, 5)
    windows, total = validation_windows([one], FORMAT, 50, 0)
    stream = [*FORMAT.piece(one.performance), FORMAT.eos]
    assert total == len(stream) - 1 == sum(len(window.tokens) - 1 for window in windows)
    assert [int(token) for window in windows for token in window.tokens[1:]] == stream[1:]


# ---- the pipeline


def inside(small: Performance, large: Performance) -> bool:
    return set(small.notes) <= set(large.notes)


@pytest.mark.parametrize("seconds", [0.01, 0.5, 3.21])
def test_exact_length(player: Player, seconds: float) -> None:
    """A take is as long as asked for, also past the model's context."""
    assert player(seconds=seconds, seed=2).duration == pytest.approx(seconds, abs=1e-9)


def test_takes_do_not_depend_on_each_other(player: Player) -> None:
    """The second of three takes is the second of two."""
    three, two = player.takes(3, seconds=1, seed=5), player.takes(2, seconds=1, seed=5)
    assert three[:2] == two and len(set(three)) == 3


def test_primer_is_kept(player: Player) -> None:
    """A continuation begins with the primer as it was played, here longer than the context, and lasts so much more."""
    primer = piece(80, 1).stretched(1.0123).shifted(0.4567)
    result = player(primer=primer, seconds=1.5, seed=1)
    assert inside(primer, result) and result.duration == pytest.approx(primer.duration + 1.5, abs=1e-6)
    new = player(primer=primer, seconds=1.5, seed=1, only_new=True)
    assert len(new) + len(primer) == len(result) and new.duration == pytest.approx(1.5, abs=1e-6)


def test_primer_of_a_hundred_notes_at_once(player: Player) -> None:
    """A primer that no ten fingers can play is continued all the same."""
    primer = Performance.of(Note(pitch, 80, 0.0, 1.0) for pitch in range(14, 114))
    assert inside(primer, player(primer=primer, seconds=0.5, seed=1))


def test_ending_and_gap(player: Player) -> None:
    """Both sides of a gap stay as they were, and what fills it stays between them."""
    before, after = piece(20, 2), piece(20, 3)
    result = player(primer=before, ending=after, seconds=2.0, seed=3)
    assert inside(before, result) and inside(after.shifted(before.duration + 2.0), result)
    whole = piece(60, 4)
    [mended] = player.refill(whole, 4.0, 6.0, seed=1)
    outside = (whole.start < 4.0) | (whole.start >= 6.0)
    assert inside(part(whole, outside), mended)
    middle = set(mended.notes) - set(part(whole, outside).notes)
    until = float(whole.start[whole.start >= 6.0][0])
    assert middle and all(note.end <= until + 1e-6 for note in middle)


def test_melody_is_kept(player: Player) -> None:
    """An accompaniment has each note of its melody exactly, over several passages, and others around them."""
    melody = piece(40, 6, pace=0.15).stretched(1.01)
    result = player(melody=melody, seed=1)
    assert inside(melody, result) and len(result) > len(melody)
    assert result.duration == pytest.approx(melody.duration, abs=0.02)


def test_what_is_given_or_made_can_be_moved(player: Player) -> None:
    """Transposition and tempo change a primer before, and a result that has none after."""
    plain, moved = player(seconds=2, seed=4), player(seconds=1, seed=4, transpose=-2, tempo=2)
    assert (plain.pitch - 2).tolist() == moved.pitch.tolist() and moved.duration == pytest.approx(1)
    primer = piece(5, 1)
    result = player(primer=primer, seconds=0.5, transpose=1, tempo=2)
    assert inside(primer.transposed(1).stretched(0.5), result)


def test_density(player: Player) -> None:
    """A higher density plays more notes in the same time."""
    assert player.bounds.denser(2.0).strokes == tuple((2 * free, 2 * most) for free, most in player.bounds.strokes)
    few, many = (np.mean([len(take) for take in player.takes(4, seconds=1, density=d)]) for d in (0.05, 20))
    assert few < many


@pytest.mark.parametrize("tempo", [1.0, 2.0])
def test_a_piece_may_end_by_itself(player: Player, tempo: float) -> None:
    """The model's end is where the take is over, at the tempo asked for; so it is after a primer."""
    bias = {**dict.fromkeys(TABLE.off.ids, 20.0), FORMAT.eos: 50.0}
    sure: dict[str, Any] = {"logit_bias": bias, "may_end": True, "seed": 4}
    take = player(seconds=20, tempo=tempo, **sure)
    assert len(take) > 0 and take.duration < 20
    assert take.duration == pytest.approx(player(seconds=20, **sure).duration / tempo)
    longer = player(primer=piece(5), **sure)
    assert inside(piece(5), longer) and longer.duration < piece(5).duration + 20


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"may_end": True, "melody": piece(3)}, "the length is fixed"),
        ({"may_end": True, "ending": piece(3)}, "the length is fixed"),
        ({"seconds": 0}, "seconds is 0"),
        ({"seconds": float("nan")}, "seconds is nan"),
        ({"seconds": 1e9}, "seconds is 1e\\+09"),
        ({"density": 0}, "density is 0"),
        ({"seconds": "5"}, "seconds is '5', but must be a number"),
        ({"tempo": "fast"}, "tempo is 'fast', but must be a number"),
        ({"seconds": 1, "seed": "x"}, "seed is 'x', but must be a number"),
        ({"temperature": "hot"}, "temperature is 'hot', but must be a number"),
        ({"tempo": -1}, "tempo is -1"),
        ({"melody": piece(3), "primer": piece(3)}, "takes no primer"),
        ({"top_k": -1}, "top_k is -1"),
        ({"warmth": 3}, "unknown setting 'warmth'"),
        ({"secods": 3}, "unknown setting 'secods'; did you mean 'seconds'"),
    ],
)
def test_impossible_wishes(player: Player, options: dict[str, object], message: str) -> None:
    """What cannot be is refused in one line that names it."""
    with pytest.raises(ConfigError, match=message):
        player(**options)


def test_empty_primer(player: Player) -> None:
    """Nothing is no primer, and neither is one that was transposed out of MIDI's range."""
    with pytest.raises(DataError, match="the primer has no notes"):
        player(primer=Performance.of([]))
    with pytest.raises(DataError, match="range"):
        player(primer=piece(3), transpose=100)


def test_a_file_name_is_no_primer(player: Player) -> None:
    """It ended in a traceback: 'str' object has no attribute 'transposed'."""
    wrong: Any = "mine.mid"
    with pytest.raises(DataError, match=r"the primer must be a Performance, such as .*, not str"):
        player(primer=wrong)
    with pytest.raises(DataError, match="the performance must be a Performance"):
        player.refill(wrong, 1, 2)


def test_a_result_is_one_line_and_plain_values(player: Player) -> None:
    """A performance printed as an object and had no plain values, unlike the results of other pipelines."""
    take = player(seconds=1, seed=2)
    assert isinstance(take, Take) and isinstance(take, Result) and isinstance(take, Performance)
    assert str(take) == f"{len(take)} notes, 1.00 seconds" and repr(take) == f"<Take of {take}>"
    plain = take.to_dict()
    assert json.loads(json.dumps(plain)) == plain and plain["seconds"] == take.duration and plain["pedal"] == []
    assert Performance.of(Note(**note) for note in plain["notes"]) == take
    results = [*player.takes(2, seconds=1, seed=2), *player.refill(piece(20), 1, 2, count=2)]
    assert [type(one) for one in results] == [Take] * 4 and results[0] == take


def test_gaps_that_are_none(player: Player) -> None:
    """A gap that runs backwards, or that nothing follows, is refused."""
    with pytest.raises(ConfigError, match="from 2 to 1"):
        player.refill(piece(20), 2, 1)
    with pytest.raises(ConfigError, match="nothing follows"):
        player.refill(piece(20), 0, 1000)


def test_a_model_of_text_cannot_play() -> None:
    """A checkpoint of text cannot play."""
    with pytest.raises(CheckpointError, match="not a music model"):
        Player(suite.load("lm"))


def test_a_window_keeps_a_pedal_that_was_down_before_it() -> None:
    held = Performance([60, 62], [64, 64], [1.0, 1.5], [1.2, 2.0], (Pedal(0.5, True), Pedal(1.8, False)))
    assert part(held, slice(0, 2)).pedal == (Pedal(0.0, True), Pedal(0.8, False))


def test_a_note_longer_than_the_context_is_no_endless_search() -> None:
    """Neither a fill nor an accompaniment of it fits, however few notes are taken: it is a plain window then."""
    endless = Performance(np.arange(40, 52), [64] * 12, np.arange(12) * 0.1, np.arange(12) * 0.1 + 900.0)
    one = Recording(name="a", piece="a", split="", performance=endless, melody=np.ones(12, dtype=bool))
    for kind in ("fill", "accompaniment"):
        tokens = Windows([one], FORMAT, 64, 0, **{kind: 1.0})[0].tokens.tolist()
        assert not {FORMAT.special("<fill>"), FORMAT.special("<melody>")} & set(tokens)


def test_numbers_of_which_nothing_is_left_are_errors(player: Player) -> None:
    with pytest.raises(ConfigError, match=r"times the tempo is 0\.0001 s"):
        player(seconds=1, tempo=1e-4)
    with pytest.raises(ConfigError, match="density is 0"):
        player.refill(piece(20), 1, 2, density=0)
    with pytest.raises(DataError, match="the take has no notes within MIDI's range"):
        player(seconds=1, transpose=127)
