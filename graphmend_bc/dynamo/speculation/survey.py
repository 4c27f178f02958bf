"""Go on with an attempt that has failed, to meet what else it would fail at.

Where an attempt meets a truth value that no plan covers, or arms whose results cannot be selected,
it notes that, takes one way, and goes on. What it traces from there on is never used: the attempt
ends with `Surveyed`, and the next one has a plan for all that was met.
"""

from __future__ import annotations

import dis
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from types import CodeType
from typing import Any, ClassVar

from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.source import is_constant_source
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.tensor import TensorVariable

from graphmend_bc.code.facts import JUMPS_IF_FALSE, JUMPS_IF_TRUE
from graphmend_bc.dynamo.before_graph.concrete_eval import evaluate_concretely
from graphmend_bc.dynamo.frames.breaks import Break, gb_id_of, instruction_of
from graphmend_bc.dynamo.frames.inlined_frames import is_in_coroutine
from graphmend_bc.dynamo.frames.on_stack_replacement import go_on_in
from graphmend_bc.dynamo.host_values.opaque_variable import KnownTruth
from graphmend_bc.dynamo.trace.compilation import Compilation, current
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site, Speculate

_FURTHER = 64
"""Nodes that a survey adds after the last thing it met, besides an eighth of those before it."""

_VISITS = 256
"""How often a survey comes by one jump; more suggests a loop that has no end."""

_LOOK_LIMIT = 8
"""Most operators that are run to see which way a condition goes that a survey meets."""


_JUMP = "Data-dependent branching"

Place = tuple[CodeType, int]
"""A code object and the offset of one of its instructions."""


class Surveyed(Exception):
    """An attempt failed, and went on until here to see where else it fails."""


@dataclass(slots=True, eq=False)
class Survey(Feature):
    """What an attempt failed at before it ended.

    Attributes:
        jumps: how often each jump on a tensor was met that no plan covers, in order.
        refused: sites whose arms were traced, but whose results cannot be selected, in order.
        limit: nodes of the graph at which the survey ends.
    """

    order: ClassVar[int] = 0

    jumps: Counter[Place] = field(default_factory=Counter)
    refused: dict[Site, Refused] = field(default_factory=dict)
    limit: int = 0

    @property
    def found(self) -> list[Break]:
        """The jumps as the breaks that Dynamo would have made of them."""
        return [Break(*place, _JUMP, gb_id_of(_JUMP), "") for place in self.jumps]

    def on_break(self) -> None:
        """End the attempt: what it meets from there on is after a break."""
        raise Surveyed

    def on_graph_end(
        self, compilation: Compilation, tx: InstructionTranslatorBase, is_break: bool
    ) -> None:
        """End the attempt: its graph must not be compiled."""
        raise Surveyed

    def extend(self, output: OutputGraph) -> None:
        """Something was met: go on for a while."""
        if not self.limit:
            watch_nodes(self, output)
        self.limit = len(output.graph.nodes) * 9 // 8 + _FURTHER

    def visit(self, place: Place) -> None:
        """A jump was met; raises `Surveyed` if that happens without an end."""
        self.jumps[place] += 1
        if self.jumps[place] > _VISITS:
            raise Surveyed


def watch_nodes(survey: Survey, output: OutputGraph) -> None:
    """End the survey at its limit."""
    stock = output.create_proxy

    def create_proxy(*args: Any, **kwargs: Any) -> Any:
        if len(output.graph.nodes) > survey.limit:
            raise Surveyed
        return stock(*args, **kwargs)

    output.create_proxy = create_proxy  # type: ignore[method-assign]


def listen_to_jumps(translator: InstructionTranslatorBase, compilation: Compilation) -> None:
    """Meet the jumps of what a translator is about to trace.

    Args:
        translator: its table of handlers is exchanged for one of its own.
        compilation: what is being compiled.
    """
    if compilation.may_mend and compilation.goes_on:
        translator.dispatch_table = _with_jumps(type(translator))


@cache
def _with_jumps(kind: type[InstructionTranslatorBase]) -> list[Any]:
    table: list[Any] = list(kind.dispatch_table)
    for name in JUMPS_IF_TRUE | JUMPS_IF_FALSE:
        table[dis.opmap[name]] = _jump(table[dis.opmap[name]])
    return table


def _jump(stock: Callable[..., Any]) -> Callable[..., Any]:
    def jump(self: Any, inst: Any) -> None:
        if self.stack and issubclass(type(known := self.stack[-1]), KnownTruth) and _pops(inst):
            self.stack[-1] = ConstantVariable.create(known.truth())
        condition = _asked(self)
        place = None if condition is None else instruction_of(self)
        if condition is not None and place is not None:
            if _goes_on_in_new_form(self, place):
                return
            if (way := _way_on(self, condition, place)) is not None:
                self.stack[-1] = ConstantVariable.create(way)
        stock(self, inst)

    return jump


def _pops(inst: Any) -> bool:
    """Whether a jump leaves nothing of what it asks."""
    return "OR_POP" not in inst.opname


def _asked(tx: InstructionTranslatorBase) -> TensorVariable | None:
    """The tensor that a jump asks; None where Dynamo knows what to do."""
    condition = tx.stack[-1].realize() if tx.stack else None
    if type(condition) is not TensorVariable or tx.output.current_tracer.parent is not None:
        return None
    if condition.source is not None and is_constant_source(condition.source):
        return None
    return condition


def _goes_on_in_new_form(tx: InstructionTranslatorBase, place: Place) -> bool:
    """Whether a translator goes on in a form of its code that mends the jump it has met."""
    compilation = current()
    if compilation is None or not compilation.goes_on:
        return False
    if is_in_coroutine(tx.parent, tx.f_code):
        return False
    find = partial(compilation.planner.replacement_at, *place)
    code = compilation.replacements.answer(place, find)
    if code is None:
        return False
    compilation.check_earlier_part()
    go_on_in(tx, code)
    return True


def _way_on(tx: InstructionTranslatorBase, condition: TensorVariable, place: Place) -> bool | None:
    """The way to take at a jump that no plan covers; None if the attempt ends there."""
    compilation = current()
    if compilation is None or not compilation.goes_on:
        return None
    expected = compilation.planner.survey_at(*place)
    if expected is None:
        return None
    trace = compilation.trace
    survey, recorder = trace.of(Survey), trace.listen(tx.output)
    if place not in survey.jumps:
        survey.extend(tx.output)
    survey.visit(place)
    seen = None if expected.firm else evaluate_concretely(tx, trace, condition, _LOOK_LIMIT)
    recorder.speculated = True  # what acts while it is traced must not
    return expected.likely if seen is None else seen


def goes_on_after(
    tx: InstructionTranslatorBase, compilation: Compilation, site: Site, refused: Refused
) -> Speculate | None:
    """What an attempt goes on with although the results of two arms cannot be selected.

    Args:
        tx: translator of the frame that has the branch.
        compilation: what is being compiled.
        site: the branch.
        refused: why they cannot.

    Returns:
        The speculation that is planned next; None if the attempt ends.
    """
    if not compilation.goes_on:
        return None
    speculation = compilation.planner.speculation_after(site, refused)
    if speculation is None:
        return None
    survey = compilation.trace.of(Survey)
    # After a jump that no plan covers, the arms may be others than in the next attempt.
    if not survey.jumps and site not in survey.refused:
        survey.refused[site] = refused
        survey.extend(tx.output)
    return speculation
