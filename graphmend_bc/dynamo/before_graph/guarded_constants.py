"""Answers of probes: constants of the trace, with guards that ask again."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

from torch._dynamo import exc
from torch._dynamo.guards import install_guard
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._guards import Guard

from graphmend_bc.catalog.probes import probe_of, why_fleeting
from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.before_graph.computed_source import HoistedSource
from graphmend_bc.dynamo.before_graph.graph_slice import Slice
from graphmend_bc.dynamo.calls.cached_calls import is_cached
from graphmend_bc.dynamo.calls.known_calls import KnownCalleeVariable, known_call
from graphmend_bc.dynamo.graph.fx_nodes import sets_a_mode
from graphmend_bc.dynamo.trace.compilation import Compilation, Trace, current
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime.signal_handlers import pass_on

NO_ANSWER = object()
"""What a guard finds if asking raises: a trace never rests on it."""


@dataclass(slots=True, eq=False)
class SavedAnswers(Feature):
    """What a frame that is saved asks again in each call, for it is saved without such guards.

    Attributes:
        asked: functions without arguments, each with what it gave.
    """

    asked: list[tuple[Callable[[], Any], object]] = field(default_factory=list)

    def on_commit(self, compilation: Compilation) -> bool:
        return bool(self.asked)


def _answer(
    callee: KnownCalleeVariable, tx: Translator, function: object, args: Args, kwargs: Keywords
) -> VariableTracker | None:
    """The answer of a probe, guarded on; None if the function is no probe.

    Raises:
        Refused: the frame may be told something else than a guard at its beginning.
    """
    if why := why_fleeting(function):
        raise Refused("probe-not-fixed", why)
    probe = probe_of(function)
    if probe is None or args or kwargs:
        return None
    if not probe.fixed:
        _check_unset(tx, callee.compilation.trace)
    value = answer_of(probe.ask)
    if type(value) not in (bool, int, str, type(None)):
        raise Refused("probe-not-fixed", "It gives no constant.")
    guard_on(probe.name, probe.ask, value)
    result: VariableTracker = ConstantVariable.create(value)
    return result


probed = known_call("probe", _answer)


def answer_of(ask: Callable[[], Any]) -> Any:
    """The answer, or that there is none."""
    try:
        return ask()
    except Exception as error:
        pass_on(error)
        return NO_ANSWER


def guard_on(name: str, ask: Callable[[], Any], answer: Hashable) -> None:
    """Compile anew if a function without arguments gives something else at the frame's beginning.

    Args:
        name: names the question; the same for the same question.
        ask: the function; what it gives is compared by type and value.
        answer: what it gave to the trace.
    """
    compilation = current()
    if compilation is not None and compilation.is_saved:
        ask_in_each_call(compilation.trace, ask, answer)
        return
    again = Slice(name, (), partial(answer_of, ask))
    install_guard(HoistedSource(name, again).make_guard(_matching(answer)))


@lru_cache(typed=True)
def _matching(answer: Hashable) -> Callable[..., None]:
    """The maker of a guard on an answer, the same for the same one: Dynamo makes it once then."""
    return partial(_match, answer=answer)


def _match(builder: Any, guard: Guard, answer: object) -> None:
    """Guard on an answer, unless it has become another one while the frame was compiled."""
    found = builder.get(guard)
    if type(found) is not type(answer) or found != answer:
        raise exc.Unsupported(f"{guard.name} has another answer now.", "Guard failed")
    builder.CONSTANT_MATCH(guard)


def ask_in_each_call(trace: Trace, ask: Callable[[], Any], answer: object) -> None:
    """Have a frame that is saved run its original code where something answers otherwise.

    Args:
        trace: the attempt.
        ask: a function that can be pickled.
        answer: what it gives now; compared by type and value.
    """
    trace.of(SavedAnswers).asked.append((ask, answer))


def _check_unset(tx: InstructionTranslatorBase, trace: Trace) -> None:
    """Refuse where the frame may have changed the setting, or where eager Python would not ask."""
    if is_cached(trace):
        raise Refused("probe-not-fixed", "It is asked in a function that caches its results.")
    for node in tx.output.graph.nodes:
        if sets_a_mode(node):
            raise Refused("probe-not-fixed", f"{node} sets something before it.")
