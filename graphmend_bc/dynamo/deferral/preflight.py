"""What is looked at right after the graph, before the first deferred call runs."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.lists import TupleVariable

from graphmend_bc.dynamo.graph.state_snapshot import StateSnapshot
from graphmend_bc.dynamo.host_values.argument_snapshots import Snapshots
from graphmend_bc.dynamo.host_values.epilogue import EpilogueCallVariable
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused, TextsMoved
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site
from graphmend_bc.runtime.deferral.effect_preflight import EffectPreflight
from graphmend_bc.runtime.deferral.effects import Effect


@dataclass(slots=True, eq=False)
class Preflight(Feature):
    """Whether an effect is about to raise, or an object to do more than read.

    Attributes:
        ahead: looks, when the graph has run.
        may_raise: the effects it looks at, as it wants them.
        handled: those whose exception a handler of the program's would meet.
        objects: the arguments that it looks at, as it wants them.
        whole: effects whose arguments hold an object itself, not a copy of it.
    """

    ahead: EffectPreflight = field(default_factory=EffectPreflight)
    may_raise: list[VariableTracker] = field(default_factory=list)
    handled: list[Site] = field(default_factory=list)
    objects: list[VariableTracker] = field(default_factory=list)
    whole: list[Site] = field(default_factory=list)

    @property
    def looks(self) -> EffectPreflight | None:
        """What looks ahead; None if there is nothing to look at."""
        return self.ahead if self.may_raise or self.objects else None

    def look_at(
        self,
        tx: InstructionTranslatorBase,
        effect: Effect,
        around: TupleVariable,
        call: list[VariableTracker],
    ) -> None:
        """Have a call looked at before the first effect of the frame runs."""
        effects = tx.output.root_tx.debug_locals
        if not self.may_raise:
            check = EpilogueCallVariable("__gm_ahead", self.ahead.check)
            effects.insert(int(bool(self.objects)), (check, self.may_raise))
        self.may_raise.append(TupleVariable([around, *call]))
        self.ahead.effects.append(effect)

    def look_at_objects(
        self,
        tx: InstructionTranslatorBase,
        around: TupleVariable,
        objects: list[VariableTracker],
    ) -> None:
        """Have objects looked at first of all: they may be others in another call."""
        if not self.objects:
            check = EpilogueCallVariable("__gm_objects", self.ahead.check_objects)
            tx.output.root_tx.debug_locals.insert(0, (check, self.objects))
        self.objects.append(TupleVariable([around, TupleVariable(objects)]))

    def on_roll_back(self, compilation: Compilation, undo: StateSnapshot | None) -> None:
        """Refuse what could not be prevented when the graph has run."""
        if undo is not None:
            self.ahead.can_deoptimise = True
        if self.handled and not self.ahead.can_deoptimise:
            reason = "A handler would meet it when more has happened than before the call."
            raise SiteRefused(Refused("effect-raises", reason), *dict.fromkeys(self.handled))
        if self.whole and not (undo is not None and undo.is_nothing):
            snapshots = compilation.trace.known(Snapshots)
            of_objects = snapshots is not None and snapshots.texts_of_objects
            if of_objects and not compilation.exact_texts:
                raise TextsMoved
            reason = "It is an object, and the graph changes more than its results."
            raise SiteRefused(Refused("effect-argument", reason), *dict.fromkeys(self.whole))

    def on_commit(self, compilation: Compilation) -> bool:
        # Without a graph nothing has happened yet.
        if (self.whole or self.handled) and not compilation.trace.proven:
            self.ahead.can_deoptimise = True
        return self.ahead.can_deoptimise
