"""Load data sets of the Hugging Face hub: `name`, `name:configuration`, `name:configuration:split` or `name::split`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from suite.data.packed import SUFFIXES, first_line, unpacked_suffix
from suite.data.sources import TABLES, TEXTS, URL, Source, find
from suite.errors import DataError

_HUB_NAME = re.compile(r"\w[\w.-]{0,95}(/\w[\w.-]{0,95})?")
_VALIDATION = ("validation", "valid", "val", "dev")  # what the split is called


class HubName(NamedTuple):
    """Parts of the name of a hub data set; "" for the default configuration or no split."""

    name: str
    configuration: str
    split: str


def parse_hub_name(source: str) -> HubName | None:
    """Return the hub data set that a source without files may name, or None if it looks like a mistyped path.

    Example:
        >>> parse_hub_name("ag_news::test")
        HubName(name='ag_news', configuration='', split='test')
    """
    name, configuration, split = [*source.split(":", 2), "", ""][:3]
    suffixed = unpacked_suffix(name) in {*TEXTS, *TABLES, ".zip"} or Path(name).suffix in SUFFIXES
    if suffixed or URL.match(source) or not _HUB_NAME.fullmatch(name):
        return None
    return HubName(name, configuration, split)


def load_hub(source: str, split: str | None = None) -> Any:
    """Load a hub data set: the split in its name, or else `split`, or else "train".

    Raises:
        DataError: the data set cannot be loaded.
    """
    import datasets

    found = parse_hub_name(source) or HubName(source, "", "")
    try:
        _require_hub(found.name)
        return datasets.load_dataset(found.name, found.configuration or None, split=found.split or split or "train")
    except Exception as error:  # the network, the hub, and the data set's own files fail in many ways
        raise _hub_error(found.name, error) from error


def to_evaluate(sources: Source) -> tuple[list[str], list[str]]:
    """Return the sources to evaluate on, and a line for each choice of a split.

    A hub data set named without a split gets its test split, or else its validation split, or else the split used for
    training. Other sources are unchanged, without a line.

    Raises:
        DataError: the hub cannot be reached.
    """
    chosen, notes = [], []
    for source in _listed(sources):
        name, split, other = _choose_split(source, ("test", *_VALIDATION))
        chosen.append(name)
        if other:
            what = split or "its training split, because it has no test or validation split"
            notes.append(f"{source}: evaluated on {what} {other}")
    return chosen, notes


def to_validate(sources: Source) -> tuple[list[str], list[str]]:
    """Return the sources that training is validated on, and a line for each choice of a split.

    A hub data set named without a split gets its validation split, or else its test split. Other sources are unchanged,
    without a line.

    Raises:
        DataError: the hub cannot be reached, or a data set has neither split: on what the model is trained on, a
            validation loss says nothing.
    """
    chosen, notes = [], []
    for source in _listed(sources):
        name, split, other = _choose_split(source, (*_VALIDATION, "test"))
        chosen.append(name)
        if other and not split:
            raise DataError(
                f"{source}: it has no validation or test split {other}, or leave the validation data out, and a part "
                "of the training data is held out"
            )
        if other:
            notes.append(f"{source}: validated on {split} {other}")
    return chosen, notes


def _listed(sources: Source) -> list[str]:
    return [str(source) for source in ([sources] if isinstance(sources, str | Path) else sources)]


def _choose_split(source: str, preferred: Sequence[str]) -> tuple[str, str, str]:
    """A source with the first preferred split that it has, "split 'test'", and "(of train, test); to choose ...".

    The second is "" where the data set has no such split; both are, where the source needs no split.
    """
    hub = parse_hub_name(source)
    if hub is None or hub.split or find(source) is not None:
        return source, "", ""
    splits = _splits(hub)
    other = f"(of {', '.join(splits)}); to choose another, give {hub.name}:{hub.configuration}:SPLIT"
    for split in preferred:
        if split in splits:
            return f"{hub.name}:{hub.configuration}:{split}", f"split {split!r}", other
    return source, "", other


def _splits(hub: HubName) -> list[str]:
    import datasets

    try:
        _require_hub(hub.name)
        return [str(split) for split in datasets.get_dataset_split_names(hub.name, hub.configuration or None)]
    except Exception as error:  # as in `load_hub`
        raise _hub_error(hub.name, error) from error


def _require_hub(name: str) -> None:
    from huggingface_hub import HfApi, constants

    if not constants.HF_HUB_OFFLINE:
        HfApi().dataset_info(name, timeout=10)  # `datasets` alone retries for half a minute without a network


def _hub_error(name: str, error: Exception) -> DataError:
    return DataError(
        f"{name}: not a file, and it cannot be loaded from the Hugging Face hub ({first_line(error)}); "
        "offline, HF_HUB_OFFLINE=1 uses an earlier download"
    )
