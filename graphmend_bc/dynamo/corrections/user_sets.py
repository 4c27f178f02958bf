"""Sets of a class of the user's that were there before the function.

Dynamo traces what is added to them and removed, and changes their attributes after the graph, but
not what they hold. Where stock breaks the graph at a call in their methods, nothing is lost; where
the call is mended, it would be.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch._dynamo.codegen import PyCodegen
from torch._dynamo.side_effects import SideEffects
from torch._dynamo.variables.base import AttributeMutationExisting, VariableTracker
from torch._dynamo.variables.user_defined import UserDefinedSetVariable

from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.trace.compilation import current


def replay_sets(stock: Callable[..., None]) -> Callable[..., None]:
    """`SideEffects.codegen_update_mutated`, for such sets as well."""

    def update(self: SideEffects, codegen: PyCodegen, *args: Any, **kwargs: Any) -> None:
        for variable in self._get_modified_vars() if current() is not None else ():
            kept = isinstance(variable.mutation_type, AttributeMutationExisting)
            if kept and isinstance(variable, UserDefinedSetVariable):
                items = facts.items_of_set(variable)
                if self.is_modified(items):
                    _replace(codegen, variable, items)
        stock(self, codegen, *args, **kwargs)

    return update


def _replace(codegen: PyCodegen, variable: UserDefinedSetVariable, items: VariableTracker) -> None:
    codegen.add_push_null(lambda: codegen.load_import_from(__name__, "hold"))
    codegen(variable.source)
    codegen(items, allow_cache=False)  # what it holds now, not what it held
    codegen.call_function(2, False)
    codegen.pop_top()


def hold(kept: set[object], items: Iterable[object]) -> None:
    """Replace the items of a set, whatever methods its class has.

    Args:
        kept: the set.
        items: what it holds from now on.
    """
    set.clear(kept)
    set.update(kept, items)
