"""Histograms, excerpts, copies and intervals of music, against what can be counted by hand."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from suite.data.performance import Note, Performance
from suite.data.recordings import Recording
from suite.tasks.music.metrics import (
    FEATURES,
    MILLISECONDS,
    density,
    divergence,
    evenly,
    excerpts,
    first_half,
    interval_of_mean,
    likeness,
    longest_copies,
    overlap,
    polyphony,
)


def melody(pitches: Sequence[int], gap: float = 0.25, velocity: int = 64) -> Performance:
    """One note after another."""
    return Performance.of(
        Note(pitch, velocity, gap * place, gap * (place + 1)) for place, pitch in enumerate(map(int, pitches))
    )


def recording(performance: Performance, name: str = "a.mid", piece: str = "") -> Recording:
    none = np.zeros(len(performance), dtype=bool)
    return Recording(name=name, piece=piece or name, split="", performance=performance, melody=none)


def drawn(count: int, seed: int, low: int = 40, high: int = 80) -> Performance:
    return melody(np.random.default_rng(seed).integers(low, high, count).tolist())


# ---- histograms


def test_music_is_just_like_itself() -> None:
    for figures in likeness([drawn(50, 0), drawn(50, 1)], [drawn(50, 1), drawn(50, 0)]).values():
        assert figures["overlap"] == pytest.approx(1) and figures["divergence"] == pytest.approx(0)


ALL_PITCH = {"pitch class", "pitch"}
TIMES = {"inter-onset interval", "duration", "notes per second"}


@pytest.mark.parametrize(
    ("changed", "moved"),
    [
        (melody([60] * 40).transposed(1), ALL_PITCH),
        (melody([60] * 40).transposed(12), {"pitch"}),
        (melody([60] * 40).stretched(2), TIMES),
        (melody([60] * 40, velocity=80), {"velocity"}),
    ],
)
def test_a_shift_moves_its_own_histograms_and_no_other(changed: Performance, moved: set[str]) -> None:
    for name, figures in likeness([melody([60] * 40)], [changed]).items():
        if name in moved:
            assert figures["overlap"] == 0 and figures["divergence"] > 1, name
        else:
            assert figures["overlap"] == pytest.approx(1), name


def test_overlap_and_divergence_by_hand() -> None:
    first, second = np.array([3, 1, 0]), np.array([0, 1, 1])
    assert overlap(first, second) == pytest.approx(0.25)
    p, q = np.array([3.5, 1.5, 0.5]) / 5.5, np.array([0.5, 1.5, 1.5]) / 3.5
    assert divergence(first, second) == pytest.approx((p * np.log(p / q)).sum())
    assert divergence(second, first) != pytest.approx(divergence(first, second)), "it has a direction"


def test_samples_without_notes_are_like_nothing() -> None:
    """A model that ends at once must be told so, not divide by zero."""
    for figures in likeness([drawn(50, 0)], [Performance.of([])]).values():
        assert figures["overlap"] == 0 and math.isfinite(figures["divergence"])


def test_density_counts_from_the_first_note_and_leaves_out_a_broken_second() -> None:
    music = Performance.of([Note(60, 64, start, start + 0.1) for start in (2.0, 2.5, 2.99, 3.0, 5.9)])
    assert density(music).tolist() == [3, 1, 0, 1]  # 2 to 6 s: four seconds, the last to the end of the last note
    assert density(music.between(0, 5.5)).tolist() == [3]  # 1.1 s from the first note to the last end
    assert density(melody([60])).tolist() == [1]


def test_polyphony_by_hand() -> None:
    music = Performance.of([Note(60, 64, 1.0, 1.4), Note(64, 64, 1.2, 1.3), Note(67, 64, 1.6, 1.8)])
    assert polyphony(music).tolist() == [1, 1, 2, 1, 0, 0, 1, 1]


def test_rounding_moves_no_time_on_the_grid_into_another_bin() -> None:
    """0.29 * 1000 is not 290 exactly: at an edge, the same music would fall on either side of it."""
    grid = np.arange(0, 13_000, 10)
    below, above = (np.searchsorted(MILLISECONDS, grid + error, side="right") for error in (-1e-6, 1e-6))
    assert (below == above).all()


def test_what_is_out_of_range_is_counted_at_the_end() -> None:
    cluster = Performance.of([Note(pitch, 64, 0.0, 20.0) for pitch in range(100)])
    for name in ("notes per second", "polyphony", "duration"):
        counts = FEATURES[name].histogram([cluster])
        assert counts[-1] > 0 and len(counts) == len(FEATURES[name].edges) + 1
    assert FEATURES["inter-onset interval"].histogram([cluster])[0] == 99


# ---- excerpts


def test_excerpts_are_spread_over_all_the_time_and_stay_within_a_recording() -> None:
    music = [recording(drawn(count, count)) for count in (40, 400, 200)]  # 10, 100 and 50 s
    found = excerpts(music, 16, 10.0)
    assert len(found) == 16 and all(9 < one.duration <= 10 for one in found)
    sources = [next(number for number, one in enumerate(music) if holds(one.performance, part)) for part in found]
    assert sources == [0] + [1] * 10 + [2] * 5


def holds(whole: Performance, part: Performance) -> bool:
    """Whether all notes of a part follow each other somewhere."""
    pitch, wanted = whole.pitch.tolist(), part.pitch.tolist()
    return any(pitch[at : at + len(wanted)] == wanted for at in range(len(pitch)))


def test_halves_share_no_piece() -> None:
    """Two performances of one piece in both halves would make other music look more alike than it is."""
    names = ["x", "y", "x", "z", "y", "x"]
    half = first_half([recording(melody([60]), piece=name) for name in names])
    assert half.tolist() == [True, False, True, True, False, True]


def test_places_are_evenly_spread() -> None:
    assert evenly(3, 9) == [1, 4, 7]
    assert evenly(9, 4) == [0, 1, 2, 3]


# ---- copies


def test_a_planted_copy_is_found_with_its_length_and_place() -> None:
    training = [recording(drawn(500, seed), f"{seed}.mid") for seed in range(8)]
    stolen = training[5].performance.pitch[100:120] + 3
    sample = melody([*drawn(30, 50).pitch, *stolen, *drawn(30, 51).pitch], gap=0.5)
    [copy] = longest_copies([sample], training)
    assert copy is not None
    assert (copy.notes, copy.name, copy.transposed) == (20, "5.mid", 3)
    assert copy.start == 30 * 0.5 and copy.there == 100 * 0.25 and copy.seconds == 19 * 0.5
    [own] = longest_copies([training[2].performance], training)
    assert own is not None and (own.notes, own.name, own.there, own.transposed) == (500, "2.mid", 0.0, 0)


def test_runs_are_as_long_as_the_slow_and_obvious_way_finds() -> None:
    """Runs shorter than a window, as long, and longer."""
    lengths: set[int] = set()
    for seed in range(60):
        random = np.random.default_rng(seed)
        high = 60 + int(random.choice([2, 3, 5, 20]))
        training = [recording(drawn(int(random.integers(1, 40)), 100 + seed * 3 + one, 60, high)) for one in range(3)]
        planted = training[1].performance.pitch[: seed // 5 + 2]
        sample = melody([*planted, *drawn(int(random.integers(1, 12)), 500 + seed, 60, high).pitch])
        [copy] = longest_copies([sample], training)
        wanted = np.diff(sample.pitch).tolist()
        sources = [np.diff(one.performance.pitch).tolist() for one in training]
        longest = max(longest_common(wanted, source) for source in sources)
        assert (0 if copy is None else copy.notes - 1) == longest
        lengths.add(longest)
    assert {2, 7, 8, 9, 12} <= lengths, "the cases do not cover what they should"


def test_no_run_goes_on_in_the_next_recording() -> None:
    training = [recording(melody([60, 64])), recording(melody([50, 57]))]
    for leap in range(-12, 13):
        [copy] = longest_copies([melody([60, 64, 64 + leap, 64 + leap + 7])], training)
        assert copy is not None and copy.notes == 2


def longest_common(first: list[int], second: list[int]) -> int:
    return max(
        (
            size
            for size in range(1, len(first) + 1)
            for i in range(len(first) - size + 1)
            for j in range(len(second) - size + 1)
            if first[i : i + size] == second[j : j + size]
        ),
        default=0,
    )


def test_the_notes_of_a_chord_may_come_in_any_order() -> None:
    """Quantising moves notes of a chord by a few milliseconds, which would break every run at each chord."""
    random = np.random.default_rng(0)
    chords = [sorted(random.choice(np.arange(40, 80), 3, replace=False).tolist()) for _ in range(20)]

    def played(seed: int) -> Performance:
        late = np.random.default_rng(seed).uniform(0, 0.012, (20, 3))
        return Performance.of(
            Note(pitch, 64, 0.5 * place + late[place, voice], 0.5 * place + 0.4)
            for place, chord in enumerate(chords)
            for voice, pitch in enumerate(chord)
        )

    assert played(1).pitch.tolist() != played(2).pitch.tolist()
    [copy] = longest_copies([played(1)], [recording(played(2))])
    assert copy is not None and copy.notes == 60


def test_what_has_no_interval_in_common_is_no_copy() -> None:
    training = [recording(melody([60, 62])), recording(melody([50])), recording(melody([70]))]
    samples = [melody([60]), Performance.of([]), melody([62, 60]), melody([62, 50])]
    assert longest_copies(samples, training) == [None] * 4, "an interval that no recording has"


# ---- how sure


def test_the_interval_is_that_of_a_proportion() -> None:
    """Of 100 pieces with nothing or one: 1.96 standard errors about a half; of fewer pieces, a wider one."""
    totals, counts = np.tile([0.0, 1.0], 50), np.ones(100, dtype=np.int64)
    names = [str(number) for number in range(100)]
    interval = interval_of_mean(totals, counts, names)
    assert interval == pytest.approx([0.5 - 0.098, 0.5 + 0.098], abs=0.015)
    assert interval == interval_of_mean(totals, counts, names), "not the same each time"
    # 25 pieces, each in four recordings that are all alike
    interval = interval_of_mean(np.repeat([0.0, 1.0], [48, 52]), counts, np.repeat(names[:25], 4).tolist())
    assert interval == pytest.approx([0.52 - 0.196, 0.52 + 0.196], abs=0.03)
    assert interval_of_mean(totals, counts, ["one"] * 100) is None


def test_the_interval_weighs_pieces_by_their_length() -> None:
    """The mean of means is another figure than the mean over all tokens."""
    counts = np.repeat([100, 1], [10, 90])
    totals = counts * np.repeat([2.0, 5.0], [10, 90])
    interval = interval_of_mean(totals, counts, [str(number) for number in range(100)])
    assert interval is not None
    assert interval[0] < totals.sum() / counts.sum() < interval[1] < 3 < (totals / counts).mean()
