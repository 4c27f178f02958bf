"""Functions of NumPy that torch has none for, each as one operator of a graph that calls NumPy.

Some compute with arrays; others make arrays of a number, as the points of a quadrature.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from types import MappingProxyType
from typing import Any, Final

import numpy
import torch
from torch._ops import OpOverload

from graphmend_bc.dynamo.graph.operator_library import operator_library


@dataclass(frozen=True, slots=True)
class NumpyFunction:
    """A function of arrays that gives an array as large as its first.

    Attributes:
        function: NumPy's.
        parameters: names of its arrays.
        dtype: of its result.
        is_of_points: whether all arrays but the first hold something for points on a line.
    """

    function: Callable[..., Any]
    parameters: tuple[str, ...]
    dtype: torch.dtype
    is_of_points: bool = True


FUNCTIONS: Final = MappingProxyType(
    {
        known.function: known
        for known in (
            NumpyFunction(numpy.interp, ("x", "xp", "fp"), torch.float64),
            NumpyFunction(numpy.digitize, ("x", "bins"), torch.int64),
            NumpyFunction(numpy.isin, ("element", "test_elements"), torch.bool, False),
        )
    }
)

QUADRATURES: Final[Mapping[str, Callable[..., Any]]] = MappingProxyType(
    {
        "chebgauss": numpy.polynomial.chebyshev.chebgauss,
        "hermgauss": numpy.polynomial.hermite.hermgauss,
        "hermegauss": numpy.polynomial.hermite_e.hermegauss,
        "laggauss": numpy.polynomial.laguerre.laggauss,
        "leggauss": numpy.polynomial.legendre.leggauss,
    }
)
"""Functions from a number to as many points and as many weights, by their names."""


@cache
def quadrature_operator(function: str) -> OpOverload:
    """The operator that calls a function of `QUADRATURES`.

    Args:
        function: its name.
    """
    library, name = operator_library(), f"numpy_{function}"
    library.define(f"{name}(int count) -> (Tensor, Tensor)", tags=(torch.Tag.pt2_compliant_tag,))
    called = partial(_points_and_weights, QUADRATURES[function])
    library.impl(name, called, "CompositeExplicitAutograd")
    torch.library.register_fake(f"graphmend_bc::{name}", _as_many, lib=library)
    found: OpOverload = getattr(torch.ops.graphmend_bc, name).default
    return found


def _points_and_weights(function: Callable[..., Any], count: int) -> list[torch.Tensor]:
    return [torch.from_numpy(numpy.ascontiguousarray(array)) for array in function(count)]


def _as_many(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    points, weights = (torch.empty(count, dtype=torch.float64, device="cpu") for _ in range(2))
    return points, weights


def is_numpys(target: object) -> bool:
    """Whether an operator calls NumPy: it computes, and does nothing else.

    Args:
        target: of a node.
    """
    is_ours = isinstance(target, OpOverload) and target.namespace == "graphmend_bc"
    return is_ours and str(target).startswith("graphmend_bc.numpy_")


@cache
def numpy_operator(known: NumpyFunction) -> OpOverload:
    """The operator that calls a function.

    Args:
        known: one of `FUNCTIONS`.
    """
    library = operator_library()
    name = f"numpy_{known.function.__name__}"
    parameters = ", ".join(f"Tensor {parameter}" for parameter in known.parameters)
    library.define(f"{name}({parameters}) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
    library.impl(name, partial(_called, known), "CompositeExplicitAutograd")
    torch.library.register_fake(f"graphmend_bc::{name}", partial(_form, known), lib=library)
    found: OpOverload = getattr(torch.ops.graphmend_bc, name).default
    return found


def _called(known: NumpyFunction, *arrays: torch.Tensor) -> torch.Tensor:
    found = known.function(*(array.numpy() for array in arrays))
    return torch.from_numpy(numpy.ascontiguousarray(found))


def _form(known: NumpyFunction, first: torch.Tensor, *rest: torch.Tensor) -> torch.Tensor:
    return first.new_empty(first.shape, dtype=known.dtype)
