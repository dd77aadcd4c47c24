"""The product of a few rows with a range of a matrix's channels: nearly all of a decoding step's time.

It is compiled by itself, and the rest calls it as a function of the system's: Numba would otherwise optimise these
loops again for each function that leads to them, which takes longer than all other compiling.

Shapes: `B` rows, `I` input channels, `O` output channels.
"""

from __future__ import annotations

from typing import Any

from llvmlite import binding
from numba import cfunc, config, njit, types

from suite.model.step.layout import BFLOAT16, FLOAT16, FLOAT32, INT8
from suite.model.step.machine import SIZES, dots

NEAR = 4096  # numbers that leave room in the CPU's nearest cache, of 32 KiB or more
SIGNATURE = types.void(*[types.int64] * 10)


def make_product(kind: int) -> Any:
    """The compiled product for a kind of weights.

    One channel after the other lets the weights pass in the order of memory, which is fastest while the rows stay in
    the CPU's nearest cache. Where they don't, channels go in pairs, so that each number of the rows is fetched half as
    often.
    """
    tiles = ((1, 4, 2), (1, 2, 4), (1, 1, 4), (2, 4, 1), (2, 2, 2))
    four, two, one, pair_of_four, pair_of_two = (dots(kind, *tile) for tile in tiles)
    size = SIZES[kind]

    @njit
    def product(weights, step, first, last, x, inputs, rows, out, out_step):
        paired = rows > 1 and rows * inputs > NEAR
        o = first
        while o < last:
            channel, pairs = weights + o * step * size, paired and o + 1 < last
            b = 0
            while b < rows:
                row, place = x + 4 * b * inputs, out + 4 * (b * out_step + o - first)
                if rows - b >= 4:
                    if pairs:
                        pair_of_four(channel, step, row, inputs, inputs, place, out_step)
                    else:
                        four(channel, step, row, inputs, inputs, place, out_step)
                    b += 4
                elif rows - b >= 2:
                    if pairs:
                        pair_of_two(channel, step, row, inputs, inputs, place, out_step)
                    else:
                        two(channel, step, row, inputs, inputs, place, out_step)
                    b += 2
                else:
                    one(channel, step, row, inputs, inputs, place, out_step)
                    if pairs:
                        one(channel + step * size, step, row, inputs, inputs, place + 4, out_step)
                    b += 1
            o += 2 if pairs else 1

    return product


float32, float16, bfloat16, int8 = map(make_product, (FLOAT32, FLOAT16, BFLOAT16, INT8))


def multiply_(kind, weights, step, first, last, x, inputs, rows, out, out_step):  # type: ignore[no-untyped-def]
    """out[b, o - first] = weights[o] . x[b] for the channels from `first` to before `last`.

    Args:
        kind: of the weights.
        weights: address of (O, I), `step` elements from row to row.
        x: address of (B, I) float32.
        out: address of (B, last - first) float32, `out_step` elements from row to row.
    """
    if kind == FLOAT32:
        float32(weights, step, first, last, x, inputs, rows, out, out_step)
    elif kind == INT8:
        int8(weights, step, first, last, x, inputs, rows, out, out_step)
    elif kind == FLOAT16:
        float16(weights, step, first, last, x, inputs, rows, out, out_step)
    else:
        bfloat16(weights, step, first, last, x, inputs, rows, out, out_step)


multiply = types.ExternalFunction("suite_multiply", SIGNATURE)
# whether compiled code is kept on disk; `choice.py` says where
KEPT = bool(config.CACHE_DIR)  # type: ignore[attr-defined]
compiled = cfunc(SIGNATURE, cache=KEPT)(multiply_)
binding.add_symbol("suite_multiply", compiled.address)
