"""Products on vector registers, written in LLVM's instructions, for which Numba has no words.

`dots` is where a decoding step spends its time: a tile of output channels by rows, whose sums stay in registers while
the weights pass by once. Weights become float32 there, in registers; activations are float32 everywhere.

Shapes: `O` output channels, `I` input channels, `B` rows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from suite.model.step.layout import BFLOAT16, FLOAT16, FLOAT32, INT8

FEATURES = binding.get_host_cpu_features()
LANES = 16 if FEATURES.get("avx512f") else 8  # float32 numbers that are multiplied at once
SIZES = {FLOAT32: 4, FLOAT16: 2, BFLOAT16: 2, INT8: 1}  # bytes
STORED = {FLOAT32: ir.FloatType(), FLOAT16: ir.HalfType(), BFLOAT16: ir.IntType(16), INT8: ir.IntType(8)}
F32, I8, I32, I64 = ir.FloatType(), ir.IntType(8), ir.IntType(32), ir.IntType(64)

Builder = Any


def can_widen_halves() -> bool:
    """Whether this CPU converts float16 by an instruction; without one LLVM calls a function that may not be there."""
    return bool(FEATURES.get("f16c") or FEATURES.get("fullfp16") or FEATURES.get("neon"))


def _vector(element: ir.Type, lanes: int) -> ir.Type:
    return element if lanes == 1 else ir.VectorType(element, lanes)


def _constant(type_: ir.Type, value: float) -> ir.Constant:
    return ir.Constant(type_, [value] * type_.count if isinstance(type_, ir.VectorType) else value)


def _load(b: Builder, address: ir.Value, type_: ir.Type, align: int) -> ir.Value:
    return b.load(b.inttoptr(address, type_.as_pointer()), align=align)


def _place(b: Builder, address: ir.Value, index: ir.Value, size: int) -> ir.Value:
    """The address of the element `index` behind an address."""
    return b.add(address, b.mul(index, I64(size)))


def _widened(b: Builder, kind: int, stored: ir.Value, lanes: int) -> ir.Value:
    """Weights as float32."""
    if kind == FLOAT32:
        return stored
    if kind == INT8:
        return b.sitofp(stored, _vector(F32, lanes))
    if kind == FLOAT16:
        return b.fpext(stored, _vector(F32, lanes))
    bits = _vector(I32, lanes)  # bfloat16 is the upper half of a float32
    return b.bitcast(b.shl(b.zext(stored, bits), _constant(bits, 16)), _vector(F32, lanes))


def _multiply_add(b: Builder, lanes: int) -> Callable[[ir.Value, ir.Value, ir.Value], ir.Value]:
    type_ = _vector(F32, lanes)
    name = "llvm.fmuladd." + ("f32" if lanes == 1 else f"v{lanes}f32")
    function = cgutils.get_or_insert_function(b.module, ir.FunctionType(type_, [type_] * 3), name)
    return lambda x, y, z: b.call(function, [x, y, z])


def _total(b: Builder, vector: ir.Value) -> ir.Value:
    """The sum of a vector's lanes."""
    type_ = ir.FunctionType(F32, [F32, vector.type])
    function = cgutils.get_or_insert_function(b.module, type_, f"llvm.vector.reduce.fadd.v{vector.type.count}f32")
    return b.call(function, [ir.Constant(F32, 0.0), vector], fastmath=("reassoc",))


def _prefetch(b: Builder, address: ir.Value) -> None:
    type_ = ir.FunctionType(ir.VoidType(), [I8.as_pointer(), I32, I32, I32])
    function = cgutils.get_or_insert_function(b.module, type_, "llvm.prefetch.p0")
    b.call(function, [b.inttoptr(address, I8.as_pointer()), I32(0), I32(3), I32(1)])  # read, keep, data


def dots(kind: int, channels: int, rows: int, steps: int) -> Any:
    """A compiled function of a tile: out[b, o] = weights[o] . x[b] for `channels` by `rows`, sums in registers.

    Args:
        kind: of the weights.
        channels, rows: of the tile. Several channels share what is loaded of x, several rows what is loaded, and
            widened, of the weights.
        steps: vectors of each row and channel a turn, so that enough sums are under way to hide how long each takes.
            Channels times rows times steps sums should fill eight registers and leave some of sixteen.

    Returns:
        a function of seven integers: the address of the weights and the elements from row to row of them, the same of
        x and in the end of out, and between them the length I of a row.
    """
    size = SIZES[kind]

    def sums(b: Builder, w: list[ir.Value], x: list[ir.Value], span: tuple[Any, Any], lanes: int, steps: int) -> Any:
        """Sums (channels * rows) over the columns of a span, of `steps` vectors a turn."""
        numbers, stored = _vector(F32, lanes), _vector(STORED[kind], lanes)
        multiply_add = _multiply_add(b, lanes)
        places = [cgutils.alloca_once_value(b, _constant(numbers, 0.0)) for _ in range(steps * channels * rows)]
        with cgutils.for_range_slice(b, *span, I64(lanes * steps), I64) as (column, _):
            if channels > 1 and lanes > 1:  # the CPU foresees a single stream of weights alone
                for weights in w:
                    _prefetch(b, _place(b, b.add(weights, b.mul(b.sub(w[1], w[0]), I64(channels))), column, size))
            for step in range(steps):
                at = b.add(column, I64(step * lanes))
                inputs = [_load(b, _place(b, row, at, 4), numbers, 4) for row in x]
                for channel, weights in enumerate(w):
                    weight = _widened(b, kind, _load(b, _place(b, weights, at, size), stored, size), lanes)
                    for row, value in enumerate(inputs):
                        place = places[(step * channels + channel) * rows + row]
                        b.store(multiply_add(weight, value, b.load(place)), place)
        found = [b.load(place) for place in places]
        for step in range(1, steps):
            part = found[step * channels * rows : (step + 1) * channels * rows]
            found[: channels * rows] = [b.fadd(*pair) for pair in zip(found, part, strict=False)]
        return found[: channels * rows]

    def generate(context: Any, b: Builder, signature: Any, arguments: Any) -> Any:
        weights, weights_step, x, x_step, columns, out, out_step = arguments
        w = [_place(b, weights, b.mul(weights_step, I64(channel)), size) for channel in range(channels)]
        inputs = [_place(b, x, b.mul(x_step, I64(row)), 4) for row in range(rows)]
        whole = b.sub(columns, b.srem(columns, I64(LANES * steps)))
        most = sums(b, w, inputs, (I64(0), whole), LANES, steps)
        last = sums(b, w, inputs, (whole, columns), 1, 1)  # columns that fill no vector
        for channel in range(channels):
            for row in range(rows):
                place = channel * rows + row
                total = b.fadd(_total(b, most[place]), last[place])
                address = _place(b, out, b.add(b.mul(out_step, I64(row)), I64(channel)), 4)
                b.store(total, b.inttoptr(address, F32.as_pointer()))
        return context.get_dummy_value()

    @intrinsic  # type: ignore[untyped-decorator]
    def tile(  # type: ignore[no-untyped-def]
        context, weights, weights_step, x, x_step, columns, out, out_step
    ):
        return types.void(*[types.int64] * 7), generate

    return tile


def mixture(lanes: int, vectors: int) -> Any:
    """A compiled function: out[e] += the sum over j of weights[j] * values[j, e], for `lanes * vectors` numbers e.

    Returns:
        a function of five integers: addresses of the weights and values, elements from row to row of the values, the
        number of rows, and the address of out.
    """

    def generate(context: Any, b: Builder, signature: Any, arguments: Any) -> Any:
        weights, values, values_step, count, out = arguments
        numbers = _vector(F32, lanes)
        multiply_add = _multiply_add(b, lanes)
        outs = [b.add(out, I64(4 * lanes * vector)) for vector in range(vectors)]
        places = [cgutils.alloca_once_value(b, _load(b, address, numbers, 4)) for address in outs]
        with cgutils.for_range_slice(b, I64(0), count, I64(1), I64) as (row, _):
            weight = _load(b, _place(b, weights, row, 4), F32, 4)
            if lanes > 1:
                single = b.insert_element(ir.Constant(numbers, ir.Undefined), weight, I32(0))
                spread = ir.Constant(ir.VectorType(I32, lanes), [0] * lanes)
                weight = b.shuffle_vector(single, ir.Constant(numbers, ir.Undefined), spread)
            start = _place(b, values, b.mul(row, values_step), 4)
            for vector, place in enumerate(places):
                value = _load(b, b.add(start, I64(4 * lanes * vector)), numbers, 4)
                b.store(multiply_add(weight, value, b.load(place)), place)
        for address, place in zip(outs, places, strict=True):
            b.store(b.load(place), b.inttoptr(address, numbers.as_pointer()), align=4)
        return context.get_dummy_value()

    @intrinsic  # type: ignore[untyped-decorator]
    def mix(context, weights, values, values_step, count, out):  # type: ignore[no-untyped-def]
        return types.void(*[types.int64] * 5), generate

    return mix


def element(kind: int) -> Any:
    """A compiled function of two integers: the float32 of the weight `index` behind an address."""

    def generate(context: Any, b: Builder, signature: Any, arguments: Any) -> Any:
        address, index = arguments
        stored = _load(b, _place(b, address, index, SIZES[kind]), STORED[kind], SIZES[kind])
        return _widened(b, kind, stored, 1)

    @intrinsic  # type: ignore[untyped-decorator]
    def weight_at(context, address, index):  # type: ignore[no-untyped-def]
        return types.float32(types.int64, types.int64), generate

    return weight_at
