"""The parts of a decoding step on float32 numbers: norms, rotation, activations, products, attention.

Nothing here knows threads or layers; `work.py` puts the parts together.

Shapes: `B` rows, `D` d_model, `H` heads, `E` head width, `I` input channels, `O` output channels, `G` query heads that
share a key/value head, `N` keys.
"""

from __future__ import annotations

import numpy as np
from numba import carray, njit  # type: ignore[attr-defined]

from suite.model.step.atomics import bits_of_float, float_of_bits, floats_at
from suite.model.step.layout import BFLOAT16, FLOAT16, FLOAT32, GELU, GELU_TANH, INT8, RELU2
from suite.model.step.machine import LANES, element, mixture
from suite.model.step.multiply import multiply

# sums in any order and fused products; NaN and infinity stay what they are, so that a broken model is noticed
SUMS = {"reassoc", "contract", "nsz", "arcp"}
ZERO, HALF, ONE, TWO = map(np.float32, (0.0, 0.5, 1.0, 2.0))
HEAD_EPSILON = np.finfo(np.float32).eps  # of queries' and keys' norm

float32_at, float16_at, bfloat16_at, int8_at = map(element, (FLOAT32, FLOAT16, BFLOAT16, INT8))
many_values, few_values, one_value = mixture(LANES, 4), mixture(LANES, 1), mixture(1, 1)


@njit
def array(address, rows, columns):
    """The float32 numbers at an address, (rows, columns)."""
    return carray(floats_at(address), (rows, columns))


@njit
def product(matrix, first, last, x, rows, out, out_step):
    """out[b, o - first] = matrix[o] . x[b] + bias[o] for the channels from `first` to before `last`.

    Args:
        matrix: the record of a linear layer.
        x: address of (B, I).
        out: address of a row of results, `out_step` elements before the next.
    """
    inputs = matrix.inputs
    multiply(matrix.kind, matrix.weight, inputs, first, last, x, inputs, rows, out, out_step)
    if matrix.scales or matrix.bias:
        finish(matrix, first, last, array(out, rows, out_step))


@njit
def finish(matrix, first, last, out):
    """Multiply the results of a product by the channels' scales, and add their biases, where there are any."""
    scales, biases = floats_at(matrix.scales), floats_at(matrix.bias)
    for b in range(len(out)):
        if matrix.scales:
            for o in range(last - first):
                out[b, o] *= scales[first + o]
        if matrix.bias:
            for o in range(last - first):
                out[b, o] += biases[first + o]


@njit(fastmath=SUMS)
def normalise(x, norm, rms, epsilon, out):
    """out (D,) = LayerNorm or RMSNorm of x (D,)."""
    width = len(x)
    weight, bias = floats_at(norm.weight), floats_at(norm.bias)
    mean, squares = ZERO, ZERO
    if not rms:
        for i in range(width):
            mean += x[i]
        mean /= np.float32(width)
    for i in range(width):
        squares += (x[i] - mean) * (x[i] - mean)
    scale = ONE / np.sqrt(squares / np.float32(width) + np.float32(epsilon))
    for i in range(width):
        out[i] = (x[i] - mean) * scale * weight[i]
    if norm.bias:
        for i in range(width):
            out[i] += bias[i]


@njit(fastmath=SUMS)
def normalise_head(x):
    """RMS-normalise a query or key (E,) in place."""
    squares = ZERO
    for i in range(len(x)):
        squares += x[i] * x[i]
    scale = ONE / np.sqrt(squares / np.float32(len(x)) + np.float32(HEAD_EPSILON))
    for i in range(len(x)):
        x[i] *= scale


@njit
def rotate(x, cos, sin):
    """Rotate the pairs (i, i + R/2) of a query or key (E,) in place, by the angles of cos and sin (R,)."""
    half = len(cos) // 2
    for i in range(half):
        first, second = x[i], x[i + half]
        x[i] = first * cos[i] - second * sin[i]
        x[i + half] = second * cos[i + half] + first * sin[i + half]


@njit(inline="always")
def exponential(x):
    """e ** x to the last bit but one, without a call, so that eight are computed at once.

    2 ** n comes from the bits of a float32, and e ** r of the rest, |r| <= ln(2) / 2, from a polynomial.
    """
    x = np.float32(-87.0) if x < np.float32(-87.0) else x
    x = np.float32(88.0) if x > np.float32(88.0) else x
    shifted = x * np.float32(1.44269504) + np.float32(12582912.0)  # 1.5 * 2 ** 23: the last bits are the whole number
    whole = shifted - np.float32(12582912.0)
    rest = x - whole * np.float32(0.693145752) - whole * np.float32(1.42860677e-6)  # ln(2) in two parts
    power = np.float32(0.00139304355)
    power = power * rest + np.float32(0.00833345205)
    power = power * rest + np.float32(0.0416664317)
    power = power * rest + np.float32(0.166666657)
    power = power * rest + HALF
    power = power * rest + ONE
    power = power * rest + ONE
    return power * float_of_bits((bits_of_float(shifted) << np.int32(23)) + np.int32(127 << 23))


@njit(fastmath={"contract"})
def activate(kind, x):
    """GELU, its tanh form, or squared ReLU of x (N,), in place."""
    if kind == RELU2:
        for i in range(len(x)):
            x[i] = ZERO if x[i] < ZERO else x[i] * x[i]
    elif kind == GELU_TANH:
        for i in range(len(x)):
            inner = np.float32(0.7978845608) * (x[i] + np.float32(0.044715) * x[i] * x[i] * x[i])
            x[i] = x[i] - x[i] / (exponential(TWO * inner) + ONE)  # 1 + tanh(y) = 2 - 2 / (e ** 2y + 1)
    elif kind == GELU:
        for i in range(len(x)):
            x[i] = HALF * x[i] * (ONE + error_function(x[i] * np.float32(0.7071067812)))


@njit(inline="always")
def error_function(x):
    """The error function to 2e-7. Source: Abramowitz and Stegun 1964, 7.1.26."""
    size = abs(x)
    t = ONE / (ONE + np.float32(0.3275911) * size)
    sum_ = np.float32(1.061405429)
    sum_ = sum_ * t - np.float32(1.453152027)
    sum_ = sum_ * t + np.float32(1.421413741)
    sum_ = sum_ * t - np.float32(0.284496736)
    sum_ = sum_ * t + np.float32(0.254829592)
    far = ONE - sum_ * t * exponential(-size * size)
    return -far if x < ZERO else far


@njit(fastmath={"contract"})
def gate(gates, x):
    """x (N,) *= SiLU of gates (N,)."""
    for i in range(len(x)):
        x[i] *= gates[i] / (ONE + exponential(-gates[i]))


@njit(fastmath=SUMS)
def softmax(scores):
    """Turn scores (N,) into weights that sum to 1, in place."""
    highest = scores[0]
    for j in range(len(scores)):
        highest = scores[j] if scores[j] > highest else highest
    powers(scores, highest)
    total = ZERO
    for j in range(len(scores)):
        total += scores[j]
    share = ONE / total
    for j in range(len(scores)):
        scores[j] *= share


@njit(fastmath={"contract"})
def powers(scores, highest):
    """scores (N,) = e ** (scores - highest), in place; apart, because rounding by sums needs their order."""
    for j in range(len(scores)):
        scores[j] = exponential(scores[j] - highest)


@njit
def mix(weights, values, count, width, out):
    """out (E,) += the sum of values (N, E) by weights (N,); addresses."""
    e = 0
    while width - e >= 4 * LANES:
        many_values(weights, values + 4 * e, width, count, out + 4 * e)
        e += 4 * LANES
    while width - e >= LANES:
        few_values(weights, values + 4 * e, width, count, out + 4 * e)
        e += LANES
    while e < width:
        one_value(weights, values + 4 * e, width, count, out + 4 * e)
        e += 1


@njit
def copy_row(matrix, row, out):
    """out (I,) = a row of an embedding table, widened and scaled."""
    start, count = row * matrix.inputs, matrix.inputs
    for i in range(count):
        if matrix.kind == FLOAT32:
            out[i] = float32_at(matrix.weight, start + i)
        elif matrix.kind == INT8:
            out[i] = int8_at(matrix.weight, start + i)
        elif matrix.kind == FLOAT16:
            out[i] = float16_at(matrix.weight, start + i)
        else:
            out[i] = bfloat16_at(matrix.weight, start + i)
    if matrix.scales:
        scale = floats_at(matrix.scales)[row]
        for i in range(count):
            out[i] *= scale
