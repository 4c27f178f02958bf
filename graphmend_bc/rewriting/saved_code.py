"""Generated code that is kept in a file: what it calls of ours is among its constants.

before                         after
  LOAD_GLOBAL __gm_effect_1      LOAD_CONST <the effect's method>
  LOAD_GLOBAL __compiled_fn_1    LOAD_CONST <the watch>
                                 LOAD_GLOBAL __compiled_fn_1
                                 CALL 1

A global is of the process that traced the function; constants are saved with the code.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import CodeType

from graphmend_bc.code.assemble import Emit, Header, Label, assemble, relist
from graphmend_bc.code.listing import decode
from graphmend_bc.rewriting.calls import CallWriter


def with_constants(
    generated: CodeType,
    constants: Mapping[str, object],
    watches: Mapping[str, Callable[..., object]],
) -> CodeType:
    """Put constants in the place of globals.

    Args:
        generated: code that calls a graph.
        constants: the value of each global that becomes one, by its name.
        watches: by the names of globals, what is called on one of them to give what is called in
            its place.

    Returns:
        A code object with the same face.

    Example:
        >>> def f():
        ...     return helper(2)
        >>> code = with_constants(f.__code__, {"helper": str}, {})
        >>> code.co_names, eval(code)
        ((), '2')
    """
    listing = decode(generated)
    writer = CallWriter(listing.ops[0], None)
    items: list[Emit | Label] = []
    for item in relist(listing):
        if isinstance(item, Label) or item.name != "LOAD_GLOBAL":
            items.append(item)
            continue
        is_callee, name = item.arg
        if name in watches:
            made = [
                *(writer.emit("LOAD_CONST", watches[name]), *writer.as_callee()),
                *(writer.emit("LOAD_GLOBAL", (False, name)), *writer.call(1)),
            ]
        elif name in constants:
            made = [writer.emit("LOAD_CONST", constants[name])]
        else:
            items.append(item)
            continue
        made += writer.as_callee() if is_callee else []
        items += [replace(op, handler=item.handler, location=item.location) for op in made]
    return assemble(Header.of(generated), items).code
