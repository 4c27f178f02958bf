"""The arguments of a progress bar that is made after the graph."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, cast

from torch._dynamo import exc
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.lists import TupleVariable
from torch._dynamo.variables.misc import StringFormatVariable
from torch._dynamo.variables.user_defined import UserDefinedObjectVariable

from graphmend_bc.contrib.tqdm.bars import complaint
from graphmend_bc.contrib.tqdm.catalog import Bar, makes_bar
from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.host_values.argument_snapshots import Snapshotter, as_dict, kept_stream
from graphmend_bc.dynamo.host_values.passed_objects import is_fixed
from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.reporting.reasons import Refused

_POSITIONAL = ("iterable", "desc", "total")
_KEPT: Final = {"desc": "", "total": 2, "initial": 0, "postfix": {}}
"""Arguments that need not be constants, with what a trial takes in their place."""

_KINDS = {"desc": (str,), "total": (int, float), "initial": (int, float), "postfix": (dict, str)}
"""Their types; a bar would keep other objects, and show what became of them."""

_SETTINGS = frozenset(
    (
        *("leave", "position", "disable", "delay", "gui", "lock_args", "write_bytes"),
        *("mininterval", "maxinterval", "miniters", "smoothing"),
        *("ncols", "nrows", "dynamic_ncols", "ascii", "colour", "bar_format"),
        *("unit", "unit_scale", "unit_divisor"),
    )
)


@dataclass(frozen=True, slots=True)
class BarArguments:
    """What a program makes a bar of.

    Attributes:
        iterable: what the bar goes over; None if it has nothing to go over.
        length: how many items that has, or None, as far as the bar asks for it.
        others: all other arguments, as they are now.
    """

    iterable: VariableTracker | None
    length: VariableTracker
    others: dict[str, VariableTracker]

    def for_stand(self) -> TupleVariable:
        """The arguments of `Stand.make`."""
        has_items = ConstantVariable.create(self.iterable is not None)
        return TupleVariable([has_items, self.length, as_dict(self.others)])

    def complaint(self, made: Bar) -> str:
        """What is wrong with them; empty if a bar can be made of them and shown."""
        length = self.length.as_python_constant() if self.length.is_python_constant() else 2
        others = {
            name: value.as_python_constant() if value.is_python_constant() else _KEPT[name]
            for name, value in self.others.items()
            if name != "file"
        }
        return complaint(made.kind, self.iterable is not None, length, others)


def arguments(
    tx: Translator, compilation: Compilation, made: Bar, args: Args, kwargs: Keywords
) -> BarArguments:
    """The arguments of a bar, as they will still be after the graph.

    Args:
        tx: translator of the frame that makes the bar.
        compilation: what is being compiled.
        made: the class of the bar.
        args, kwargs: as the program gives them.

    Raises:
        Refused: they may be others after the graph, or a bar cannot be made of them.
    """
    if len(args) > len(_POSITIONAL) or not kwargs.keys().isdisjoint(_POSITIONAL[: len(args)]):
        raise Refused("effect-argument", "It is given by its position.")
    given = {**dict(zip(_POSITIONAL, args, strict=False)), **kwargs}
    iterable = _present(given.pop("iterable", None))
    others = _kept(tx, compilation, given)
    length: VariableTracker = ConstantVariable.create(None)
    if iterable is not None:
        _check_iterable(iterable, made)
        if _present(given.get("total")) is None:
            length = _length(tx, iterable)
    found = BarArguments(iterable, length, others)
    if problem := found.complaint(made):
        raise Refused("effect-argument", problem)
    return found


def _present(value: VariableTracker | None) -> VariableTracker | None:
    """The value of an argument; None if it is not given, or given as None."""
    value = None if value is None else value.realize()
    return None if value is None or value.is_constant_none() else value


def _kept(
    tx: InstructionTranslatorBase, compilation: Compilation, given: dict[str, VariableTracker]
) -> dict[str, VariableTracker]:
    keep, kept = Snapshotter(tx, compilation), dict[str, VariableTracker]()
    for name, value in given.items():
        value = value.realize()
        if name == "file":
            kept[name] = kept_stream(value)
        elif name in _KEPT and issubclass(_kind(value), (*_KINDS[name], type(None))):
            kept[name] = keep(value)
        elif name in _SETTINGS and is_fixed(value):
            kept[name] = value
        else:
            raise Refused("effect-argument", f"It is the argument '{name}' of a bar.")
    return kept


def _kind(value: VariableTracker) -> type:
    """The type of a value; some versions of Dynamo know none for a text."""
    return str if isinstance(value, StringFormatVariable) else value.python_type()


def _check_iterable(iterable: VariableTracker, made: Bar) -> None:
    """Refuse another bar, and what is asked for an iterator twice if that may do anything."""
    kind: Any = iterable.python_type()
    if makes_bar(kind) or (
        made.asks_twice
        and isinstance(iterable, UserDefinedObjectVariable)
        and not hasattr(kind, "__next__")
        and not str(kind.__module__).startswith("torch.nn.")
    ):
        raise Refused("effect-argument", f"The bar goes over an object of {kind.__name__}.")


def _length(tx: InstructionTranslatorBase, iterable: VariableTracker) -> VariableTracker:
    if not hasattr(iterable.python_type(), "__len__"):
        return ConstantVariable.create(None)
    try:
        length = VariableTracker.build(tx, len)
        return cast(VariableTracker, length.call_function(tx, [iterable], {}).realize())
    except exc.ObservedException as error:
        raise Refused("effect-argument", "The length of what a bar goes over raises.") from error
