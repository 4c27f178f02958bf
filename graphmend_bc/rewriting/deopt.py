"""Deoptimise generated code: on a `Deoptimise`, the frame's original code runs instead.

before            after
  <prologue>        save the arguments
  <body>            <prologue>
                    try: <body>
                    except Deoptimise: raises, result = deoptimizer(cells, arguments)
                    reraise or return the result
"""

from __future__ import annotations

from collections.abc import Callable
from types import CodeType
from typing import Any

from bytecode.instr import FreeVar

from graphmend_bc.code import facts
from graphmend_bc.code.assemble import Emit, Header, Label, assemble, relist
from graphmend_bc.code.listing import decode
from graphmend_bc.rewriting.calls import CallWriter
from graphmend_bc.runtime.deoptimise import Deoptimise

_PROLOGUE = facts.op_set("MAKE_CELL", "COPY_FREE_VARS", "RESUME")


def with_deopt(
    generated: CodeType, original: CodeType, deoptimizer: Callable[..., Any]
) -> CodeType:
    """Wrap generated code.

    Args:
        generated: code with the arguments and free variables of `original`.
        original: the frame's own code.
        deoptimizer: called on it with the tuple of cells and the tuple of arguments; it
            returns whether the original code raises, and what it raises or returns.

    Returns:
        A code object with the same face.

    Raises:
        ValueError: the free variables differ.
    """
    if set(original.co_freevars) != set(generated.co_freevars):
        raise ValueError(f"The generated code of {original.co_qualname} has other free variables.")
    header = Header.of(generated)
    listing = decode(generated)
    writer = CallWriter(listing.ops[0], None)
    saved = [f"__gm_argument_{i}" for i in range(len(header.argnames))]
    items: list[Emit | Label] = []
    for name, copy in zip(header.argnames, saved, strict=True):
        items += [writer.emit("LOAD_FAST", name), writer.emit("STORE_FAST", copy)]
    handler = Label()
    in_body = False
    for item in relist(listing):
        if isinstance(item, Label):
            items.append(item)
            continue
        in_body = in_body or item.name not in _PROLOGUE
        items.append(guarded(item, handler) if in_body else item)
    return assemble(
        header, [*items, handler, *_deoptimisation(writer, original, deoptimizer, saved)]
    ).code


def guarded(item: Emit, handler: Label) -> Emit:
    """An instruction, covered by a handler unless another one covers it."""
    if item.handler is not None:
        return item
    return Emit(item.name, item.arg, item.label, (handler, False), item.location, item.origin)


def _deoptimisation(
    writer: CallWriter, original: CodeType, deoptimizer: Callable[..., Any], saved: list[str]
) -> list[Emit | Label]:
    """The handler. The exception is cleared before the original code runs: it is nobody's context.

    RERAISE gives the exception no entry for this frame in its traceback: it has that of the
    original code.
    """
    other, returns = Label(), Label()
    cells = [writer.emit(facts.LOAD_CLOSURE, FreeVar(n)) for n in original.co_freevars]
    callee = [writer.emit("LOAD_CONST", deoptimizer), *writer.as_callee()]
    return [
        writer.emit("PUSH_EXC_INFO"),
        writer.emit("LOAD_CONST", Deoptimise),
        writer.emit("CHECK_EXC_MATCH"),
        writer.emit(facts.POP_JUMP_IF_FALSE, label=other),
        writer.emit("POP_TOP"),
        writer.emit("POP_EXCEPT"),
        *callee,
        *cells,
        writer.emit("BUILD_TUPLE", len(cells)),
        *writer.load_all(saved),
        writer.emit("BUILD_TUPLE", len(saved)),
        *writer.call(2),
        writer.emit("UNPACK_SEQUENCE", 2),
        writer.emit(facts.POP_JUMP_IF_FALSE, label=returns),
        writer.emit("RERAISE", 0),
        returns,
        writer.emit("RETURN_VALUE"),
        other,
        # What was being handled before is handled again: the frame does not end in its handler.
        writer.emit("SWAP", 2),
        writer.emit("POP_EXCEPT"),
        writer.emit("RERAISE", 0),
    ]
