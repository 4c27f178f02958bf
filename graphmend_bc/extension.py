"""What a library or a kind of model needs to be mended, as one value that can be registered."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from graphmend_bc.catalog.first_use import KnownPreparation, register_preparation
from graphmend_bc.catalog.observers import Observers, register_observers
from graphmend_bc.dynamo.deferral.deferred_calls import KnownCallee, register_callee
from graphmend_bc.dynamo.patches.seam import Seam, register_seam
from graphmend_bc.registration import Registration
from graphmend_bc.rules.registry import register_rule
from graphmend_bc.rules.rule import Rule


@dataclass(frozen=True)
class Extension:
    """Ways to mend that belong together.

    Attributes:
        name: of what they serve.
        rules: ways to mend breaks.
        observers: functions that only observe, by module and qualified name.
        names: other names under which what is deferred is usually called.
        callees: what becomes of callees that a plain note for later does not do for.
        preparations: functions that prepare something the first time it is used.
        seams: attributes of torch to replace while mending is on.

    Example:
        >>> from graphmend_bc.catalog.observers import CALLED, Observer
        >>> mine = Extension("mine", observers={("mine", "tell"): Observer(CALLED)})
        >>> handle = register(mine)
        >>> handle.remove()
    """

    name: str
    rules: tuple[Rule, ...] = ()
    observers: Observers = field(default_factory=dict)
    names: frozenset[str] = frozenset()
    callees: tuple[KnownCallee, ...] = ()
    preparations: tuple[KnownPreparation, ...] = ()
    seams: tuple[Seam, ...] = ()


def register(extension: Extension) -> Registration:
    """Mend what an extension serves, in frames compiled from now on.

    Seams are put in the next time that mending is switched on.

    Args:
        extension: what it takes.

    Returns:
        A handle; `handle.remove()` takes all of it out again.

    Raises:
        ValueError: the name of a rule is taken. Nothing is registered then.

    Example:
        >>> from graphmend_bc.catalog.observers import CALLED, Observer
        >>> handle = register(Extension("mine", observers={("mine", "say"): Observer(CALLED)}))
        >>> handle.remove()
    """
    parts: tuple[tuple[Callable[[Any], Registration], Iterable[object]], ...] = (
        (register_rule, extension.rules),
        (lambda observers: register_observers(observers, extension.names), [extension.observers]),
        (register_callee, extension.callees),
        (register_preparation, extension.preparations),
        (register_seam, extension.seams),
    )
    with ExitStack() as registered:
        for register_one, values in parts:
            for value in values:
                registered.callback(register_one(value).remove)
        return Registration(registered.pop_all().close)
