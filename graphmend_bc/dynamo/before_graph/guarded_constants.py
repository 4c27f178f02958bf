"""Answers of probes: constants of the trace, with guards that ask again."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, Final

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
    if function is threading.get_ident:
        return _thread(callee, tx)
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


def _thread(callee: KnownCalleeVariable, tx: Translator) -> VariableTracker:
    """The thread's number, where the function only asks whether a dict among the globals has it.

    A guard asks the same question, so that not each thread is compiled for.

    Raises:
        Refused: another use is made of it, or the function may have changed the dict.
    """
    following = tx.instructions[tx.instruction_pointer or 0 :][:2]
    is_question = [each.opname for each in following] == ["LOAD_GLOBAL", "CONTAINS_OP"]
    name = following[0].argval if is_question else ""
    table: Any = tx.f_globals.get(name)
    if type(table) not in (dict, defaultdict) or callee.compilation.is_saved:
        raise Refused("probe-not-fixed", "It is another number in each thread.")
    _check_unset(tx, callee.compilation.trace)
    effects = tx.output.side_effects
    if table in effects and effects.is_modified(effects[table]):
        raise Refused("probe-not-fixed", f"The function has changed '{name}'.")
    if _NO_THREAD in table:
        raise Refused("probe-not-fixed", f"'{name}' has keys that are no threads.")
    ask = partial(_has_thread, tx.f_globals, name)
    has = answer_of(ask)
    guard_on(f"thread in {name} of {id(tx.f_globals)}", ask, has)
    # Dynamo guards on the number as a key, which is to hold whichever thread calls.
    number: VariableTracker = ConstantVariable.create(threading.get_ident() if has else _NO_THREAD)
    return number


_NO_THREAD: Final = -1
"""No thread's number."""


def _has_thread(scope: Mapping[str, Any], name: str) -> bool:
    return threading.get_ident() in scope[name]


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
