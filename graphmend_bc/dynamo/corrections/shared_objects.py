"""One object that a frame reaches in two ways, by a local name and by a global one.

Dynamo keeps one object of it, and guards that both ways lead to the same one only if both are local
or both are global, and neither way is by an optimizer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch._dynamo import config
from torch._dynamo.guards import GuardBuilder
from torch._dynamo.source import is_from_optimizer_source
from torch._guards import Guard, Source

from graphmend_bc.dynamo.calls.trained_parameters import TrainedParameters
from graphmend_bc.dynamo.graph.lambda_guards import asking, guard_by
from graphmend_bc.dynamo.trace.compilation import current


def guard_shared_objects(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`make_dupe_guard`: the guard on an object that was met before."""

    def make_dupe_guard(obj_source: Source, dupe_source: Source | None) -> Any:
        guard, compilation = stock(obj_source, dupe_source), current()
        if dupe_source is None or dupe_source == obj_source or compilation is None:
            return guard
        if guard is None:
            return partial(GuardBuilder.DUPLICATE_INPUT, source_b=dupe_source)
        # Stock has no frame that uses a model and its optimizer, and leaves this guard out.
        if is_from_optimizer_source(obj_source) is not is_from_optimizer_source(dupe_source):
            names = obj_source.name, dupe_source.name
            compilation.trace.of(TrainedParameters).shared.update(names)
            if config.use_lamba_guard_for_object_aliasing:
                return partial(_ask_at_end, other=dupe_source)
            same = f"{obj_source.name} is {dupe_source.name}"
            guard_by(asking(same, {}), same)
        return guard

    return make_dupe_guard


def _ask_at_end(builder: Any, guard: Guard, other: Source) -> None:
    """Ask it in one function with all such questions: a model has many parameters."""
    same = f"{other.name} is {guard.name}"
    builder.object_aliasing_guard_codes.append((same, same))
