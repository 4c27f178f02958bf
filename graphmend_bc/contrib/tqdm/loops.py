"""Loops over progress bars that are made inside the compiled function.

`for x in bar` goes over a generator of the bar's: it counts when the next item is asked for, and
closes the bar when there is none, or when Python lets go of it because the loop was left. The trace
does not count references, so the stack of the frame that loops tells whether a loop was left; that
is exact if nothing but that stack held the generator.
"""

from __future__ import annotations

from inspect import CO_GENERATOR
from types import GeneratorType
from typing import Any, ClassVar, NoReturn

from torch._dynamo import exc
from torch._dynamo.bytecode_transformation import Instruction
from torch._dynamo.codegen import PyCodegen
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.iter import IteratorVariable
from torch._dynamo.variables.lists import TupleVariable

from graphmend_bc.code.analysis.blocks import graph_of
from graphmend_bc.contrib.tqdm.bars import Walk
from graphmend_bc.contrib.tqdm.state import Bars, MadeBar, check_not_in_arm
from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.frames.breaks import offset_of
from graphmend_bc.dynamo.host_values.epilogue import EpilogueCallVariable
from graphmend_bc.dynamo.host_values.epilogue_calls import MadeVariable, MethodVariable, Note
from graphmend_bc.dynamo.trace.compilation import SiteRefused
from graphmend_bc.dynamo.trace.tracing import check_is_outermost
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.mark_callee import CALLS, name_of_callee
from graphmend_bc.runtime.deferral.call_places import is_machinery

_ENDS = (StopIteration, exc.ObservedUserStopIteration)


@facts.with_slots
class WalkVariable(IteratorVariable):
    """What `iter(bar)` gives.

    Args:
        bar: the bar.
        tx: translator of the frame that asks for it.

    Attributes:
        is_running: whether it has given an item and may give another.
        loop: what the loop over it has on its stack; None if something else may hold it.
    """

    _nonvar_fields: ClassVar[set[str]] = {  # type: ignore[misc]
        *("born", "owner", "entry", "count", "is_running", "has_ended"),
        *IteratorVariable._nonvar_fields,
    }

    def __init__(self, bar: MadeBar, tx: InstructionTranslatorBase, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.bar = bar
        self.born = (tx, tx.current_instruction)
        self.walk = MadeVariable(EpilogueCallVariable("__gm_walk", Walk))
        self.items: VariableTracker | None = None
        self.owner: InstructionTranslatorBase | None = None
        self.loop: VariableTracker | None = None
        self.entry: Note | None = None
        self.count = 0
        self.is_running = self.has_ended = False

    def python_type(self) -> type:
        return GeneratorType

    def tp_iternext_impl(self, tx: InstructionTranslatorBase) -> VariableTracker:
        """The next item of what the bar goes over."""
        if self.has_ended:
            exc.raise_observed_exception(StopIteration, tx)
        compilation = self.bar.compilation
        check_not_in_arm(compilation)
        compilation.trace.of(Bars).before_effect(tx)
        if self.items is None:
            self._begin(tx)
        assert self.items is not None
        self._step(tx)
        try:
            return self.items.next_variable(tx)
        except _ENDS:
            self._end(tx)
            raise
        except exc.ObservedException as error:
            self._refuse("What it goes over raises.", error)

    def _begin(self, tx: InstructionTranslatorBase) -> None:
        if self.bar.iterable is None:
            self._refuse("It has nothing to go over.")
        self._check_place(tx)
        self.items = VariableTracker.build(tx, iter).call_function(tx, [self.bar.iterable], {})
        self.is_running = True
        self.bar.compilation.trace.of(Bars).loops.append(self)
        owner = tx
        while is_machinery(owner.f_globals) and owner.parent is not None:
            owner = owner.parent
        if owner.current_instruction.opname == "FOR_ITER" and self._is_held_by(owner):
            self.owner, self.loop = owner, owner.stack[-1]

    def _check_place(self, tx: InstructionTranslatorBase) -> None:
        try:
            check_is_outermost(tx)
            frame: InstructionTranslatorBase | None = tx
            while frame is not None:
                if frame.f_code.co_flags & CO_GENERATOR and not is_machinery(frame.f_globals):
                    raise Refused("effect-in-generator")
                frame = frame.parent
        except Refused as refused:
            raise SiteRefused(refused, self.bar.site) from refused

    def _is_held_by(self, owner: InstructionTranslatorBase) -> bool:
        """True if the loop's stack is all that holds the generator.

        It was made there by the instructions just before the loop: by `for x in bar`, by a builtin
        as in `for x, y in zip(bar, ys)`, or by the generator that Dynamo takes for `enumerate`.
        """
        at = owner.indexof[owner.current_instruction]
        call, ask = owner.instructions[at - 2], owner.instructions[at - 1]
        if ask.opname != "GET_ITER":
            return False
        frame, instruction = self.born
        if frame is owner:
            return instruction is ask or instruction is call
        is_enumerate = getattr(owner.stack[-1], "inline_tracer", None) is frame
        return is_enumerate and _name_called(owner, call) == "enumerate"

    def _step(self, tx: InstructionTranslatorBase) -> None:
        """Note one more step; steps that follow each other are one note."""
        notes = tx.output.root_tx.debug_locals
        self.count += 1
        if self.entry is not None and notes[-1] is self.entry:
            self.entry[1][1] = self._arguments(ends=False)
            return
        self.count = 1
        method = MethodVariable(self.walk, ("advance",))
        self.entry = self.bar.note(tx, method, self._arguments(ends=False))

    def _end(self, tx: InstructionTranslatorBase) -> None:
        """The step that was noted last found nothing."""
        assert self.entry is not None
        if tx.output.root_tx.debug_locals[-1] is not self.entry:
            self._refuse("What it goes over has an effect when it ends.")
        self.count -= 1
        self.entry[1][1] = self._arguments(ends=True)
        self.has_ended, self.is_running, self.bar.closed = True, False, True

    def _arguments(self, ends: bool) -> TupleVariable:
        count, last = ConstantVariable.create(self.count), ConstantVariable.create(ends)
        return TupleVariable([self.bar.stand, count, last])

    @property
    def is_left(self) -> bool:
        """Whether the loop was left before its end."""
        held = self.owner is None or any(value is self.loop for value in self.owner.stack)
        return self.is_running and not held

    def leave(self, tx: InstructionTranslatorBase) -> None:
        """Note that Python lets go of the generator."""
        self.has_ended, self.is_running, self.bar.closed = True, False, True
        self.bar.note(tx, MethodVariable(self.walk, ("leave",)), TupleVariable([]))

    def _refuse(self, why: str, error: Exception | None = None) -> NoReturn:
        raise SiteRefused(Refused("bar-escapes", why), self.bar.site) from error

    def reconstruct(self, codegen: PyCodegen) -> None:
        self._refuse("The loop over it is not over when the graph ends.")


def _name_called(tx: InstructionTranslatorBase, call: Instruction) -> str:
    """The name of what an instruction calls; empty if it is no call."""
    if call.opname not in CALLS or (offset := offset_of(tx, call)) is None:
        return ""
    graph = graph_of(tx.f_code)
    return name_of_callee(graph, graph.listing.at_offset(offset))
