"""What `itertools.groupby` gives: iterators that Dynamo traces in Python, of their own types.

They can be iterated over and asked for their type; nothing else is known of them, and they cannot
leave the frame.
"""

from __future__ import annotations

import itertools
from typing import Any, ClassVar, cast

from torch._dynamo import variables as vts
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.functions import LocalGeneratorObjectVariable
from torch._dynamo.variables.iter import IteratorVariable

from graphmend_bc.contrib.groupby import groups
from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.calls.known_calls import KnownCalleeVariable
from graphmend_bc.dynamo.trace.tracing import inline

_GROUP: type = type(next(itertools.groupby((0,)))[1])


@facts.with_slots
class GroupsVariable(IteratorVariable):
    """An iterator over groups, or over the items of one.

    Args:
        generator: what it is in `groups.py`.
        kind: its type.
    """

    _nonvar_fields: ClassVar[set[str]] = {"kind", *IteratorVariable._nonvar_fields}  # type: ignore[misc]

    def __init__(self, generator: VariableTracker, kind: type, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.generator = generator
        self.kind = kind

    def python_type(self) -> type:
        return self.kind

    def next_variable(self, tx: InstructionTranslatorBase) -> VariableTracker:
        """The next group with its key, or the next item."""
        given = vts.BuiltinVariable(next).call_function(tx, [self.generator], {})
        if self.kind is _GROUP:
            return given
        key, group = cast(vts.TupleVariable, given).items
        return vts.TupleVariable([key, GroupsVariable(group, _GROUP)])


def grouped(
    callee: KnownCalleeVariable, tx: Translator, function: object, args: Args, kwargs: Keywords
) -> VariableTracker | None:
    """What `itertools.groupby` gives; None if its items may go on after their end."""
    del callee
    if function is not itertools.groupby:
        return None
    items = args[0] if args else kwargs.get("iterable")
    if items is None or not isinstance(items.realize(), _END_FOR_GOOD):
        return None
    return GroupsVariable(inline(tx, groups.groupby, *args, **kwargs), itertools.groupby)


_END_FOR_GOOD = (
    vts.BaseListVariable,
    vts.ConstDictVariable,
    vts.ConstantVariable,
    LocalGeneratorObjectVariable,
)
"""An iterator over these, once it gave nothing, gives nothing more."""
