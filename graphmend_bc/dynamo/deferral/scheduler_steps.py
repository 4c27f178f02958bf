"""`scheduler.step()`, which is made last; see `final_calls`."""

from __future__ import annotations

from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.calls.callees import MarkedCalleeVariable, owner_of, places
from graphmend_bc.dynamo.deferral.final_calls import (
    FinalCalls,
    LastCall,
    note_last,
    stays_itself,
    times_set,
)
from graphmend_bc.dynamo.deferral.final_places import (
    check_may_be_last,
    is_last,
    is_made,
    tail_after,
)
from graphmend_bc.dynamo.deferral.schedulers import only_sets_rates
from graphmend_bc.dynamo.graph.lambda_guards import guard_by, reader
from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site
from graphmend_bc.runtime.deferral.effects import Effect


class FinalCallVariable(MarkedCalleeVariable):
    """A callee whose call runs at the end of the frame, if nothing after it can tell."""

    def value(self, tx: Translator, args: Args, kwargs: Keywords) -> VariableTracker:
        """Note the call.

        Raises:
            Refused: what follows may read what it changes, or it may not run.
        """
        check_may_be_last(tx, self.compilation)
        where = places(tx, self.site)
        owner = owner_of(self.callee)
        scheduler = getattr(owner, "value", None)
        finals = self.compilation.trace.of(FinalCalls)
        moves = finals.may_move(scheduler) and not (args or kwargs) and only_sets_rates(scheduler)
        if not _is_last(tx, moves=False):
            if not (moves and _is_last(tx, moves=True)):
                raise Refused("call-not-last", "More than a result follows the call.")
            _guard_on_rates(owner)
        for value in (owner, *args, *kwargs.values()):
            if value is None or not stays_itself(value.realize()):
                raise Refused("effect-argument", "It is given an object that the function made.")
        changed = (scheduler, getattr(scheduler, "optimizer", None))
        changes = tuple((value, times_set(tx, value)) for value in changed if value is not None)
        call = LastCall(self.site, self.callee, args, kwargs, changes)
        return note_last(tx, self.compilation, call, Effect(where, len(where)))


def final_call(
    site: Site, callee: VariableTracker, function: object, compilation: Compilation
) -> VariableTracker:
    """What is called in the place of a callee whose call may run last; see `KnownCallee.make`."""
    return FinalCallVariable(site, callee, compilation)


def _is_last(tx: InstructionTranslatorBase, *, moves: bool) -> bool:
    """Whether all frames only hand out what they have after a call; see `hands_out`.

    Raises:
        Refused: its result is used, or something stands around the call.
    """
    tail = tail_after(tx)
    if tail and tail[0].name != "POP_TOP":
        raise Refused("effect-result-used")
    return is_last(tx, tail, is_made, moves=moves)


def _guard_on_rates(owner: VariableTracker | None) -> None:
    """Compile anew for a scheduler that does more.

    Raises:
        Refused: it cannot be found again.
    """
    if owner is None or owner.source is None:
        raise Refused("effect-argument", "The scheduler cannot be found in another call.")
    read = reader([owner.source])
    guard_by(
        lambda local, scope: only_sets_rates(read(local, scope)[0]),
        f"only_sets_rates({owner.source.name})",
    )
