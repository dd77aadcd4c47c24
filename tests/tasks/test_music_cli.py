"""`suite run music` and `suite train music`: what is typed, what is written, and what is broken."""

import importlib.util
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from click.testing import CliRunner

from suite.checkpoint import save_checkpoint
from suite.cli.main import main
from suite.data.performance import Note, Performance
from suite.model import ModelConfig, Transformer
from suite.tasks.music.bounds import Bounds
from suite.tasks.music.format import Format


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model that has learnt nothing."""
    torch.manual_seed(1)
    shape = {"context": 64, "d_model": 16, "n_layer": 1, "n_head": 2, "position": "rotary"}
    config = ModelConfig.from_dict({"vocab_size": Format().vocab_size, **shape})
    directory = tmp_path_factory.mktemp("tiny")
    weights = Transformer(config).state_dict()
    save_checkpoint(directory, config, weights, None, task="music", extra=Format().to_dict())
    return str(directory)


def scale(pitch: int = 60, count: int = 8) -> Performance:
    return Performance.of(Note(pitch + step, 70, step * 0.25, step * 0.25 + 0.2) for step in range(count))


@pytest.fixture
def tune(tmp_path: Path) -> str:
    path = tmp_path / "tune.mid"
    scale().save(path)
    return str(path)


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[list[str], str]:
    """Lines on standard output, and what stands on standard error, of a command that must succeed."""
    assert main(["run", "music", *words]) == 0, capsys.readouterr().err
    out, err = capsys.readouterr()
    return out.splitlines(), err


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert main(words) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.startswith("suite: error: ") and err.count("\n") <= 2
    return err


def test_files_are_written_and_named(tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Music, recording and picture of each take get its number, and their names stand on standard output."""
    names = {
        option: str(tmp_path / f"a.{ending}") for option, ending in (("-o", "mid"), ("--wav", "wav"), ("--plot", "png"))
    }
    words = [word for pair in names.items() for word in pair]
    lines, _ = run(capsys, "--seconds", "0.5", "--takes", "2", "--seed", "3", "--model", tiny, *words)
    assert [Path(line).name for line in lines] == [f"a-{n}.{e}" for n in (1, 2) for e in ("mid", "wav", "png")]
    assert all(Path(line).stat().st_size > 60 for line in lines)
    first, second = (Performance.load(tmp_path / f"a-{n}.mid") for n in (1, 2))
    assert first.duration == pytest.approx(0.5, abs=1e-6) and first != second


def test_a_drawn_seed_is_told_and_repeats_the_run(
    tiny: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without --seed and --out the file is named after the seed, with which it can be made again."""
    monkeypatch.chdir(tmp_path)
    [name], err = run(capsys, "--seconds", "0.3", "--model", tiny)
    seed = name.removeprefix("music-").removesuffix(".mid")
    assert err.startswith(f"seed {seed}; ")
    run(capsys, "--seconds", "0.3", "--model", tiny, "--seed", seed, "-o", "again.mid")
    assert Path(name).read_bytes() == Path("again.mid").read_bytes()


def test_json(tiny: str, tune: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Machines get the files, the length, the notes and the seed."""
    out = str(tmp_path / "b.mid")
    [line], _ = run(
        capsys, "--primer", tune, "--seconds", "1", "--seed", "4", "--model", tiny, "-o", out, "--json", "-q"
    )
    found: dict[str, Any] = json.loads(line)
    assert found["files"] == [out] and found["seed"] == 4 and found["notes"] == len(Performance.load(out))
    assert found["seconds"] == pytest.approx(scale().duration + 1, abs=1e-6)


def test_primer_melody_ending_and_gap(tiny: str, tune: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is given comes back in the file; --only-new leaves it out."""
    out = tmp_path / "c.mid"
    common = ["--seed", "1", "--model", tiny, "-o", str(out)]
    notes = {(note.pitch, round(note.start, 3)) for note in scale().notes}

    def written() -> set[tuple[int, float]]:
        return {(note.pitch, round(note.start, 3)) for note in Performance.load(out).notes}

    for words in (["--primer", tune], ["--melody", tune], ["--primer", tune, "--ending", tune]):
        run(capsys, *words, *(["--seconds", "1"] if "--melody" not in words else []), *common)
        assert notes < written()
    run(capsys, "--primer", tune, "--gap", "0.5:1", *common)
    kept = {(pitch, start) for pitch, start in notes if not 0.5 <= start < 1}
    assert kept < written()
    run(capsys, "--primer", tune, "--gap", "0.5:1", "--tempo", "2", *common)  # times are the primer's own
    assert {(pitch, round(start / 2, 3)) for pitch, start in kept} <= written()  # a quarter of a second may stay empty
    run(capsys, "--primer", tune, "--gap", "0.5:1", "--only-new", *common)
    assert all(start < 1 - 0.45 for _, start in written())  # from the end of the last note before it
    run(capsys, "--melody", tune, "--only-new", *common)
    assert not notes & written()


def test_the_melody_that_was_taken_is_told(tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a file with chords the highest notes are the melody, and the person who gave it hears so."""
    path, out = tmp_path / "chords.mid", str(tmp_path / "d.mid")
    scale(72).joined(scale(48)).save(path)
    _, err = run(capsys, "--melody", str(path), "--seed", "1", "--model", tiny, "-o", out)
    assert "the melody is the highest notes, 8 of 16" in err
    _, err = run(capsys, "--melody", str(path), "--seed", "1", "--model", tiny, "-o", out, "-q")
    assert err == ""


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--seconds", "0"], "seconds is 0"),
        (["--seconds", "-3"], "seconds is -3"),
        (["--primer", "nowhere.mid"], "nowhere.mid"),
        (["--gap", "1:2"], "--gap needs a --primer"),
        (["--soundfont", "a.sf2", "--wav", "a.wav"], "'a.sf2' does not exist"),
        (["--soundfont", __file__], "--soundfont needs --wav"),
        (["--transpose", "99999999999999999999"], "transpose is 99999999999999999999"),
        (["--seconds", "1", "--tempo", "1e300"], "times the tempo is 1e+300 s"),
        (["-o", "piece.wav"], "must end in .mid"),
        (["--wav", "piece.mp3"], "must end in .wav"),
        (["--plot", "piece.jpg"], "must end in .png or .svg"),
        (["--tempo", "0"], "tempo is 0"),
        (["--model", "lm"], "is not a music model's"),
    ],
)
def test_impossible_wishes(words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    """One line, nothing on standard output, exit 2; and before a model is loaded, wherever that can be told."""
    assert message in refused(capsys, "run", "music", *words)


def test_primers_that_are_none(tiny: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Drums alone, text, and an empty file are no primer; the message names the file."""
    import mido

    drums = mido.MidiFile()
    notes = [mido.Message("note_on", note=40, channel=9), mido.Message("note_off", note=40, channel=9, time=50)]
    drums.tracks.append(mido.MidiTrack(notes))
    drums.save(tmp_path / "drums.mid")
    (tmp_path / "text.mid").write_text("no music")
    (tmp_path / "empty.mid").write_bytes(b"")
    assert "drums.mid has only drums" in refused(capsys, "run", "music", "--primer", str(tmp_path / "drums.mid"))
    for name in ("text.mid", "empty.mid"):
        assert f"{name} is not a MIDI file" in refused(capsys, "run", "music", "--primer", str(tmp_path / name))


# ---- training

SHAPE = [
    "base=''",
    "model.context=64",
    "model.d_model=16",
    "model.n_layer=1",
    "model.n_head=2",
    "run.steps=2",
    "batch.size=2",
]


def train(capsys: pytest.CaptureFixture[str], out: Path, *data: str, held_out: float = 0.3) -> str:
    words = [word for line in SHAPE for word in ("--set", line)]
    sources = [word for source in data for word in ("--data", source)]
    assert main(["train", "music", *sources, "--out", str(out), *words, "--set", f"data.held_out={held_out}"]) == 0
    return capsys.readouterr().err


@pytest.mark.parametrize("packed", [False, True])
def test_train_on_a_folder_and_play(
    packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A folder or zip of MIDI files, one of them broken and said so, becomes a model that plays."""
    monkeypatch.setenv("SUITE_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "midi"
    folder.mkdir()
    for place in range(12):
        scale(50 + place, 40).save(folder / f"{place}.mid")
    (folder / "broken.mid").write_bytes(b"MThd nothing")
    source = folder
    if packed:
        source = tmp_path / "midi.zip"
        with zipfile.ZipFile(source, "w") as archive:
            for file in sorted(folder.iterdir()):
                archive.write(file, file.name)
    err = train(capsys, tmp_path / "run", str(source))
    assert "recordings of" in err and "broken.mid" in err
    out = str(tmp_path / "e.mid")
    run(capsys, "--seconds", "1", "--seed", "1", "--model", str(tmp_path / "run"), "-o", out)
    assert Performance.load(out).duration == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("count", [1, 2, 6])
def test_train_on_few_files(
    count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Six files ended in "no piece is held out". What the training pieces do is kept in the checkpoint."""
    monkeypatch.setenv("SUITE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "midi").mkdir()
    for place in range(count):
        scale(50 + place, 40).save(tmp_path / "midi" / f"{place}.mid")
    err = train(capsys, tmp_path / "run", str(tmp_path / "midi"), held_out=1e-6)
    learnt = {1: "1 recording of 1 piece, 36 notes", 2: "1 recording of 1 piece, 40 notes"}
    several = f"{count - 1} recordings of {count - 1} pieces"
    assert f"training music: {learnt.get(count, several)}" in err and "validation music: 1 recording of 1 piece" in err
    [config] = (tmp_path / "run").rglob("config.json")
    music = [scale(50, 40) if count > 1 else scale(50, 40).between(0, 40)]
    assert json.loads(config.read_text())["extra"]["bounds"]["lengths"] == Bounds.of(music).to_dict()["lengths"]


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("data.limit=3", "the task 'music' reads no data.limit"),
        ("tokenizer.kind='bytes'", "the task 'music' reads no tokenizer.kind"),
        ("music.tranpose=3", "did you mean music.transpose?"),
    ],
)
def test_keys_that_nothing_reads(
    setting: str, message: str, tune: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`tokenizer.kind` was ignored."""
    words = ["train", "music", "--data", tune, "--out", str(tmp_path / "run"), "--set", setting]
    assert message in refused(capsys, *words)


def test_eval_writes_markdown_and_notes_apart(
    tiny: str, tune: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report is a table for people or for a page; with --quiet nothing but the table is written."""
    monkeypatch.setenv("SUITE_CACHE", str(tmp_path / "cache"))
    words = ["eval", "music", tune, "--model", tiny, "--length", "32"]
    assert main([*words, "-q"]) == 0
    out, err = capsys.readouterr()
    assert "nats/token" in out.splitlines()[0] and err == ""
    assert main([*words, "--markdown"]) == 0
    out, _ = capsys.readouterr()
    assert "| nats/token |" in out.splitlines()[0] and "- windows of 32 tokens every 16" in out
    message = "--json and --markdown are two formats"
    assert message in refused(capsys, "eval", "music", "nowhere.mid", "--json", "--markdown")


def test_bounds_are_measured_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tiny: str) -> None:
    """The command that the model card names writes them into a checkpoint, and touches nothing else of it."""
    monkeypatch.setenv("SUITE_CACHE", str(tmp_path / "cache"))
    script = Path(__file__).parents[2] / "benchmarks" / "music.py"
    spec = importlib.util.spec_from_file_location("benchmarks_of_music", script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    shutil.copytree(tiny, tmp_path / "checkpoint")
    (tmp_path / "midi").mkdir()
    for place in range(3):
        scale(50 + place, 40).save(tmp_path / "midi" / f"{place}.mid")
    config = tmp_path / "checkpoint" / "config.json"
    before = json.loads(config.read_text())
    ran = CliRunner().invoke(module.main, ["bounds", str(tmp_path / "midi"), "--write", str(config.parent)])
    assert ran.exit_code == 0, ran.output
    after, measured = json.loads(config.read_text()), json.loads(ran.output)
    assert after["extra"].pop("bounds") == measured == Bounds.from_dict({"bounds": measured}, "mine").to_dict()
    assert measured["lengths"] == [0.2] * 7 and after == before


def test_training_data_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No data, no MIDI files in a folder, and a name that is nothing are told in one line."""
    out = ["--out", str(tmp_path / "run")]
    assert "no training music" in refused(capsys, "train", "music", *out)
    assert "no MIDI files" in refused(capsys, "train", "music", "--data", str(tmp_path), *out)
    assert "nowhere.mid" in refused(capsys, "train", "music", "--data", "nowhere.mid", *out)
