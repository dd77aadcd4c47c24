"""Which event may come next, so that every sequence that is sampled is music that can be played.

The grammar allows what the encoder would write: at each moment the ends come first, then the pedal, then the strokes,
each by rising pitch; a velocity only directly before a stroke, and only where it changes. Besides, no note ends that
does not sound, none is struck that still does, none lasts for ever, silence is bounded, and all is over at the limit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from suite.data.events import RATE, steps
from suite.data.performance import Performance
from suite.tasks.music.format import Format

LOWEST, HIGHEST = 21, 108  # keys of a piano
TOGETHER = 12  # strokes at one moment
# of the strokes in the embedded model's training music one in two hundred finds as many keys sounding, and one note in
# two thousand lasts as long; a small model forgets keys that it holds
CROWD = 16
LONGEST_NOTE = 8 * RATE  # steps
LONGEST_SILENCE = 3 * RATE
LONGEST_WAIT = 10 * RATE  # between two strokes
CODA = RATE  # the last note sounds at least so long, up to the limit
OFF, PEDAL, ON = 0, 1, 2  # the order of events at one step


@dataclass(frozen=True, slots=True)
class State:
    """Where a performance stands; never changed in place.

    Attributes:
        step: now.
        rank: kind of the latest event at this step.
        pitch: of it.
        strokes: at this step.
        waited: whether the latest event is a time shift shorter than the longest, which no other shift follows.
        velocity: bin of the latest velocity, 0 before the first.
        pending: whether that velocity still waits for its note.
        sounding: pitch -> step at which it was struck.
        stroke: step of the latest stroke.
        quiet: step since which nothing sounds, where nothing does.
        pedal: whether it is down.
        forced: how many events of the melody are done.
        held: pitches that the melody holds.
    """

    step: int = 0
    rank: int = OFF
    pitch: int = -1
    strokes: int = 0
    waited: bool = False
    velocity: int = 0
    pending: bool = False
    sounding: Mapping[int, int] = field(default_factory=dict)
    stroke: int = 0
    quiet: int = 0
    pedal: bool = False
    forced: int = 0
    held: frozenset[int] = frozenset()

    def after(self, rank: int) -> int:
        """The pitch above which an event of that kind may still come at this step."""
        return self.pitch if self.rank == rank else -1


class MusicGrammar:
    """See the module; a `suite.sampling.Grammar`.

    Args:
        format: of the tokens.
        limit: step, counted from the first event after the prompt's last special token, at which all is over.
        may_end: whether `<eos>` may come before, where nothing sounds and something did. If not, the music lasts to the
            limit exactly.
        melody: notes that are struck and ended exactly when they are, whatever else is.
        start: step before which the melody's events are already in the prompt.
        vocabulary: V, where the model has more ids than the format.
    """

    def __init__(
        self,
        format: Format,
        *,
        limit: int,
        may_end: bool = False,
        melody: Performance | None = None,
        start: int = 0,
        vocabulary: int = 0,
    ) -> None:
        self.format, self.table, self.limit, self.may_end = format, format.table, limit, may_end
        self.size = max(vocabulary, format.vocab_size)
        self.coda = 0 if may_end else CODA
        self.events: list[tuple[int, int, int]] = []  # (step, OFF or ON, pitch)
        if melody is not None:
            starts, ends = steps(melody.start), steps(melody.end)
            ends = np.minimum(np.maximum(ends, starts + 1), limit)
            for pitch, first, last in zip(melody.pitch.tolist(), starts.tolist(), ends.tolist(), strict=True):
                if start <= first < limit:
                    self.events += [(first, ON, pitch), (last, OFF, pitch)]
            self.events.sort()

    def start(self, prompt: Sequence[int], /) -> State:
        """The state after a prompt: after its last special token its events are music."""
        state = State()
        for token in self.format.music(prompt):
            state = self._advance(state, token)
        return state

    def advance(self, state: State, token: int, /) -> State:
        """The state after one more token."""
        state = self._advance(state, token)
        if state.forced < len(self.events) and not state.pending:
            step, rank, pitch = self.events[state.forced]
            if (state.step, state.rank, state.pitch) == (step, rank, pitch):
                held = state.held | {pitch} if rank == ON else state.held - {pitch}
                return replace(state, forced=state.forced + 1, held=held)
        return state

    def _advance(self, state: State, token: int) -> State:
        table, step = self.table, state.step
        if token in table.on.ids:
            pitch = table.on.value(token)
            return replace(
                state,
                rank=ON,
                pitch=pitch,
                strokes=state.strokes + 1,
                waited=False,
                pending=False,
                sounding={**state.sounding, pitch: step},
                stroke=step,
            )
        if token in table.off.ids:
            pitch = table.off.value(token)
            sounding = {key: since for key, since in state.sounding.items() if key != pitch}
            return replace(state, rank=OFF, pitch=pitch, waited=False, sounding=sounding, quiet=step)
        if token in table.shift.ids:
            shift = table.shift.value(token)
            short = shift < table.shift.size
            return replace(state, step=step + shift, rank=OFF, pitch=-1, strokes=0, waited=short)
        if token in table.velocity.ids:
            return replace(state, velocity=table.velocity.value(token), pending=True, waited=False)
        if token in table.sustain.ids:
            return replace(state, rank=PEDAL, pitch=-1, pedal=bool(table.sustain.value(token)), waited=False)
        return state

    def allowed(self, state: State, /) -> Tensor:
        """(V,) bool, True where a token may come next."""
        mask = np.zeros(self.size, dtype=bool)
        table = self.table
        due = self.events[state.forced] if state.forced < len(self.events) else None
        now = due if due is not None and due[0] <= state.step else None
        strokes = self._strokes(state, now)
        if state.pending:
            mask[[table.on.id(pitch) for pitch in strokes]] = True
            return torch.from_numpy(mask)
        if now is not None and now[1] == ON and now[2] in state.sounding:
            mask[table.off.id(now[2])] = True  # the melody strikes a key that is still down
            return torch.from_numpy(mask)
        ends = self._ends(state, now)
        mask[[table.off.id(pitch) for pitch in ends]] = True
        if state.step >= self.limit:
            if not ends:
                mask[table.sustain.id(0) if state.pedal else self.format.eos] = True
            return torch.from_numpy(mask)
        if ends and self._overdue(state) is not None:
            return torch.from_numpy(mask)
        if now is None or now[1] == ON:
            if strokes:
                mask[table.velocity.start : table.velocity.ids.stop] = True
                if state.velocity:
                    mask[table.velocity.id(state.velocity)] = False
                    mask[[table.on.id(pitch) for pitch in strokes]] = True
            if table.pedal and state.rank == OFF:
                mask[table.sustain.id(not state.pedal)] = True
        if now is None and not state.waited:
            until = due[0] if due is not None else self.limit
            mask[table.shift.start :][: max(0, min(self._longest_shift(state, until), table.shift.size))] = True
        if self.may_end and due is None and state.velocity and state.step and not state.sounding and not state.pedal:
            mask[self.format.eos] = True
        return torch.from_numpy(mask)

    def _strokes(self, state: State, now: tuple[int, int, int] | None) -> list[int]:
        """Pitches that may be struck; where the melody strikes one now, none above it before that."""
        due = now[2] if now is not None and now[1] == ON else None
        first, last = max(LOWEST, state.after(ON) + 1), HIGHEST if due is None else min(HIGHEST, due - 1)
        room = state.strokes < TOGETHER and len(state.sounding) < CROWD
        found = [pitch for pitch in range(first, last + 1) if pitch not in state.sounding] if room else []
        return found if due is None else [*found, due]

    def _ends(self, state: State, now: tuple[int, int, int] | None) -> list[int]:
        """Pitches that may end; where the melody ends one now, none above it before that."""
        if state.step >= self.limit:
            return sorted(state.sounding)[:1]
        if state.rank != OFF:
            return []
        found = sorted(pitch for pitch in state.sounding if pitch > state.after(OFF) and pitch not in state.held)
        if now is not None and now[1] == OFF:
            return [*(pitch for pitch in found if pitch < now[2]), now[2]]
        overdue = self._overdue(state)
        if overdue is not None:
            return [pitch for pitch in found if pitch <= overdue]
        return [] if self._in_coda(state) and len(state.sounding) == 1 else found

    def _in_coda(self, state: State) -> bool:
        """Whether something must sound from here to the limit."""
        return state.step > self.limit - self.coda

    def _overdue(self, state: State) -> int | None:
        """The lowest pitch that has sounded too long, if there is one."""
        if self._in_coda(state):
            return None
        old = [pitch for pitch, since in state.sounding.items() if state.step - since >= LONGEST_NOTE]
        return min((pitch for pitch in old if pitch not in state.held), default=None)

    def _longest_shift(self, state: State, until: int) -> int:
        """Steps that may pass before something has to happen."""
        ends = [until, state.stroke + LONGEST_WAIT]
        if not state.sounding:
            ends += [state.quiet + LONGEST_SILENCE, self.limit - self.coda]
        elif own := [since for pitch, since in state.sounding.items() if pitch not in state.held]:
            ends.append(max(state.step + 1, min(own) + LONGEST_NOTE))
        return min(ends) - state.step
