"""How likely a condition on a random number is true, where that is known from the condition.

    torch.rand([]) < 0.3                0.3
    np.random.uniform(0, 2) >= 0.5      0.75
    not random.random() < 0.1           0.9

The function that draws is known by its name, and what it draws from by its arguments.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import torch
from torch._dynamo.source import GetItemSource, SyntheticLocalSource
from torch._dynamo.variables.base import VariableTracker
from torch.fx import Node

from graphmend_bc import config
from graphmend_bc.dynamo.graph.fx_nodes import input_source
from graphmend_bc.reporting.reasons import Refused

Interval = tuple[float, float]
"""Numbers between two bounds, each as likely as the others."""

_UNIT: Final = ("rand", "random", "random_sample", "ranf", "sample")
_SAME: Final = ("clone", "detach", "item", "reshape", "squeeze", "to", "float", "double", "bool")
_BELOW: Final = frozenset((operator.lt, operator.le, torch.lt, torch.le, "lt", "le"))
_ABOVE: Final = frozenset((operator.gt, operator.ge, torch.gt, torch.ge, "gt", "ge"))
_NOT: Final = frozenset((torch.logical_not, operator.not_, "logical_not"))


def interval_of(name: str, values: Sequence[Any]) -> Interval | None:
    """What a function of `random` or `numpy.random` draws a single number from, if evenly.

    Args:
        name: of the function.
        values: what it is called with.

    Example:
        >>> interval_of("uniform", (0, 2))
        (0.0, 2.0)
    """
    if name in _UNIT and not values:
        return 0.0, 1.0
    numbers = len(values) in (0, 2) and all(type(value) in (int, float) for value in values)
    if name != "uniform" or not numbers:
        return None
    low, high = map(float, values or (0, 1))
    return (low, high) if low < high else None


def constants_in(values: Sequence[VariableTracker]) -> list[Any]:
    """The arguments of a call as `interval_of` wants them; None for one that is not known."""
    known = [value.realize() for value in values]
    return [each.as_python_constant() if each.is_python_constant() else None for each in known]


def chance(condition: Node, drawn: Mapping[str, Interval]) -> float | None:
    """How likely a condition is true; None if it is no comparison of a random number.

    Args:
        condition: node of a truth value.
        drawn: what numbers are drawn from before the graph, by the local variables that hold them.
    """
    condition = _stripped(condition)
    if condition.target in _NOT and isinstance(inner := condition.args[0], Node):
        found = chance(inner, drawn)
        return None if found is None else 1 - found
    if condition.target not in _BELOW | _ABOVE or len(condition.args) != 2:
        return None
    left, right = condition.args
    is_below = condition.target in _BELOW
    if isinstance(right, Node) and type(left) in (int, float):
        left, right, is_below = right, left, not is_below
    if not isinstance(left, Node) or type(right) not in (int, float):
        return None
    interval = _drawn_from(_stripped(left), drawn)
    if interval is None:
        return None
    low, high = interval
    below = min(max((float(right) - low) / (high - low), 0.0), 1.0)  # type: ignore[arg-type]
    return below if is_below else 1 - below


def _stripped(node: Node) -> Node:
    """What a node has its number from."""
    while True:
        passes = node.target in _SAME or node.target is torch.scalar_tensor
        if not passes or _rounds(node) or not node.args or not isinstance(node.args[0], Node):
            return node
        node = node.args[0]


def _rounds(node: Node) -> bool:
    """Whether a node gives a tensor of integers."""
    value = node.meta.get("example_value")
    if not isinstance(value, torch.Tensor) or value.dtype is torch.bool:
        return False
    return not value.dtype.is_floating_point


def _drawn_from(node: Node, drawn: Mapping[str, Interval]) -> Interval | None:
    if node.target is torch.rand:
        return 0.0, 1.0
    source = input_source(node)
    base = source.base if isinstance(source, GetItemSource) else None
    return drawn.get(base.local_name) if isinstance(base, SyntheticLocalSource) else None


def check_few(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
    """Refuse a call of a generator of Python's with many outcomes: each is compiled by itself.

    Args:
        name: of the method.
        args, kwargs: what it is called with; a population may be a range of as many numbers.

    Raises:
        Refused: there are too many, or it is not known how many.
    """
    try:
        count = _OUTCOMES[name](*args, **kwargs)
    except (KeyError, TypeError, ValueError) as error:
        raise Refused("hoist-not-input", f"'{name}' does not choose one of a few.") from error
    if not 0 < count <= config.hoist_limit:
        raise Refused("hoist-varies", f"It may give {count} different values.")


_OUTCOMES: Mapping[str, Callable[..., int]] = {
    "randint": lambda a, b: b - a + 1,
    "randrange": lambda *args: len(range(*args)),
    "choice": len,
    "shuffle": lambda population: math.factorial(len(population)),
    "sample": lambda population, k: math.perm(len(population), k),
    "choices": lambda population, weights=None, cum_weights=None, k=1: len(population) ** k,
}
