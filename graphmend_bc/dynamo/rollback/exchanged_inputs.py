"""Inputs that a graph gives other memory, `p.data = q`: the memory they had is what is undone."""

from __future__ import annotations

from torch.fx import GraphModule, Node

from graphmend_bc.dynamo.graph.fx_nodes import is_input, name_called, storages, with_ancestors
from graphmend_bc.dynamo.trace.exchanged_memory import EXCHANGING, Exchange
from graphmend_bc.dynamo.trace.op_recorder import Recorder
from graphmend_bc.reporting.reasons import Refused


def exchanged_inputs(recorder: Recorder, gm: GraphModule) -> dict[int, int]:
    """Inputs that the graph gives other memory, by position: the number of the new memory.

    Each is given new memory once, by a tensor that the graph makes, and nothing else is written
    there or where it was, so that no proof takes the one memory for the other.

    Args:
        recorder: of the operators of the graph.
        gm: the graph.

    Raises:
        Refused: it could not be given back what it had.
    """
    given, found = gm.graph.find_nodes(op="placeholder"), dict[int, int]()
    for exchange in recorder.exchanges:
        changed = exchange.node.args[0] if exchange.node is not None else None
        place = given.index(changed) if changed in given else None
        if place is None or not _is_told_apart(exchange, given[place], recorder):
            raise Refused("speculation-has-effects", "A tensor is given other memory.")
        found[place] = exchange.after
    return found


def _is_told_apart(exchange: Exchange, changed: Node, recorder: Recorder) -> bool:
    """Whether the memory that an input had, and that it gets, are only written by giving it."""
    if not exchange.fits or exchange.given is None:
        return False
    mine = {exchange.before.cdata, exchange.given.cdata}
    others = (node for node in changed.graph.nodes if is_input(node) and node is not changed)
    taken = [number for each in recorder.exchanges for number in _memory_of(each)]
    written = [number for number in recorder.written if number in mine]
    is_alone = sum(number in mine for number in taken) == len(mine) == 2
    return is_alone and len(written) == 1 and mine.isdisjoint(storages(others))


def _memory_of(exchange: Exchange) -> set[int]:
    known = (exchange.before, exchange.given)
    return {memory.cdata for memory in known if memory is not None}


def unread_before(recorder: Recorder, gm: GraphModule) -> set[int]:
    """The new memory of inputs whose former memory the graph does not read.

    A backward pass that computes the new values again finds what they were computed from, as long
    as the graph writes none of that.

    Args:
        recorder, gm: as for `exchanged_inputs`.
    """
    try:
        exchanged = exchanged_inputs(recorder, gm)
    except Refused:
        return set()
    given = gm.graph.find_nodes(op="placeholder")
    unread = {number for place, number in exchanged.items() if _is_set_first(given[place])}
    values = [_sets(given[place])[0].args[1] for place in exchanged]
    read = storages(with_ancestors(value for value in values if isinstance(value, Node)))
    return set() if read & (set(recorder.written) - unread) else unread


def _sets(node: Node) -> list[Node]:
    """The users of an input that give it other memory."""
    users = (user for user in node.users if user.args and user.args[0] is node)
    return [user for user in users if name_called(user).partition(".")[0] in EXCHANGING]


def _is_set_first(node: Node) -> bool:
    """Whether what first uses an input of the graph gives it other memory."""
    return next((each for each in node.graph.nodes if each in node.users), None) in _sets(node)
