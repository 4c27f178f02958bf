"""Which operators ran on fake tensors during a trace."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NamedTuple, Self

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx import Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.multiprocessing.reductions import StorageWeakRef

from graphmend_bc.dynamo.graph.equal_masks import Masks
from graphmend_bc.dynamo.trace.exchanged_memory import EXCHANGING, Exchange, exchange_by
from graphmend_bc.dynamo.trace.value_memos import ValueMemos
from graphmend_bc.legality.kernels import is_refused, may_overlap, writes_whole
from graphmend_bc.legality.ranges import Ranges
from graphmend_bc.legality.record import (
    OpRecord,
    draws,
    raises_on_operands,
    raises_on_values,
    stops_process,
    written_by,
)
from graphmend_bc.legality.storage import storage_of, storage_reference
from graphmend_bc.runtime.signal_handlers import pass_on


class _Moment(NamedTuple):
    """What is not the same later on as when an operator ran.

    Attributes:
        node: the node of the graph that ran it.
        grad: whether grad mode was on.
        written: the storages that it wrote to.
        requiring: those of them whose tensor required a gradient; what autograd makes of the write
            is not known yet.
    """

    node: Node | None
    grad: bool
    written: Sequence[int] = ()
    requiring: frozenset[int] = frozenset()


class Recorder:
    """Listens to one fake tensor mode.

    Until something of ours takes part in the trace, operators are only put aside: nothing is asked
    of them in a trace in which there is nothing to mend.

    Args:
        mode: the mode.
        running: the node of the graph whose operators are run, if there is one.
        waits: whether to put operators aside until `start`.

    Attributes:
        written: storages changed in place so far, in the order of the writes.
        unnoticed: those of them that were written to while grad mode was off.
        used_anew: those of them that an operator read afterwards.
        learns_anew: whether autograd noted one afterwards.
        draws: devices whose default random generators were drawn from.
        drawing: nodes that draw, or may.
        foreign: the first operator that is not one of torch's own, or that draws from a generator
            of the user's; or the name of a function of the user's that the graph calls.
        speculated: True from the first speculation on.
        guarded: operators after it that may fail beyond repair, by the node that runs them: on an
            accelerator, where an index out of bounds stops the process, with one that is not known
            to be in bounds.
        unsized: whether a tensor whose size is known only at run time was changed in place in a way
            that fails for some sizes.
        squeezed: whether dimensions of such a size were dropped if they are 1.
        checks: whether there was an operator that raises if some values are bad, or if what it
            writes to shares memory with another operand.
        rejects: whether there was an operator that has no kernel for its dtypes or numbers or gets
            doubles and other floats or writes to what it reads, which fake tensors accept, or that
            raises if some values are bad that are no indices.
        exchanges: the tensors that were given other memory.
        sliced: nodes from which values are computed before the graph, each with a number.
        ranges: between which numbers the elements of integer tensors lie.
        strided: whether `as_strided` was called, which sees memory outside its argument.
        memos: the tensors that remember numbers of themselves, if sizes and numbers are captured.
        failure: the first error of ours; what is known of the trace is not complete then.
    """

    def __init__(
        self,
        mode: FakeTensorMode,
        running: Callable[[], Node | None] = lambda: None,
        *,
        waits: bool = False,
    ) -> None:
        self.written: list[int] = []
        self.unnoticed: set[int] = set()
        self.used_anew: set[int] = set()
        self.learns_anew = False
        self.draws: dict[torch.device, None] = {}
        self.drawing: set[Node | None] = set()
        self.foreign: OpOverload | str | None = None
        self.speculated = False
        self.guarded: dict[Node | None, OpOverload] = {}
        self.strided = False
        self.unsized = False
        self.squeezed = False
        self.checks = False
        self.rejects = False
        self.exchanges: list[Exchange] = []
        self.sliced: dict[Node, int] = {}
        self.failure: Exception | None = None
        self._running = running
        self.ranges = Ranges()
        self._mode = mode
        self._dispatch: Callable[..., Any] = mode.dispatch
        self._depth = 0
        self._records: list[OpRecord] | None = None
        self._waiting: list[tuple[OpRecord, _Moment]] | None = [] if waits else None
        self._masks = Masks()
        self.memos: ValueMemos | None = None
        # Storages are compared by number, and the number of a freed one must not be used again.
        self._allocated: dict[int, StorageWeakRef] = {}
        mode.dispatch = self._observe  # type: ignore[method-assign, assignment]

    def detach(self) -> None:
        """Stop listening."""
        self._waiting = None
        del self._mode.dispatch

    def start(self) -> Self:
        """Learn from the operators that ran so far, and from each that runs from now on."""
        waiting, self._waiting = self._waiting, None
        self._depth += 1  # what is asked of tensors is an operator, too
        try:
            for record, moment in waiting or ():
                self._learn(self._note, record, moment)
        finally:
            self._depth -= 1
        return self

    def forget(self, nodes: Iterable[Node]) -> None:
        """Some nodes are not in the graph any more.

        Args:
            nodes: they.
        """
        for node in nodes:
            self.guarded.pop(node, None)
            self.drawing.discard(node)

    def forget_write(self, storage: int) -> None:
        """A write in place is made before the graph, and no other one was made to the memory.

        Args:
            storage: number of the memory.
        """
        self.written[self.written.index(storage)] = 0  # no number of any memory

    @contextmanager
    def recording(self) -> Iterator[list[OpRecord]]:
        """Collect the operators that run inside the `with` block."""
        outer, mine = self._records, list[OpRecord]()
        self._records = mine
        try:
            yield mine
        finally:
            self._records = outer
            if outer is not None:
                outer.extend(mine)

    def _observe(
        self,
        func: OpOverload,
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        if self._depth:  # it belongs to the operator whose kernel runs it
            return self._dispatch(func, types, args, kwargs or {})
        is_known = isinstance(func, OpOverload)
        if self._waiting is not None and is_known and _changes_form(func, args):
            self.start()
        sets = is_known and func.overloadpacket.__name__ in EXCHANGING
        exchange = exchange_by(func, args, self._running()) if sets else None
        if is_known and func._schema.is_mutable:
            before = OpRecord(func, tuple(args), dict(kwargs or {}), None)
            self._learn(self._note_sizes, before)
        self._depth += 1
        try:
            result = self._dispatch(func, types, args, kwargs or {})
        finally:
            self._depth -= 1
        # `prim` holds questions about a tensor, such as its device.
        is_ours = is_known and func.namespace != "prim"
        if exchange is not None:
            exchange.after = storage_of(args[0])
            self.exchanges.append(exchange)
        # A class of tensors that sees operators answers such a call, and makes others.
        if is_ours and result is not NotImplemented and not (sets and exchange is None):
            self._take(OpRecord(func, tuple(args), dict(kwargs or {}), result))
        return result

    def _take(self, record: OpRecord) -> None:
        moment = self._moment_of(record)
        if self.memos is not None:
            self.memos.note(record, moment.written)
        if self._waiting is not None and moment.requiring and not moment.grad:
            self.start()  # what autograd knows of such a tensor may change
        if self._waiting is not None:
            self._waiting.append((record, moment))
        else:
            self._learn(self._note, record, moment)

    def _moment_of(self, record: OpRecord) -> _Moment:
        node, grad = self._running(), torch.is_grad_enabled()
        if not record.op._schema.is_mutable:
            return _Moment(node, grad)
        tensors = written_by(record)
        requiring = frozenset(storage_of(t) for t in tensors if t.requires_grad)
        return _Moment(node, grad, [*map(storage_of, tensors)], requiring)

    def _learn(self, note: Callable[..., None], *known: object) -> None:
        """Keep an error of ours: Dynamo takes it for the operator's, which may mean anything."""
        try:
            note(*known)
        except Exception as error:
            pass_on(error)
            self.failure = self.failure or error
            raise

    def _note_sizes(self, record: OpRecord) -> None:
        """Before a write: afterwards a size may be taken to be what it was compared to."""
        unsized = [t for t in written_by(record) if free_unbacked_symbols(t)]
        self.unsized = self.unsized or not all(writes_whole(record, t) for t in unsized)

    def _note(self, record: OpRecord, moment: _Moment) -> None:
        dense = (t for t in record.results() if t.layout is torch.strided)
        self._allocated |= {one.cdata: one for one in map(storage_reference, dense)}
        if self._records is not None:
            self._records.append(record)
        if draws(record):
            # What has no data is not drawn.
            self.draws |= dict.fromkeys(
                t.device for t in record.results() if t.device.type != "meta"
            )
            self.drawing.add(moment.node)
            if record.kwargs.get("generator") is not None:
                self.foreign = self.foreign or record.op
        if self.speculated and stops_process(record) and not self.ranges.are_within(record):
            self.guarded.setdefault(moment.node, record.op)
        self.ranges.note(record)
        self._masks.note(record, self.written)
        self.rejects = self.rejects or is_refused(record) or raises_on_operands(record)
        if record.name == "squeeze":
            self.squeezed = self.squeezed or _squeezes_unknown(record)
        self.strided = self.strided or record.name == "as_strided"
        if not (record.is_aten or record.is_known_foreign):
            self.foreign = self.foreign or record.op
        if self.unnoticed:
            self._note_use(record, moment)
        if record.op._schema.is_mutable:
            self._depth += 1  # the question is an operator, too
            self.rejects = self.rejects or may_overlap(record)
            self._depth -= 1
            self.written += moment.written
            self.ranges.forget(moment.written)
            # A leaf that is written while grad mode is off stays one, whatever it is written by.
            if not moment.grad:
                self.unnoticed.update(moment.written)
        self.checks = self.checks or self.rejects or raises_on_values(record)

    def _note_use(self, record: OpRecord, moment: _Moment) -> None:
        changed = list(map(id, written_by(record))) if record.op._schema.is_mutable else []
        read = [t for t in record.tensors() if t.layout is torch.strided and id(t) not in changed]
        self.used_anew |= self.unnoticed & set(map(storage_of, read))
        if moment.grad and any(t.requires_grad for t in record.tensors()) and _may_learn(record):
            self.learns_anew = True


def _may_learn(record: OpRecord) -> bool:
    """Whether autograd notes an operator on tensors that require a gradient."""
    results = record.results()
    is_smooth = any(t.is_floating_point() or t.is_complex() for t in results)
    return record.name != "detach" and (is_smooth or not results)


def _changes_form(op: OpOverload, args: Sequence[Any]) -> bool:
    """True if later on less could be told of an operator, or of a tensor that is there already."""
    if not _may_change_form(op):
        return False
    return op.overloadpacket.__name__ != "squeeze" or bool(free_unbacked_symbols(args[0].shape))


@cache
def _may_change_form(op: OpOverload) -> bool:
    name = op.overloadpacket.__name__
    return torch.Tag.inplace_view in op.tags or name in EXCHANGING | {"resize_", "squeeze"}


def _squeezes_unknown(record: OpRecord) -> bool:
    """True if `squeeze` asks of a size known only at run time whether it is 1."""
    sizes = record.args[0].shape
    if not sizes:  # a tensor without dimensions takes 0 and -1 for one
        return False
    dims = record.args[1] if len(record.args) > 1 else range(len(sizes))
    asked = [sizes[dim] for dim in ([dims] if isinstance(dims, int) else dims)]
    return bool(free_unbacked_symbols(asked))
