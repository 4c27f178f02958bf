"""Mark the bounds of a slice: `x[a:b]` becomes `x[slice(*Bounds(site)((a, b)))]`."""

from __future__ import annotations

from graphmend_bc.code import facts
from graphmend_bc.code.assemble import Emit
from graphmend_bc.code.listing import Op
from graphmend_bc.rewriting.calls import Writer
from graphmend_bc.runtime import Bounds

SLICES = facts.op_set("BUILD_SLICE", "BINARY_SLICE", "STORE_SLICE")


def write_bounds(op: Op, bounds: Bounds, writer: Writer) -> list[Emit]:
    """The op, with the bounds on top of the stack marked."""
    count = op.arg if op.name == "BUILD_SLICE" else 2
    return [
        writer.emit("BUILD_TUPLE", count),
        *writer.callable_under_top(bounds),
        *writer.call(1),
        writer.emit("UNPACK_SEQUENCE", count),
        writer.emit("SWAP", count),  # two or three values come off a tuple the other way round
        writer.emit(op.name, op.arg),
    ]
