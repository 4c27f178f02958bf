"""Progress bars that are made inside the compiled function.

A bar only shows what the program does, so a real one is made after the graph and driven as the
program drove it: each loop over it, each call of its methods and its end are notes among those of
the other deferred calls. In the trace a variable stands for it that can be gone over, entered and
called, but not asked. Whatever else is done with it refuses the site, and the frame is traced again
without it.
"""

from __future__ import annotations

from functools import partial
from inspect import isroutine
from typing import Any, ClassVar, NoReturn

from torch._dynamo.codegen import PyCodegen
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.ctx_manager import ContextWrappingVariable
from torch._dynamo.variables.lists import TupleVariable

from graphmend_bc.contrib.tqdm.arguments import arguments
from graphmend_bc.contrib.tqdm.bars import Stand
from graphmend_bc.contrib.tqdm.catalog import BAR_BREAK, OBSERVERS, Bar, bar_made_by
from graphmend_bc.contrib.tqdm.loops import WalkVariable
from graphmend_bc.contrib.tqdm.state import Bars, check_not_in_arm
from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.calls.cached_calls import is_cached
from graphmend_bc.dynamo.calls.callees import MarkedCalleeVariable, places
from graphmend_bc.dynamo.deferral.shared_state import Shared, SharedState
from graphmend_bc.dynamo.host_values.argument_snapshots import as_dict
from graphmend_bc.dynamo.host_values.epilogue import EpilogueCallVariable
from graphmend_bc.dynamo.host_values.epilogue_calls import (
    DeferredMethodVariable,
    MadeVariable,
    MethodVariable,
    Note,
    note,
)
from graphmend_bc.dynamo.host_values.opaque_variable import OpaqueIterable, refuse_questions
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused
from graphmend_bc.dynamo.trace.tracing import check_is_outermost
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site
from graphmend_bc.runtime.deferral.call_places import is_machinery
from graphmend_bc.runtime.deferral.effects import Effect


class MarkedBarVariable(MarkedCalleeVariable):
    """The callee of a marked call that makes a bar."""

    _nonvar_fields: ClassVar[set[str]] = {"function", *MarkedCalleeVariable._nonvar_fields}  # type: ignore[misc]

    def __init__(
        self,
        site: Site,
        callee: VariableTracker,
        function: object,
        compilation: Compilation,
        **kwargs: Any,
    ) -> None:
        super().__init__(site, callee, compilation, **kwargs)
        self.function = function

    def call_function(self, tx: Translator, args: Args, kwargs: Keywords) -> VariableTracker:
        """The bar; stock Dynamo would break the graph inside a function of its own."""
        try:
            return self.value(tx, args, kwargs)
        except Refused as refused:
            raise SiteRefused(refused, self.site) from refused

    def value(self, tx: Translator, args: Args, kwargs: Keywords) -> VariableTracker:
        """The bar.

        Raises:
            Refused: it would not be the bar that eager Python shows.
            SiteRefused: it is made in one arm of a branch.
        """
        trace = self.compilation.trace
        made = bar_made_by(self.function)
        if made is None:
            raise Refused("effect-shows-time")
        check_not_in_arm(self.compilation)
        check_is_outermost(tx)
        if is_cached(trace):
            raise Refused("effect-in-cache")
        where = places(tx, self.site)
        if made.ranged:
            args = [VariableTracker.build(tx, range).call_function(tx, list(args), {})]
        given = arguments(tx, self.compilation, made, args, kwargs)
        shared = Shared(None, made.kind, OBSERVERS["tqdm.std", "tqdm.write"], given.others)
        trace.of(SharedState).note(tx, self.site, shared)
        effect = Effect(where, 1, not is_machinery(tx.output.root_tx.f_globals))
        bar = BarVariable(self.site, made, given.iterable, effect, self.compilation)
        bar.frame = _outermost(tx)
        bars = trace.of(Bars)
        bars.before_effect(tx)
        bar.note(tx, MethodVariable(bar.stand, ("make",)), given.for_stand())
        bars.made.append(bar)
        trace.effects.append(self.site)
        trace.used[self.site] = "defer"
        trace.gb_types[self.site] = BAR_BREAK
        return bar


@facts.with_slots
class BarVariable(OpaqueIterable, ContextWrappingVariable):
    """A bar that will be made after the graph.

    Args:
        site: the call that makes it.
        made: its class.
        iterable: what it goes over, if it does.
        effect: where the call stands.
        compilation: what is being compiled.

    Attributes:
        closed: whether it is closed by now, whatever the values of tensors.
        frame: the outermost frame of the program's that is being traced.
    """

    _nonvar_fields: ClassVar[set[str]] = {  # type: ignore[misc]
        *("site", "made", "effect", "compilation", "closed", "frame"),
        *ContextWrappingVariable._nonvar_fields,
    }

    def __init__(
        self,
        site: Site,
        made: Bar,
        iterable: VariableTracker | None,
        effect: Effect,
        compilation: Compilation,
        **kwargs: Any,
    ) -> None:
        super().__init__(target_values=None, **kwargs)
        self.site = site
        self.made = made
        self.iterable = iterable
        self.effect = effect
        self.compilation = compilation
        self.closed = False
        self.frame: InstructionTranslatorBase | None = None
        make = partial(Stand, made.kind, compilation.trace.of(Bars).clock)
        self.stand = MadeVariable(EpilogueCallVariable("__gm_bar", make))

    def note(
        self, tx: InstructionTranslatorBase, method: VariableTracker, args: TupleVariable
    ) -> Note:
        """Put something that is done with the bar off until after the graph."""
        return note(tx, self.effect, TupleVariable([]), [method, args, as_dict({})])

    def close(self, tx: InstructionTranslatorBase) -> None:
        """Note that the bar is closed."""
        check_not_in_arm(self.compilation)
        self.compilation.trace.of(Bars).before_effect(tx)
        self.note(tx, MethodVariable(self.stand, ("bar", "close")), TupleVariable([]))
        self.closed = True

    # What the program may do with it

    def python_type(self) -> type:
        return self.made.kind

    def tp_iter_impl(self, tx: InstructionTranslatorBase) -> VariableTracker:
        """`iter(bar)`."""
        return WalkVariable(self, tx)

    def var_getattr(self, tx: InstructionTranslatorBase, name: str) -> VariableTracker:
        """A method of the bar, for a marked call."""
        function = getattr(self.made.kind, name, None)
        if not isroutine(function):
            self.refuse(name)
        return BarMethodVariable(self, name, function)

    def enter(self, tx: InstructionTranslatorBase) -> VariableTracker:
        """`with bar:`."""
        return self

    def exit(self, tx: InstructionTranslatorBase, *args: VariableTracker) -> VariableTracker:
        """The end of `with bar:`; an exception goes on."""
        self.close(tx)
        return ConstantVariable.create(None)

    def refuse(self, use: str) -> NoReturn:
        """Give the bar up: the program does something else with it."""
        raise SiteRefused(Refused("bar-escapes", f"It is used in '{use}'."), self.site)

    def reconstruct(self, codegen: PyCodegen) -> None:
        raise SiteRefused(Refused("bar-escapes", "It is needed after the graph."), self.site)

    reconstruct_type = reconstruct


refuse_questions(BarVariable, ("tp_iter_impl", "var_getattr"))


class BarMethodVariable(DeferredMethodVariable):
    """A method of a bar; a marked call of it is deferred like that of any other bar.

    Args:
        obj: the bar.
        name: of the method.
        function: as the class of the bar has it.
    """

    _nonvar_fields: ClassVar[set[str]] = {"name", *DeferredMethodVariable._nonvar_fields}  # type: ignore[misc]

    def __init__(self, obj: BarVariable, name: str, function: object, **kwargs: Any) -> None:
        super().__init__(obj.stand, ("bar", name), function, **kwargs)
        self.obj = obj
        self.name = name

    def call_function(self, tx: Translator, args: Args, kwargs: Keywords) -> NoReturn:
        """Refuse calls that are not deferred."""
        self.obj.refuse(f"{self.name}()")

    def was_noted(self) -> None:
        """A call was deferred."""
        if self.name == "close" and not self.obj.compilation.trace.predicates:
            self.obj.closed = True

    def was_refused(self, refused: Refused) -> NoReturn:
        """A call cannot be deferred, so the bar cannot be made after the graph."""
        raise SiteRefused(refused, self.obj.site)


def _outermost(tx: InstructionTranslatorBase) -> InstructionTranslatorBase:
    """The outermost frame of the program's; some versions of Dynamo put one around it."""
    found, current = tx, tx.parent
    while current is not None:
        found = found if is_machinery(current.f_globals) else current
        current = current.parent
    return found
