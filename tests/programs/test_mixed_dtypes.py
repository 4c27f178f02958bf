"""Tensors of different dtypes, which fake tensors accept and some kernels refuse."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._pytree import tree_map_only

from graphmend_bc.legality import ops
from graphmend_bc.legality.kernels import may_fail
from graphmend_bc.legality.record import OpRecord, is_total
from tests.backends import EAGER_AND_AOT
from tests.oracle import check

X = torch.tensor([1.0, 2.0, 3.0])


@EAGER_AND_AOT
@pytest.mark.parametrize(
    "arm",
    [
        "x = F.layer_norm(x.double(), (3,), w).float()",
        "x = torch.heaviside(x.double(), w).float()",
        "i = x.long(); i *= w; x = x + i",
        "x = x.double() @ w",
        "x = F.batch_norm(x.double()[None], w, w)[0].float()",
    ],
)
def test_an_arm_that_is_not_taken_does_not_raise(arm: str, backend: str) -> None:
    outcome = check(
        "import torch\nimport torch.nn.functional as F\nw = torch.ones(3)\n"
        f"def f(x):\n    x = x * 2\n    if x.sum() > 0:\n        {arm}\n    return x\n",
        [-X, X, -X],
        None,
        None,
        None,
        backend=backend,
    )
    assert "where" not in outcome.mends


@pytest.mark.parametrize(
    "last",
    [
        "norm(torch.stack([x, x]))",
        "norm(torch.stack([x.float(), x * 2]))",
        "F.linear(norm(torch.stack([x, x]).float()), w.double())",
        "w.index_add_(0, torch.tensor([0]), x[:1])",
    ],
)
def test_effects_before_an_operator_that_raises(last: str) -> None:
    """The graph changes buffers, so that it would not be taken back without need."""
    check(
        f"""
import torch
import torch.nn.functional as F
norm = torch.nn.BatchNorm1d(3)
w = torch.ones(3)
def f(x):
    print("sum", x.sum().item())
    norm.running_mean.add_(1)
    return {last}
state = norm, w
""",
        [X.double(), X.double() + 1],
        "defer@6",
        declines=None,
        grad=False,
    )


def test_effects_before_an_operator_that_raises_in_a_resumed_function() -> None:
    """Stock compiles nothing of a function that breaks inside a `try`."""
    check(
        """
        import torch
        import torch.nn.functional as F
        w = torch.ones(3)
        items = []
        def f(x):
            try:
                if x.sum() > 0:
                    items.append(0)
            finally:
                n = x.sum().clamp(0, 4)
                while n < 3:
                    n = n + 1
                    items.append(1)
                    F.layer_norm(x, (3,), w)
            return x
        state = items
        """,
        [X.double(), -X.double()],
        "speculate@7",
        "arm-does-not-trace@11 loop-unbounded@11",
        breaks=None,
    )


@pytest.mark.nightly
def test_what_kernels_refuse_is_not_computed_for_an_arm() -> None:
    """Every known operator of two tensors, with every pair of dtypes."""
    mode = FakeTensorMode()
    missed = set()
    for op, args in _calls():
        fake = tree_map_only(torch.Tensor, mode.from_tensor, args)
        with mode:
            result = _result(op, fake)
        if isinstance(result, Exception) or not isinstance(_result(op, args), Exception):
            continue
        with mode:
            record = OpRecord(op, tuple(_fakes(mode, op, args)), {}, result)
            if is_total(record) and not may_fail(record):
                missed.add(str(op))
    assert not missed


DTYPES = (
    *(torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.complex64),
    *(torch.int64, torch.int32, torch.uint8, torch.bool),
)


def _calls() -> Iterator[tuple[OpOverload, list[Any]]]:
    for name, end in itertools.product(sorted(ops.KNOWN), ("", "_")):
        packet = getattr(torch.ops.aten, name + end, None)
        for overload in () if packet is None else packet.overloads():
            op = getattr(packet, overload)
            for pair in itertools.permutations(DTYPES, 2):
                args = None if overload.endswith("out") else _arguments(op, *pair)
                if args is None:
                    break
                yield op, args


def _arguments(op: OpOverload, first: torch.dtype, other: torch.dtype) -> list[Any] | None:
    """Arguments for an operator of at least two tensors; None for others."""
    simple: dict[str, Any] = {"List[int]": [3], "number": 1, "float": 1e-5, "int": 0, "bool": False}
    args: list[Any] = []
    for argument in op._schema.arguments:
        kind = str(argument.type)
        weight = argument.name in ("weight", "bias")
        if argument.kwarg_only:
            break
        if kind == "Tensor" or (kind == "Optional[Tensor]" and weight):
            shape = (3,) if weight else (2, 3)
            args.append(torch.ones(shape, dtype=other if args else first))
        elif kind == "List[Tensor]":
            args.append([torch.ones(2, 3, dtype=first), torch.ones(2, 3, dtype=other)])
        elif argument.has_default_value():
            args.append(argument.default_value)
        elif kind in simple:
            args.append(simple[kind])
        else:
            return None
    tensors = torch.utils._pytree.tree_leaves(args)
    return args if sum(isinstance(leaf, torch.Tensor) for leaf in tensors) > 1 else None


def _fakes(mode: FakeTensorMode, op: OpOverload, args: list[Any]) -> list[Any]:
    return tree_map_only(torch.Tensor, mode.from_tensor, args)  # type: ignore[no-any-return]


def _result(op: OpOverload, args: list[Any]) -> Any:
    try:
        return op(*args)
    except Exception as error:
        return error
