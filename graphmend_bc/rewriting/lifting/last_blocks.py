"""A `with` block as one function, where nothing of it is needed afterwards.

before                                  after
  with warmup.dampening():                Outlined(site, rule)(<the block>, warmup, schedule)
      schedule.step()                     return loss.detach()
  return loss.detach()

What follows is written once, as it runs: it ends the function.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from graphmend_bc.code import facts
from graphmend_bc.code.analysis.assignment import definitely_assigned_before
from graphmend_bc.code.analysis.blocks import Graph
from graphmend_bc.code.analysis.liveness import live_before, reads, writes
from graphmend_bc.code.analysis.stack import depth_before
from graphmend_bc.code.analysis.tail import tail_of
from graphmend_bc.code.kept import kept
from graphmend_bc.code.listing import Op
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.lifting.arms import check_scope


@dataclass(frozen=True, slots=True)
class LastBlock:
    """A `with` block after which a function only ends.

    Attributes:
        start: index of the first op, which begins to compute the context manager.
        ops: all of its ops, those that handle an exception among them, in the order of the code.
        ends: indices of ops behind it, to which its ops jump or fall through.
        live_ins: locals that it reads.
        tail: what follows, as it runs.
    """

    start: int
    ops: tuple[Op, ...]
    ends: frozenset[int]
    live_ins: tuple[str, ...]
    tail: tuple[Op, ...]


@kept(128)
def last_block_around(graph: Graph, offset: int) -> LastBlock:
    """The outermost `with` block that an op stands in.

    Args:
        graph: of the function.
        offset: of one of its ops.

    Raises:
        Refused: there is none, or it cannot become a function with the same meaning.

    Example:
        >>> from graphmend_bc.code.analysis.blocks import graph_of
        >>> def stepped(schedule, warmup, loss):
        ...     with warmup.dampening():
        ...         schedule.step()
        ...     return loss
        >>> graph = graph_of(stepped.__code__)
        >>> step = [op for op in graph.listing.ops if op.name == "CALL"][1]
        >>> found = last_block_around(graph, step.offset)
        >>> found.live_ins, [op.name for op in found.tail][-1]
        (('schedule', 'warmup'), 'RETURN_VALUE')
    """
    op = graph.listing.at_offset(offset)
    if op.handler is None:
        raise Refused("call-not-last", "No 'with' block stands around the call.")
    start = _start_of(graph, op)
    inside, ends = _region(graph, start)
    ops = tuple(graph.listing.ops[index] for index in sorted(inside))
    if op.index not in inside or not ends:
        raise Refused("call-not-last", "No 'with' block stands around the call alone.")
    for each in ops:
        if each.name != "RERAISE":
            check_scope(each)
    tails = [tail_of(graph.listing, end - 1) for end in sorted(ends)]
    if not all(tails) or len({_as_written(tail) for tail in tails}) != 1:
        raise Refused("call-not-last", "More than a result follows the block.")
    if any(each.handler is not None for each in tails[0]):
        raise Refused("call-not-last", "A 'try' block stands around the call.")
    _check_writes(graph, ops, ends)
    live_ins = {name for each in ops for name in reads(each)} & live_before(graph, start)
    bound = definitely_assigned_before(graph, start)
    if unbound := sorted(live_ins - bound):
        raise Refused("unbound-in-one-arm", f"The variable is '{unbound[0]}'.")
    return LastBlock(start, ops, frozenset(ends), tuple(sorted(live_ins)), tails[0])


def _start_of(graph: Graph, op: Op) -> int:
    """The first op of the statement that an op is in: nothing is on the stack before it."""
    index = op.index
    try:
        while depth_before(graph, index):
            index -= 1
    except (ValueError, IndexError):  # not reached, or the beginning of the function
        index = -1
    if index < 0 or graph.listing.ops[index].handler is not None:
        raise Refused("call-not-last", "A 'try' block, or a loop, stands around the call.")
    return index


def _region(graph: Graph, start: int) -> tuple[set[int], set[int]]:
    """Ops that run from one on until the stack is empty again, and those that come next."""
    listing, inside, ends = graph.listing, set[int](), set[int]()
    work = [start]
    while work:
        index = work.pop()
        if index in inside or index in ends:
            continue
        if index != start and depth_before(graph, index) == 0:
            ends.add(index)
            continue
        op = listing.ops[index]
        inside.add(index)
        if op.name in _LEAVES:
            raise Refused("call-not-last", "The block is left by a 'return'.")
        if op.target is not None:
            work.append(op.target)
        if op.handler is not None:
            work.append(op.handler.target)
        if falls_through(op):
            work.append(index + 1)
    return inside, ends


def falls_through(op: Op) -> bool:
    """Whether the op that comes next in the code may run after one.

    Args:
        op: no return.
    """
    return op.name not in _NEVER_FALL_THROUGH


_LEAVES = facts.op_set("RETURN_VALUE", "RETURN_CONST", "YIELD_VALUE", "RETURN_GENERATOR")
_NEVER_FALL_THROUGH = facts.op_set(
    *("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "RERAISE", "RAISE_VARARGS")
)


def _as_written(tail: Iterable[Op]) -> tuple[tuple[str, str, type], ...]:
    """What makes two copies of the same code equal: constants are compared with their types."""
    return tuple((op.name, repr(op.arg), type(op.arg)) for op in tail)


def _check_writes(graph: Graph, ops: Iterable[Op], ends: Iterable[int]) -> None:
    wanted = {name for end in ends for name in live_before(graph, end)}
    written = {name for op in ops for name in writes(op)}
    if found := sorted(written & wanted):
        raise Refused("call-not-last", f"The block gives '{found[0]}' a value, which is used.")
