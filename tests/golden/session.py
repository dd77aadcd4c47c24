"""Commands run in this process, with what they write caught."""

from __future__ import annotations

import io
import sys
import traceback
from typing import NamedTuple


class Ran(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


def run(words: list[str], stdin: str = "") -> Ran:
    """Run `suite` with these words; a traceback, which would be a fault, stands at the end of `err`."""
    from suite.cli.main import main

    kept = sys.stdin, sys.stdout, sys.stderr
    sources = io.TextIOWrapper(io.BytesIO(stdin.encode()), encoding="utf-8")
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2))
    sys.stdin, sys.stdout, sys.stderr = sources, out, err
    try:
        code = main(words)
    except Exception:
        traceback.print_exc(file=err)
        code = 1
    finally:
        sys.stdin, sys.stdout, sys.stderr = kept
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())  # type: ignore[attr-defined]
    return Ran(code, *texts)
