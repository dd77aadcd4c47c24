"""Questions about music: notes of a MIDI file or of the model, and what it looked at when it chose one.

The page keeps a piece as the model's tokens, so that what it asks about is exactly what the model read.

Shapes: `H` heads, `N` notes, `T` positions.
"""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from suite.checkpoint import Model
from suite.errors import ConfigError, DataError
from suite.explore.texts import number, whole
from suite.explore.work import Turn
from suite.model.trace import trace
from suite.task import find_task

LONGEST_PLAY = 60.0  # seconds of new music at a time
MOST_EVENTS = 12_000  # tokens of a piece on the page
ARCS = 8  # notes that are named for each head


def player_of(model: Model) -> Any:
    """The pipeline of the task music.

    Raises:
        ConfigError: the model was trained for another task.
    """
    if model.task != "music":
        raise ConfigError(f"{model.name} was trained for {model.task}; this view needs a model for music")
    return find_task("music").pipeline(model)


def tokens_of(player: Any, asked: Mapping[str, Any]) -> list[int]:
    """The piece's event tokens, without `<bos>`."""
    tokens = asked.get("tokens", [])
    size = player.format.table.size
    if not isinstance(tokens, list) or not all(type(one) is int and 0 <= one < size for one in tokens):
        raise DataError(f"tokens must be a list of event ids below {size}")
    if len(tokens) > MOST_EVENTS:
        raise DataError(f"the piece has {len(tokens):,} events, but this view holds at most {MOST_EVENTS:,}")
    return tokens


def piece(player: Any, tokens: Sequence[int]) -> dict[str, Any]:
    """A piece for the page: its tokens, and its notes with the place of the token that struck each."""
    notes, _ = notes_of(player, tokens)
    return {"tokens": list(tokens), "notes": notes, "seconds": max((note["end"] for note in notes), default=0.0)}


def notes_of(player: Any, tokens: Sequence[int]) -> tuple[list[dict[str, Any]], list[int]]:
    """Notes in the order in which they are struck, and for each token the note it is part of (-1: none).

    A note is its NOTE_ON, its NOTE_OFF and the VELOCITY before it.
    """
    table = player.format.table
    notes: list[dict[str, Any]] = []
    owner = [-1] * len(tokens)
    sounding: dict[int, deque[int]] = {}
    step, velocity = 0, 66
    for place, token in enumerate(tokens):
        kind = table.range_of(token)
        if kind == table.shift:
            step += kind.value(token)
        elif kind == table.velocity:
            velocity = (kind.value(token) - 1) * 4 + 2
        elif kind == table.on:
            owner[place] = len(notes)
            if place and tokens[place - 1] in table.velocity.ids:
                owner[place - 1] = len(notes)
            sounding.setdefault(kind.value(token), deque()).append(len(notes))
            notes.append({"pitch": kind.value(token), "velocity": velocity, "start": step, "event": place})
        elif kind == table.off and sounding.get(kind.value(token)):
            owner[place] = sounding[kind.value(token)].popleft()
            notes[owner[place]]["end"] = max(step, notes[owner[place]]["start"] + 1)
    for note in notes:
        note["end"] = note.get("end", max(step, note["start"] + 1)) / 100
        note["start"] /= 100
    return notes, owner


def open_midi(model: Model, content: bytes) -> dict[str, Any]:
    """The notes of a MIDI file.

    Raises:
        DataError: it is damaged, or too long for the page.
    """
    from suite.data.midi import read_midi

    player = player_of(model)
    reading = read_midi(content, name="the file")
    tokens = player.format.events(reading.performance)
    if len(tokens) > MOST_EVENTS:
        raise DataError(
            f"the file has {len(tokens):,} events, but this view holds at most {MOST_EVENTS:,}; give it a part"
        )
    return {**piece(player, tokens), "notices": list(reading.notes)}


def play(turn: Turn, asked: Mapping[str, Any]) -> dict[str, Any]:
    """New music: alone, after the piece, or in a gap of it."""
    player = player_of(turn.model(asked.get("model")))
    given = player.format.performance(tokens_of(player, asked))
    seconds = number(asked, "seconds", 10.0)
    if not 0.1 <= seconds <= LONGEST_PLAY:
        raise ConfigError(f"seconds is {seconds:g}, but must be between 0.1 and {LONGEST_PLAY:g}")
    options = {"seed": whole(asked, "seed", 0, 2**31), "progress": turn.pause}
    gap = asked.get("gap")
    if gap is not None:
        start, end = (number({"gap": one}, "gap", 0.0) for one in gap)
        if end - start > LONGEST_PLAY:
            raise ConfigError(f"a gap of {end - start:g} s is more than {LONGEST_PLAY:g} s")
        take = player.refill(given, start, end, **options)[0]
    elif len(given):
        take = player(primer=given, seconds=seconds, **options)
    else:
        take = player(seconds=seconds, **options)
    return piece(player, player.format.events(take))


def attend(model: Model, asked: Mapping[str, Any]) -> dict[str, Any]:
    """What each head of a layer looked at when the model chose a note: shares by note, and of everything else.

    The weights are those of the position before the note's NOTE_ON, which predicts it; a note's share is that of its
    tokens together.
    """
    player = player_of(model)
    tokens = tokens_of(player, asked)
    notes, owner = notes_of(player, tokens)
    if not notes:
        raise DataError("the piece has no notes")
    chosen = notes[whole(asked, "note", 0, len(notes) - 1)]
    layer = whole(asked, "layer", 0, model.config.n_layer - 1)
    sequence = [player.format.special("<bos>"), *tokens[: chosen["event"]]]
    first = max(0, len(sequence) - model.config.context)
    found = trace(model.transformer, sequence[first:], keep="weights", layers=[layer])
    row = found.weights_by_position(layer)[:, -1]  # (H, T)
    own = owner[chosen["event"]]  # its dynamics may stand before its start, and are not another note
    owners = torch.tensor([-1, *(-1 if one == own else one for one in owner[: chosen["event"]])][first:])  # (T,)
    shares = torch.zeros(len(row), len(notes) + 1).index_add_(1, owners + 1, row.cpu())  # (H, 1 + N)
    heads = []
    for share in shares:
        values, places = share[1:].topk(min(ARCS, len(notes)))
        arcs = [
            {"note": note, "share": round(value, 4)}
            for note, value in zip(places.tolist(), values.tolist(), strict=True)
            if value > 0.005
        ]
        heads.append({"elsewhere": round(float(share[0]), 4), "notes": arcs})
    return {"heads": heads, "layer": layer, "read": len(sequence) - first}


def midi_file(model: Model, asked: Mapping[str, Any]) -> bytes:
    """The piece as a MIDI file."""
    from suite.data.midi import to_pretty_midi

    player = player_of(model)
    buffer = io.BytesIO()
    to_pretty_midi(player.format.performance(tokens_of(player, asked))).write(buffer)
    return buffer.getvalue()
