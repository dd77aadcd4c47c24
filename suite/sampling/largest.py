"""The largest entries of rows. PyTorch's `topk` takes longer on a CPU than the rest of a choice.

Shapes: `B` rows, `V` entries of a row, `P` groups of rows, `K` rows of a group.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

BLOCK = 64  # entries whose maximum is looked at first
FEW_ROWS = 16  # rows up to which `topk` takes no longer than the many small operations that replace it


def largest(scores: Tensor, added: NDArray[np.float64], count: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The `count` largest entries of each group of rows, or all if there are fewer; the largest first.

    Args:
        scores: (B, V), B being P x K.
        added: (P, K), a number for each row that is added to its entries.
        count: at least 1.

    Returns:
        (P, count) entries, and (P, count) their places in the group: row * V + column. Of entries that are equal at the
        border, arbitrary ones are returned; the place of an entry that is -inf means nothing, but lies in the group.
    """
    groups, rows = added.shape
    count = min(count, rows * scores.shape[1])
    if len(scores) > FEW_ROWS and in_numpy(scores):
        values, places = largest_of_blocks(scores, added, count)  # (P, N * BLOCK)
        best, group = places_of_largest(values, count), np.arange(groups)[:, None]
        values, places = values[group, best], places[group, best]
    else:
        entries, ids = scores.detach().topk(min(count, scores.shape[1]), dim=1)  # (B, N): N of a row are always enough
        values = (entries.cpu().numpy() + added.reshape(-1, 1)).reshape(groups, -1)  # (P, K * N)
        firsts = (np.arange(rows) * scores.shape[1])[:, None]
        places = (ids.cpu().numpy().reshape(groups, rows, -1) + firsts).reshape(groups, -1)
    order = (-values).argsort(axis=1, kind="stable")[:, :count]  # equal entries in the order of their places
    if groups == 1:
        return values[:, order[0]], places[:, order[0]]
    return np.take_along_axis(values, order, axis=1), np.take_along_axis(places, order, axis=1)


def largest_of_blocks(
    scores: Tensor, added: NDArray[np.float64], count: int
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Entries and places as from `largest`, but of whole blocks of columns: those with the largest maxima."""
    (groups, rows), vocabulary = added.shape, scores.shape[1]
    group = np.arange(groups)[:, None]  # (P, 1)
    maxima = block_maxima(scores).reshape(groups, rows, -1) + added[:, :, None]  # (P, K, blocks)
    row, block = np.divmod(places_of_largest(maxima.reshape(groups, -1), count), maxima.shape[2])  # (P, up to N)
    columns = block[:, :, None] * BLOCK + np.arange(BLOCK)  # (P, N, BLOCK)
    outside = columns >= vocabulary
    columns[outside] = 0
    places = (row * vocabulary)[:, :, None] + columns
    values = scores.detach().reshape(groups, -1).numpy()[group[:, :, None], places] + added[group, row][:, :, None]
    values[outside] = -np.inf
    return values.reshape(groups, -1), places.reshape(groups, -1)


def places_of_largest(values: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """The columns of the `count` largest entries of each row of (P, M), or of all if there are fewer; rising."""
    if count >= values.shape[1]:
        return np.arange(values.shape[1])[None].repeat(len(values), axis=0)
    found = values.argpartition(-count, axis=1)[:, -count:]
    found.sort(axis=1)
    return found


def block_maxima(scores: Tensor) -> NDArray[np.float64]:
    """(B, V) -> (B, V / BLOCK, rounded up), the maximum of each block of columns."""
    whole = scores.shape[1] // BLOCK * BLOCK
    parts = [scores[:, :whole].reshape(len(scores), -1, BLOCK).amax(dim=2)] if whole else []
    if whole < scores.shape[1]:
        parts.append(scores[:, whole:].amax(dim=1, keepdim=True))
    return (torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]).detach().double().numpy()


def in_numpy(values: Tensor) -> bool:
    """Whether NumPy can work on a tensor where it lies."""
    return values.device.type == "cpu" and values.dtype in (torch.float32, torch.float64)


def head(values: Tensor, width: int) -> Tensor:
    """The `width` largest entries of each row of (B, V), falling: (B, width)."""
    if not in_numpy(values):
        return values.topk(width, dim=-1).values
    entries, rest = values.detach().numpy(), values.shape[-1] - width
    if rest:
        entries = np.partition(entries, rest, axis=-1)[:, rest:]
    return torch.from_numpy(np.sort(entries, axis=-1)[:, ::-1].copy())


def keep_largest(values: Tensor, least: Tensor, counts: Tensor | int) -> Tensor:
    """(B, V) bool, True for exactly `counts` largest entries of each row of (B, V).

    Args:
        values: (B, V).
        least: (B, 1) the smallest entry of each row that is kept; of several that are equal to it, those with the
            lowest ids are kept.
        counts: (B, 1), or a number for all rows.
    """
    quick = in_numpy(values)  # a tenth of the time of PyTorch's comparison
    keep = torch.from_numpy(values.detach().numpy() >= least.detach().numpy()) if quick else values >= least
    extra = keep.sum(dim=-1, keepdim=True) - counts  # (B, 1)
    if extra.any():
        ties = values == least
        allowed = ties.sum(dim=-1, keepdim=True) - extra
        keep = keep & (~ties | (ties.cumsum(dim=-1) <= allowed))
    return keep


def nucleus(probabilities: NDArray[np.floating], p: float, guesses: Sequence[int]) -> NDArray[np.bool_]:
    """(B, V) bool, True for the fewest likeliest entries of each row of (B, V) that add up to at least `p`.

    Args:
        probabilities: (B, V).
        p: above 0.
        guesses: numbers of entries to look at, rising, before all are.
    """
    vocabulary = probabilities.shape[1]
    for guess in (*guesses, vocabulary):
        rest = max(0, vocabulary - guess)
        top = np.partition(probabilities, rest, axis=1)[:, rest:] if rest else probabilities
        top = np.sort(top, axis=1)[:, ::-1]  # (B, guess)
        before = top.cumsum(axis=1, dtype=np.float64) - top  # probability of all likelier entries
        counts = (before < p).sum(axis=1)  # (B,) the entry that crosses p is kept
        if not rest or not top[counts == top.shape[1], -1].any():
            break
    counts = np.maximum(counts, 1)  # 0 if no entry is a number
    least = top[np.arange(len(top)), counts - 1][:, None]
    keep: NDArray[np.bool_] = probabilities >= least
    if (keep.sum(axis=1) != counts).any():
        return keep_largest(*map(torch.from_numpy, (probabilities, least.copy(), counts[:, None]))).numpy()
    return keep
