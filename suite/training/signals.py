"""Ctrl-C and SIGTERM, which end a run only after its step."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any


class StopSignals:
    """Inside a `with`, the first SIGINT or SIGTERM sets `came`; the second raises KeyboardInterrupt at once.

    Outside the main thread, which alone can handle signals, it does nothing.
    """

    def __init__(self) -> None:
        self.came = False
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            self._handlers = {number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.came:
            raise KeyboardInterrupt
        self.came = True
