"""Questions about two texts in one sequence, and about labels: translation, summary, classification."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from suite.checkpoint import Model
from suite.errors import ConfigError, DataError
from suite.explore.texts import text_of, tokenizer_of, whole
from suite.task import find_task
from suite.wording import count

LONGEST = 20_000  # characters of a text that is translated, summarised or labelled on the page
SENTENCES = 10  # of a translation or a summary


def check(model: Model, task: str, text: str) -> None:
    """Raise an error if the model was trained for another task, or the text is empty or too long for the page."""
    if model.task != task:
        raise ConfigError(f"{model.name} was trained for {model.task}; this view needs a model for {task}")
    if not text.strip():
        raise DataError("there is nothing to read; write something")
    if len(text) > LONGEST:
        raise DataError(f"the text has {count(len(text), 'character')}, but this view reads at most {LONGEST:,}")


def translate(model: Model, asked: Mapping[str, Any]) -> dict[str, Any]:
    """A text's translation, sentence by sentence, with the weight of each source word for each target word."""
    text = text_of(asked)
    check(model, "translate", text)
    known = model.extra["directions"]
    source, target = asked.get("source"), asked.get("target")
    if [source, target] not in known:
        pairs = ", ".join(f"{start} to {end}" for start, end in known)
        raise ConfigError(f"{model.name} was not trained to translate from {source} to {target}; available: {pairs}")
    found = find_task("translate").pipeline(model)(text, source=source, target=target)
    if len(found.sentences) > SENTENCES:
        raise DataError(f"the text has {len(found.sentences)} sentences, but this view aligns at most {SENTENCES}")
    sentences = [
        {**alignment.to_dict(), "text": sentence.text, "from": sentence.source}
        for sentence, alignment in zip(found.sentences, found.alignment, strict=True)
    ]
    return {"text": found.text, "sentences": sentences, "warnings": list(found.warnings), "score": found.score}


def summarize(model: Model, asked: Mapping[str, Any]) -> dict[str, Any]:
    """A text's summary: each sentence, and the characters of the text that it comes from."""
    text = text_of(asked)
    check(model, "summarize", text)
    sentences = whole(asked, "sentences", 3, SENTENCES) or 1
    style = asked.get("style", "extract")
    found = find_task("summarize").pipeline(model)(text, style=style, sentences=sentences)
    rows = [
        {"text": one.text, "start": one.start, "end": one.end, "share": round(one.share, 4)} for one in found.sentences
    ]
    return {"sentences": rows, "warnings": list(found.warnings), "read": found.read, "of": found.of}


def classify(model: Model, asked: Mapping[str, Any]) -> dict[str, Any]:
    """The labels of a text with their probabilities, and how each token moves one of them."""
    text = text_of(asked)
    check(model, "classify", text)
    classifier: Any = find_task("classify").pipeline(model)
    found = classifier(text)
    label = asked.get("label") or next(iter(found.scores))
    answer = {
        "scores": [{"label": name, "p": share} for name, share in found.scores.items()],
        "several": bool(model.extra.get("multi")),
        "assigned": list(found.labels),
        "label": label,
        "parts": found.pieces,
        "pieces": [],
    }
    if found.pieces == 1:
        explained = classifier.explain(text, label)
        answer["pieces"] = [
            {"text": piece, "weight": float(f"{weight:.4g}")}
            for piece, weight in zip(explained.pieces, explained.weights, strict=True)
        ]
    return answer


def frames(model: Model) -> dict[str, Any]:
    """What the page needs to know of a model's task: the directions of a translator, the labels of a classifier."""
    return {
        "directions": [list(pair) for pair in model.extra.get("directions", [])] if model.task == "translate" else [],
        "labels": list(model.extra.get("labels", [])) if model.task == "classify" else [],
        "vocabulary": None if model.tokenizer is None else tokenizer_of(model).vocab_size,
    }
