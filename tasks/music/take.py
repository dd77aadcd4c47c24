"""The result of the music pipeline: a performance that is also a `Result`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from suite.data.performance import Performance
from suite.task import Result
from suite.wording import count


@dataclass(frozen=True, eq=False, repr=False)
class Take(Performance, Result):
    """A performance that a model played, with all that a `Performance` has: `notes`, `duration`, `save`, `plot`.

    It prints as one line, and `to_dict` returns plain values. Methods that change it, such as `transposed`, return a
    `Performance`.

    Example:
        >>> from suite.data.performance import Note
        >>> take = Take.of([Note(60, 80, 0.0, 1.5)])
        >>> str(take), take.to_dict()["notes"]
        ('1 note, 1.50 seconds', [{'pitch': 60, 'velocity': 80, 'start': 0.0, 'end': 1.5}])
    """

    @classmethod
    def from_performance(cls, played: Performance) -> Take:
        """Return a take with the same notes and pedal."""
        return cls(played.pitch, played.velocity, played.start, played.end, played.pedal)

    def __repr__(self) -> str:
        return f"<Take of {self}>"

    def __str__(self) -> str:
        return f"{count(len(self), 'note')}, {self.duration:.2f} seconds"

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values: `seconds` from 0 to the last end, and `notes` with pitch, velocity, start and end.

        Times are in seconds. `pedal` lists the changes of the sustain pedal, with `time` and `down`; it is empty if the
        model folds the pedal into the notes.
        """
        return {
            "seconds": self.duration,
            "notes": [note._asdict() for note in self.notes],
            "pedal": [change._asdict() for change in self.pedal],
        }
