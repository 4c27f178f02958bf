"""The orders in which the oracle makes the calls of a program, and what is wanted in each of them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypeVar

T = TypeVar("T")

# One for all orders, or one by the name of an order, where those without a name want what "forward"
# does: they begin with the same call, or go the same ways. None accepts anything.
Wanted: TypeAlias = T | Mapping[str, T | None] | None

ALONE = ("forward", "reversed", "twice")
ORDERS = (*ALONE, "both ways")

#: Set by `--all-orders`, and read by programs that tests start as well.
VARIABLE = "ALL_ORDERS"


def orders_to_make(count: int | None, tells_apart: bool) -> tuple[str, ...]:
    """The names of the orders to make.

    Args:
        count: how many of those that begin with nothing compiled; None for the calls both ways in
            one process, which sees the same and compiles once.
        tells_apart: True if something else is wanted in one order than in another.
    """
    if count is not None:
        return ALONE[:count]
    return ORDERS if tells_apart or os.environ.get(VARIABLE) else ORDERS[-1:]


def in_order(order: str, calls: Sequence[T]) -> list[T]:
    """The calls as given, the other way round, each twice, or as given and then the other way round."""
    match order:
        case "forward":
            return [*calls]
        case "reversed":
            return [*reversed(calls)]
        case "twice":
            return [call for call in calls for _ in range(2)]
    return [*calls, *reversed(calls)]


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


def without_guarded(mends: str, wanted: str) -> str:
    """The mends without what becomes of speculations on conditions that flip.

    They are computed before the graph, or both of their values are.
    """
    known = wanted.split()
    lines = {m.partition("@")[2] for m in known if m.startswith("speculate@")}
    later = {f"{other}@{line}" for other in ("hoist", "where") for line in lines}
    return " ".join(m for m in mends.split() if m not in later or m in known)
