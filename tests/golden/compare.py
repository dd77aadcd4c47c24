"""Golden values as files, and whether two of them are the same."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# relative and absolute. float32 sums are taken in another order on another CPU: without AVX, logits moved by 1e-4 at
# most, and losses by a millionth of themselves
TOLERANCES = {"losses": (1e-4, 1e-6), "logits": (1e-4, 5e-4), "commands": (1e-2, 2e-4), "errors": (1e-2, 2e-4)}
# a number with a point or an exponent; versions, dates and names are none
FLOAT = re.compile(r"(?<![\w.])-?(?:\d[\d,]*\.\d+(?:e[-+]?\d+)?|\d+e[-+]\d+)(?![\w]|\.\w)")
WIDTH = 120  # of a line that holds several values
SHOWN = 4  # differences of one entry


def read(path: Path) -> dict[str, Any]:
    """A section's entries by name; none where there is no file yet."""
    if not path.exists():
        return {}
    entries: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return entries


def write(path: Path, entries: dict[str, Any]) -> None:
    """Write a section: a line for each entry, text or list of numbers."""
    path.write_text(dump(entries) + "\n", encoding="utf-8")


def dump(value: Any, indent: str = "") -> str:
    """JSON whose short values, and lists of numbers, stand on one line."""
    line = json.dumps(value, ensure_ascii=False)
    deeper = indent + " "
    if indent and isinstance(value, dict | list) and len(line) + len(indent) <= WIDTH and '"exit"' not in line:
        return line
    if isinstance(value, dict) and value:
        lines = [f"{deeper}{json.dumps(name, ensure_ascii=False)}: {dump(one, deeper)}" for name, one in value.items()]
        return "{\n" + ",\n".join(lines) + f"\n{indent}}}"
    if isinstance(value, list) and any(isinstance(one, str | dict | list) for one in value):
        return "[\n" + ",\n".join(deeper + dump(one, deeper) for one in value) + f"\n{indent}]"
    return line


def differences(old: Any, new: Any, section: str) -> list[str]:
    """A line for each of the first few differences; none where both are the same within the section's tolerance."""
    if old is None:
        return ["is new"]
    found = list(_walk(old, new, "", *TOLERANCES[section]))
    return found[:SHOWN] + [f"and {len(found) - SHOWN} other differences"] * (len(found) > SHOWN)


def _walk(old: Any, new: Any, where: str, relative: float, absolute: float) -> Iterator[str]:
    if isinstance(old, dict) and isinstance(new, dict):
        for name in {**old, **new}:
            if name not in old or name not in new:
                yield f"{where}{name}: {'is new' if name in new else 'is gone'}"
            else:
                yield from _walk(old[name], new[name], f"{where}{name}: ", relative, absolute)
    elif isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            yield f"{where}{len(old)} items were {old!r:.1500}, and {len(new)} are {new!r:.1500}"
        else:
            for number, (one, other) in enumerate(zip(old, new, strict=True), 1):
                yield from _walk(one, other, f"{where}{number}: ", relative, absolute)
    elif isinstance(old, str) and isinstance(new, str):
        if not same_text(old, new, relative, absolute):
            yield f"{where}was {old!r}, is {new!r}"
    elif isinstance(old, float) and isinstance(new, float):
        if not math.isclose(old, new, rel_tol=relative, abs_tol=absolute):
            yield f"{where}was {old!r}, is {new!r}"
    elif old != new or type(old) is not type(new):
        yield f"{where}was {old!r}, is {new!r}"


def same_text(old: str, new: str, relative: float, absolute: float) -> bool:
    """Whether texts are the same but for numbers with a point, which may differ a little or in their last place."""
    if old == new:
        return True
    numbers, others = FLOAT.findall(old), FLOAT.findall(new)
    if FLOAT.split(old) != FLOAT.split(new) or len(numbers) != len(others):
        return False
    return all(
        math.isclose(value(one), value(other), rel_tol=relative, abs_tol=max(absolute, last_place(one)))
        for one, other in zip(numbers, others, strict=True)
    )


def value(number: str) -> float:
    """The number that a text is."""
    return float(number.replace(",", ""))


def last_place(number: str) -> float:
    """What one more in the last place written is worth."""
    digits, _, exponent = number.partition("e")
    return 1.001 * 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))
