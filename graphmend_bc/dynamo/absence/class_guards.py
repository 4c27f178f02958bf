"""One guard on what classes hold that no guard of Dynamo's reaches."""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import torch
from torch._dynamo.guards import install_guard
from torch._dynamo.source import GlobalStateSource
from torch._guards import Guard

from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.dynamo.trace.features import Feature

_ABSENT: Final = object()


@dataclass(slots=True, eq=False)
class ClassGuards(Feature):
    """What an attempt learned of classes that Dynamo's own guards do not reach.

    Attributes:
        slots: the operators that classes were asked for, which have these.
        unplaced: names that were looked up in such classes, each with the base at which the search
            began.
    """

    order: ClassVar[int] = 90  # what ends the graph may learn more
    stays: ClassVar[bool] = True

    slots: dict[type, Any] = field(default_factory=dict)
    unplaced: set[tuple[type, str, int]] = field(default_factory=set)

    def on_graph_end(self, compilation: Compilation, tx: Any, is_break: bool) -> None:
        """Guard on the classes, if the frame is mended."""
        if not compilation.is_mended:
            return
        slots = [(weakref.ref(kind), slots) for kind, slots in self.slots.items()]
        names = [(weakref.ref(asked[0]), *asked[1:], _found(*asked)) for asked in self.unplaced]

        def unchanged(_scope: Any) -> bool:
            for place, known in slots:
                if (kind := place()) is None or type_slots(kind) != known:
                    return False
            for place, name, start, known in names:
                if (kind := place()) is None or _found(kind, name, start) is not known:
                    return False
            return True

        def make(builder: Any, guard: Guard) -> None:
            what = ["classes have the special methods that they had"]
            builder.guard_manager.root.add_lambda_guard(unchanged, what, guard.user_stack)

        install_guard(GlobalStateSource().make_guard(make))


def type_slots(kind: type) -> Any:
    """The operators that a type has now."""
    return torch._C._dynamo.get_type_slots(kind)


def _found(kind: type, name: str, start: int) -> object:
    for klass in kind.__mro__[start:]:
        if (found := vars(klass).get(name, _ABSENT)) is not _ABSENT:
            return found
    return _ABSENT
