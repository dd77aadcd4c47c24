"""The evaluation of a music model: nats against a plain forward pass, n-grams by hand, what is held out, samples."""

import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from suite.checkpoint import Model
from suite.data.performance import Performance
from suite.data.recordings import read_recordings, split_by_piece
from suite.errors import CheckpointError, ConfigError, DataError
from suite.evaluation import Report
from suite.model import ModelConfig, Transformer
from suite.tasks.music import pipeline
from suite.tasks.music.evaluate import evaluate as evaluate_with
from suite.tasks.music.format import Format
from suite.tasks.music.options import MusicEvalOptions
from suite.tasks.music.samples import _unigram_samples

FORMAT = Format()
UNITS = ("token", "note", "second")


def evaluate(model: Model, data: Sequence[str], progress: Any = None, **options: Any) -> Report:
    """The report with these fields of the options."""
    return evaluate_with(model, data, MusicEvalOptions(**options), progress=progress)


@pytest.fixture(scope="module")
def model() -> Model:
    """It has learnt nothing, but is far from uniform, so that a wrong window shows."""
    torch.manual_seed(0)
    shape = {"vocab_size": FORMAT.vocab_size, "context": 64, "d_model": 16, "n_layer": 1, "n_head": 2}
    transformer = Transformer(ModelConfig.from_dict({**shape, "position": "rotary"})).eval()
    with torch.no_grad():
        for parameter in transformer.parameters():
            parameter.mul_(4)
    return Model(
        transformer=transformer, tokenizer=None, task="music", name="tiny", directory=Path(), extra=FORMAT.to_dict()
    )


def piece(seed: int, seconds: float = 6.0) -> Performance:
    random = np.random.default_rng(seed)
    start = np.sort(random.uniform(0, seconds, int(4 * seconds)))
    pitch, velocity = random.integers(50, 80, len(start)), random.integers(40, 90, len(start))
    return Performance(pitch, velocity, start, start + random.uniform(0.1, 0.6, len(start))).without_unisons()


def saved(folder: Path, **pieces: Performance) -> list[str]:
    """MIDI files of these names; a double underscore stands for a folder."""
    for name, performance in pieces.items():
        path = folder / f"{name.replace('__', '/')}.mid"
        path.parent.mkdir(parents=True, exist_ok=True)
        performance.save(path)
    return [str(folder)]


def several(folder: Path, count: int = 6) -> list[str]:
    return saved(folder, **{f"p{number}": piece(number) for number in range(count)})


def stream(path: Path) -> list[int]:
    return [*FORMAT.piece(Performance.load(path)), FORMAT.eos]


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SUITE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


# ---- nats


def test_nats_are_those_of_a_plain_forward_pass(model: Model, tmp_path: Path) -> None:
    """Also that each recording stands alone: a window over two would give the second another beginning."""
    data = several(tmp_path / "music", 3)
    counted: list[int] = []
    found = evaluate(model, data, length=4096, progress=counted.append)
    total = 0.0
    for path in sorted(Path(data[0]).iterdir()):
        tokens = torch.tensor(stream(path))[None]
        with torch.no_grad():
            scores = model.transformer(tokens[:, :-1]).log_softmax(-1)
        total -= float(scores.gather(2, tokens[:, 1:, None]).sum())
    music = [Performance.load(path) for path in Path(data[0]).iterdir()]
    notes, seconds = sum(map(len, music)), sum(one.duration for one in music)
    assert found["tokens"] == sum(counted) == sum(len(stream(path)) - 1 for path in Path(data[0]).iterdir())
    assert (found["recordings"], found["pieces"], found["notes"]) == (3, 3, notes)
    figures = found["results"]["model"]
    assert figures["nats_per_token"] * found["tokens"] == pytest.approx(total, rel=1e-5)
    assert figures["nats_per_note"] * notes == pytest.approx(total, rel=1e-5)
    assert figures["nats_per_second"] * seconds == pytest.approx(total, rel=1e-5)


def test_windows_and_strides(model: Model, tmp_path: Path) -> None:
    """Where the window holds all, the stride is nothing; where it does not, less context costs other nats."""
    data = several(tmp_path / "music", 2)

    def nats(**options: int) -> float:
        value: float = evaluate(model, data, **options)["results"]["model"]["nats_per_token"]
        return value

    whole = nats(length=1000)
    assert nats(length=1000, stride=7) == pytest.approx(whole, rel=1e-6)
    assert nats(length=20, stride=20) != pytest.approx(whole, rel=1e-4)
    assert evaluate(model, data)["length"] == 64 and evaluate(model, data)["stride"] == 32


def test_the_report_is_json_and_says_the_same_in_tables(model: Model, tmp_path: Path) -> None:
    found = evaluate(model, several(tmp_path / "music"))
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False)) == found.to_dict()
    assert list(found["results"]) == ["model", "uniform", "unigram", "bigram", "trigram"]
    assert found["results"]["uniform"]["nats_per_token"] == pytest.approx(math.log(FORMAT.vocab_size))
    low, high = found["results"]["model"]["interval"]
    assert low < found["results"]["model"]["nats_per_token"] < high
    assert found["samples"] is None
    for shown in (str(found), found.markdown()):
        assert f"{found['results']['trigram']['nats_per_second']:.3f}" in shown and "tiny" in shown
        assert f"[{low:.3f}, {high:.3f}]" in shown
    assert found.notes[0].startswith("6 recordings of 6 pieces, ")
    assert "- windows of 64 tokens every 32\n" in found.markdown()


# ---- n-grams


def test_n_grams_by_hand(model: Model, tmp_path: Path) -> None:
    """`<bos>` is nothing to predict, so it is not counted either; `<eos>` is."""
    train = saved(tmp_path / "train", a=piece(1), b=piece(2))
    data = saved(tmp_path / "data", c=piece(3))
    found = evaluate(model, data, train=train)
    assert found["ngrams_counted_on"] == train[0]
    lessons = [stream(tmp_path / "train" / name) for name in ("a.mid", "b.mid")]
    asked = stream(tmp_path / "data" / "c.mid")

    def probability(context: tuple[int, ...], token: int) -> float:
        """Witten and Bell: kinds of what followed a context count as much as what followed it."""
        lower = probability(context[1:], token) if context else 1 / FORMAT.vocab_size
        size = len(context)
        after = Counter(
            one[place] for one in lessons for place in range(1, len(one)) if padded(one, place, size) == context
        )
        return (after[token] + len(after) * lower) / (after.total() + len(after)) if after else lower

    for order, name in ((1, "unigram"), (2, "bigram"), (3, "trigram")):
        places = range(1, len(asked))
        nats = [-math.log(probability(padded(asked, place, order - 1), asked[place])) for place in places]
        assert found["results"][name]["nats_per_token"] == pytest.approx(np.mean(nats)), name


def padded(tokens: list[int], place: int, size: int) -> tuple[int, ...]:
    """The `size` tokens before a place, as many of them `<bos>` as there are none."""
    return tuple(([FORMAT.special("<bos>")] * size + tokens[1:])[place - 1 : place - 1 + size])


def test_without_training_music_each_piece_is_counted_on_others(model: Model, tmp_path: Path) -> None:
    """Two performances of one piece must not predict each other, even where nothing else is there to count on."""
    same = piece(1)
    data = saved(tmp_path / "a", x__one=same, x__two=same, y__one=piece(2), y__two=piece(3))
    found = evaluate(model, data, piece="folder")
    assert (found["recordings"], found["pieces"]) == (4, 2)
    assert found["ngrams_counted_on"] == "the other half of the same recordings"
    first = evaluate(model, [data[0] + "/x"], train=[data[0] + "/y"])
    second = evaluate(model, [data[0] + "/y"], train=[data[0] + "/x"])
    for name in ("unigram", "bigram", "trigram"):
        total = sum(one["results"][name]["nats_per_token"] * one["tokens"] for one in (first, second))
        assert found["results"][name]["nats_per_token"] == pytest.approx(total / found["tokens"]), name


def test_one_recording_is_counted_on_its_other_half(model: Model, tmp_path: Path) -> None:
    found = evaluate(model, saved(tmp_path / "music", one=piece(1)))
    results = found["results"]
    assert results["unigram"]["nats_per_token"] < results["uniform"]["nats_per_token"]
    assert results["trigram"]["nats_per_token"] > 1.5, "it has seen what it predicts"
    assert results["model"]["interval"] is None


def test_recordings_of_one_piece_count_once_for_the_interval(model: Model, tmp_path: Path) -> None:
    """They are nearly the same music: taken for several, they make ASAP's interval a third of what it is."""
    data = saved(tmp_path / "a", x__one=piece(1), x__two=piece(2))
    assert evaluate(model, data)["results"]["model"]["interval"] is not None
    assert evaluate(model, data, piece="folder")["results"]["model"]["interval"] is None


# ---- what is evaluated


def test_held_out_pieces_alone_are_evaluated_and_never_counted(model: Model, tmp_path: Path, cache: Path) -> None:
    data = several(tmp_path / "music", 12)
    known, kept = split_by_piece(read_recordings(data, cache).recordings, 0.3)
    found = evaluate(model, data, held_out=0.3)
    assert 0 < found["recordings"] == len(kept) < 12
    assert found["ngrams_counted_on"] == "the pieces not held out"
    by_name = evaluate(
        model,
        [str(tmp_path / "music" / one.name) for one in kept],
        train=[str(tmp_path / "music" / one.name) for one in known],
    )
    assert by_name["results"] == found["results"]
    assert evaluate(model, data, train=data, held_out=0.3)["results"] == found["results"], (
        "it counted on held-out music"
    )
    assert evaluate(model, data, held_out=1e-9)["recordings"] == 1, "however small the share, training holds one out"


def test_a_collections_own_split(model: Model, tmp_path: Path) -> None:
    """MAESTRO's test recordings are for nobody's choice of a model."""
    data = several(tmp_path / "music", 5)
    splits = ("train", "validation", "train", "test", "validation")
    rows = [f"composer,{number},{split},p{number}.mid" for number, split in enumerate(splits)]
    table = "\n".join(["canonical_composer,canonical_title,split,midi_filename", *rows])
    (tmp_path / "music" / "table.csv").write_text(table)
    found = evaluate(model, data, part="held-out")
    assert found["recordings"] == 2 and found["notes"] == len(piece(1)) + len(piece(4))
    assert evaluate(model, data)["recordings"] == 5


def test_takes_of_every_kind_stand_beside_the_recordings(model: Model, tmp_path: Path) -> None:
    """Density, keys and lengths are those of the passages that the recordings have there, counted by hand."""
    data = several(tmp_path / "music", 3)
    found = evaluate(model, data, takes=2, seconds=1.0, seed=3)
    rows = {(row["kind"], row["of"]): row for row in found["textures"]}
    kinds = ["alone", "after a primer", "under a melody", "in a gap"]
    assert list(rows) == [*((kind, of) for kind in kinds for of in ("model", "recordings")), ("plain melody", "model")]
    music = [one.performance for one in read_recordings(data, tmp_path / "cache").recordings]
    passages = []
    for place in (0, 2):
        start = round((music[place].duration - 1) / 2, 2)
        passages.append(music[place].between(start, start + 1))
    lengths = np.concatenate([one.end - one.start for one in passages])
    for kind in kinds:
        row = rows[kind, "recordings"]
        assert row["notes_per_second"] == pytest.approx(np.mean([len(one) for one in passages]), abs=1.01)
        assert row["interval"][0] <= row["notes_per_second"] <= row["interval"][1]
    assert rows["alone", "recordings"]["lengths"][-1] == pytest.approx(lengths.max(), abs=0.011)
    assert json.loads(json.dumps(found["textures"], allow_nan=False)) == found["textures"]
    assert "passages of 1 s, 2 of each kind" in str(found).splitlines()
    again = evaluate(model, data, takes=2, seconds=1.0, seed=3)
    assert again["textures"] == found["textures"]
    with pytest.raises(DataError, match="has 300 seconds"):
        evaluate(model, data, takes=1, seconds=100.0)


def test_a_limit_takes_recordings_from_everywhere(model: Model, tmp_path: Path) -> None:
    found = evaluate(model, several(tmp_path / "music", 6), limit=2)
    assert found["recordings"] == 2 and found["notes"] == len(piece(1)) + len(piece(4))


@pytest.mark.parametrize("options", [{"held_out": 1.0}, {"samples": -1}, {"limit": -1}, {"seconds": 0.0}])
def test_numbers_out_of_range_are_refused(model: Model, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="held_out"):
        evaluate(model, ["nothing"], **options)


def test_a_model_of_text_is_refused(model: Model, tmp_path: Path) -> None:
    text = Model(transformer=model.transformer, tokenizer=None, task="lm", name="lm", directory=Path())
    with pytest.raises(CheckpointError, match="not a music model"):
        evaluate(text, several(tmp_path / "music", 1))


# ---- samples


class Fake:
    """Plays what it was given."""

    plays: Sequence[Performance] = ()

    def __init__(self, model: Model) -> None:
        self.model = model

    def takes(self, count: int, *, seconds: float, seed: int) -> list[Performance]:
        assert count == len(self.plays) and (seconds, seed) == (4.0, 7)
        return list(self.plays)


def test_a_model_that_plays_its_training_is_found_out(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = saved(tmp_path / "train", **{f"t{seed}": piece(seed, 30) for seed in range(4)})
    data = several(tmp_path / "data", 4)
    stolen = piece(2, 30).between(10, 14).transposed(2)
    monkeypatch.setattr(Fake, "plays", [piece(9, 4), stolen])
    monkeypatch.setattr(pipeline, "Player", Fake)
    full = evaluate(model, data, train=train, samples=2, seconds=4.0, seed=7)
    found = full["samples"]
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert (found["count"], found["seconds"], found["smoothing"]) == (2, 4.0, 0.5)
    for each in found["likeness"].values():
        assert list(each) == ["model", "other pieces", "unigram"]
        assert all(0 <= one["overlap"] <= 1 and one["divergence"] >= 0 for one in each.values())
    pitches = found["likeness"]["pitch"]
    assert pitches["unigram"]["overlap"] > 0.3, "the unigrams have the pitches of what they were counted on"
    longest = found["copies"]["model"]["longest"]
    assert longest == found["copies"]["model"]["each"][1] and len(found["copies"]["reference"]["each"]) == 2
    assert (longest["name"], longest["transposed"]) == ("t2.mid", 2)
    assert longest["notes"] > 0.8 * len(stolen) > 2 * found["copies"]["reference"]["longest"]["notes"]
    assert found["copies"]["model"]["median_notes"] < longest["notes"]
    shown = str(full)
    assert "t2.mid at 10." in shown and "inter-onset interval" in shown


def test_without_training_music_no_copies_are_sought(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Copies of the music that is evaluated say nothing; and one piece has no other to be compared with."""
    monkeypatch.setattr(Fake, "plays", [piece(9, 4)])
    monkeypatch.setattr(pipeline, "Player", Fake)
    full = evaluate(model, saved(tmp_path / "data", one=piece(1)), samples=1, seconds=4.0, seed=7)
    found = full["samples"]
    assert found["copies"] is None
    assert list(found["likeness"]["pitch"]) == ["model", "unigram"]
    assert len(full.tables) == 2 and str(full)


def test_the_excerpts_are_other_pieces_than_the_yardstick(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sample that is the reference itself is all like it, and the other half of the pieces is not."""
    low, high = piece(1, 4.5), piece(2, 4.5).transposed(40)
    monkeypatch.setattr(Fake, "plays", [low])
    monkeypatch.setattr(pipeline, "Player", Fake)
    data = saved(tmp_path / "data", a=low, b=high)
    figures = evaluate(model, data, samples=1, seconds=4.0, seed=7)["samples"]["likeness"]["pitch"]
    assert figures["model"]["overlap"] > 0.7 and figures["other pieces"]["overlap"] == 0


def test_what_is_drawn_from_unigrams_is_as_long_as_the_samples() -> None:
    """Shorter music has fewer notes that never end, and so looks more like the real one."""
    lessons = [np.array([*FORMAT.events(piece(seed)), FORMAT.eos]) for seed in range(3)]
    for drawn in _unigram_samples(lessons, FORMAT, 3, 60.0, seed=0):
        assert 57 < drawn.duration <= 60


def test_samples_of_a_real_player(model: Model, tmp_path: Path) -> None:
    """The player's own arguments and results fit."""
    data = several(tmp_path / "data", 4)
    first, again = (evaluate(model, data, samples=2, seconds=1.5, seed=3)["samples"] for _ in range(2))
    assert first == again and first["count"] == 2


def test_samples_longer_than_all_music_are_refused(model: Model, tmp_path: Path) -> None:
    """Before minutes are spent on scoring; but one recording that is long enough will do."""
    short = piece(1).between(0, 2)
    data = saved(tmp_path / "some", a=short, b=piece(2), c=short, d=short)
    assert evaluate(model, data, samples=1, seconds=5.0)["samples"]["count"] == 1
    counted: list[int] = []
    with pytest.raises(DataError, match="lasts 60 seconds; compare shorter samples"):
        evaluate(model, several(tmp_path / "data", 2), samples=1, seconds=60.0, progress=counted.append)
    assert not counted
