"""The orders in which the oracle makes the calls of a program, and what is wanted in each of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypeVar

T = TypeVar("T")

# One for all orders, or one by the name of an order, where those without a name want what "forward"
# does: they begin with the same call, or go the same ways. None accepts anything.
Wanted: TypeAlias = T | Mapping[str, T | None] | None

ORDERS = ("forward", "reversed", "twice")


def in_orders(calls: Sequence[T], count: int) -> dict[str, list[T]]:
    """The first `count` orders by their names: as given, the other way round, each call twice."""
    sequences = [*calls], [*reversed(calls)], [call for call in calls for _ in range(2)]
    return dict(list(zip(ORDERS, sequences, strict=True))[:count])


def wanted_in(order: str, wanted: Wanted[T]) -> T | None:
    """What is wanted in one order.

    Raises:
        KeyError: orders are told apart, and "forward" is not among them.
        ValueError: one of those told apart does not exist.
    """
    if not isinstance(wanted, Mapping):
        return wanted
    if unknown := wanted.keys() - set(ORDERS):
        raise ValueError(f"no such orders: {sorted(unknown)}")
    return wanted.get(order, wanted["forward"])
