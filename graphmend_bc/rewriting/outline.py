"""Make a function one call of a copy of itself, which a tracer may understand as a whole.

before               after
  def f(a, b):         def f(a, b):
      <body>               return Outlined(site, rule)(<copy of f>, a, b)
"""

from __future__ import annotations

from dataclasses import replace
from inspect import CO_NESTED, CO_VARARGS, CO_VARKEYWORDS
from types import CodeType

from bytecode.instr import CellVar

from graphmend_bc.code.analysis.blocks import graph_of
from graphmend_bc.code.assemble import Assembled, Header, assemble
from graphmend_bc.code.header import argument_names
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.calls import CallWriter, site_of_op
from graphmend_bc.rewriting.origin import with_origin
from graphmend_bc.runtime import Outlined


def outline_as_call(code: CodeType, offset: int, rule: str) -> tuple[Assembled, Assembled]:
    """The function that makes the call, and the copy that it calls.

    Args:
        code: a function's code object.
        offset: of the instruction that the call stands for.
        rule: the name of the rule that asks for it.

    Raises:
        Refused: it is a closure, or takes any number of arguments.
    """
    if code.co_freevars or code.co_flags & (CO_VARARGS | CO_VARKEYWORDS):
        raise Refused("unhandled-instruction", "The function is a closure, or takes `*args`.")
    listing = graph_of(code).listing
    op = listing.at_offset(offset)
    primitive = Outlined(site_of_op(code, op), rule)
    names = argument_names(code)
    like = code.replace(
        co_argcount=len(names),
        co_posonlyargcount=0,
        co_kwonlyargcount=0,
        co_flags=code.co_flags | CO_NESTED,
    )
    copy = with_origin(Assembled(like, {op.offset: op.offset for op in listing.ops}), code)
    writer = CallWriter(op, None)
    # Parameters that are cells stay cells: a tracer binds them as those of the original.
    cells = {name: CellVar(name) for name in code.co_cellvars if name in names}
    items = [
        *(writer.emit("MAKE_CELL", cell) for cell in cells.values()),
        writer.emit("RESUME", 0),
        *writer.make_function(copy.code, ()),
        *writer.callable_under_top(primitive),
        *(
            writer.emit("LOAD_DEREF", cells[name]) if name in cells else load
            for name, load in zip(names, writer.load_all(names), strict=True)
        ),
        *writer.call(1 + len(names)),
        writer.emit("RETURN_VALUE"),
    ]
    caller = assemble(replace(Header.of(code), cellvars=tuple(cells)), items)
    return with_origin(caller, code), copy
