"""Guards that ask a function of ours, in every call of a frame, what Dynamo's own do not ask."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from torch._dynamo import guards
from torch._dynamo.guards import install_guard
from torch._dynamo.source import GlobalStateSource
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._guards import Guard, Source

from graphmend_bc.runtime.signal_handlers import pass_on

Reader = Callable[[Any, Any], tuple[Any, ...]]
"""From the locals and the globals of a frame to objects that it finds there."""


def reader(places: Iterable[Source]) -> Reader:
    """A function that looks places up; what lies on the way to more than one, once.

    Args:
        places: sources of objects that were there before the frame.
    """
    shared, tuple_ = guards.PyExprCSEPass(), f"({''.join(f'{place.name}, ' for place in places)})"
    shared.count([tuple_])
    first, value = shared.replace(tuple_)
    lines = "".join(f"    {line}\n" for line in first)
    scope: dict[str, Any] = dict(guards._get_closure_vars())
    exec(f"def read(L, G):\n{lines}    return {value}\n", scope)
    found: Reader = scope["read"]
    return found


def value_at(tx: InstructionTranslatorBase, place: Source) -> Any:
    """The object at a place, as it is before the frame runs."""
    root = tx.output.root_tx
    return asking(place.name, {})(root.f_locals, root.f_globals)


def asking(expression: str, given: Mapping[str, Any]) -> Callable[[Any, Any], Any]:
    """A function of the locals and the globals of a frame, which are L and G in an expression.

    Args:
        expression: may name places, as sources do.
        given: other names in it.
    """
    found: Callable[[Any, Any], Any] = eval(
        f"lambda L, G: {expression}", {**guards._get_closure_vars(), **given}
    )
    return found


def guard_by(holds: Callable[[Any, Any], bool], says: str) -> None:
    """Compile anew where a function says no, or raises.

    Args:
        holds: from the locals and the globals of a frame, as it begins.
        says: what it asks, for Dynamo's log of recompilations.
    """

    def make(builder: Any, guard: Guard) -> None:
        scope = builder.scope["G"]

        def still_holds(local: Any) -> bool:
            try:
                return holds(local, scope)
            except Exception as error:
                pass_on(error)
                return False

        builder.guard_manager.root.add_lambda_guard(still_holds, [says], guard.user_stack)

    install_guard(GlobalStateSource().make_guard(make))
