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

import graphmend_bc as gm
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
        "x = x - True",
        "x = torch.add(x, x, alpha=True)",
    ],
)
def test_an_arm_that_is_not_taken_does_not_raise(arm: str, backend: str) -> None:
    if "*=" in arm and backend != "eager":
        pytest.skip("Where writes are made new tensors, stock does not raise in the arm either.")
    is_speculated = "*=" in arm or "@" in arm  # the others are run if they are taken
    check(
        "import torch\nimport torch.nn.functional as F\nw = torch.ones(3)\n"
        f"def f(x):\n    x = x * 2\n    if x.sum() > 0:\n        {arm}\n    return x\n",
        [-X, X, -X],
        "speculate@6" if is_speculated else "cond@6",
        None,
        None,
        backend=backend,
    )


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
    """The graph changes buffers, so that it would not be rolled back without need."""
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


def test_effects_before_an_operator_without_a_kernel() -> None:
    """Where no input may be copied, the graph could not be rolled back."""
    for limit, mends in ((100, "defer@2"), (0, "")):
        with gm.config.patch(snapshot_limit=limit):
            check(
                """
                def f(y):
                    print("up")
                    y.detach().add_(1)
                    return y.detach() * (y > 0).argmax()
                """,
                [X.clone().requires_grad_()],
                mends=mends,
                declines=None,
                breaks=None,
                grad=True,
            )


@pytest.mark.nightly
def test_what_kernels_refuse_is_not_computed_for_an_arm() -> None:
    """Every known operator of two tensors, with every pair of dtypes; and of a tensor and numbers."""
    mode = FakeTensorMode()
    missed = set()
    for op, args, kwargs in (*_calls(), *_calls_with_numbers()):
        fake = tree_map_only(torch.Tensor, mode.from_tensor, args)
        with mode:
            result = _result(op, fake, kwargs)
            if isinstance(result, Exception):
                continue
            record = OpRecord(op, tuple(fake), kwargs, result)
            if not is_total(record) or may_fail(record):
                continue
        if isinstance(_result(op, args, kwargs), Exception):
            missed.add(str(op))
    assert not missed


DTYPES = (
    *(torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.complex64),
    *(torch.int64, torch.int32, torch.uint8, torch.bool),
)


NUMBERS = (True, 2, 0, -1, 300, 2.5, -0.5, 1e30, float("inf"), float("nan"), 1j)

Call = tuple[OpOverload, list[Any], dict[str, Any]]


def _known() -> Iterator[OpOverload]:
    for name, end in itertools.product(sorted(ops.KNOWN), ("", "_")):
        packet = getattr(torch.ops.aten, name + end, None)
        for overload in () if packet is None else packet.overloads():
            if not overload.endswith("out"):
                yield getattr(packet, overload)


def _calls() -> Iterator[Call]:
    for op in _known():
        for pair in itertools.permutations(DTYPES, 2):
            args = _arguments(op, *pair)
            if args is None:
                break
            yield op, args, {}


def _calls_with_numbers() -> Iterator[Call]:
    for op in _known():
        kinds = {str(argument.type) for argument in op._schema.arguments}
        if "Tensor" in kinds and kinds & {"number", "Optional[number]"}:
            for dtype, number in itertools.product(DTYPES, NUMBERS):
                if (given := _with_number(op, dtype, number)) is not None:
                    yield op, *given
        elif [str(argument.type) for argument in op._schema.arguments[:2]] == ["Tensor"] * 2:
            # Fake tensors are given the number of `x - True` as it is.
            for dtype, number in itertools.product(DTYPES, NUMBERS):
                yield op, [torch.ones(2, 3, dtype=dtype), number], {}


def _with_number(
    op: OpOverload, dtype: torch.dtype, number: Any
) -> tuple[list[Any], dict[str, Any]] | None:
    """Arguments with the same number wherever one is wanted; None if something else is wanted."""
    simple: dict[str, Any] = {"List[int]": [3], "float": 1e-5, "int": 0, "bool": False}
    simple |= {"number": number, "Optional[number]": number}
    args, kwargs = list[Any](), dict[str, Any]()
    for argument in op._schema.arguments:
        kind = str(argument.type)
        if kind not in ("Tensor", *simple) and not argument.has_default_value():
            return None
        if kind == "Tensor":
            value: Any = torch.ones(2, 3, dtype=dtype)
        elif "number" not in kind and argument.has_default_value():
            continue
        else:
            value = simple[kind]
        if argument.kwarg_only:
            kwargs[argument.name] = value
        else:
            args.append(value)
    return args, kwargs


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


def _result(op: OpOverload, args: list[Any], kwargs: dict[str, Any]) -> Any:
    try:
        return op(*args, **kwargs)
    except Exception as error:
        return error
