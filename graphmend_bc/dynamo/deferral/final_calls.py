"""The last call of a function: it runs when all that the function has changed is in its place.

optimizer.step()
scheduler.step()        reads and writes what the graph and Dynamo's replay of changes have left
return loss.detach()    nothing is read any more that it could have changed

Dynamo replays what a function changes after the `debug_locals`; this call comes after that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import CodeType
from typing import Any, Final

from torch._dynamo.bytecode_transformation import create_instruction
from torch._dynamo.codegen import PyCodegen
from torch._dynamo.side_effects import SideEffects
from torch._dynamo.symbolic_convert import InstructionTranslator, InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.lists import TupleVariable
from torch._dynamo.variables.tensor import TensorVariable

from graphmend_bc import config
from graphmend_bc.code.analysis.blocks import graph_of
from graphmend_bc.code.analysis.tail import hands_out, tail_of
from graphmend_bc.code.listing import Op
from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.calls.cached_calls import is_cached
from graphmend_bc.dynamo.calls.callees import MarkedCalleeVariable, owner_of, places
from graphmend_bc.dynamo.deferral.exception_handlers import is_handled
from graphmend_bc.dynamo.deferral.schedulers import only_sets_rates
from graphmend_bc.dynamo.frames.breaks import instruction_of
from graphmend_bc.dynamo.frames.generated_code import OURS
from graphmend_bc.dynamo.graph.lambda_guards import guard_by, reader
from graphmend_bc.dynamo.host_values.argument_snapshots import as_dict
from graphmend_bc.dynamo.host_values.epilogue import EpilogueCallVariable
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused, Trace, current
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.dynamo.trace.tracing import check_is_outermost
from graphmend_bc.dynamo.trace.truth_overrides import check_no_function_mode
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.origin import original_place
from graphmend_bc.runtime import Site
from graphmend_bc.runtime.deferral.effects import Effect
from graphmend_bc.runtime.shown_effects import told_of_shown

SKIPPED_BREAK: Final = "Attempted to inline function marked as skipped"
"""What Dynamo calls the break at `step` of torch's own schedulers."""


@dataclass(frozen=True, slots=True, eq=False)
class _Final:
    """A call that is made last.

    Attributes:
        site: where it stands.
        run: makes it.
        kept: the local variable that holds callee and arguments, as they are after the graph.
        changes: the objects that it changes, with what the frame had set on them before it.
    """

    site: Site
    run: VariableTracker
    kept: str
    changes: tuple[tuple[object, int], ...]


@dataclass(slots=True, eq=False)
class FinalCalls(Feature):
    """The calls that an attempt makes last, in their order."""

    made: list[_Final] = field(default_factory=list)

    def may_move(self, scheduler: object) -> bool:
        """Whether what the next step of a scheduler does is known, as it makes none before."""
        return all(final.changes[0][0] is not scheduler for final in self.made)

    def on_object_question(
        self, compilation: Compilation, owner: VariableTracker, name: str
    ) -> None:
        """Refuse to read what a call will have changed."""
        value = getattr(owner, "value", None)
        for final in self.made if name not in _ASKED and not _is_traced_by_us() else ():
            if any(changed is value for changed, _ in final.changes):
                raise SiteRefused(Refused("call-not-last", f"'{name}' is read."), final.site)

    def on_graph_end(
        self, compilation: Compilation, tx: InstructionTranslatorBase, is_break: bool
    ) -> None:
        """Refuse a call before which nothing was set that is set now: it would be found."""
        for final in self.made:
            if any(_times_set(tx, value) != times for value, times in final.changes):
                raise SiteRefused(Refused("call-not-last", "It is changed after it."), final.site)


_ASKED: Final = frozenset({"step", "zero_grad"})
"""What a call that may follow asks of a scheduler or its optimizer."""


def _is_traced_by_us() -> bool:
    """Whether the frame being traced is of a function of ours, which stands for such a call."""
    code = InstructionTranslator.current_tx().output.current_tx.f_code
    return code.co_filename.startswith(OURS)


def _times_set(tx: InstructionTranslatorBase, value: object) -> int:
    """A number that is another one when an attribute of an object has been set."""
    effects = tx.output.side_effects
    owner = effects.id_to_variable.get(id(value))
    stored = {} if owner is None else effects.store_attr_mutations.get(owner, {})
    return hash(tuple((name, id(item)) for name, item in stored.items()))


class FinalCallVariable(MarkedCalleeVariable):
    """A callee whose call runs at the end of the frame, if nothing after it can tell."""

    def value(self, tx: Translator, args: Args, kwargs: Keywords) -> VariableTracker:
        """Note the call.

        Raises:
            Refused: what follows may read what it changes, or it may not run.
        """
        trace = self.compilation.trace
        check_is_outermost(tx)
        check_no_function_mode(tx)
        if is_cached(trace):
            raise Refused("effect-in-cache")
        if tx.export or self.compilation.is_saved:
            raise Refused("under-export")
        if trace.arms or trace.predicates:
            raise Refused("call-not-last", "It depends on a condition.")
        where = places(tx, self.site)
        owner = owner_of(self.callee)
        scheduler = getattr(owner, "value", None)
        finals = trace.of(FinalCalls)
        moves = finals.may_move(scheduler) and not (args or kwargs) and only_sets_rates(scheduler)
        if not _is_last(tx, moves=False):
            if not (moves and _is_last(tx, moves=True)):
                raise Refused("call-not-last", "More than a result follows the call.")
            _guard_on_rates(owner)
        for value in (owner, *args, *kwargs.values()):
            if value is None or not _stays_itself(value.realize()):
                raise Refused("effect-argument", "It is given an object that the function made.")
        for feature in trace.obliged(Feature.before_effect):
            feature.before_effect(tx)
        effect = Effect(where, len(where))
        kept = tx.output.new_var("final_call")
        run = EpilogueCallVariable(
            "__gm_final", told_of_shown(effect.run) if config.verify else effect.run
        )
        changed = (scheduler, getattr(scheduler, "optimizer", None))
        changes = tuple((value, _times_set(tx, value)) for value in changed if value is not None)
        finals.made.append(_Final(self.site, run, kept, changes))
        keep = KeptCallVariable(kept, self.callee, args, kwargs)
        tx.output.root_tx.debug_locals.append((keep, []))
        trace.effects.append(self.site)
        trace.used[self.site] = "defer"
        trace.gb_types[self.site] = SKIPPED_BREAK
        return ConstantVariable.create(None)


def final_call(
    site: Site, callee: VariableTracker, function: object, compilation: Compilation
) -> VariableTracker:
    """What is called in the place of a callee whose call may run last; see `KnownCallee.make`."""
    return FinalCallVariable(site, callee, compilation)


class KeptCallVariable(VariableTracker):
    """A callee and its arguments, put aside in a local variable of the generated code.

    It stands where generated code calls something without arguments.
    """

    def __init__(
        self, name: str, callee: VariableTracker, args: Args, kwargs: Keywords, **options: Any
    ) -> None:
        super().__init__(**options)
        self.name = name
        # `UNPACK_SEQUENCE` puts the first item on top.
        self.call = TupleVariable([as_dict(dict(kwargs)), TupleVariable(list(args)), callee])

    _nonvar_fields = {"name", *VariableTracker._nonvar_fields}  # noqa: RUF012

    def reconstruct(self, codegen: PyCodegen) -> None:
        codegen(self.call)
        codegen.append_output(codegen.create_store(self.name))
        codegen.append_output(create_instruction("LOAD_CONST", argval=tuple))


def make_final_call(stock: Callable[..., None]) -> Callable[..., None]:
    """`SideEffects.codegen_update_mutated`: what comes after the changes of the frame."""

    def update(self: SideEffects, codegen: PyCodegen, *args: Any, **kwargs: Any) -> None:
        stock(self, codegen, *args, **kwargs)
        compilation = current()
        finals = None if compilation is None else compilation.trace.known(FinalCalls)
        for final in finals.made if finals is not None else ():
            codegen.add_push_null(partial(codegen, final.run))
            codegen.append_output(codegen.create_load(final.kept))
            codegen.append_output(create_instruction("UNPACK_SEQUENCE", arg=3))
            codegen.call_function(3, False)
            codegen.pop_top()

    return update


def check_nothing_is_last(trace: Trace, code: CodeType) -> None:
    """Refuse an attempt that traces another function after its last call.

    Args:
        trace: the attempt.
        code: of the function; one of ours stands for a call that may follow.

    Raises:
        SiteRefused: it has made that call.
    """
    finals = trace.known(FinalCalls)
    if finals is not None and finals.made and not code.co_filename.startswith(OURS):
        site = finals.made[-1].site
        raise SiteRefused(Refused("call-not-last", "A function is called after it."), site)


def _stays_itself(value: VariableTracker) -> bool:
    """True for what a frame does not make anew: an object that was there, a number, a tensor."""
    return (
        value.source is not None
        or value.is_python_constant()
        or (type(value) is TensorVariable and value.source is None)
    )


def _is_last(tx: InstructionTranslatorBase, *, moves: bool) -> bool:
    """Whether all frames only hand out what they have after a call; see `hands_out`.

    Raises:
        Refused: its result is used, or something stands around the call.
    """
    frame: InstructionTranslatorBase | None = tx
    is_guarded = is_handled(tx)
    while frame is not None:
        if is_guarded or frame.block_stack:
            raise Refused("call-not-last", "A 'with' or 'try' block stands around the call.")
        tail = _tail(frame)
        if frame is tx and tail and tail[0].name != "POP_TOP":
            raise Refused("effect-result-used")
        if not hands_out(tail, partial(_is_made, frame), moves=moves):
            return False
        frame = frame.parent
    return True


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


def _tail(frame: InstructionTranslatorBase) -> tuple[Op, ...]:
    """What is left of the user's code that a translator traces."""
    place = instruction_of(frame)
    if place is None:
        return ()
    code, offset = original_place(*place)
    if offset < 0:
        return ()
    listing = graph_of(code).listing
    return tail_of(listing, listing.at_offset(offset).index)


def _is_made(frame: InstructionTranslatorBase, name: str) -> bool:
    """Whether a local variable holds a tensor that was not there before the frame."""
    value = frame.symbolic_locals.get(name)
    value = None if value is None else value.realize()
    return type(value) is TensorVariable and value.source is None
