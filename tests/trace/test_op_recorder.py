"""What the recorder of a trace keeps."""

from __future__ import annotations

import contextlib
import itertools

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from graphmend_bc.dynamo.trace.op_recorder import Recorder
from graphmend_bc.legality.storage import storage_of


def test_the_number_of_a_freed_storage_is_not_used_again() -> None:
    mode = FakeTensorMode()
    with mode:
        recorder = Recorder(mode)
        numbers = [storage_of(torch.empty(3) + 1) for _ in range(50)]
        recorder.detach()
        freed_later = [storage_of(torch.empty(3) + 1) for _ in range(2000)]
    assert len(set(numbers)) == 50
    assert len(set(freed_later)) < 2000


def test_tensors_without_a_storage_are_passed_over() -> None:
    mode = FakeTensorMode()
    with mode:
        recorder = Recorder(mode)
        sparse = torch.eye(3).to_sparse()
        recorder.detach()
    assert sparse.layout is torch.sparse_coo


def overloads_with_dim() -> list[torch._ops.OpOverload]:
    """Every overload of torch that takes one tensor first and a dimension, or several."""
    found = []
    for name in dir(torch.ops.aten):
        packet = getattr(torch.ops.aten, name)
        if not isinstance(packet, torch._ops.OpOverloadPacket):
            continue
        for overload in packet.overloads():
            op = getattr(packet, overload)
            first, *rest = op._schema.arguments or [None]
            if str(getattr(first, "type", "")) == "Tensor" and any(
                a.name in ("dim", "dims") and str(a.type) in ("int", "Optional[int]", "List[int]")
                for a in rest
            ):
                found.append(op)
    return found


@pytest.mark.slow
def test_operators_along_a_dimension_of_numbers_and_of_empty_tensors() -> None:
    ran, failures = set(), []
    for op in overloads_with_dim():
        for shape in ((), (0,), (0, 3), (1, 0)):
            for dim, dtype in itertools.product((0, -1), (torch.float32, torch.int64, torch.bool)):
                mode = FakeTensorMode()
                with mode:
                    recorder = Recorder(mode)
                    rest = [operand(a, dim, shape) for a in op._schema.arguments[1:]]
                    with contextlib.suppress(Exception):  # torch's own: operands do not fit
                        op(torch.zeros(shape, dtype=dtype), *rest)
                        ran.add(op)
                    failures += [(op, shape, dim, recorder.failure)] * bool(recorder.failure)
                    recorder.detach()
    assert not failures
    assert len(ran) > 80


def operand(argument: torch.Argument, dim: int, shape: tuple[int, ...]) -> object:
    kind = str(argument.type)
    if argument.name in ("dim", "dims"):
        return [dim] if kind.startswith("List") else dim
    if argument.has_default_value():
        return argument.default_value
    return {
        "Tensor": torch.zeros(shape, dtype=torch.int64),
        "int": 0,
        "number": 0,
        "List[int]": [1],
    }.get(kind)
