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
from graphmend_bc.dynamo.arguments import Args, Keywords
from graphmend_bc.dynamo.frames.generated_code import OURS
from graphmend_bc.dynamo.host_values.argument_snapshots import as_dict
from graphmend_bc.dynamo.host_values.epilogue import EpilogueCallVariable
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused, Trace, current
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.reporting.reasons import Refused
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
        changes: the objects that it changes, with what the frame had set on them before it; none if
            it may be any.
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
        return all(f.changes and f.changes[0][0] is not scheduler for f in self.made)

    def on_object_question(
        self, compilation: Compilation, owner: VariableTracker, name: str
    ) -> None:
        """Refuse to read what a call will have changed."""
        value = getattr(owner, "value", None)
        for final in self.made if name not in _ASKED and not _is_traced_by_us() else ():
            if not final.changes or any(changed is value for changed, _ in final.changes):
                raise SiteRefused(Refused("call-not-last", f"'{name}' is read."), final.site)

    def on_graph_end(
        self, compilation: Compilation, tx: InstructionTranslatorBase, is_break: bool
    ) -> None:
        """Refuse a call before which nothing was set that is set now: it would be found."""
        for final in self.made:
            if any(times_set(tx, value) != times for value, times in final.changes):
                raise SiteRefused(Refused("call-not-last", "It is changed after it."), final.site)


_ASKED: Final = frozenset({"step", "zero_grad"})
"""What a call that may follow asks of a scheduler or its optimizer."""


def _is_traced_by_us() -> bool:
    """Whether the frame being traced is of a function of ours, which stands for such a call."""
    code = InstructionTranslator.current_tx().output.current_tx.f_code
    return code.co_filename.startswith(OURS)


def times_set(tx: InstructionTranslatorBase, value: object) -> int:
    """A number that is another one when an attribute of an object has been set.

    Args:
        tx: translator of a frame.
        value: the object.
    """
    effects = tx.output.side_effects
    owner = effects.id_to_variable.get(id(value))
    stored = {} if owner is None else effects.store_attr_mutations.get(owner, {})
    return hash(tuple((name, id(item)) for name, item in stored.items()))


@dataclass(frozen=True, slots=True, eq=False)
class LastCall:
    """A call that was shown to be the last.

    Attributes:
        site: where it stands.
        callee, args, kwargs: what is called, with what.
        changes: as in `FinalCalls`.
    """

    site: Site
    callee: VariableTracker
    args: Args
    kwargs: Keywords
    changes: tuple[tuple[object, int], ...] = ()


def note_last(
    tx: InstructionTranslatorBase, compilation: Compilation, call: LastCall, effect: Effect
) -> VariableTracker:
    """Have a call made when all that the frame has changed is in its place.

    Args:
        tx: translator of the frame that makes it.
        compilation: what is being compiled.
        call: the call.
        effect: makes it.

    Returns:
        Its value in the trace, None.
    """
    trace = compilation.trace
    for feature in trace.obliged(Feature.before_effect):
        feature.before_effect(tx)
    kept = tx.output.new_var("final_call")
    run = EpilogueCallVariable(
        "__gm_final", told_of_shown(effect.run) if config.verify else effect.run
    )
    trace.of(FinalCalls).made.append(_Final(call.site, run, kept, call.changes))
    keep = KeptCallVariable(kept, call.callee, call.args, call.kwargs)
    tx.output.root_tx.debug_locals.append((keep, []))
    trace.effects.append(call.site)
    trace.used[call.site] = "defer"
    trace.gb_types[call.site] = SKIPPED_BREAK
    return ConstantVariable.create(None)


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


def stays_itself(value: VariableTracker) -> bool:
    """True for what a frame does not make anew: an object that was there, a number, a tensor.

    Args:
        value: as it is given to a call.
    """
    return (
        value.source is not None
        or value.is_python_constant()
        or (type(value) is TensorVariable and value.source is None)
    )
