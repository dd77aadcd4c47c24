"""One model in memory, and one computation at a time, off the event loop.

Requests name their model, so that two tabs may look at two models; the one asked for last is kept. Long work pauses
between its steps, where others get their turn and a closed tab ends it.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from suite.errors import ConfigError
from suite.task import suggest

if TYPE_CHECKING:
    from starlette.requests import Request

    from suite.checkpoint import Model

Result = TypeVar("Result")
POLL = 0.2  # seconds between looks at whether a tab is still there


class Gone(Exception):
    """Nobody waits for the result any more."""


class Workbench:
    """The loaded model and the lock around it.

    Args:
        models: name on the page -> what `suite.load` takes.
    """

    def __init__(self, models: Mapping[str, str]) -> None:
        self.models = dict(models)
        self._lock = threading.Lock()
        self._name = ""
        self._model: Model | None = None

    async def run(self, request: Request, work: Callable[[Turn], Result]) -> Result:
        """Do some work in a thread, when its turn comes; `Gone` is raised if the request's tab closes before its end.

        Raises:
            SuiteError: whatever the work raises.
        """
        turn = Turn(self)
        task = asyncio.create_task(asyncio.to_thread(self._take, turn, work))
        try:
            while not task.done():
                await asyncio.wait({task}, timeout=POLL)
                if not task.done() and await request.is_disconnected():
                    turn.cancel()
        except asyncio.CancelledError:
            turn.cancel()
            raise
        return await task

    def _take(self, turn: Turn, work: Callable[[Turn], Result]) -> Result:
        with self._lock:
            turn.check()
            return work(turn)

    def load(self, name: str) -> Model:
        """The model of that name; only with the lock held.

        Raises:
            ConfigError: it is not on the list.
            CheckpointError: it cannot be read.
        """
        if name not in self.models:
            raise ConfigError(f"no model {name!r} on this page; {suggest(name, self.models)}")
        if self._model is None or self._name != name:
            from suite.checkpoint import load

            self._model = None  # memory holds one at a time
            self._model, self._name = load(self.models[name]), name
        return self._model

    def step_aside(self) -> None:
        """Let others have a turn; only with the lock held."""
        self._lock.release()
        time.sleep(0.001)  # a thread that waits does not get the lock while this one asks for it at once
        self._lock.acquire()


class Turn:
    """One request's time at the bench."""

    def __init__(self, bench: Workbench) -> None:
        self._bench = bench
        self._cancelled = threading.Event()

    def model(self, name: Any) -> Model:
        """The model that the request names."""
        return self._bench.load(str(name))

    def cancel(self) -> None:
        """End the work at its next pause."""
        self._cancelled.set()

    def check(self) -> None:
        """Raise `Gone` if nobody waits for the result."""
        if self._cancelled.is_set():
            raise Gone

    def pause(self, *_: Any) -> None:
        """Called between the steps of long work: let others have a turn, and stop if nobody waits."""
        self.check()
        self._bench.step_aside()
        self.check()
