"""Tokenise text corpora once and cache them on disk, split them, and pack them into training windows."""

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from suite.data.documents import read_documents, source_digest
from suite.data.sources import Source
from suite.errors import DataError
from suite.files import move_aside, new_folder
from suite.text.tokenizer import Tokenizer

__all__ = ["PackedDocuments", "Source", "TokenDocuments", "read_documents", "split_documents", "tokenize_corpus"]

Tokens = npt.NDArray[np.uint16] | npt.NDArray[np.uint32]

_FORMAT = 1  # version of the cache; raised when the same text would be written differently
_BATCH_CHARACTERS = 4_000_000


@dataclass(frozen=True, kw_only=True)
class TokenDocuments:
    """Documents as token ids, each ending with `<eos>`.

    Args:
        memory: token ids that hold the documents, (N,), usually a memory map of a whole corpus.
        offsets: start and stop of each document in `memory`, (documents, 2).
        widths: number of UTF-8 bytes of each token in the vocabulary, (V,).
    """

    memory: Tokens
    offsets: npt.NDArray[np.int64]
    widths: npt.NDArray[np.uint16]

    def __len__(self) -> int:
        return len(self.offsets)

    def __iter__(self) -> Iterator[Tokens]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> Tokens:
        start, stop = self.offsets[index]
        return self.memory[start:stop]

    def take(self, places: Sequence[int]) -> "TokenDocuments":
        """Return the documents at these indices, in the order given."""
        return replace(self, offsets=self.offsets[np.array(places, dtype=np.int64)])

    @cached_property
    def tokens(self) -> Tokens:
        """Token ids of all documents, concatenated, (total,)."""
        return self.memory if self.total == len(self.memory) else np.concatenate(list(self))

    @property
    def total(self) -> int:
        """Number of tokens in all documents."""
        return int((self.offsets[:, 1] - self.offsets[:, 0]).sum())

    @property
    def bytes(self) -> int:
        """Number of UTF-8 bytes in the text of all documents."""
        return sum(int(self.widths[document].sum(dtype=np.int64)) for document in self)


def tokenize_corpus(
    source: Source,
    tokenizer: Tokenizer,
    cache: str | Path,
    *,
    column: str = "text",
    split: str | None = None,
    threads: int | None = None,
) -> TokenDocuments:
    """Tokenise the documents of a corpus, or load them from the cache if that was done before.

    Args:
        source, column, split: as for `read_documents`.
        tokenizer: must have an `<eos>`, which is appended to each document.
        cache: folder for the result; files with the same contents and the same tokenizer share one entry.
        threads: number of threads; by default the number of cores that the process may use.

    Raises:
        DataError: the source cannot be read or has no text, or the tokenizer has no `<eos>`.
    """
    if tokenizer.eos is None:
        raise DataError("the tokenizer has no <eos> to end a document with")
    identity = json.dumps([_FORMAT, source_digest(source, column=column, split=split), tokenizer.digest])
    folder = Path(cache) / hashlib.sha256(identity.encode()).hexdigest()[:24]
    found = _open(folder) if folder.is_dir() else None
    if found is None:
        texts = read_documents(source, column=column, split=split)
        try:
            with new_folder(folder) as temporary:
                _write(temporary, texts, tokenizer, threads or processors())
        except OSError as error:
            raise DataError(f"{folder}: the tokenised corpus cannot be written ({error.strerror})") from None
        found = _open(folder)
        if found is None:
            raise DataError(f"{folder}: the tokenised corpus cannot be read again; is the disk full?")
    return found


def processors() -> int:
    """Number of cores that this process may use; on macOS and Windows, which do not say, the number of all cores."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _write(folder: Path, texts: Iterable[str], tokenizer: Tokenizer, threads: int) -> None:
    from tqdm import tqdm

    dtype = np.uint16 if tokenizer.vocab_size <= 1 << 16 else np.uint32
    stops = [0]
    with (
        (folder / "tokens.bin").open("wb") as file,
        tqdm(desc="tokenising", unit="B", unit_scale=True, disable=None) as progress,
    ):
        for batch in _batches(texts):
            for ids in tokenizer.encode_batch(batch, threads):
                np.array([*ids, tokenizer.eos], dtype=dtype).tofile(file)
                stops.append(stops[-1] + len(ids) + 1)
            progress.update(sum(map(len, batch)))
    if len(stops) == 1:
        raise DataError("the corpus has no text in it")
    np.save(folder / "offsets.npy", np.stack([stops[:-1], stops[1:]], axis=1).astype(np.int64))
    np.save(folder / "widths.npy", tokenizer.token_widths)
    meta = {"dtype": np.dtype(dtype).name, "tokens": stops[-1]}
    (folder / "meta.json").write_text(json.dumps(meta))


def _batches(texts: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for text in texts:
        batch.append(text)
        size += len(text)
        if size > _BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    yield batch


def _open(folder: Path) -> TokenDocuments | None:
    """The documents in a folder of the cache; None where it is damaged, and so was moved aside."""
    try:
        meta: dict[str, Any] = json.loads((folder / "meta.json").read_text())
        tokens = np.memmap(folder / "tokens.bin", dtype=meta["dtype"], mode="r", shape=(meta["tokens"],))
        offsets, widths = (np.load(folder / name, allow_pickle=False) for name in ("offsets.npy", "widths.npy"))
        if offsets.dtype != np.int64 or offsets.ndim != 2 or not len(offsets) or widths.ndim != 1:
            raise ValueError("an array has another shape")
        starts, stops = offsets.T
        if starts[0] or stops[-1] != len(tokens) or (stops <= starts).any() or (starts[1:] != stops[:-1]).any():
            raise ValueError("the documents are not all of the tokens")
    except (OSError, ValueError, LookupError, TypeError, AttributeError, EOFError, RecursionError) as error:
        move_aside(folder, error)
        return None
    return TokenDocuments(memory=tokens, offsets=offsets, widths=widths)


def split_documents(documents: TokenDocuments, fraction: float, seed: int = 0) -> tuple[TokenDocuments, TokenDocuments]:
    """Hold out a random share of the documents for validation; of a single document, hold out the end.

    If the share is less than a document, the document whose size is nearest to that share of all tokens is held out.

    Args:
        fraction: share to hold out, 0 to 1.

    Returns:
        The documents to train on, and the held-out ones.
    """
    if not 0 < fraction < 1:
        raise DataError(f"a held-out share of {fraction} is not between 0 and 1")
    offsets = documents.offsets
    count = int(len(documents) * fraction)
    if len(documents) > 1:
        held = np.zeros(len(documents), dtype=bool)
        if count:
            held[np.random.default_rng(seed).permutation(len(documents))[:count]] = True
        else:
            sizes = offsets[:, 1] - offsets[:, 0]
            away = np.abs(sizes - fraction * sizes.sum())
            held[np.where(sizes > 1, away, np.inf).argmin()] = True  # one token has nothing to predict
        parts = offsets[~held], offsets[held]
    else:
        starts, stops = offsets.T
        tokens = stops - starts
        ends = np.maximum(np.ceil(tokens * fraction), 2)  # at least 2 tokens: the first is only context for the second
        cuts = stops - np.minimum(ends, np.maximum(tokens - 1, 1)).astype(np.int64)
        parts = np.stack([starts, cuts], axis=1), np.stack([cuts, stops], axis=1)
    train, held_out = (TokenDocuments(memory=documents.memory, offsets=part, widths=documents.widths) for part in parts)
    return train, held_out


class _Epoch(NamedTuple):
    """Order of an epoch: document indices, the end of each when they are joined, and the start of each window."""

    documents: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]


class PackedDocuments:
    """An endless sequence of training windows, (length + 1,) each, shuffled anew in each epoch.

    Window `index` depends only on (seed, index). In each epoch, documents are shuffled and joined into a ring, which is
    cut into windows from a random position; then the windows are shuffled. They overlap by one token, so each token is
    predicted once per epoch (except fewer than `length` left over).

    Args:
        documents: documents to pack.
        length: number of tokens to predict per window, which holds one token more.
        seed: seed for shuffling.

    Raises:
        DataError: the documents together are shorter than one window.
    """

    def __init__(self, documents: TokenDocuments, length: int, seed: int) -> None:
        if documents.total <= length:
            raise DataError(f"the corpus has {documents.total} tokens, too few for a window of {length + 1}")
        self.documents = documents
        self.length = length
        self.seed = seed
        self.windows_per_epoch = documents.total // length
        self._epochs: dict[int, _Epoch] = {}

    def __getitem__(self, index: int) -> npt.NDArray[np.int64]:
        """Return the token ids of window `index`, (length + 1,)."""
        number, place = divmod(index, self.windows_per_epoch)
        epoch = self._epoch(number)
        total = int(epoch.stops[-1])
        at = int(epoch.starts[place])
        window = np.empty(self.length + 1, dtype=np.int64)
        filled = 0
        while filled < len(window):
            turn = int(np.searchsorted(epoch.stops, at, side="right"))
            document = self.documents[int(epoch.documents[turn])]
            within = at - int(epoch.stops[turn]) + len(document)
            piece = document[within : within + len(window) - filled]
            window[filled : filled + len(piece)] = piece
            filled += len(piece)
            at = (at + len(piece)) % total
        return window

    def _epoch(self, number: int) -> _Epoch:
        if number not in self._epochs:
            rng = np.random.default_rng([self.seed, number])
            lengths = self.documents.offsets[:, 1] - self.documents.offsets[:, 0]
            order = rng.permutation(len(lengths))
            stops = np.cumsum(lengths[order])
            first = rng.integers(stops[-1])
            starts = (first + self.length * rng.permutation(self.windows_per_epoch)) % stops[-1]
            # a batch may span two epochs: keep the last two
            self._epochs = dict(list(self._epochs.items())[-1:]) | {number: _Epoch(order, stops, starts)}
        return self._epochs[number]
