"""The last call of a function: it runs when all that the function has changed is in its place.

optimizer.step()
scheduler.step()        reads and writes what the graph and Dynamo's replay of changes have left
return loss.detach()    nothing is read any more that it could have changed

Dynamo replays what a function changes after the `debug_locals`; this call comes after that.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from types import CodeType
from typing import Any, Final

from torch._dynamo.bytecode_transformation import create_instruction
from torch._dynamo.codegen import PyCodegen
from torch._dynamo.side_effects import SideEffects
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.lists import TupleVariable
from torch._dynamo.variables.tensor import TensorVariable
from torch.optim import lr_scheduler
from torch.optim.lr_scheduler import LRScheduler

from graphmend_bc import config
from graphmend_bc.code.analysis.blocks import graph_of
from graphmend_bc.code.analysis.tail import hands_out, tail_of
from graphmend_bc.code.listing import Op
from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.calls.cached_calls import is_cached
from graphmend_bc.dynamo.calls.callees import MarkedCalleeVariable, owner_of, places
from graphmend_bc.dynamo.deferral.exception_handlers import is_handled
from graphmend_bc.dynamo.frames.breaks import instruction_of
from graphmend_bc.dynamo.frames.generated_code import OURS
from graphmend_bc.dynamo.host_values.argument_snapshots import as_dict
from graphmend_bc.dynamo.host_values.epilogue import EpilogueCallVariable
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused, Trace, current
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.dynamo.trace.tracing import check_is_outermost
from graphmend_bc.dynamo.trace.truth_overrides import check_no_function_mode
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.origin import origin_of
from graphmend_bc.runtime import Site
from graphmend_bc.runtime.deferral.effects import Effect
from graphmend_bc.runtime.shown_effects import told_of_shown

SKIPPED_BREAK: Final = "Attempted to inline function marked as skipped"
"""What Dynamo calls the break at `step` of torch's own schedulers."""


def is_scheduler_step(function: object) -> bool:
    """True for `step` of a scheduler of learning rates, torch's or one that is derived from it."""
    owner = getattr(function, "__self__", None)
    return isinstance(owner, LRScheduler) and getattr(function, "__name__", "") == "step"


@dataclass(slots=True, eq=False)
class FinalCall(Feature):
    """The call that an attempt makes last.

    Attributes:
        site: where it stands.
        run: makes it.
        kept: the local variable that holds callee and arguments, as they are after the graph.
    """

    site: Site | None = None
    run: VariableTracker | None = None
    kept: str = ""


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
        _check_is_last(tx, _asks_no_gradient(getattr(owner, "value", None)))
        for value in (owner, *args, *kwargs.values()):
            if value is None or not _stays_itself(value.realize()):
                raise Refused("effect-argument", "It is given an object that the function made.")
        for feature in trace.obliged(Feature.before_effect):
            feature.before_effect(tx)
        effect = Effect(where, len(where))
        final = trace.of(FinalCall)
        final.site, final.kept = self.site, tx.output.new_var("final_call")
        run = told_of_shown(effect.run) if config.verify else effect.run
        final.run = EpilogueCallVariable("__gm_final", run)
        keep = KeptCallVariable(final.kept, self.callee, args, kwargs)
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
        final = None if compilation is None else compilation.trace.known(FinalCall)
        if final is None or (run := final.run) is None:
            return
        codegen.add_push_null(lambda: codegen(run))
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
    final = trace.known(FinalCall)
    if final is not None and final.site is not None and not code.co_filename.startswith(OURS):
        raise SiteRefused(Refused("call-not-last", "A function is called after it."), final.site)


def _asks_no_gradient(scheduler: object) -> bool:
    """True for a scheduler of torch's that calls nothing of the user's, and no other scheduler."""
    kind = type(scheduler)
    return kind.__module__ == LRScheduler.__module__ and kind not in _CALLING


_CALLING: Final = (
    lr_scheduler.LambdaLR,
    lr_scheduler.MultiplicativeLR,
    lr_scheduler.SequentialLR,
    lr_scheduler.ChainedScheduler,
    lr_scheduler.CyclicLR,
)


def _stays_itself(value: VariableTracker) -> bool:
    """True for what a frame does not make anew: an object that was there, a number, a tensor."""
    return (
        value.source is not None
        or value.is_python_constant()
        or (type(value) is TensorVariable and value.source is None)
    )


def _check_is_last(tx: InstructionTranslatorBase, may_reset: bool) -> None:
    """Refuse a call after which a frame does more than hand out what it has.

    Args:
        tx: translator of the frame that makes the call.
        may_reset: whether gradients may be reset after it.

    Raises:
        Refused: it does, or something stands around the call.
    """
    frame: InstructionTranslatorBase | None = tx
    is_guarded = is_handled(tx)
    while frame is not None:
        if is_guarded or frame.block_stack:
            raise Refused("call-not-last", "A 'with' or 'try' block stands around the call.")
        tail = _tail(frame)
        if frame is tx and tail and tail[0].name != "POP_TOP":
            raise Refused("effect-result-used")
        if not hands_out(tail, partial(_is_made, frame), may_reset=may_reset):
            raise Refused("call-not-last", "More than a result follows the call.")
        frame = frame.parent


def _tail(frame: InstructionTranslatorBase) -> tuple[Op, ...]:
    """What is left of the user's code that a translator traces."""
    place = instruction_of(frame)
    if place is None:
        return ()
    code, offset = place
    if (origin := origin_of(code)) is not None:
        code, offset = origin.code, origin.offsets.get(offset, -1)
    if offset < 0:
        return ()
    listing = graph_of(code).listing
    return tail_of(listing, listing.at_offset(offset).index)


def _is_made(frame: InstructionTranslatorBase, name: str) -> bool:
    """Whether a local variable holds a tensor that was not there before the frame."""
    value = frame.symbolic_locals.get(name)
    value = None if value is None else value.realize()
    return type(value) is TensorVariable and value.source is None
