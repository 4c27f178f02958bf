"""State that a function adds to and asks nothing else of.

    m.n += 1                  the LOAD_ATTR
    m.n = m.n + 1             likewise
    m.values.append(v)        the load of the method
    m.counts[key] += 1        the subscript, and the STORE_SUBSCR

The value that was there is used for nothing but the sum, and the sum for nothing but the store. The
function loads `n`, `values` or `counts` for nothing else, except to join: `torch.cat(m.values)`.
"""

from __future__ import annotations

import dis
from collections import Counter, defaultdict
from types import CodeType

from graphmend_bc.code.analysis.blocks import Graph, graph_of
from graphmend_bc.code.analysis.producers import UNKNOWN, callee_of, slots_before
from graphmend_bc.code.kept import kept
from graphmend_bc.code.listing import Op, name_of
from graphmend_bc.rewriting.mark_callee import CALLS
from graphmend_bc.rewriting.operands import is_subscript

METHODS = frozenset({"append", "appendleft"})
"""Methods that add to a container and return None."""

_LOADS = frozenset(
    {"LOAD_ATTR", "LOAD_METHOD", "LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_GLOBAL", "LOAD_DEREF"}
)
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})

_Name = tuple[bool, str]
"""Of an attribute or of a variable."""


def accumulations(code: CodeType) -> frozenset[int]:
    """Where a code object reads state that it only adds to, and where it stores an item of it.

    Args:
        code: as CPython compiled it.

    Returns:
        Byte offsets of the instructions.

    Example:
        >>> def f(m, v):
        ...     m.values.append(v)
        >>> len(accumulations(f.__code__))
        1
    """
    numbers = frozenset(code.co_code[::2])
    adds = _BINARY in numbers and (_STORE_ATTR in numbers or _STORE_SUBSCR in numbers)
    if not adds and METHODS.isdisjoint(code.co_names):
        return frozenset()
    return _accumulations(graph_of(code))


_BINARY, _STORE_ATTR, _STORE_SUBSCR = (
    dis.opmap[name] for name in ("BINARY_OP", "STORE_ATTR", "STORE_SUBSCR")
)


@kept(64)
def _accumulations(graph: Graph) -> frozenset[int]:
    found: dict[_Name, list[tuple[Op, ...]]] = defaultdict(list)
    for op in graph.listing.ops:
        for form in (_attribute, _written_out, _item, _method):
            name, sites = form(graph, op)
            if name is not None:
                found[name].append(sites)
    if not found:
        return frozenset()
    joined = _joined(graph)
    loads = Counter(
        name
        for op in graph.listing.ops
        # What Dynamo generates for the rest of a function has its beginning, too, as dead code.
        if (name := _name_of(op)) in found
        and slots_before(graph, op.index) is not None
        and op.index not in joined
    )
    return frozenset(
        site.offset
        for name, each in found.items()
        if loads[name] == len(each)
        for sites in each
        for site in sites
    )


def _joined(graph: Graph) -> set[int]:
    """Loads of lists that are given to `torch.cat`, or to a comprehension."""
    ops, found = graph.listing.ops, set[int]()
    made = {op.arg for op in ops if op.name == "STORE_FAST"}
    for op in ops:
        slots = slots_before(graph, op.index) or ()
        if op.name == "GET_ITER" and ops[op.index + 1].name in ("PRECALL", *CALLS):
            found |= slots[-1] if slots else frozenset()
        found |= _given_to_cat(graph, op)
    names = {index: _name_of(ops[index]) for index in found - {UNKNOWN}}
    return {index for index, name in names.items() if name is not None and name[1] not in made}


def _given_to_cat(graph: Graph, op: Op) -> frozenset[int]:
    """The ops that push the arguments of a call of `torch.cat`; none of another op."""
    ops = graph.listing.ops
    callee = callee_of(graph, op.index) if op.name in CALLS else None
    if callee is None or name_of(ops[callee].arg) not in _CATS:
        return frozenset()
    takes_none = ops[op.index - 1].name == "PRECALL"  # that takes the arguments
    slots = slots_before(graph, op.index - takes_none) or ()
    first = len(slots) - slots[::-1].index(frozenset({callee}))
    return frozenset[int]().union(*slots[first:])


_CATS = frozenset({"cat", "concat", "concatenate"})

_Found = tuple[_Name | None, tuple[Op, ...]]
_NOTHING: _Found = (None, ())


def _attribute(graph: Graph, op: Op) -> _Found:
    """`m.n += v`, at the operator."""
    ops = graph.listing.ops
    if not _is_in_place(op) or not _follows(graph, op, (("SWAP", 2), ("STORE_ATTR", None))):
        return _NOTHING
    load = _operand(graph, op, 2)
    if load is None or load.name != "LOAD_ATTR" or not _is_copied(ops, load, 1):
        return _NOTHING
    name = name_of(load.arg)
    if ops[op.index + 2].arg != name:
        return _NOTHING
    return (True, name), (load,)


def _written_out(graph: Graph, op: Op) -> _Found:
    """`m.n = m.n + v`, at the operator; `m` is a variable that stays what it is."""
    ops = graph.listing.ops
    if op.name != "BINARY_OP" or getattr(op.arg, "name", "") not in _WRITTEN_OUT:
        return _NOTHING
    load = _operand(graph, op, 2)
    owner = None if load is None else _operand(graph, load, 1)
    if load is None or owner is None or load.name != "LOAD_ATTR" or owner.name not in _FAST:
        return _NOTHING
    name = name_of(load.arg)
    if not any(_follows(graph, op, ((fast, None), ("STORE_ATTR", None))) for fast in _FAST):
        return _NOTHING
    if (ops[op.index + 1].arg, ops[op.index + 2].arg) != (owner.arg, name):
        return _NOTHING
    between = ops[owner.index : op.index]
    stays = graph.block_of(owner.index) == graph.block_of(op.index)
    if not stays or any(each.name not in _FAST and each.arg == owner.arg for each in between):
        return _NOTHING
    return (True, name), (load,)


def _item(graph: Graph, op: Op) -> _Found:
    """`counts[key] += v`, at the operator."""
    ops = graph.listing.ops
    then = (("SWAP", 3), ("SWAP", 2), ("STORE_SUBSCR", None))
    if not _is_in_place(op) or not _follows(graph, op, then):
        return _NOTHING
    load = _operand(graph, op, 2)
    if load is None or not is_subscript(load):
        return _NOTHING
    if not (_is_copied(ops, load, 2) and _is_copied(ops, ops[load.index - 1], 2)):
        return _NOTHING
    return _of_container(graph, load, 2, (load, ops[op.index + 3]))


def _method(graph: Graph, op: Op) -> _Found:
    """`values.append(v)`, at the call."""
    ops = graph.listing.ops
    if op.name not in CALLS or not _follows(graph, op, (("POP_TOP", None),)):
        return _NOTHING
    callee = callee_of(graph, op.index)
    load = None if callee is None else ops[callee]
    if load is None or load.name not in _ATTRIBUTES or name_of(load.arg) not in METHODS:
        return _NOTHING
    return _of_container(graph, load, 1, (load,))


def _of_container(graph: Graph, op: Op, depth: int, sites: tuple[Op, ...]) -> _Found:
    load = _operand(graph, op, depth)
    name = None if load is None else _name_of(load)
    return _NOTHING if name is None else (name, sites)


def _name_of(op: Op) -> _Name | None:
    """What is loaded by an op."""
    if op.name not in _LOADS or not name_of(op.arg):
        return None
    return op.name in _ATTRIBUTES, name_of(op.arg)


def _is_in_place(op: Op) -> bool:
    return op.name == "BINARY_OP" and getattr(op.arg, "name", "") in _OPERATORS


_FAST = frozenset({"LOAD_FAST", "LOAD_FAST_CHECK"})
_WRITTEN_OUT = frozenset({"ADD", "SUBTRACT", "MULTIPLY"})
_OPERATORS = frozenset({"INPLACE_ADD", "INPLACE_SUBTRACT", "INPLACE_MULTIPLY"})
"""Those that raise for no two numbers of Python."""


def _is_copied(ops: tuple[Op, ...], op: Op, depth: int) -> bool:
    """True if what an op takes was copied right before, so that it is there for the store."""
    before = ops[op.index - 1]
    return op.index > 0 and (before.name, before.arg) == ("COPY", depth)


def _follows(graph: Graph, op: Op, names: tuple[tuple[str, int | None], ...]) -> bool:
    """True if these ops come next, in the same block."""
    after = graph.listing.ops[op.index + 1 : graph.block_of(op.index).stop][: len(names)]
    return len(after) == len(names) and all(
        found.name == name and arg in (None, found.arg)
        for found, (name, arg) in zip(after, names, strict=True)
    )


def _operand(graph: Graph, op: Op, depth: int) -> Op | None:
    """The op that pushed an operand, counted from the top; None if paths differ in it."""
    slots = slots_before(graph, op.index)
    if slots is None or len(slots) < depth:
        return None
    made = slots[-depth]
    if len(made) != 1 or UNKNOWN in made:
        return None
    return graph.listing.ops[next(iter(made))]
