"""What is called, and from where: the Python objects behind a call in a trace."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from inspect import CO_GENERATOR
from types import ClassMethodDescriptorType
from typing import Any, ClassVar

from torch._dynamo import variables as vts
from torch._dynamo.codegen import PyCodegen
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker

from graphmend_bc.code.resume_names import without_resumption
from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.calls.left_to_dynamo import is_left_to_dynamo
from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site
from graphmend_bc.runtime.deferral.call_places import CallPlace, is_machinery


@dataclass(slots=True, eq=False)
class GivenMarks(Feature):
    """Calls that an attempt made again with a mark.

    Attributes:
        sites: of the calls. The code that is traced has no mark there, or that of a rule that was
            refused.
    """

    stays: ClassVar[bool] = True

    sites: set[Site] = field(default_factory=set)


class MarkedCalleeVariable(VariableTracker):
    """The callee of a call that rewriting marked; outside a call it is the callee itself.

    Args:
        site: the call in the user's code.
        callee: what is called.
        compilation: what is being compiled.
    """

    _nonvar_fields: ClassVar[set[str]] = {"site", "compilation", *VariableTracker._nonvar_fields}  # type: ignore[misc]

    def __init__(
        self, site: Site, callee: VariableTracker, compilation: Compilation, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.site = site
        self.callee = callee
        self.compilation = compilation

    def python_type(self) -> type:
        return self.callee.python_type()

    def reconstruct(self, codegen: PyCodegen) -> None:
        codegen(self.callee)

    def call_function(self, tx: Translator, args: Args, kwargs: Keywords) -> VariableTracker:
        """What the mark makes of the call; if nothing, what stock Dynamo does."""
        value = None
        try:
            value = self.value(tx, args, kwargs)
        except Refused as refused:
            self.compilation.trace.refused[self.site] = refused
        return self.callee.call_function(tx, args, kwargs) if value is None else value

    def value(self, tx: Translator, args: Args, kwargs: Keywords) -> VariableTracker | None:
        """What the mark makes of the call, or None.

        Raises:
            Refused: it could not be shown to be exact.
        """
        raise NotImplementedError


def real_object(callee: VariableTracker) -> object:
    """The Python object behind a callee.

    Returns:
        None if it cannot be named again after the graph, or is none that we may know: the user has
        told Dynamo what becomes of its calls.
    """
    callee = callee.realize()
    found = _object_behind(callee)
    return None if found is None or is_left_to_dynamo(callee, found) else found


def _object_behind(callee: VariableTracker) -> object:
    if isinstance(callee, vts.BuiltinVariable):
        return callee.fn
    if callee.source is None:
        return None
    if (method := facts.bound_method(callee)) is not None:
        function, bound_to = method
        return _bound(bound_to, function)
    if (read := facts.method_read(callee)) is not None:
        value = _value_of(read[0])
        return None if value is None else getattr(value, read[1], None)
    for name in ("descriptor", "method_wrapper"):  # methods of built-in types
        if (descriptor := getattr(callee, name, None)) is not None:
            owner = owner_of(callee)
            return None if owner is None else _bound(owner, descriptor)
    for name in ("fn", "wrapper_obj", "value"):
        if (value := getattr(callee, name, None)) is not None:
            return value
    return None


def owner_of(callee: VariableTracker) -> VariableTracker | None:
    """The object a method is bound to."""
    callee = callee.realize()
    method = facts.bound_method(callee)
    owner = method[1] if method is not None else getattr(callee, "obj", None)
    return owner.realize() if isinstance(owner, VariableTracker) else None


def _value_of(owner: VariableTracker) -> object:
    try:
        return getattr(owner.realize(), "value", None)
    except NotImplementedError:  # of a list that holds a tensor
        return None


def name_of(callee: VariableTracker) -> str:
    """The name of a function or method, or the one under which it was loaded; empty if unknown."""
    found = [getattr(callee, "name", None)]
    found += [getattr(callee.source, at, None) for at in ("member", "global_name", "local_name")]
    found += [getattr(getattr(callee, "fn", None), "__name__", None)]
    return next((name for name in found if isinstance(name, str)), "")


def _bound(owner: VariableTracker, function: Any) -> object:
    value = _value_of(owner)
    if isinstance(function, ClassMethodDescriptorType) and isinstance(value, type):
        return function.__get__(None, value)
    return None if value is None else function.__get__(value)


def places(tx: InstructionTranslatorBase, site: Site) -> tuple[CallPlace, ...]:
    """The call at `site` and the calls around it that are being inlined, innermost first.

    An arm of a rewritten branch is a function only to us: it and the function it was cut out of
    are one place.

    Raises:
        Refused: one of the functions is a generator; Dynamo may run the rest of one that the
            program does not.
    """
    found: list[CallPlace] = []
    inner: InstructionTranslatorBase | None = None
    current: InstructionTranslatorBase | None = tx
    while current is not None:
        if current.f_code.co_flags & CO_GENERATOR:
            raise Refused("effect-in-generator")
        if not is_machinery(current.f_globals):
            if inner is None:
                found.append(_as_the_users(CallPlace.of_site(site, current.f_globals)))
            elif not _is_arm_of(inner, current):
                found.append(_as_the_users(_place(current)))
            inner = current
        current = current.parent
    return tuple(found)


def _as_the_users(place: CallPlace) -> CallPlace:
    """The place under the name that the user's function has, if it is a resumed part of it."""
    name, qualname = map(without_resumption, (place.name, place.qualname))
    return replace(place, name=name, qualname=qualname)


def _is_arm_of(inner: InstructionTranslatorBase, outer: InstructionTranslatorBase) -> bool:
    arms = [const for const in outer.f_code.co_consts if const is inner.f_code]
    return bool(arms) and arms[0].co_qualname == outer.f_code.co_qualname


def _place(tx: InstructionTranslatorBase) -> CallPlace:
    code, positions = tx.f_code, tx.current_instruction.positions
    lineno = (positions.lineno if positions is not None else None) or tx.lineno
    return CallPlace(code.co_filename, code.co_name, code.co_qualname, lineno, tx.f_globals)
