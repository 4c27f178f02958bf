"""Variables that stand for a value which the trace does not have: no question has an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn, cast

from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker

from graphmend_bc.dynamo import facts

_METHODS = (
    "as_proxy",
    "call_function",
    "call_method",
    "call_obj_hasattr",
    "const_getattr",
    "unpack_var_sequence",
    "var_getattr",
)


class OpaqueIterable:
    """A value of which the trace knows only how to go over it."""

    def tp_iter_impl(self, tx: InstructionTranslatorBase) -> VariableTracker:
        """`iter(value)`."""
        raise NotImplementedError


class KnownTruth:
    """A value of which the trace knows whether it is true."""

    def truth(self) -> bool:
        """`bool(value)`."""
        raise NotImplementedError

    def refuse(self, use: str) -> NoReturn:
        """Give the value up: it is asked something else."""
        raise NotImplementedError


def known_truth_among(values: Iterable[VariableTracker]) -> KnownTruth | None:
    """The first of such values; nothing is realized."""
    for value in values:
        if issubclass(type(value), KnownTruth):  # isinstance() realizes lazy variables
            return cast(KnownTruth, value)
    return None


def refuse_questions(kind: type[Any], answered: Iterable[str] = ()) -> None:
    """Let a class of variables refuse whatever a version of Dynamo asks of a value.

    Args:
        kind: has a method `refuse(name)` that raises.
        answered: methods that stay as the class has them.
    """
    answered = facts.all_names(answered)
    for name in {*facts.slots(), *facts.all_names(_METHODS)} - answered:
        setattr(kind, name, _refusing(name))
    facts.hide_tables(kind)


def _refusing(name: str) -> Callable[..., Any]:
    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.refuse(name)

    return method
