"""The grammar of performances: which event may come next, so that every sampled sequence can be played.

The grammar allows the order that the encoder writes: at each step note ends come first, then the pedal, then strokes;
ends and strokes are sorted by rising pitch; a velocity comes only directly before a stroke, and only if it changes.
Besides, only a sounding note can end, a sounding key cannot be struck, silence is bounded, and every note ends by the
limit.

Density, sounding keys and note lengths stay within `Bounds`. Each note draws the length at which its end is due from
the upper tail of the lengths in training; once due, it ends at the next step that the model moves on to. The draw is a
hash of the row's tokens up to the note, so it follows from prompt and seed.

A mask alone would spread the probability of forbidden tokens over all others, mostly strokes, and accompaniments had
far too many of them: before every melody note all longer waits are forbidden, and a model that expects the note a
little too soon may not strike it. So `steer` gives the probability of forbidden tokens to the event that is due now;
that of time shifts that are too long to the longest one allowed; and that of melody notes at the wrong time to waiting
for the melody's next event. Only for such a wait may a short time shift follow another, or a velocity.
"""

from __future__ import annotations

import bisect
import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from suite.data.events import STEP_RATE, steps
from suite.data.performance import Performance
from suite.tasks.music.bounds import WINDOWS, Bounds, thinned
from suite.tasks.music.format import HIGHEST_KEY, LOWEST_KEY, Format

MOST_STROKES = 12  # strokes at one step
LONGEST_SILENCE = 3 * STEP_RATE  # steps
LONGEST_WAIT = 10 * STEP_RATE  # steps between two strokes
SOON = STEP_RATE  # steps before the melody strikes a key, during which the key is kept free
CODA = STEP_RATE  # steps before the limit during which at least one note sounds
OFF, PEDAL, ON = 0, 1, 2  # the order of events at one step
MOST_KEPT = 64  # masks that are kept


@dataclass(frozen=True, slots=True)
class State:
    """The state of a performance being written; never changed in place.

    Attributes:
        step: the current step.
        rank: kind of the latest event at this step: OFF, PEDAL or ON.
        pitch: pitch of the latest event at this step, or -1.
        strokes: number of strokes at this step.
        waited: whether the latest event is a time shift below the maximum, which no other shift normally follows.
        velocity: bin of the latest velocity, 0 before the first.
        pending: whether that velocity still waits for its note.
        sounding: pitch -> step at which its end is due.
        recent: steps of the strokes in the longest of `WINDOWS`, rising.
        stroke: step of the latest stroke.
        quiet: step of the latest note end; if no note sounds, silence began there.
        pedal: whether the pedal is down.
        forced: number of melody events already played.
        held: pitches that the melody holds.
        bounds: the grammar's bounds, raised where the prompt exceeds them.
        chain: a hash of the tokens so far.
    """

    step: int = 0
    rank: int = OFF
    pitch: int = -1
    strokes: int = 0
    waited: bool = False
    velocity: int = 0
    pending: bool = False
    sounding: Mapping[int, int] = field(default_factory=dict)
    recent: tuple[int, ...] = ()
    stroke: int = 0
    quiet: int = 0
    pedal: bool = False
    forced: int = 0
    held: frozenset[int] = frozenset()
    bounds: Bounds = field(default_factory=Bounds)
    chain: int = 0

    def after(self, rank: int) -> int:
        """Return the pitch above which an event of kind `rank` may still come at this step."""
        return self.pitch if self.rank == rank else -1

    def odds(self) -> float:
        """Return the factor for the odds of a stroke now: 1 within the bounds, falling to 0 beyond them."""
        bounds, recent = self.bounds, self.recent
        factors = [
            thinned(len(recent) - bisect.bisect_right(recent, self.step - window * STEP_RATE), bound)
            for window, bound in zip(WINDOWS, bounds.strokes, strict=True)
        ]
        return min(*factors, thinned(len(self.sounding), bounds.voices))


class MusicGrammar:
    """The grammar described above; implements `suite.sampling.Grammar`.

    Args:
        format: of the tokens.
        limit: step, counted from the first event after the prompt's last special token, at which the music ends.
        may_end: whether `<eos>` may come before the limit, in a silence after at least one note. If not, the music
            lasts exactly to the limit.
        melody: notes that are struck and ended exactly at their own times, whatever else is played.
        start: step before which the melody's events are already in the prompt.
        bounds: on density, sounding keys and note lengths; raised where music in the prompt exceeds them.
        vocabulary: V, if the model has more ids than the format.
    """

    def __init__(
        self,
        format: Format,
        *,
        limit: int,
        may_end: bool = False,
        melody: Performance | None = None,
        start: int = 0,
        bounds: Bounds | None = None,
        vocabulary: int = 0,
    ) -> None:
        self.format, self.table, self.limit, self.may_end = format, format.table, limit, may_end
        self.size = max(vocabulary, format.vocab_size)
        self.bounds = bounds or Bounds()
        self.coda = 0 if may_end else CODA
        self.events: list[tuple[int, int, int]] = []  # (step, OFF or ON, pitch)
        self._kept: dict[int, tuple[State, NDArray[np.bool_]]] = {}
        if melody is not None:
            starts, ends = steps(melody.start), steps(melody.end)
            ends = np.minimum(np.maximum(ends, starts + 1), limit)
            for pitch, first, last in zip(melody.pitch.tolist(), starts.tolist(), ends.tolist(), strict=True):
                if start <= first < limit:
                    self.events += [(first, ON, pitch), (last, OFF, pitch)]
            self.events.sort()

    def start(self, prompt: Sequence[int], /) -> State:
        """Return the state after a prompt; only the events after its last special token count as music."""
        given = Bounds.of([self.format.performance(events) for events in self.format.parts(prompt)])
        state = State(bounds=self.bounds.raised(given))
        for token in self.format.music(prompt):
            state = self._advance(state, token)
        return state

    def advance(self, state: State, token: int, /) -> State:
        """Return the state after another token."""
        state = self._advance(state, token)
        if state.forced < len(self.events) and not state.pending:
            step, rank, pitch = self.events[state.forced]
            if (state.step, state.rank, state.pitch) == (step, rank, pitch):
                held = state.held | {pitch} if rank == ON else state.held - {pitch}
                return replace(state, forced=state.forced + 1, held=held)
        return state

    def _advance(self, state: State, token: int) -> State:
        table, step = self.table, state.step
        digest = hashlib.blake2b(f"{state.chain}/{token}".encode(), digest_size=8).digest()
        chain = int.from_bytes(digest)
        if token in table.on.ids:
            pitch = table.on.value(token)
            oldest = bisect.bisect_right(state.recent, step - max(WINDOWS) * STEP_RATE)
            return replace(
                state,
                chain=chain,
                rank=ON,
                pitch=pitch,
                strokes=state.strokes + 1,
                waited=False,
                pending=False,
                sounding={**state.sounding, pitch: step + state.bounds.due(chain / 2**64)},
                recent=(*state.recent[oldest:], step),
                stroke=step,
            )
        if token in table.off.ids:
            pitch = table.off.value(token)
            sounding = {key: due for key, due in state.sounding.items() if key != pitch}
            return replace(state, chain=chain, rank=OFF, pitch=pitch, waited=False, sounding=sounding, quiet=step)
        if token in table.shift.ids:
            shift = table.shift.value(token)
            short = shift < table.shift.size
            step += shift
            return replace(state, chain=chain, step=step, rank=OFF, pitch=-1, strokes=0, waited=short, pending=False)
        if token in table.velocity.ids:
            return replace(state, chain=chain, velocity=table.velocity.value(token), pending=True, waited=False)
        if token in table.sustain.ids:
            pedal = bool(table.sustain.value(token))
            return replace(state, chain=chain, rank=PEDAL, pitch=-1, pedal=pedal, waited=False)
        return replace(state, chain=chain)

    def allowed(self, state: State, /) -> Tensor:
        """(V,) bool: True for tokens that may come next."""
        return torch.from_numpy(self._mask(state))

    def masks(self, states: Sequence[State], /) -> Tensor:
        """(B, V) bool, row by row what `allowed` returns for each state."""
        return torch.from_numpy(np.stack([self._mask(state) for state in states]))

    def steer(self, state: State, logits: Tensor, /) -> Tensor:
        """(V,) logits: probability of forbidden tokens goes to tokens that are due; strokes near a bound lose some."""
        mask = self._mask(state)
        if mask.sum() == 1:
            return logits
        table, now = self.table, self._now(state)
        scores = logits.double().cpu().numpy()
        steered = scores.copy()
        if not state.pending and 0 < (odds := state.odds()) < 1:
            for kind in (table.on, table.velocity):
                steered[kind.start : kind.ids.stop] += math.log(odds)
        overdue = self._overdue(state)
        shifts = slice(table.shift.start, table.shift.ids.stop)
        owed = -1
        if now is not None:
            owed = table.on.id(now[2]) if now[1] == ON else table.off.id(now[2])
        elif overdue is not None:
            owed = table.off.id(overdue)
        if owed >= 0 and mask[owed]:
            given = ~mask
            given[owed] = True
            steered[owed] = np.logaddexp.reduce(scores[given])
        elif mask[shifts].any():
            longest = table.shift.start + int(np.flatnonzero(mask[shifts])[-1])
            melodic = [table.on.id(pitch) for pitch in self._soon(state) | state.held]
            melodic += [table.off.id(pitch) for pitch in state.held]
            given = np.zeros(self.size, dtype=bool)
            given[melodic] = True
            given &= ~mask
            given[longest : shifts.stop] = True
            steered[longest] = np.logaddexp.reduce(scores[given])
        return torch.from_numpy(steered).to(logits)

    def _soon(self, state: State) -> frozenset[int]:
        """Return the pitches that the melody strikes within `SOON` steps."""
        end = bisect.bisect_left(self.events, (state.step + SOON + 1,), state.forced)
        return frozenset(pitch for _, rank, pitch in self.events[state.forced : end] if rank == ON)

    def _now(self, state: State) -> tuple[int, int, int] | None:
        """Return the melody's event (step, OFF or ON, pitch) that is due now; None if none is."""
        due = self.events[state.forced] if state.forced < len(self.events) else None
        return due if due is not None and due[0] <= state.step else None

    def _mask(self, state: State) -> NDArray[np.bool_]:
        """(V,) bool, kept for the states of one step: `steer` and `allowed` both ask for it."""
        if (kept := self._kept.get(id(state))) is None:
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            self._kept[id(state)] = kept = (state, self._make_mask(state))  # the state, so that its id stays its own
        return kept[1]

    def _make_mask(self, state: State) -> NDArray[np.bool_]:
        mask = np.zeros(self.size, dtype=bool)
        table, now = self.table, self._now(state)
        least, most = self._shifts(state) if now is None else (1, 0)
        if most and (state.waited or state.pending):  # another shift only to reach the melody's next event
            least, most = (most, most) if state.forced < len(self.events) else (1, 0)
        strokes = self._strokes(state, now)
        if state.pending:
            mask[table.on.start : table.on.ids.stop] = strokes
            mask[table.shift.start + least - 1 : table.shift.start + most] = True
            return mask if mask.any() else self._any_stroke(state)
        if now is not None and now[1] == ON and now[2] in state.sounding:
            mask[table.off.id(now[2])] = True  # the melody strikes a key that is still down
            return mask
        ends = self._ends(state, now)
        mask[[table.off.id(pitch) for pitch in ends]] = True
        if state.step >= self.limit:
            if not ends:
                mask[table.sustain.id(0) if state.pedal else self.format.eos] = True
            return mask
        if ends and self._overdue(state) is not None:
            return mask
        if (now is None or now[1] == ON) and strokes.any():
            mask[table.velocity.start : table.velocity.ids.stop] = True
            if state.velocity:
                mask[table.velocity.id(state.velocity)] = False
                mask[table.on.start : table.on.ids.stop] = strokes
        if table.pedal and state.rank == OFF and (now is None or now[1] == ON):
            mask[table.sustain.id(not state.pedal)] = True
        mask[table.shift.start + least - 1 : table.shift.start + most] = True
        ended = self.may_end and not state.sounding and not state.pedal and state.forced == len(self.events)
        if ended and state.velocity and state.step:
            mask[self.format.eos] = True
        return mask if mask.any() else self._any_stroke(state)

    def _strokes(self, state: State, now: tuple[int, int, int] | None) -> NDArray[np.bool_]:
        """(128,) bool: the pitches that may be struck; if the melody strikes a key now, none above it."""
        due = now[2] if now is not None and now[1] == ON else None
        first, last = max(LOWEST_KEY, state.after(ON) + 1), HIGHEST_KEY if due is None else min(HIGHEST_KEY, due - 1)
        found = np.zeros(self.table.on.size, dtype=bool)
        if state.strokes < MOST_STROKES and state.odds() > 0:
            found[first : last + 1] = True
            found[[*state.sounding, *self._soon(state)]] = False
        if due is not None:
            found[due] = True
        return found

    def _any_stroke(self, state: State) -> NDArray[np.bool_]:
        """(V,) bool: mask of strokes regardless of the bounds, for when no other token is allowed."""
        mask = np.zeros(self.size, dtype=bool)
        table = self.table
        if not state.pending:
            mask[table.velocity.start : table.velocity.ids.stop] = True
        if state.velocity:
            first = max(LOWEST_KEY, state.after(ON) + 1)
            mask[table.on.id(first) : table.on.id(HIGHEST_KEY) + 1] = True
            mask[[table.on.id(pitch) for pitch in state.sounding]] = False
            mask[table.velocity.id(state.velocity)] = False
        return mask

    def _ends(self, state: State, now: tuple[int, int, int] | None) -> list[int]:
        """Return the pitches that may end; if the melody ends a note now, none above it."""
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
        """Whether at least one note must sound from here to the limit."""
        return state.step > self.limit - self.coda

    def _overdue(self, state: State) -> int | None:
        """Return the lowest pitch whose end is due; None if there is none."""
        if self._in_coda(state):
            return None
        old = [pitch for pitch, due in state.sounding.items() if state.step >= due]
        return min((pitch for pitch in old if pitch not in state.held), default=None)

    def _shifts(self, state: State) -> tuple[int, int]:
        """Return the minimum and maximum of the next time shift, in steps; a maximum of 0 means that none may come."""
        size = self.table.shift.size
        until = self.events[state.forced][0] if state.forced < len(self.events) else self.limit
        bounds = [until, state.stroke + LONGEST_WAIT]
        if not state.sounding:
            bounds += [state.quiet + LONGEST_SILENCE, self.limit - self.coda]
        most = max(0, min(min(bounds) - state.step, size))
        least = 1
        last = len(state.sounding) == 1 and state.step + most > self.limit - self.coda  # it sounds to the end
        if last or not state.sounding.keys() - state.held:  # no note can end then: wait until a stroke may come
            for window, (_, upper) in zip(WINDOWS, state.bounds.strokes, strict=True):
                if len(state.recent) >= upper:
                    least = max(least, state.recent[-math.ceil(upper)] + window * STEP_RATE - state.step)
        return min(least, most) or 1, most
