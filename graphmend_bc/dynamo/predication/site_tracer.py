"""Trace one site: a branch with both of its arms, a short circuit, a speculation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, cast

import torch
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.functions import UserFunctionVariable
from torch._dynamo.variables.tensor import TensorVariable
from torch.fx import Node

from graphmend_bc import config
from graphmend_bc.dynamo.before_graph.concrete_eval import constant_truth
from graphmend_bc.dynamo.calls.higher_order import depth_of
from graphmend_bc.dynamo.graph.emit import call, method
from graphmend_bc.dynamo.host_values.argument_snapshots import Snapshots
from graphmend_bc.dynamo.predication.arm import Allowed, Arms, TracedArm, trace_arm
from graphmend_bc.dynamo.predication.arm_writes import as_outside, write_back
from graphmend_bc.dynamo.predication.cond import trace_cond
from graphmend_bc.dynamo.predication.merge import Merge
from graphmend_bc.dynamo.predication.next_rule import go_on_with_next_rule
from graphmend_bc.dynamo.speculation.checks import Checks
from graphmend_bc.dynamo.speculation.speculate import speculate
from graphmend_bc.dynamo.speculation.survey import goes_on_after
from graphmend_bc.dynamo.symbols.known_integers import number_in
from graphmend_bc.dynamo.trace.checkpoint import Checkpoint, Position
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.dynamo.trace.tracing import is_true
from graphmend_bc.dynamo.trace.truth_overrides import check_truth_is_plain
from graphmend_bc.legality import choose
from graphmend_bc.legality.arm_operators import check_runs_untaken
from graphmend_bc.legality.fold import fold_truth
from graphmend_bc.legality.ops import IN_PLACE
from graphmend_bc.reporting.counts import many
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Both, Branch, Site, Speculate

_MOST_NESTED = 8
"""Arms of a branch inside of each other: of a function that calls itself until a tensor ends it."""


@dataclass(frozen=True, slots=True)
class FirstPart:
    """The first part of a condition of several parts.

    Attributes:
        condition: what it asks; None if that is no tensor.
        checkpoint: taken before the second part was traced.
    """

    condition: TensorVariable | None
    checkpoint: Checkpoint | None


@dataclass(slots=True, eq=False)
class ShortCircuits(Feature):
    """Conditions of several parts.

    Attributes:
        first: the first part of one, by the node of the whole condition.
    """

    stays: ClassVar[bool] = True

    first: dict[Node, FirstPart] = field(default_factory=dict)

    def note(self, whole: VariableTracker, first: FirstPart) -> VariableTracker:
        """Note the first part of a condition, which may have parts itself; returns the whole."""
        if isinstance(whole, TensorVariable):
            self.first[whole.as_proxy().node] = self.of(first)
        return whole

    def of(self, part: FirstPart) -> FirstPart:
        """The first part of a part; the part itself if it has none."""
        if part.condition is None:
            return part
        return self.first.get(part.condition.as_proxy().node, part)


class SiteTracer:
    """Traces one branch site.

    Args:
        tx: translator of the frame in which the primitive is called.
        compilation: what is being compiled.
        site: the branch in the user's code.

    Attributes:
        checkpoint: taken before the first arm is traced.
    """

    def __init__(self, tx: InstructionTranslatorBase, compilation: Compilation, site: Site) -> None:
        self.tx = tx
        self.site = site
        self.compilation = compilation
        self.trace = compilation.trace
        self.recorder = compilation.trace.listen(tx.output)
        self.checkpoint: Checkpoint | None = None

    def branch(
        self,
        primitive: Branch,
        condition: TensorVariable,
        when_true: VariableTracker,
        when_false: VariableTracker,
        live_ins: Sequence[VariableTracker],
    ) -> VariableTracker:
        """The value of the branch: both arms computed, one result chosen.

        Raises:
            Refused: it could not be shown to be exact.
        """
        position = Position.in_graph(self.tx.output.graph)
        predicate = self.truth(condition)
        if self.recorder.draws and not depth_of(self.trace):
            self.trace.of(Checks).drawn.append(predicate)
        self.checkpoint = Checkpoint.of(self.trace, self.tx.output, position)
        if primitive.conditional:
            return self._conditional(predicate, when_true, when_false, live_ins)
        taken = self._arm(when_true, live_ins, predicate, True)
        other = self._arm(when_false, live_ins, predicate, False)
        left, right = (as_outside(arm.result, arm.writes, live_ins) for arm in (taken, other))
        join = Merge(self.tx, self.compilation, self.site, predicate, taken, other)
        try:
            result = join.choose(left, right)
        except Refused as refused:
            self.go_on(condition, refused)
            way = None if taken.writes or other.writes else self._way_on(refused, predicate)
            if way is None:
                raise
            return left if way else right
        write_back(self.tx, self.trace, self.site, predicate, taken.writes, other.writes)
        self.trace.used.setdefault(self.site, "where")
        return result

    def go_on(self, condition: TensorVariable, refused: Refused) -> None:
        """Let the trace go on with the next rule; returns if it cannot.

        The program's jump, at which it goes on, asks the first part of a short circuit alone. The
        other parts are traced once more, so that nothing of them may be left.

        Raises:
            GoesOnOtherwise: it goes on.
        """
        part = self.trace.of(ShortCircuits).of(FirstPart(condition, self.checkpoint))
        asked, before = part.condition, part.checkpoint
        if asked is None:
            return
        go_on_with_next_rule(self.tx, self.compilation, self.site, asked, refused, before)

    def _conditional(
        self,
        predicate: TensorVariable,
        when_true: VariableTracker,
        when_false: VariableTracker,
        live_ins: Sequence[VariableTracker],
    ) -> VariableTracker:
        self.trace.arms.append(self.site)
        result = trace_cond(
            self.tx, self.trace, self.site, predicate, (when_true, when_false), live_ins
        )
        self.trace.arms.pop()
        self.trace.used.setdefault(self.site, "cond")
        return result

    def both(
        self,
        primitive: Both,
        condition: TensorVariable,
        test: VariableTracker,
        live_ins: Sequence[VariableTracker],
    ) -> VariableTracker:
        """The value of a short circuit, as a 0-dim bool tensor or a constant.

        Raises:
            Refused: it could not be shown to be exact.
        """
        position = Position.in_graph(self.tx.output.graph)
        asked = first = self.truth(condition)
        self.checkpoint = Checkpoint.of(self.trace, self.tx.output, position)
        arm = self._arm(test, live_ins, first, primitive.first)
        second, parts = arm.result.realize(), self.trace.of(ShortCircuits)
        part = FirstPart(condition, self.checkpoint)
        if arm.writes:
            raise Refused("arm-mutates-tensor", "A condition writes to it.")
        if not primitive.first:
            first = call(self.tx, "logical_not", first)
        self.trace.used.setdefault(self.site, "where")
        if isinstance(second, TensorVariable):
            truth = self.truth(second)
            if not primitive.second:
                truth = call(self.tx, "logical_not", truth)
            return parts.note(call(self.tx, "logical_and", first, truth), part)
        # A method of its own may be asked, which is a part of the arm as well.
        truth_of = UserFunctionVariable(cast(Any, is_true))
        second = self._arm(truth_of, [second], asked, primitive.first).result
        agrees = second.as_python_constant() is primitive.second
        return parts.note(first, part) if agrees else ConstantVariable.create(False)

    def fold(self, condition: TensorVariable) -> bool | None:
        """The truth value of the condition if it is known now; what it was computed from stays."""
        if (number := number_in(self.trace, condition)) is not None:
            self.trace.used[self.site] = "fold"
            return bool(number)
        truth = fold_truth(condition.as_proxy().node)
        if truth is not None:
            # As an output of the graph the draw cannot be dropped as dead.
            self.trace.kept.append(condition)
        else:
            truth = constant_truth(self.tx, self.trace, condition)
        if truth is not None:
            self.trace.used[self.site] = "fold"
        return truth

    def speculate(self, condition: TensorVariable, primitive: Speculate) -> VariableTracker:
        """The truth value of the condition, which is assumed.

        Raises:
            Refused: there would be no place for the check, or no end to the speculations.
        """
        truth = self.truth(condition)
        return ConstantVariable.create(speculate(self.tx, self.compilation, primitive, truth))

    def _way_on(self, refused: Refused, predicate: TensorVariable) -> bool | None:
        """Which arm an attempt goes on with that has failed here; None if it ends."""
        speculation = goes_on_after(self.tx, self.compilation, self.site, refused)
        if speculation is None:
            return None
        return speculate(self.tx, self.compilation, speculation, predicate)

    def _arm(
        self,
        function: VariableTracker,
        live_ins: Sequence[VariableTracker],
        predicate: TensorVariable,
        taken: bool,
    ) -> TracedArm:
        self.enter_arm()
        self.trace.predicates.append((predicate, taken))
        most = config.where_op_limit
        allowed = Allowed(
            partial(check_runs_untaken, most_ops=most, writes=True), most, IN_PLACE, True
        )
        arm = trace_arm(self.tx, self.trace, function, live_ins, allowed)
        # Left in place if the arm fails, so that the break can be told to be inside it.
        self.trace.arms.pop()
        self.trace.predicates.pop()
        return arm

    def enter_arm(self) -> None:
        """Note that what is traced now is in an arm of the site.

        Raises:
            SiteRefused: there were too many.
        """
        arms = self.trace.of(Arms)
        arms.traced = arms.traced + 1 if self.trace.arms else 1
        if arms.traced > config.arm_limit:
            most = many(config.arm_limit, "arm")
            refused = Refused("arm-too-dear", f"More than {most} would be traced.")
            raise SiteRefused(refused, self.trace.arms[0])
        if self.trace.arms.count(self.site) >= _MOST_NESTED:
            refused = Refused("arm-does-not-trace", f"It leads to {self.site} again and again.")
            raise SiteRefused(refused, self.site)
        self.trace.arms.append(self.site)

    # Values

    def truth(self, condition: TensorVariable) -> TensorVariable:
        """The predicate as a 0-dim bool tensor, equal to `bool(condition)`."""
        value = condition.as_proxy().node.meta["example_value"]
        check_truth_is_plain(condition)
        choose.check_predicate(value)
        if value.dim() != 0:
            condition = method(self.tx, "reshape", condition, ())
        if value.dtype is not torch.bool:
            return method(self.tx, "to", condition, torch.bool)
        # The predicate must stay what it is now: its backward and its effects ask for it later.
        copy = method(self.tx, "clone", condition)
        self.trace.of(Snapshots).copies.append((copy.as_proxy().node, len(self.recorder.written)))
        return copy
