"""Pickles of plain values, which libraries use as keys of what they remember."""

from __future__ import annotations

import pickle
from typing import Any, Final

from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.dicts import ConstDictVariable
from torch._dynamo.variables.lists import ListVariable, TupleVariable

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.calls.known_calls import KnownCalleeVariable, known_call
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule

_NUMBERS: Final = (bool, int, float, type(None))
_TEXTS: Final = (str, bytes)

_dumps: Final = pickle.dumps  # a program may put another function there


def _dumped(
    callee: KnownCalleeVariable, tx: Translator, function: object, args: Args, kwargs: Keywords
) -> VariableTracker | None:
    if function is not _dumps or len(args) != 1 or kwargs.keys() - {"protocol"}:
        return None
    protocol = None
    if "protocol" in kwargs:
        protocol = _Plain().value_of(kwargs["protocol"])
        if type(protocol) is not int or not 0 <= protocol <= pickle.HIGHEST_PROTOCOL:
            return None
    pickled = _dumps(_Plain().value_of(args[0]), protocol)
    result: VariableTracker = ConstantVariable.create(pickled)
    return result


class _Plain:
    """Makes a value of which only equality shows in its pickle.

    A pickle refers to what it has met before by its identity, which is not known of equal texts.
    """

    def __init__(self) -> None:
        self._met: set[object] = set()

    def value_of(self, value: VariableTracker) -> Any:
        """The Python value.

        Raises:
            Refused: it holds something else than plain values, or something that is equal twice.
        """
        value = value.realize()
        kind = type(value)
        if kind is ConstantVariable:
            return self._constant(value.as_python_constant())
        if kind not in (ConstDictVariable, ListVariable, TupleVariable) or (
            value.python_type() not in (dict, list, tuple)
        ):
            raise Refused("call-not-traced", f"A {value.python_type().__name__} is pickled.")
        self._meet(id(value))
        if isinstance(value, ConstDictVariable):
            items = [(key.vt, held) for key, held in value.items.items()]
            return {self.value_of(key): self.value_of(held) for key, held in items}
        assert isinstance(value, (ListVariable, TupleVariable))
        made: Any = value.python_type()(self.value_of(item) for item in value.items)
        if made and type(made) is tuple:
            self._meet(repr(made))
        return made

    def _constant(self, value: Any) -> Any:
        if type(value) in _TEXTS:
            self._meet((type(value), value))
        elif type(value) not in _NUMBERS:
            raise Refused("call-not-traced", f"A {type(value).__name__} is pickled.")
        if type(value) is float and (value == 0 or value != value):
            raise Refused("call-not-traced", "No guard tells a zero from another, or a NaN.")
        return value

    def _meet(self, part: object) -> None:
        if part in self._met:
            raise Refused("call-not-traced", "Its bytes tell which equal parts are the same.")
        self._met.add(part)


def _matches(site: BreakSite) -> Rewrites | None:
    return {site.offset: MarkCallee(in_order=False)} if site.callee == "dumps" else None


PICKLE = Rule(
    "pickle",
    "fold",
    9,
    _matches,
    frozenset({"Attempted to call function marked as skipped"}),
    handler=known_call("fold", _dumped),
)
"""`pickle.dumps` of plain values that the trace knows is a constant."""

RULES = (PICKLE,)
