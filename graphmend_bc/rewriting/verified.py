"""Have generated code tell how a call begins and ends.

before            after
  <prologue>        save the arguments
  <body>            <prologue>
                    call = enter(cells, arguments)
                    try: <body>; before each return: leave(call, result)
                    except: fail(call, error); reraise
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final

from bytecode.instr import FreeVar

from graphmend_bc.code import facts
from graphmend_bc.code.assemble import Emit, Header, Label, assemble, relist
from graphmend_bc.code.listing import decode
from graphmend_bc.rewriting.calls import CallWriter
from graphmend_bc.rewriting.deopt import guarded

_CALL: Final = "__gm_call"
_RESULT: Final = "__gm_result"
_RETURNS = facts.op_set("RETURN_VALUE", "RETURN_CONST")


@dataclass(frozen=True, slots=True)
class Listener:
    """What is called around each call of generated code.

    Attributes:
        enter: gets the tuples of cells and of arguments; what it gives stands for the call.
        leave: gets that, and what is returned; it returns it.
        fail: gets that, and what is raised.
    """

    enter: Callable[..., Any]
    leave: Callable[..., Any]
    fail: Callable[..., Any]


def with_listener(generated: CodeType, listener: Listener) -> CodeType:
    """Wrap generated code.

    Args:
        generated: code that Dynamo generated, possibly wrapped already.
        listener: told of each call.

    Returns:
        A code object with the same face.
    """
    header, listing = Header.of(generated), decode(generated)
    writer = CallWriter(listing.ops[0], None)
    saved = [f"__gm_given_{i}" for i in range(len(header.argnames))]
    items: list[Emit | Label] = []
    for name, copy in zip(header.argnames, saved, strict=True):
        items += [writer.emit("LOAD_FAST", name), writer.emit("STORE_FAST", copy)]
    handler, in_body, ops = Label(), False, iter(listing.ops)
    for item in relist(listing):
        if isinstance(item, Label):
            items.append(item)
            continue
        here = CallWriter(next(ops), item.handler)
        if item.name in _RETURNS:
            items += _end(here, item, listener)
        else:
            items.append(guarded(item, handler) if in_body else item)
        if item.name == "RESUME":  # from here on the free variables can be used
            in_body = True
            items += _begin(writer, header, listener, saved)
    return assemble(header, [*items, handler, *_failure(writer, listener)]).code


def _begin(
    writer: CallWriter, header: Header, listener: Listener, saved: list[str]
) -> list[Emit | Label]:
    cells = [writer.emit(facts.LOAD_CLOSURE, FreeVar(name)) for name in header.freevars]
    return [
        *_callee(writer, listener.enter),
        *cells,
        writer.emit("BUILD_TUPLE", len(cells)),
        *writer.load_all(saved),
        writer.emit("BUILD_TUPLE", len(saved)),
        *writer.call(2),
        writer.emit("STORE_FAST", _CALL),
        *(writer.emit("DELETE_FAST", name) for name in saved),
    ]


def _end(writer: CallWriter, item: Emit, listener: Listener) -> list[Emit]:
    """A return, and before it the call that tells of the result."""
    value = [writer.emit("LOAD_CONST", item.arg)] if item.name == "RETURN_CONST" else []
    return [
        *value,
        writer.emit("STORE_FAST", _RESULT),
        *_callee(writer, listener.leave),
        *writer.load_all([_CALL, _RESULT]),
        *writer.call(2),
        writer.emit("RETURN_VALUE"),
    ]


def _failure(writer: CallWriter, listener: Listener) -> list[Emit | Label]:
    ends = Label()
    tells = [
        *_callee(writer, listener.fail),
        writer.emit("LOAD_FAST", _CALL),
        writer.emit("LOAD_FAST", _RESULT),
        *writer.call(2),
        writer.emit("POP_TOP"),
        writer.emit("LOAD_FAST", _RESULT),
        writer.emit("DELETE_FAST", _RESULT),
    ]
    return [
        writer.emit("PUSH_EXC_INFO"),
        writer.emit("STORE_FAST", _RESULT),
        *(guarded(item, ends) for item in tells),
        # What was being handled before is handled again, also after what the listener raises: the
        # frame does not end in its handler.
        ends,
        writer.emit("SWAP", 2),
        writer.emit("POP_EXCEPT"),
        writer.emit("RERAISE", 0),
    ]


def _callee(writer: CallWriter, function: Callable[..., Any]) -> list[Emit]:
    return [writer.emit("LOAD_CONST", function), *writer.as_callee()]
