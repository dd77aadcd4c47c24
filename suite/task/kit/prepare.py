"""Training preparation: records, some of them held out, a tokenizer, and sequences."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from suite.errors import ConfigError, DataError
from suite.wording import count

if TYPE_CHECKING:
    from suite.task.contract import Task, TrainingData
    from suite.task.tables import TokenizerTable
    from suite.text.tokenizer import Tokenizer
    from suite.training.batches import Example
    from suite.training.recipe import Recipe

Item = TypeVar("Item")


def prepare(task: Task[Any, Any, Any], recipe: Recipe, cache: Path) -> TrainingData:
    """Prepare training data: the default of `Task.prepare`.

    Raises:
        ConfigError: a key that the task does not read, no context, or a vocabulary without the task's special tokens.
        DataError: the data cannot be read, or there are too few records.
    """
    from dataclasses import asdict

    from suite.task.contract import TrainingData
    from suite.training.batches import ShuffledSource

    tables = task.tables(recipe)
    train = list(task.records(tables.data.train))
    if tables.data.valid:
        valid = list(task.records(tables.data.valid))
        note = f"{count(len(train), 'record')} to train on, {len(valid):,} to validate on"
    else:
        train, valid = hold_out(train, tables.data.held_out, recipe.seed)
        note = f"{count(len(train), 'record')} to train on, {len(valid):,} held out to validate on"
    train = draw(train, tables.data.limit, recipe.seed)
    texts = (text for record in train for text in task.texts(record))
    tokenizer, context = choose_tokenizer(tables.tokenizer, recipe, lambda: texts, task.specials, cache)
    codec = task.codec(tokenizer, asdict(tables.options))
    examples, long = encoded(codec.encode, train, context)
    held, _ = encoded(codec.encode, valid, context)
    if not examples or not held:
        raise DataError(f"no record fits the context of {context} tokens; raise model.context")
    notes = [*tables.notes, note]
    if long:
        notes.append(f"records longer than the context of {context} tokens are left out: {long:,}")
    return TrainingData(
        train=ShuffledSource(examples, recipe.seed),
        valid=held,
        tokenizer=tokenizer,
        vocab_size=tokenizer.vocab_size,
        extra=codec.settings(),
        notes=notes,
    )


def encoded(encode: Callable[[Any], Example], records: Iterable[Any], context: int) -> tuple[list[Example], int]:
    """Return the records that fit a context as examples, and the number of those that do not.

    A model reads all tokens of an example but the last.
    """
    examples, long = [], 0
    for record in records:
        example = encode(record)
        if len(example.tokens) > context + 1:
            long += 1
        else:
            examples.append(example)
    return examples, long


def hold_out(records: Sequence[Item], share: float, seed: int) -> tuple[list[Item], list[Item]]:
    """Split records into training and validation records: a random share by seed, at least one and never all.

    Raises:
        DataError: there are fewer than two records.
    """
    import numpy as np

    if len(records) < 2:
        raise DataError("one record is too few to hold some out; give validation data with --valid")
    number = min(max(1, round(len(records) * share)), len(records) - 1)
    held = set(np.random.default_rng((seed, 7)).permutation(len(records))[:number].tolist())
    return (
        [record for place, record in enumerate(records) if place not in held],
        [record for place, record in enumerate(records) if place in held],
    )


def draw(records: Sequence[Item], limit: int, seed: int) -> list[Item]:
    """Return `limit` records chosen at random by seed, in their original order; all for 0."""
    import numpy as np

    if not limit or limit >= len(records):
        return list(records)
    chosen = np.sort(np.random.default_rng((seed, 9)).permutation(len(records))[:limit])
    return [records[place] for place in chosen.tolist()]


def spread(items: Sequence[Item], most: int) -> list[Item]:
    """Return at most `most` items, evenly spread; all for 0."""
    if not most or len(items) <= most:
        return list(items)
    return [items[place * len(items) // most] for place in range(most)]


def choose_tokenizer(
    table: TokenizerTable,
    recipe: Recipe,
    texts: Callable[[], Iterable[str]],
    specials: Sequence[str],
    cache: Path,
) -> tuple[Tokenizer, int]:
    """The tokenizer that a recipe asks for, and how many tokens its model reads at once.

    Args:
        table: the recipe's table `tokenizer`.
        recipe: its base and `model.context` count.
        texts: gives the text that a new one is trained on.
        specials: special tokens that it must have.
        cache: trained ones are kept here.

    Raises:
        ConfigError: no context is stated, or the vocabulary lacks a special token.
        CheckpointError: the base or the file cannot be read.
    """
    from suite.checkpoint import vocabulary

    base, longest = vocabulary(recipe.base) if recipe.base else (None, 0)
    context = int(recipe.model.get("context", 0)) or longest
    if context < 1:
        raise ConfigError("model.context is missing: how many tokens the model sees at once")
    tokenizer = base if base is not None and table.kind == "auto" else make_tokenizer(table, texts, specials, cache)
    if missing := [name for name in specials if name not in tokenizer.specials]:
        raise ConfigError(f"the vocabulary of {table.path or recipe.base} has no special token {', '.join(missing)}")
    return tokenizer, context


def make_tokenizer(
    table: TokenizerTable, texts: Callable[[], Iterable[str]], specials: Sequence[str], cache: Path
) -> Tokenizer:
    """Read a tokenizer, or train it on texts; trained ones are kept in `cache` by a hash of the texts."""
    from suite.text.tokenizer import Tokenizer

    if table.kind == "file":
        return Tokenizer.load(table.path)
    if table.kind == "bytes":
        return Tokenizer.bytes(specials)
    found = list(texts())
    if table.kind == "characters":
        return Tokenizer.characters("".join(sorted(set().union(*found))), specials)
    digest = hashlib.sha256(json.dumps([table.vocab_size, *specials]).encode())
    for text in found:
        digest.update(text.encode() + b"\n")
    kept = cache / "tokenizers" / digest.hexdigest()[:24]
    if not (kept / "tokenizer.json").exists():
        Tokenizer.train(found, table.vocab_size, specials).save(kept)
    return Tokenizer.load(kept)
