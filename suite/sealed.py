"""config.json as a file that tells when it was changed: among its values is the SHA-256 of all the others.

`sha256` is of the other values as canonical JSON: keys sorted, no white space, ASCII. So layout and line ends do not
count. A file without it is read as it is. `file_digest` is the SHA-256 of a whole file, as `sha256sum` prints it.

Nothing here imports torch.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from suite.errors import CheckpointError

SEAL = "sha256"


def digest_of(settings: Mapping[str, Any]) -> str:
    """SHA-256 of settings as canonical JSON, the value `sha256` among them left out.

    Example:
        >>> digest_of({"b": 1, "a": 2.5}) == digest_of({"a": 2.5, "b": 1, "sha256": "0"})
        True
    """
    others = {key: value for key, value in settings.items() if key != SEAL}
    return hashlib.sha256(json.dumps(others, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def sealed(settings: Mapping[str, Any], path: Path) -> bytes:
    """The content of a file of settings: JSON that ends with their digest.

    Args:
        settings: plain JSON.
        path: of the file, for errors.

    Raises:
        CheckpointError: a value is not plain JSON, as NaN is not.
    """
    others = {key: value for key, value in settings.items() if key != SEAL}
    try:
        text = json.dumps(others | {SEAL: digest_of(others)}, indent=2, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be written as JSON: {error}") from error
    return f"{text}\n".encode()


def read_sealed(path: Path) -> dict[str, Any]:
    """The settings in a file, digest included; what has one must match it.

    Raises:
        CheckpointError: the file is missing, is not a JSON object, or was changed after it was written.
    """
    try:
        settings = json.loads(path.read_text(encoding="utf-8"), parse_constant=_no_number)
        digest = digest_of(settings) if isinstance(settings, dict) else ""
    except FileNotFoundError as error:
        raise CheckpointError(f"{path} does not exist") from error
    except RecursionError as error:
        raise CheckpointError(f"{path} cannot be read as JSON: it is nested too deeply") from error
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read as JSON: {error}") from error
    if not isinstance(settings, dict):
        raise CheckpointError(f"{path} does not contain a JSON object")
    if settings.get(SEAL, digest) != digest:
        raise CheckpointError(
            f'{path} was changed after it was written; restore it, or remove its line "{SEAL}" to accept the change'
        )
    return settings


def file_digest(path: Path) -> str:
    """SHA-256 of a file (hexadecimal)."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is not a number")
