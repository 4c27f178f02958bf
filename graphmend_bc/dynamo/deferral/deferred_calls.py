"""Deferred effects: calls that only observe run after the graph, with their arguments as they were.

Dynamo runs the `debug_locals` of the root translator right after the graph and before it replays
side effects. An effect is put there from however deep an inlined function it was met in.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from inspect import getattr_static
from itertools import takewhile
from types import FunctionType
from typing import Any, ClassVar, cast

import torch
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.lists import TupleVariable

from graphmend_bc import config
from graphmend_bc.catalog.observers import LOGGER_BREAK as LOGGER_BREAK
from graphmend_bc.catalog.observers import PRINT_BREAK as PRINT_BREAK
from graphmend_bc.catalog.observers import Observer, observer_of
from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.calls.cached_calls import is_cached
from graphmend_bc.dynamo.calls.callees import MarkedCalleeVariable, owner_of, places, real_object
from graphmend_bc.dynamo.deferral import logging_levels
from graphmend_bc.dynamo.deferral.exception_handlers import is_handled
from graphmend_bc.dynamo.deferral.preflight import Preflight
from graphmend_bc.dynamo.deferral.scheduler_steps import final_call
from graphmend_bc.dynamo.deferral.schedulers import is_scheduler_step
from graphmend_bc.dynamo.deferral.shared_state import Shared, SharedState
from graphmend_bc.dynamo.host_values.argument_snapshots import Snapshotter, as_dict, kept_stream
from graphmend_bc.dynamo.host_values.epilogue_calls import DeferredMethodVariable, note, predicates
from graphmend_bc.dynamo.host_values.host_reads import MarkedReadVariable, is_read
from graphmend_bc.dynamo.host_values.passed_objects import behind
from graphmend_bc.dynamo.host_values.text_settings import check_process
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused, current
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.dynamo.trace.tracing import check_is_outermost
from graphmend_bc.dynamo.trace.truth_overrides import check_no_function_mode
from graphmend_bc.registration import Registration, Registry
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Marker, Site
from graphmend_bc.runtime.deferral.call_places import CallPlace, is_machinery
from graphmend_bc.runtime.deferral.effect_preflight import would_raise
from graphmend_bc.runtime.deferral.effects import Effect


@dataclass(slots=True, eq=False)
class Counting(Feature):
    """Objects that deferred calls change, each with a call."""

    calls: list[tuple[VariableTracker, Site]] = field(default_factory=list)

    def on_object_question(
        self, compilation: Compilation, owner: VariableTracker, name: str
    ) -> None:
        """Refuse to read such an object; its methods may be called."""
        kind = type(getattr(owner, "value", None))
        if isinstance(getattr_static(kind, name, None), FunctionType):
            return
        value = getattr(owner, "value", owner)
        for counting, site in self.calls:
            if counting is owner or getattr(counting, "value", None) is value:
                raise SiteRefused(Refused("effect-result-used", f"'{name}' is read."), site)


class CaughtWarnings(Feature):
    """A `warnings.catch_warnings` was entered."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class KnownCallee:
    """What becomes of the callee of a marked call that a plain note for later does not do for.

    Attributes:
        accepts: whether it is for a function.
        make: what is called in its place; gets the site, the callee, the function behind it and
            what is being compiled.
    """

    accepts: Callable[[object], bool]
    make: Callable[[Site, VariableTracker, object, Compilation], VariableTracker]


_OURS = (
    KnownCallee(logging_levels.is_question, logging_levels.QuestionVariable),
    KnownCallee(is_scheduler_step, final_call),
)
_registered = Registry[KnownCallee]()


def register_callee(known: KnownCallee) -> Registration:
    """Say what becomes of marked calls of some functions, before it is asked if they only observe.

    Args:
        known: the functions, and what is called in their place.

    Returns:
        A handle; `handle.remove()` makes the functions unknown again.
    """
    return _registered.add(known)


def is_deferrable(callee: VariableTracker) -> bool:
    """Whether a marked call of a callee may become another one than Dynamo's."""
    if is_read(callee) or isinstance(callee.realize(), DeferredMethodVariable):
        return True
    function = real_object(callee)
    if any(known.accepts(function) for known in (*_OURS, *_registered)):
        return True
    return observer_of(function, config.effects) is not None


def deferred(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    mark: Marker,
    args: list[VariableTracker],
) -> VariableTracker:
    """Handler: the callee of a marked call, one that defers if it only observes, else itself."""
    site, callee = mark.site, args[0]
    if tx.export or isinstance(callee, (DeferredCallVariable, MarkedReadVariable)):
        return callee
    if is_read(callee):
        return MarkedReadVariable(site, callee, compilation)
    if isinstance(callee, DeferredMethodVariable):
        function = callee.function
    else:
        function = real_object(callee)
    for known in (*_OURS, *_registered):
        if known.accepts(function):
            made: VariableTracker = known.make(site, callee, function, compilation)
            return made
    observer = observer_of(function, config.effects)
    if observer is None:
        return callee
    return DeferredCallVariable(site, callee, function, observer, compilation)


class DeferredCallVariable(MarkedCalleeVariable):
    """A callee whose call is noted for later instead of being traced."""

    _nonvar_fields: ClassVar[set[str]] = {  # type: ignore[misc]
        "function",
        "observer",
        *MarkedCalleeVariable._nonvar_fields,
    }

    def __init__(
        self,
        site: Site,
        callee: VariableTracker,
        function: object,
        observer: Observer,
        compilation: Compilation,
        **kwargs: Any,
    ) -> None:
        super().__init__(site, callee, compilation, **kwargs)
        self.function = function
        self.observer = observer

    def call_function(self, tx: Translator, args: Args, kwargs: Keywords) -> VariableTracker:
        """Note the call; where that would not be exact, trace it as stock Dynamo does."""
        try:
            self.defer(tx, args, kwargs)
        except Refused as refused:
            self.compilation.trace.refused[self.site] = refused
            if isinstance(self.callee, DeferredMethodVariable):
                self.callee.was_refused(refused)
            return self.callee.call_function(tx, args, kwargs)
        return ConstantVariable.create(None)

    def defer(self, tx: Translator, args: Args, kwargs: Keywords) -> None:
        """Note the call.

        Raises:
            Refused: that would not be exact.
        """
        trace = self.compilation.trace
        check_is_outermost(tx)
        check_no_function_mode(tx)  # it sees how texts of tensors are made
        if is_cached(trace):
            raise Refused("effect-in-cache")
        self._check_result(tx)
        is_users = not is_machinery(tx.output.root_tx.f_globals)
        where, handled = places(tx, self.site), is_handled(tx)
        depth = self._depth(tx, args, kwargs) + _passed_over(self.function, where)
        effect = Effect(where, depth, is_users, handled)
        self._check_raises(tx, effect, args, kwargs)
        # Where it is loaded a logger may have another level, which no guard would ask for.
        if self.compilation.is_saved or not logging_levels.is_off(
            trace, self.function, self.observer, self.callee, args
        ):
            self._note(tx, effect, args, kwargs)
        trace.used[self.site] = "defer"
        trace.gb_types[self.site] = self.observer.gb_type

    def _note(self, tx: Translator, effect: Effect, args: Args, kwargs: Keywords) -> None:
        _check_print_keywords(kwargs)
        _check_owner(tx, self.callee, self.observer.counts)
        check_process(tx, self.function)
        keep = Snapshotter(tx, self.compilation, self.observer.gradients, self.observer.objects)
        kept = [keep(arg) for arg in args]
        stream = self.observer.stream
        kept_kwargs = {
            name: kept_stream(value) if name == stream else keep(value)
            for name, value in kwargs.items()
        }
        values = kept_kwargs | dict(enumerate(kept))
        shared = Shared(self.callee, self.function, self.observer, values, keep.objects)
        self.compilation.trace.of(SharedState).note(tx, self.site, shared)
        trace = self.compilation.trace
        if self.compilation.is_saved and (keep.objects or stream in kwargs):
            raise Refused("under-export", "An object that it is given may be another one there.")
        around = predicates(tx, self.compilation, self.site)
        call = [self.callee, TupleVariable(kept), as_dict(kept_kwargs)]
        if keep.objects:
            trace.of(Preflight).whole.append(self.site)
            if self.observer.objects != "read":
                trace.of(Preflight).look_at_objects(tx, around, keep.objects)
        if self.observer.raises or (effect.handled and self.function.__module__ == "logging"):
            trace.of(Preflight).look_at(tx, effect, around, call)
            if effect.handled:
                trace.of(Preflight).handled.append(self.site)
        for feature in trace.obliged(Feature.before_effect):
            feature.before_effect(tx)
        note(tx, effect, around, call)
        trace.effects.append(self.site)
        owner = owner_of(self.callee)
        if self.observer.counts and owner is not None:
            trace.of(Counting).calls.append((owner, self.site))
        if isinstance(self.callee, DeferredMethodVariable):
            self.callee.was_noted()

    def _check_raises(self, tx: Translator, effect: Effect, args: Args, kwargs: Keywords) -> None:
        """Refuse calls that would raise now, or warnings that the function catches itself."""
        module = getattr(self.function, "__module__", "")
        warns = module in ("warnings", "_warnings")
        if not (warns or self.observer.raises or module == "logging"):
            return
        if warns and self.compilation.trace.known(CaughtWarnings) is not None:
            raise Refused("effect-moved", "The function catches warnings.")
        known = tuple(_constant(arg) for arg in args)
        keywords = {name: _constant(value) for name, value in kwargs.items()}
        if (stream := kwargs.get(self.observer.stream)) is not None:
            keywords[self.observer.stream] = behind(stream.realize())
        place = effect.places[: effect.depth][-1]
        if would_raise(cast(Any, self.function), known, keywords, place, effect.handled):
            why = "A filter turns the warning into an exception." if warns else ""
            why = why or "The stream or a log handler may raise, which would not be in its place."
            raise Refused("effect-raises", why)

    def _check_result(self, tx: InstructionTranslatorBase) -> None:
        if not self.observer.returns_none and tx.next_instruction.opname != "POP_TOP":
            raise Refused("effect-result-used")

    def _depth(self, tx: Translator, args: Args, kwargs: Keywords) -> int:
        """How many stack frames the call looks at."""
        if "stack_info" in kwargs and not _is_false(kwargs["stack_info"]):
            raise Refused("effect-stack", "The keyword is 'stack_info'.")
        reads_exception = not _is_false(kwargs["exc_info"]) if "exc_info" in kwargs else False
        if reads_exception or getattr(self.function, "__name__", "") == "exception":
            _check_no_exception(tx)
        if "skip_file_prefixes" in kwargs:
            raise Refused("effect-stack", "The keyword is 'skip_file_prefixes'.")
        depth = kwargs.get(self.observer.stack)
        if depth is None and self.function.__module__ in ("warnings", "_warnings"):
            depth = args[2] if self.observer.stack and len(args) > 2 else None
        if depth is None:
            return 1
        depth = depth.realize()
        if not depth.is_python_constant() or type(depth.as_python_constant()) is not int:
            raise Refused("effect-stack", "The stack level is no constant.")
        return max(1, int(depth.as_python_constant()))


def _passed_over(function: object, where: Sequence[CallPlace]) -> int:
    """How many frames of its own `logging` passes over when it looks for the caller."""
    if getattr(function, "__module__", "") != "logging":
        return 0
    own = logging.getLogger.__code__.co_filename
    return sum(1 for _ in takewhile(lambda place: place.filename == own, where))


def _constant(value: VariableTracker) -> object:
    """The value if it is known now, else None."""
    value = value.realize()
    return value.as_python_constant() if value.is_python_constant() else None


def enter_catching(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`CatchWarningsCtxManagerVariable.enter`: who sees later warnings is another question now."""

    def enter(self: Any, tx: InstructionTranslatorBase) -> VariableTracker:
        if (compilation := current()) is not None:
            compilation.trace.of(CaughtWarnings)
        entered: VariableTracker = stock(self, tx)
        return entered

    return enter


def _is_false(value: VariableTracker) -> bool:
    value = value.realize()
    return value.is_python_constant() and not value.as_python_constant()


def _check_no_exception(tx: InstructionTranslatorBase | None) -> None:
    """Refuse to look for the handled exception while the trace handles one of its own."""
    while tx is not None:
        if len(tx.exn_vt_stack):
            raise Refused("effect-stack", "An exception is being handled in the function.")
        tx = tx.parent


def _check_owner(tx: InstructionTranslatorBase, callee: VariableTracker, counter: str) -> None:
    """Refuse methods of an object that the function has changed: the change is replayed later."""
    owner = owner_of(callee)
    if owner is not None and tx.output.side_effects.has_pending_mutation(owner):
        raise Refused("effect-argument", "The object whose method it is was changed before.")
    value = getattr(owner, "value", None)
    if counter and isinstance(getattr(value, counter, None), torch.Tensor):
        raise Refused("effect-argument", "It counts in a tensor, which it changes in place.")


def _check_print_keywords(kwargs: dict[str, VariableTracker]) -> None:
    """Refuse what would make the call itself raise, where the user may expect to catch it."""
    for name in kwargs.keys() & {"sep", "end"}:
        value = kwargs[name].realize()
        if not value.is_python_constant() or not isinstance(
            value.as_python_constant(), (str, type(None))
        ):
            raise Refused("effect-argument", f"The keyword is '{name}'.")
