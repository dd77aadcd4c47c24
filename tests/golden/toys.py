"""Small files that the golden commands read: parts of data/samples, and a few made here, the same on every machine.

Nothing here uses the package: its readers and writers are what is being checked.
"""

from __future__ import annotations

import gzip
import json
import zipfile
from pathlib import Path

import mido

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "data" / "samples"
ARTICLES = 24
GERMAN = ["Guten Morgen, wie geht es dir?", "Der Hund schläft.", "", "Ich habe heute keine Zeit."]
# label: a word by which an article gets it, so that labels can be learnt and some articles have several or none
TOPICS = {"History": "century", "Geography": "river", "People": "born", "Science": "species", "Countries": "country"}
ARTICLE = """The Old Bridge

The old bridge crosses the river Wye at Hay. It was built in 1763 by a company of merchants. The bridge has seven \
arches of stone, and two of them were rebuilt after the flood of 1795.

A toll was taken until 1928. Carts paid four pence and a horse paid one penny. The money went to the merchants, who \
repaired the arches from time to time. In 1928 the county bought the bridge and ended the toll.

Today the bridge carries a road and a footpath. Engineers inspect the stone every two years. About 3,000 cars cross it \
on a usual day.
"""
HTML = """<!doctype html><html><head><title>Bees</title></head><body><h1>Bees</h1>
<p>Bees are insects that fly from flower to flower. They collect pollen and nectar.
There are over 16,000 known species.</p>
<h2>Honey</h2><p>Honey bees store nectar as honey. A colony needs about 20 kilograms of it for a winter.
Beekeepers take what the colony does not need.</p><script>ignored()</script></body></html>
"""
WIKI = """'''Granite''' is a coarse-grained [[igneous rock]]. It is made of [[quartz]] and feldspar.

== Use ==
Granite is used for floors and for bridges. It is harder than marble. Many monuments of Egypt are made of granite.
"""
MARKDOWN = """# Tea

Tea is a drink made of leaves. It came to Europe in the 17th century, first through Dutch traders.

## Kinds

- **Green tea** is not fermented.
- **Black tea** is fermented fully.

Most tea is grown in China and India. Pickers take the bud and the first two leaves.
"""


def write(folder: Path) -> None:
    """Write all of them into a folder."""
    articles = [json.loads(line) for line in sample("articles.jsonl.gz").splitlines()]
    short = [shortened(article) for article in articles[:ARTICLES]]
    lines(folder / "articles.jsonl", [json.dumps(article) for article in short])
    (folder / "notes.txt").write_text(
        "\n\n".join(f"{article['title']}\n{article['lead']}" for article in short), encoding="utf-8"
    )
    for language in ("de", "fr"):
        pairs = sample(f"tatoeba-en-{language}.tsv.gz")
        (folder / f"en-{language}.tsv").write_text(pairs, encoding="utf-8")
        lines(folder / f"few-{language}.tsv", pairs.splitlines()[:6])
    (folder / "banking.csv").write_bytes((SAMPLES / "banking.csv").read_bytes())
    lines(folder / "topics.jsonl", [json.dumps(labelled(article)) for article in short])
    for number in range(8):
        tune(number).save(folder / f"tune-{number}.mid")
    with zipfile.ZipFile(folder / "pieces.zip", "w") as archive:  # a folder is a piece, with two performances
        for number in range(8):
            archive.write(folder / f"tune-{number}.mid", f"set/piece-{number // 2}/take-{number}.mid")
    (folder / "article.txt").write_text(ARTICLE, encoding="utf-8")
    (folder / "page.html").write_text(HTML, encoding="utf-8")
    (folder / "granite.wiki").write_text(WIKI, encoding="utf-8")
    (folder / "tea.md").write_text(MARKDOWN, encoding="utf-8")
    lines(folder / "german.txt", GERMAN)
    lines(folder / "german.tsv", [f"{number}\t{text}\tx" for number, text in enumerate(GERMAN)])
    lines(folder / "named.tsv", ["id\ttext", *(f"{number}\t{text}" for number, text in enumerate(GERMAN))])
    lines(folder / "german.csv", ["id,text,note", *(f'{number},"{text}",n' for number, text in enumerate(GERMAN))])
    lines(folder / "german.jsonl", [json.dumps({"id": n, "body": text}) for n, text in enumerate(GERMAN)])
    lines(folder / "terms.tsv", ["Hund\thound", "Morgen\tmorning"])
    subjects = ["The violin has four strings, tuned in fifths.", "A prime number has two divisors.", "", "Rome fell."]
    lines(folder / "subjects.txt", subjects)
    lines(folder / "subjects.csv", ["id,text", *(f'{number},"{text}"' for number, text in enumerate(subjects))])
    lines(folder / "subjects.tsv", ["label\tsubject", *(f"old\t{text}" for text in subjects)])
    lines(folder / "subjects.jsonl", [json.dumps({"text": text, "id": n}) for n, text in enumerate(subjects)])
    lines(folder / "cats.txt", ["the cat sat on the mat."] * 60)
    broken(folder)


def broken(folder: Path) -> None:
    """Write the files that commands refuse."""
    (folder / "latin1.txt").write_bytes("Größe\n".encode("latin-1"))
    (folder / "not-midi.mid").write_bytes(b"this is text\n")
    (folder / "empty.txt").write_text("", encoding="utf-8")
    (folder / "empty.mid").write_bytes(b"")
    lines(folder / "cut.jsonl", ['{"text": "whole"}', '{"text": }'])
    lines(folder / "ragged.csv", ["text,label", "one,a", "two,b,c"])
    lines(folder / "unlabelled.csv", ["text,note", "one,a", "two,b"])
    lines(folder / "one-class.csv", ["text,label", "one,a", "two,a"])
    lines(
        folder / "wrong.toml",
        ['task = "lm"', "[batch]", "size = 1", "[run]", "steps = 1", "[optimizer]", "learning_rate = 1"],
    )
    lines(folder / "not.toml", ["task = "])
    (folder / "no-model").mkdir()
    (folder / "bad-model").mkdir()
    (folder / "bad-model" / "config.json").write_text(
        '{"format": "suite", "version": 1, "model": {"contxt": 3}}', encoding="utf-8"
    )


def sample(name: str) -> str:
    """The text of a file of data/samples."""
    return gzip.decompress((SAMPLES / name).read_bytes()).decode()


def lines(path: Path, texts: list[str]) -> None:
    """Write a line for each text."""
    path.write_text("".join(text + "\n" for text in texts), encoding="utf-8")


def shortened(article: dict[str, object]) -> dict[str, object]:
    """An article with a lead of two sentences and the first sentences of three sections."""
    sections = [section for section in article["sections"] if section["text"]][:3]  # type: ignore[attr-defined]
    return {
        "title": article["title"],
        "lead": ". ".join(str(article["lead"]).split(". ")[:2]).rstrip(".") + ".",
        "sections": [
            {"heading": one["heading"], "text": ". ".join(one["text"].split(". ")[:4]).rstrip(".") + "."}
            for one in sections
        ],
    }


def labelled(article: dict[str, object]) -> dict[str, object]:
    """The article's text with its labels."""
    text = f"{article['lead']} " + " ".join(section["text"] for section in article["sections"])  # type: ignore[attr-defined]
    return {"text": text[:600], "topics": [topic for topic, word in TOPICS.items() if word in text]}


def tune(number: int) -> mido.MidiFile:
    """A melody over broken chords, with a pedal; each number gives another one."""
    file = mido.MidiFile(ticks_per_beat=480)
    track = mido.MidiTrack()
    file.tracks.append(track)
    track.append(mido.MetaMessage("set_tempo", tempo=450_000 + 20_000 * number, time=0))
    scale = (0, 2, 4, 5, 7, 9, 11, 12)
    events = []  # (tick, order, message)
    for step in range(48):
        start = step * 240
        drawn = (step * step * (number + 3) + 5 * step + number) % 8
        for pitch, length in ((60 + number + scale[drawn], 220), (48 + number + scale[(step % 4) * 2], 460)):
            velocity = 50 + (step * 7 + number * 11 + pitch) % 50
            events.append((start, 1, mido.Message("note_on", note=pitch, velocity=velocity)))
            events.append((start + length, 0, mido.Message("note_off", note=pitch)))
        if step % 8 in (0, 7):
            events.append((start + 10, 2, mido.Message("control_change", control=64, value=127 * (step % 8 == 0))))
    before = 0
    for tick, _, message in sorted(events, key=lambda event: event[:2]):
        track.append(message.copy(time=tick - before))
        before = tick
    return file
