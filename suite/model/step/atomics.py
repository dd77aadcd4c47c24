"""Counters that threads share, the bits of numbers, and rest: instructions for which Numba has no words.

An address is that of an int64.
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

I64 = ir.IntType(64)
REST = 0 if sys.platform == "win32" else 50  # what `rest` is called with: microseconds; on Windows it only gives way


def _register_rest() -> None:
    """Make the system's function that lets a thread rest known to compiled code, under a name of our own."""
    library: Any = getattr(ctypes, "windll").kernel32 if sys.platform == "win32" else ctypes.CDLL(None)  # noqa: B009
    function = library.Sleep if sys.platform == "win32" else library.usleep
    binding.add_symbol("suite_rest", ctypes.cast(function, ctypes.c_void_p).value)


_register_rest()
rest = types.ExternalFunction("suite_rest", types.int32(types.uint32))


def _at(b: Any, address: ir.Value) -> ir.Value:
    return b.inttoptr(address, I64.as_pointer())


@intrinsic  # type: ignore[untyped-decorator]
def read(context, address):  # type: ignore[no-untyped-def]
    """The number at an address; what its writer wrote before it is seen after it."""

    def generate(context: Any, b: Any, signature: Any, arguments: Any) -> Any:
        return b.load_atomic(_at(b, arguments[0]), "acquire", 8)

    return types.int64(types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def write(context, address, number):  # type: ignore[no-untyped-def]
    """Write a number, after all that was written before it."""

    def generate(context: Any, b: Any, signature: Any, arguments: Any) -> Any:
        b.store_atomic(arguments[1], _at(b, arguments[0]), "release", 8)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def add(context, address, number):  # type: ignore[no-untyped-def]
    """Add to the number at an address."""

    def generate(context: Any, b: Any, signature: Any, arguments: Any) -> Any:
        b.atomic_rmw("add", _at(b, arguments[0]), arguments[1], "acq_rel")
        return context.get_dummy_value()

    return types.void(types.int64, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def replace(context, address, old, new):  # type: ignore[no-untyped-def]
    """Replace the number `old` at an address by `new`; whether it was `old`."""

    def generate(context: Any, b: Any, signature: Any, arguments: Any) -> Any:
        address, old, new = arguments
        return b.extract_value(b.cmpxchg(_at(b, address), old, new, "acq_rel", "acquire"), 1)

    return types.boolean(types.int64, types.int64, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def pause(context):  # type: ignore[no-untyped-def]
    """Tell the CPU that this thread waits for another."""

    def generate(context: Any, b: Any, signature: Any, arguments: Any) -> Any:
        if binding.get_default_triple().startswith("x86"):
            function = ir.FunctionType(ir.VoidType(), [])
            b.call(cgutils.get_or_insert_function(b.module, function, "llvm.x86.sse2.pause"), [])
        return context.get_dummy_value()

    return types.void(), generate


@intrinsic  # type: ignore[untyped-decorator]
def float_of_bits(context, bits):  # type: ignore[no-untyped-def]
    """The float32 with the bits of an int32."""

    def generate(context: Any, b: Any, signature: Any, arguments: Any) -> Any:
        return b.bitcast(arguments[0], ir.FloatType())

    return types.float32(types.int32), generate


@intrinsic  # type: ignore[untyped-decorator]
def bits_of_float(context, number):  # type: ignore[no-untyped-def]
    """The int32 with the bits of a float32."""

    def generate(context: Any, b: Any, signature: Any, arguments: Any) -> Any:
        return b.bitcast(arguments[0], ir.IntType(32))

    return types.int32(types.float32), generate


@intrinsic  # type: ignore[untyped-decorator]
def floats_at(context, address):  # type: ignore[no-untyped-def]
    """An address as a pointer to float32 numbers."""

    def generate(context: Any, b: Any, signature: Any, arguments: Any) -> Any:
        return b.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.float32)(types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def integers_at(context, address):  # type: ignore[no-untyped-def]
    """An address as a pointer to int64 numbers."""

    def generate(context: Any, b: Any, signature: Any, arguments: Any) -> Any:
        return b.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(types.int64)(types.int64), generate
