"""Threads that help with decoding steps, one after the other, and sleep in between.

They run compiled code that holds no lock of Python's, and how the work is shared is told in `work.py`.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import threading
import weakref
from collections.abc import Callable, Iterator
from typing import Any

Help = Callable[[int], object]  # the number of the thread, from 1


class Team:
    """Helpers of a thread that decodes.

    Args:
        threads: in all, that which decodes among them.
    """

    def __init__(self, threads: int) -> None:
        self.busy = threading.Lock()
        self.job: Callable[[], Help | None] = lambda: None
        self.asleep = [True] * (threads - 1)
        self.alarms = [threading.Lock() for _ in self.asleep]
        self.ending = False
        self.threads = [
            threading.Thread(target=self._live, args=(place,), name=f"suite-step-{place + 1}", daemon=True)
            for place in range(threads - 1)
        ]
        for alarm, thread in zip(self.alarms, self.threads, strict=True):
            alarm.acquire()
            thread.start()
        # Python ends a thread that it finds in compiled code by unwinding its stack, which ends the process: abort()
        atexit.register(self.end)

    @contextlib.contextmanager
    def helping(self, help: Help) -> Iterator[None]:
        """Have the helpers call `help`, a method of what they work on, unless they are helping someone else."""
        if not self.busy.acquire(blocking=False):
            yield
            return
        try:
            self.job = weakref.WeakMethod(help)
            for place, asleep in enumerate(self.asleep):
                if asleep:  # one that falls asleep right now misses a step, which others do without it
                    self.asleep[place] = False
                    self.alarms[place].release()
            yield
        finally:
            self.busy.release()

    def end(self) -> None:
        """Have the helpers leave; waits until they have."""
        self.ending, self.job = True, lambda: None
        for alarm, thread in zip(self.alarms, self.threads, strict=True):
            with contextlib.suppress(RuntimeError):  # it has been woken already
                alarm.release()
            thread.join(1)

    def _live(self, place: int) -> None:
        while not self.ending:
            self.alarms[place].acquire()
            help: Any = self.job()
            if help is not None:
                help(place + 1)
            del help  # asleep, it must not keep a model in memory
            self.asleep[place] = True


@functools.cache
def team(threads: int) -> Team:
    """The team of so many threads, which all decoders of this process share."""
    return Team(threads)
