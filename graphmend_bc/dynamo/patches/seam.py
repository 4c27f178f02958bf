"""A seam: one attribute of torch that is replaced, as data, and the places where it is found."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from graphmend_bc.dynamo.patches.capabilities import ESSENTIAL
from graphmend_bc.registration import Registration, Registry
from graphmend_bc.versions import MissingSeamError

ABSENT: Final = object()
"""What a place holds that has no value of its own; putting it there deletes the value."""


@dataclass(frozen=True, slots=True)
class Seam:
    """What is replaced, by what, and why.

    Attributes:
        owner: "module" or "module:Class", whose own attribute is replaced; or "module:dict", whose
            entry is.
        names: of the attribute, or the key of the entry. If there are more, releases of torch
            differ in the name: all that are there are replaced, and there must be one.
        make: makes our value of torch's; for a seam that is not `replaced`, what replaces it in
            single objects.
        why: what is done there.
        adds: True if nothing need be there; `make` is given None then.
        stays: True if it is left in place when mending is switched off.
        needed_by: capabilities of rules, and features, that rest on it; see `capabilities.py`.
        also: more owners of the same, each with a name; those that this torch has are replaced.
        inherited: True if a class that only inherits it gets it for itself alone.
        replaced: False if it must be there, but only objects of one attempt have it replaced.
        outermost: True if nothing of ours is called around it: after an error of ours, stock's own
            is called.
        contains_itself: True if no error of ours leaves it; a frame around it costs too much.
    """

    owner: str
    names: tuple[Any, ...]
    make: Callable[..., Any]
    why: str
    adds: bool = False
    stays: bool = False
    needed_by: tuple[str, ...] = ESSENTIAL
    also: tuple[tuple[str, str], ...] = ()
    inherited: bool = False
    replaced: bool = True
    outermost: bool = False
    contains_itself: bool = False

    def places(self) -> list[SeamPlace]:
        """Where it goes in this torch.

        Raises:
            MissingSeamError: this torch has nothing of that name.
        """
        where = self.owner.replace(":", ".")
        try:
            owner = _resolve(self.owner)
        except (ImportError, AttributeError) as error:
            raise MissingSeamError(f"has no {where}") from error
        places = [SeamPlace(owner, name, where) for name in self.names]
        found = [place for place in places if self.adds or place.value() is not ABSENT]
        if self.inherited:
            found = found or [place for place in places if place.is_inherited()]
        if not found:
            raise MissingSeamError(f"has no {' or '.join(map(str, places))}")
        more = [SeamPlace(_resolve(at), name, at.replace(":", ".")) for at, name in self.also]
        return found + [place for place in more if place.value() is not ABSENT]

    @property
    def label(self) -> str:
        """A name for it: the attribute, and the function of ours that is put there."""
        ours: Any = self.make
        while isinstance(ours, functools.partial):
            ours = ours.func
        module = ours.__module__.rpartition(".")[2]
        owner = self.owner.replace(":", ".").rpartition(".")[2]
        return f"{owner}.{self.names[0]} ({module}.{ours.__name__})"


registered: Final = Registry[Seam]()
"""Seams besides those of the table."""


def register_seam(seam: Seam) -> Registration:
    """Replace an attribute of torch, from the next time on that mending is switched on.

    Args:
        seam: what is replaced, by what, and why.

    Returns:
        A handle; after `handle.remove()` it is not replaced the next time.
    """
    return registered.add(seam)


@dataclass(frozen=True, slots=True)
class SeamPlace:
    """An attribute of a class or module, or an entry of a dict.

    Attributes:
        owner: the class, module or dict.
        name: of the attribute; the key of the entry.
        label: of the owner.
    """

    owner: Any
    name: Any
    label: str

    def __str__(self) -> str:
        is_entry = isinstance(self.owner, dict)
        return f"{self.label}[{self.name!r}]" if is_entry else f"{self.label}.{self.name}"

    def value(self) -> Any:
        """What the owner itself holds there, as it is stored; `ABSENT` if nothing."""
        own = self.owner if isinstance(self.owner, dict) else vars(self.owner)
        return own.get(self.name, ABSENT)

    def is_inherited(self) -> bool:
        """True if the owner is a class that has it from another."""
        return isinstance(self.owner, type) and hasattr(self.owner, self.name)

    def put(self, value: Any) -> None:
        """Store a value, or delete what is there for `ABSENT`."""
        if isinstance(self.owner, dict):
            if value is ABSENT:
                self.owner.pop(self.name, None)
            else:
                self.owner[self.name] = value
        elif value is ABSENT:
            delattr(self.owner, self.name)
        else:
            setattr(self.owner, self.name, value)

    def made(self, make: Callable[[Any], Any]) -> Any:
        """Our value, in the form in which it is to be stored."""
        stored = self.value()
        if stored is ABSENT and not self.is_inherited():
            return make(None)
        if isinstance(self.owner, dict):
            return make(stored)
        stock = getattr(self.owner, self.name)
        ours = functools.wraps(stock)(make(stock))
        # Bound to its class already.
        return staticmethod(ours) if isinstance(stored, (classmethod, staticmethod)) else ours


def _resolve(owner: str) -> Any:
    module, _, path = owner.partition(":")
    found = importlib.import_module(module)
    return functools.reduce(getattr, filter(None, path.split(".")), found)
