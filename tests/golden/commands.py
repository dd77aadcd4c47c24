"""What commands write: those that succeed, and in a section of their own those that fail, whose wording changes more.

Runs in the present directory, among the toys. Help texts are left out, and pictures, which depend on matplotlib.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import mido
import session
import toys

# Before a | stands what a command reads from standard input, with \n for the end of a line; after a > stand the files
# that it writes, whose contents are kept too.
COMMANDS = r"""
suite --version
suite models
suite models --json
suite models show lm
suite models show gpt2 --json
suite models show translate --json
suite next "The capital of France is" -k 5
suite next "The planet earth is" -k 4 --json
The river flows to the | suite next -k 3
suite run lm "The planet earth" -n 30 --seed 1
suite run lm "The planet earth" -n 24 -t 0
suite run lm "The river" -n 16 --seed 5 --top-k 20 --top-p 0.9 --min-p 0.02 --repetition-penalty 1.2 --json
suite run lm "In the year" -n 12 --samples 2 --seed 3 --no-echo
suite run lm "The war began" -n 12 --beams 3 --samples 2 --json
suite run lm -n 12 --seed 4
suite run lm "The city is" -n 40 --seed 2 --stop . --no-repeat-ngram 2
The king | suite run lm - -n 10 -t 0 -q
suite run lm --input subjects.jsonl --output continued.jsonl -n 8 --seed 1 > continued.jsonl
suite run lm --input subjects.tsv --column subject -n 6 -t 0
suite run translate "Guten Morgen, wie geht es dir?" --to en
suite run translate "The dog sleeps." --from en --to de --align
suite run translate "The dog sleeps." "Where is the station?" --from en --to fr --beams 1 --json
suite run translate "I have no time today." --from en --to de --n-best 3 --length-penalty 1.2
suite run translate "Der Hund schläft." --from de --to en --prefix The --json --align
suite run translate "The dog sleeps." --from en --to de --glossary glossary.tsv
- Guten Morgen.\n\n- Ich bin müde. Wo ist der Bahnhof?\n | suite run translate --from de --to en
suite run translate --input german.txt --output out.txt --from de --to en --beams 2 > out.txt
suite run translate --input german.txt --to en --beams 1
suite run translate --input german.tsv --column 2 --output out.tsv --from de --to en --beams 2 > out.tsv
suite run translate --input named.tsv --column text --output named.out.tsv --to en --beams 1 > named.out.tsv
suite run translate --input german.csv --column text --output out.csv --from de --to en --beams 1 > out.csv
suite run translate --input german.jsonl --field body --output out.jsonl --from de --to en --beams 1 > out.jsonl
suite run summarize article.txt --max-words 40
suite run summarize article.txt --style write --json
suite run summarize page.html granite.wiki tea.md --sentences 2 --show-source
suite run summarize tea.md --title "Tea in Europe" --sentences 1 --json
The hall was built in 1820. It has a roof of lead. The roof was mended in 1950. Visitors are welcome. | suite run summarize --sentences 1
suite run summarize --input subjects.jsonl --output summaries.jsonl --sentences 1 > summaries.jsonl
suite run classify "The violin has four strings, tuned in fifths."
suite run classify "A prime number has exactly two divisors." "The river flows north." --top-k 2
suite run classify "The king was crowned in 1066." --json --threshold 0.3
suite run classify "The violin has four strings." --explain
suite run classify "The team won the cup." --labels sport,politics,science --json
suite run classify --input subjects.txt --output labels.txt > labels.txt
suite run classify --input subjects.csv --output labels.csv --min-probability 0.5 > labels.csv
suite run classify --input subjects.tsv --column subject --output labels.tsv > labels.tsv
suite run classify --input subjects.jsonl --output labels.jsonl > labels.jsonl
The violin has four strings.\nRome fell.\n | suite run classify --lines --json
suite run music --seconds 6 --seed 7 -o piece.mid > piece.mid
suite run music --seconds 4 --seed 3 -t 0.9 --top-k 30 --density 1.3 --transpose 2 --tempo 1.1 --takes 2 -o takes.mid --json > takes-1.mid takes-2.mid
suite run music --primer tune-0.mid --seconds 4 --seed 1 --only-new -o more.mid > more.mid
suite run music --melody tune-2.mid --seconds 4 --seed 1 -o song.mid > song.mid
suite run music --primer tune-1.mid --gap 3:5 --seed 2 -o mended.mid -q > mended.mid
suite eval lm notes.txt --length 128
suite eval lm articles.jsonl --column lead --train notes.txt --length 128 --json
suite eval lm articles.jsonl --column lead --limit 5 --length 64 --markdown
suite eval translate en-de=few-de.tsv --source en --target de --train en-de=en-de.tsv --beams 2
suite eval translate en-de=few-de.tsv --source de --target en --beams 1 --json
suite eval summarize articles.jsonl --limit 3 --words 30
suite eval classify topics.jsonl --text text --label topics --train topics.jsonl
suite eval classify topics.jsonl --text text --label topics --json
suite eval music tune-0.mid tune-1.mid --train tune-2.mid --length 128
suite eval music tune-0.mid tune-1.mid --samples 2 --seconds 3 --seed 1 --length 128 --json
suite train lm --data cats.txt $TOY --set model.position=learned --set model.activation=gelu_tanh --set model.bias=true --out runs/cats
suite train lm --data cats.txt $TOY --out runs/json --json
suite next "the cat" -k 3 --model runs/cats
suite run lm "the cat" -n 12 -t 0 --model runs/cats
suite convert runs/cats theirs
suite next "the cat" -k 3 --model theirs
suite convert theirs ours --to suite --storage float16
suite convert lm lm-again --to suite --storage float32
suite models show ours --json
"""  # noqa: E501

ERRORS = r"""
suite rnu lm
suite run llm
suite run lm a --model no-such-model
suite run lm a --model no-model
suite run lm a --model bad-model
suite run lm a --model someone/nothing
suite run lm --file no-such-file.txt
suite run lm --file latin1.txt
suite run lm a --temperature -1
suite run lm a --top-p 2
suite run lm a --beams 2 --seed 1
suite run lm a -n none
suite run lm a --input subjects.jsonl --output bad.jsonl
suite run lm --input subjects.csv --column nothing --output bad.csv
suite run translate "Guten Morgen" --to xx
suite run translate "Guten Morgen" --from de --to fr
suite run translate "Good morning" --from en
suite run translate a --to en --n-best 9
suite run translate --input german.csv --column nothing --output bad.csv --to en
suite run translate --input german.tsv --column 9 --output bad.tsv --to en
suite run translate --input german.jsonl --output bad.jsonl --to en
suite run translate --input cut.jsonl --output bad.jsonl --to en
suite run translate --input page.html --output bad.html --to en
suite run translate a --to en --glossary german.txt
suite run translate --input german.txt --output bad.txt --to en --json
suite run summarize no-such-file.txt
suite run summarize empty.txt
suite run summarize tune-0.mid
suite run summarize --input cut.jsonl --output bad.jsonl
suite run classify ""
suite run classify a --threshold 2
suite run classify a --model lm
suite run classify --input ragged.csv --output bad.csv
suite run classify --input subjects.csv --column nothing --output bad.csv
suite run classify --input cut.jsonl --output bad.jsonl
suite run music --primer not-midi.mid -o bad.mid
suite run music --primer empty.mid -o bad.mid
suite run music --seconds -1 -o bad.mid
suite run music -o bad.txt
suite run music --primer tune-0.mid --gap 5 -o bad.mid
suite next a --model music
suite models show no-such-model
suite convert classify theirs
suite convert lm lm-int8 --storage int8
suite eval lm no-such-file.txt
suite eval translate few-de.tsv --source en --target de --model lm
suite eval classify unlabelled.csv --label kind
suite eval music not-midi.mid
suite train lm --out runs/a
suite train nothing --data cats.txt --out runs/b
suite train no-such.toml --data cats.txt --out runs/c
suite train wrong.toml --data cats.txt --out runs/d
suite train not.toml --data cats.txt --out runs/e
suite train lm --data cats.txt --set optimizer.leaning_rate=1 --out runs/f
suite train lm --data cats.txt --set optimizer.lr=fast --out runs/g
suite train lm --data cats.txt --set model.n_head=7 --out runs/h
suite train lm --data no-such-file.txt --out runs/i
suite train lm --data latin1.txt --out runs/j
suite train classify --data unlabelled.csv --set data.label=kind --out runs/k
suite train classify --data one-class.csv --out runs/l
suite train translate --data few-de.tsv --out runs/m
suite train music --data not-midi.mid --out runs/n
"""

TOY = (
    "--set model.context=16 --set model.d_model=32 --set model.n_head=2 --set model.n_layer=1 --set batch.size=8 "
    "--set tokenizer.kind=bytes --set run.steps=40 --set run.valid_every=20 --set run.precision=float32 "
    "--set schedule.warmup=3 --set optimizer.lr=2e-2 --set optimizer.matrix_lr=2e-2"
)
# what differs from run to run or follows a library's version, and what stands for it
VARYING = [
    (re.compile(r"[\d,.]+ tok/s  eta [\d:]+"), "SPEED"),
    (re.compile(r"\b[\d,.]+ s \([\d,.]+ per second\)"), "SECONDS"),
    (re.compile(r"^about .* for (\d+ steps) at [\d,.]+ tokens/s", re.MULTILINE), r"SECONDS for \1"),
    (re.compile(r"(?<=, )reverse, "), ""),  # the task of examples/, which need not be installed
    (re.compile(r"(?<=; )[\d.]+ s$", re.MULTILINE), "SECONDS"),  # of music
    (re.compile(r'("seconds": )[\d.]+(, "sentences_per_second": )[\d.]+'), r"\1null\2null"),
    (re.compile(r'("bytes": )\d+(?=, "storage")'), r"\1null"),  # of a model's directory, with its README.md
    (re.compile(r"\bsuite \d\S*"), "suite VERSION"),
    (re.compile(r"\b(version:|sacremoses )[\d.]+"), r"\1VERSION"),
]
BAR = re.compile("[█▏▎▍▌▋▊▉]+")
NO_END = " (without the end of a line)"
EIGHTHS = " ▏▎▍▌▋▊▉█"
LONG = re.compile(r"(?<![\w.])-?\d[\d,]*\.\d{7,}(?:e[-+]?\d+)?|(?<![\w.])-?\d+(?:\.\d+)?e[-+]\d+")


def compute() -> Iterator[tuple[str, Any]]:
    """Commands that succeed."""
    Path("glossary.tsv").write_text("dog\tKöter\n", encoding="utf-8")
    for command, found in _each(COMMANDS):
        if found["exit"]:
            raise SystemExit(f"{command} failed:\n" + "\n".join(found["err"]))
        yield command, found


def compute_errors() -> Iterator[tuple[str, Any]]:
    """Commands that fail, in one line and without a traceback."""
    for command, found in _each(ERRORS):
        if found["exit"] == 0 or any("Traceback" in line for line in found["err"]):
            raise SystemExit(f"{command} should fail in one line:\n" + "\n".join(found["err"]))
        yield command, found


def _each(commands: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for line in commands.strip().splitlines():
        before, bar, command = line.rpartition(" | ")
        stdin = before.replace(r"\n", "\n") if bar else ""
        words, _, files = command.replace("$TOY", TOY).partition(" > ")
        ran = session.run(shlex.split(words)[1:], stdin)
        out = [as_value(text) for text in shown(ran.out)]
        found: dict[str, Any] = {"exit": ran.code, "out": out, "err": shown(ran.err)}
        found |= {name: contents(Path(name)) for name in files.split()}
        yield line, found


def shown(text: str) -> list[str]:
    """What was written, line by line, without what differs from run to run or from machine to machine."""
    for place, name in ((str(Path.cwd()), "HERE"), (str(toys.ROOT), "REPOSITORY")):
        text = text.replace(place, name)
    for pattern, name in VARYING:
        text = pattern.sub(name, text)
    text = BAR.sub(lambda match: f"[{cells(match.group()):.1f}]", text)
    text = LONG.sub(lambda match: f"{float(match.group().replace(',', '')):.6g}", text)
    lines = text.split("\n")
    return lines[:-1] if not lines[-1] else [*lines[:-1], lines[-1] + NO_END]


def as_value(line: str) -> Any:
    """The JSON value on a line, or the line itself where it is none."""
    if line[:1] not in ("{", "["):
        return line
    try:
        return json.loads(line)
    except ValueError:
        return line


def cells(bar: str) -> float:
    """Cells that a drawn bar fills."""
    return sum(EIGHTHS.index(character) for character in bar) / 8


def contents(path: Path) -> list[str]:
    """What a file holds: lines of a text, notes of music."""
    return notes(path) if path.suffix == ".mid" else shown(path.read_bytes().decode())


def notes(path: Path) -> list[str]:
    """Notes of a MIDI file in the order of their starts, four a line: pitch, velocity, start and length in seconds."""
    time, found, open_notes = 0.0, [], dict[int, list[tuple[float, int]]]()
    for message in mido.MidiFile(path):
        time += message.time
        if message.type == "note_on" and message.velocity:
            open_notes.setdefault(message.note, []).append((time, message.velocity))
        elif message.type in ("note_on", "note_off") and open_notes.get(message.note):
            start, velocity = open_notes[message.note].pop(0)
            found.append((round(start, 2), message.note, velocity, round(time - start, 2)))
    texts = [f"{pitch} v{velocity} {start:.2f} +{length:.2f}" for start, pitch, velocity, length in sorted(found)]
    return _in_fours(texts)


def _in_fours(texts: Sequence[str]) -> list[str]:
    return [", ".join(texts[place : place + 4]) for place in range(0, len(texts), 4)]
