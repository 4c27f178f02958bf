"""Texts of the user's objects, made where the program makes them.

Dynamo makes the text of an object while it traces, of what the object is then and without a guard,
or after the graph. Either may be another text than the program's. A frame that is mended and in
which that may be so is traced anew, and then the code that makes the text is traced as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from string import Formatter
from typing import Any, ClassVar, NoReturn

from torch._dynamo import exc
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.misc import StringFormatVariable
from torch._dynamo.variables.tensor import TensorVariable
from torch._dynamo.variables.user_defined import UserDefinedObjectVariable
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils._pytree import tree_leaves

from graphmend_bc.catalog.observers import PRINT_BREAK
from graphmend_bc.dynamo.deferral.accumulated_state import AccumulatedState
from graphmend_bc.dynamo.deferral.tensor_formatting import FORMAT_ERRORS
from graphmend_bc.dynamo.host_values.argument_snapshots import (
    Snapshots,
    formatted_in,
    is_container,
    lasts,
)
from graphmend_bc.dynamo.host_values.host_reads import is_plain
from graphmend_bc.dynamo.host_values.passed_objects import has_changed_something, is_fixed
from graphmend_bc.dynamo.host_values.text_settings import is_moved
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused, TextsMoved, current
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime.objects import only_reads

_TEXTS = frozenset([str, repr, format, str.format])
_CONVERSIONS: dict[str | None, Any] = {"s": str, "r": repr}


class FoldedTexts(Feature):
    """Dynamo made the text of an object while it traced."""

    __slots__ = ()

    order: ClassVar[int] = 70

    def on_graph_end(
        self, compilation: Compilation, tx: InstructionTranslatorBase, is_break: bool
    ) -> None:
        """Trace a frame anew if such a text is a constant of a mended graph.

        Raises:
            TextsMoved: it is.
        """
        if _is_mended(compilation):
            raise TextsMoved


def call_builtin(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`BuiltinVariable.call_function` for functions that make texts."""

    def call(
        self: Any,
        tx: InstructionTranslatorBase,
        args: Sequence[VariableTracker],
        kwargs: dict[str, VariableTracker],
    ) -> Any:
        compilation = current() if self.fn in _TEXTS else None
        if compilation is None or not compilation.may_mend or not args:
            _check_shows(compilation, self.fn, args)
            return stock(self, tx, args, kwargs)
        value: Any = args[0].realize()
        if self.fn is format and isinstance(value, UserDefinedObjectVariable):
            return _formatted(tx, value, args[1:])  # stock fails
        if self.fn is str.format:
            if compilation.exact_texts:
                args = _with_texts(tx, compilation, args, kwargs)
            try:
                return stock(self, tx, args, kwargs)
            except FORMAT_ERRORS as error:  # of constants, at once
                raise exc.Unsupported("The format does not take a value.", PRINT_BREAK) from error
        elif len(args) == 1 and _is_folded(self.fn, value):
            if compilation.exact_texts:
                return _text(tx, value, self.fn)
            if compilation.may_take_part and not only_reads(value.value):
                raise TextsMoved  # before that code is run for real
            compilation.trace.of(FoldedTexts)
        return stock(self, tx, args, kwargs)

    return call


def reconstruct_text(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`StringFormatVariable.reconstruct`: the text is made after the graph."""

    def reconstruct(self: Any, codegen: Any) -> None:
        compilation = current()
        if compilation is not None and compilation.may_mend and _is_mended(compilation):
            trace = compilation.trace
            if is_moved(trace, self) and trace.used:
                raise SiteRefused(Refused("effect-settings"), *trace.used)
            snapshots = trace.known(Snapshots)
            kept = snapshots is not None and any(self is text for text in snapshots.texts)
            values = [value.realize() for value in (*self.sym_args, *self.sym_kwargs.values())]
            if not kept and any(_may_be_late(compilation, codegen.tx, value) for value in values):
                if not compilation.exact_texts:
                    raise TextsMoved
                refused = Refused("effect-argument", "Its text is made later than eager makes it.")
                if trace.used:
                    raise SiteRefused(refused, *trace.used)
        stock(self, codegen)

    return reconstruct


def _is_mended(compilation: Compilation) -> bool:
    return bool(compilation.trace.used) or compilation.follows


def _check_shows(
    compilation: Compilation | None, function: Any, args: Sequence[VariableTracker]
) -> None:
    """Break where stock makes a constant of a text that shows the fake tensors of a trace."""
    if compilation is None or not (compilation.as_stock and compilation.leaves and args):
        return
    value: Any = args[0].realize()
    if _is_folded(function, value) and any(
        isinstance(leaf, FakeTensor) for leaf in tree_leaves(value.value)
    ):
        raise exc.Unsupported("The text would show what the trace runs on.", PRINT_BREAK)


def _is_folded(function: Any, value: VariableTracker) -> bool:
    """True for an object whose text Dynamo makes while it traces."""
    if not isinstance(value, UserDefinedObjectVariable) or value.is_python_constant():
        return False
    kind: Any = type(value.value)
    if function is repr:
        return kind.__repr__ is object.__repr__
    return function is str and kind.__str__ is object.__str__


def _shows_object(compilation: Compilation, value: VariableTracker) -> bool:
    """True for a value whose text Dynamo makes after the graph, of what it is then."""
    value = value.realize()
    if lasts(value) or isinstance(value, StringFormatVariable) or is_fixed(value):
        return False
    if value.is_python_constant() or any(value is made for made in formatted_in(compilation.trace)):
        return False
    if is_container(value):
        return any(_shows_object(compilation, item) for item in _items(value))
    return True


def _items(value: Any) -> list[VariableTracker]:
    items = value.items
    return list(items.values()) if isinstance(items, dict) else list(items)


def _may_be_late(compilation: Compilation, tx: Any, value: VariableTracker) -> bool:
    """True if a value's text may be another one after the graph, or makes more than a text."""
    recorder = compilation.trace.recorder
    if not _shows_object(compilation, value):
        return False
    written = recorder is None or bool(recorder.written)
    if isinstance(value, TensorVariable):
        return written
    if is_container(value):
        return any(_may_be_late(compilation, tx, item.realize()) for item in _items(value))
    found = getattr(value, "value", None)
    if found is not None and _is_bare(type(found)):
        return False
    changed = value.source is None or written or has_changed_something(tx)
    changed |= compilation.trace.known(AccumulatedState) is not None
    return changed or not only_reads(found)


def _is_bare(kind: Any) -> bool:
    """True for classes whose texts are nothing but the class and an address."""
    return kind.__repr__ is object.__repr__ and kind.__str__ is object.__str__


def _text(tx: InstructionTranslatorBase, value: Any, function: Any) -> VariableTracker:
    """What `str` or `repr` make of an object now."""
    kind: Any = type(value.value)
    if function is str and kind.__str__ is not object.__str__:
        shown: VariableTracker = BuiltinVariable(str).call_function(tx, [value], {})
        return shown
    if kind.__repr__ is object.__repr__:
        return StringFormatVariable("{!r}", [value], {})
    made: VariableTracker = value.call_method(tx, "__repr__", [], {})
    return made


def _formatted(
    tx: InstructionTranslatorBase, value: Any, specs: Sequence[VariableTracker] = ()
) -> VariableTracker:
    """What `format` makes of an object now."""
    kind: Any = type(value.value)
    if kind.__format__ is not object.__format__:
        args = list(specs) or [ConstantVariable.create("")]
        made: VariableTracker = value.call_method(tx, "__format__", args, {})
        return made
    if any(not spec.is_python_constant() or spec.as_python_constant() for spec in specs):
        _break("asks an object for more than its text")
    return _text(tx, value, str)


def _with_texts(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    args: Sequence[VariableTracker],
    kwargs: dict[str, VariableTracker],
) -> Sequence[VariableTracker]:
    """The arguments of `str.format` with the texts of objects in the place of the objects."""
    values = [arg.realize() for arg in args[1:]]
    shows = [
        not is_plain(value) and _shows_object(compilation, value)
        for value in (*values, *(value.realize() for value in kwargs.values()))
    ]
    if not any(shows):
        return args
    template = args[0].realize()
    if kwargs or not template.is_python_constant():
        _break("names its fields")
    pieces = list(Formatter().parse(template.as_python_constant()))
    if sum(piece[1] is not None for piece in pieces) != len(values):
        _break("has other fields than arguments")
    filled, left = "", iter(zip(values, shows, strict=True))
    texts: list[VariableTracker] = []
    for literal, name, spec, conversion in pieces:
        filled += literal.replace("{", "{{").replace("}", "}}")
        if name is None:
            continue
        value, shown = next(left)
        if name:
            _break("names its fields")
        if not shown:
            filled += f"{{!{conversion}:{spec}}}" if conversion else f"{{:{spec}}}"
        elif spec or conversion == "a" or not isinstance(value, UserDefinedObjectVariable):
            _break("asks an object for more than its text")
        else:
            filled += "{}"
            by = _CONVERSIONS.get(conversion)
            value = _formatted(tx, value) if by is None else _text(tx, value, by)
        texts.append(value)
    return [ConstantVariable.create(filled), *texts]


def _break(what: str) -> NoReturn:
    raise exc.Unsupported(f"graphmend_bc makes no text by a format that {what}.", PRINT_BREAK)
