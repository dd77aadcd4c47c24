"""Find the directory of a model: an embedded checkpoint, a local path, or a Hugging Face id."""

from __future__ import annotations

import re
from pathlib import Path

from suite.errors import CheckpointError, ConfigError
from suite.tables import brief
from suite.task.registry import embedded, registered, suggest

PUBLISHED = {name: f"openai-community/{name}" for name in ("gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl")}
# files to fetch from a repository; copies of the weights for other libraries are not fetched
NEEDED = (
    "config.json",
    "model.safetensors",
    "model-*.safetensors",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "merges.txt",
    "chat_template.jinja",
    "generation_config.json",
    "README.md",
)
_HUB_ID = re.compile(r"\w[\w.-]*/\w[\w.-]*", re.ASCII)


def resolve(name: str | Path, *, revision: str | None = None) -> Path:
    """Return the directory of a model, fetching it if need be.

    Args:
        name: tried in this order: a directory with a checkpoint (or a run's directory with a checkpoint in it), an
            embedded checkpoint, a Hugging Face id, which is fetched into that library's cache.
        revision: branch, tag or commit of a Hugging Face id.

    Raises:
        CheckpointError: there is no such model, or it cannot be read or fetched; the message says what to do.
        ConfigError: a revision is given for a local or embedded checkpoint.
    """
    name = str(name)
    directory = local(name) or embedded().get(name)
    if directory is not None:
        if revision is not None:
            raise ConfigError(f"a revision belongs to a Hugging Face id, but {name!r} is the directory {directory}")
        return directory
    if name in PUBLISHED:
        return _fetch(PUBLISHED[name], revision)
    path = Path(name)
    if path.is_file():
        raise CheckpointError(f"{name} is a file; give the directory it is in")
    if (path / "recipe.json").is_file():
        raise CheckpointError(f"the run in {name} has no checkpoint yet; give its training command again to resume it")
    if path.exists():
        raise CheckpointError(f"{name} is not a checkpoint: it has no config.json")
    if "/" not in name:
        if name in registered():
            raise CheckpointError(f"task {name!r} has no embedded checkpoint; train one with `suite train {name}`")
        raise CheckpointError(f"no model {name!r}; {suggest(name, [*embedded(), *PUBLISHED])}")
    if _HUB_ID.fullmatch(name) and not path.parent.is_dir():
        return _fetch(name, revision)
    raise CheckpointError(f"{name} does not exist; give a checkpoint's directory, or a Hugging Face id as owner/name")


def local(name: str) -> Path | None:
    """Return the checkpoint directory at a path, or the checkpoint in a run's directory; None if there is neither."""
    path = Path(name)
    try:
        return next((folder for folder in (path, path / "checkpoint") if (folder / "config.json").is_file()), None)
    except PermissionError as error:
        raise CheckpointError(f"{name} cannot be read: permission denied") from error
    except (OSError, ValueError) as error:  # longer than a path may be, or with a character that none may have
        raise CheckpointError(f"{brief(name)} is not the name of a model or of a directory") from error


def _fetch(identifier: str, revision: str | None) -> Path:
    """Return the local directory of a Hugging Face repository, downloaded unless it is in the cache.

    Raises:
        CheckpointError: it cannot be fetched; the message is one line and says what to do.
    """
    from huggingface_hub import snapshot_download

    try:
        return Path(snapshot_download(identifier, revision=revision, allow_patterns=list(NEEDED)))
    except Exception as error:  # the library's own errors, those of two HTTP libraries, a full disk
        raise CheckpointError(_why_not_fetched(identifier, revision, error)) from error


def _why_not_fetched(identifier: str, revision: str | None, error: Exception) -> str:
    """Return a one-line message that says why a download failed and what to do."""
    from huggingface_hub import constants, errors

    pinned = identifier if revision is None else f"{identifier} at {revision}"
    if isinstance(error, errors.GatedRepoError):
        return f"{identifier} is gated: accept its terms at https://huggingface.co/{identifier}, then `hf auth login`"
    if isinstance(error, errors.RepositoryNotFoundError):
        return f"the Hugging Face hub has no {identifier}; if it is private, log in with `hf auth login`"
    if isinstance(error, errors.RevisionNotFoundError):
        return f"{identifier} has no revision {revision!r}; see its branches and tags on its page"
    if isinstance(error, errors.LocalEntryNotFoundError) and constants.HF_HUB_OFFLINE:
        return f"{pinned} is not in the cache, and HF_HUB_OFFLINE forbids downloading it; unset it, or give a directory"
    if isinstance(error, errors.LocalEntryNotFoundError):
        return f"{pinned} is not in the cache, and the Hugging Face hub cannot be reached; connect, or give a directory"
    reason = (str(error).strip() or type(error).__name__).splitlines()[0]
    return f"{pinned} could not be downloaded from the Hugging Face hub: {reason}"
