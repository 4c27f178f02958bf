"""Items of parametrised types, such as `NDArray[np.float64]`."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import Change, agrees, check

X = torch.tensor([1.0, -2.0, 3.0])

PROGRAM = """
from typing import Any, Callable, TypeVar, cast
import numpy as np

T, S = TypeVar("T"), TypeVar("S")
Array = np.ndarray[Any, np.dtype[T]]
Table = dict[T, list[S]]
Whole = list[int]
Numbers = [list[T]]

def f(x):
    BODY
"""


@pytest.mark.parametrize(
    "body",
    [
        "return cast(Array[np.float64], x * 2) + 1",
        "y = x * 2; kind = Array[np.float32]; return y + 1",
        "kind = Table[str, int]; return x + len(kind.__args__), kind",
        "kind = Table[str, S][int]; return x * 2, kind",
        "return x + (Array[np.float64] == np.ndarray[Any, np.dtype[np.float64]])",
        "from numpy.typing import NDArray; return cast(NDArray[np.float64], x) * 2",
        "g = lambda y: cast(Array[np.int64], y) + 1\n    return g(x) * 2",
        "return sum([cast(Array[kind], x) for kind in (np.float64, np.int32)]) * 2",
    ],
)
def test_items(body: str) -> None:
    outcome = check(PROGRAM.replace("BODY", body), [X, X[:2]], None, grad=True)
    assert "polyfill" in outcome.mends


@pytest.mark.parametrize(
    "change", ["Array = Table", "Array = Whole", "globals().pop('Array', 0)", "Array = [T, S]"]
)
def test_another_type_by_that_name(change: str) -> None:
    body = "kind = Array[np.float64, int] if x.dim() > 1 else Array[0]; return x * 2, kind"
    agrees(PROGRAM.replace("BODY", body), [X, X[None], Change(change), X, X[None], X])


@pytest.mark.parametrize(
    "body",
    [
        "try:\n        Whole[int]\n    except TypeError as error:\n        return x, str(error)",
        "try:\n        Table[int]\n    except TypeError as error:\n        return x, str(error)",
        "return x * 2, Whole[str]",
        "return cast(Array[x], x) * 2",
        "return x + len(Numbers[0][int].__args__)",
    ],
)
def test_what_it_leaves_alone(body: str) -> None:
    agrees(PROGRAM.replace("BODY", body), [X, X[:2]])


def test_a_type_made_by_the_caller() -> None:
    source = """
    from typing import TypeVar

    T = TypeVar("T")
    def g(x, kind):
        return x * 2, kind[int]
    def f(x):
        torch._dynamo.graph_break()
        return g(x, list[T])
    """
    agrees(source, [X, X, X])


def test_parameters_of_the_programs_own_kind() -> None:
    source = """
    asked = []
    class Parameter:
        def __typing_subst__(self, given):
            asked.append(given)
            return given
    Own = list[Parameter()]
    def f(x):
        return x * 2, Own[int], len(asked)
    """
    outcome = check(source, [X, X, X], "", None, None)
    assert outcome.breaks
