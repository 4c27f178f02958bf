"""Which kinds of numbers an operator takes with which tensors, compared with torch itself."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
import torch
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from graphmend_bc.legality.kinds import TensorKind, takes_kinds
from tests.legality.test_gradients import Recording


def symbol(kind: type) -> object:
    env = ShapeEnv()
    number = env.create_unbacked_symint()
    return {int: number, float: env.create_unbacked_symfloat(), bool: number > 3}[kind]


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (True, TensorKind.BOOL),
        (torch.bool, TensorKind.BOOL),
        (2, TensorKind.INT),
        (torch.int8, TensorKind.INT),
        (2.0, TensorKind.FLOAT),
        (torch.bfloat16, TensorKind.FLOAT),
        (2j, TensorKind.COMPLEX),
        (torch.complex64, TensorKind.COMPLEX),
        (symbol(int), TensorKind.INT),
        (symbol(float), TensorKind.FLOAT),
        (symbol(bool), TensorKind.BOOL),
    ],
)
def test_kinds(value: object, kind: TensorKind) -> None:
    assert TensorKind.of(value) is kind


FUNCTIONS: dict[str, tuple[Callable[[torch.Tensor, object], object], str]] = {
    "sub": (lambda x, n: torch.sub(x, n), "other"),  # type: ignore[call-overload]
    "rsub": (lambda x, n: torch.rsub(x, n), "other"),  # type: ignore[call-overload]
    "add": (lambda x, n: torch.add(x, 1, alpha=n), "alpha"),  # type: ignore[call-overload]
    "add_": (lambda x, n: x.add_(n), "other"),  # type: ignore[arg-type]
    "mul": (lambda x, n: torch.mul(x, n), "other"),  # type: ignore[call-overload]
    "sub alpha": (lambda x, n: torch.sub(x, 1, alpha=n), "alpha"),  # type: ignore[call-overload]
    "clamp": (lambda x, n: torch.clamp(x, max=n), "max"),  # type: ignore[call-overload]
    "mul_": (lambda x, n: x.mul_(n), "other"),  # type: ignore[arg-type]
}
DTYPES = (torch.bool, torch.int64, torch.float32, torch.complex64)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("dtype", "number"), list(itertools.product(DTYPES, (True, 2, 2.0, 2j))))
def test_what_torch_refuses_is_refused(name: str, dtype: torch.dtype, number: object) -> None:
    function, argument = FUNCTIONS[name]
    with Recording() as mode:
        try:
            function(torch.ones(2, dtype=dtype), dtype is torch.bool or 1)
        except (NotImplementedError, RuntimeError):
            pytest.skip("torch has no such operator for this dtype")
    name = name.partition(" ")[0]
    (record,) = (r for r in mode.records if r.name in (name, name.lstrip("r")))
    try:
        function(torch.ones(2, dtype=dtype), number)
        takes = True
    except (RuntimeError, TypeError):
        takes = False
    assert takes or not takes_kinds(record, {argument: number})
