"""Mending of programs on a GPU: values, generators, writes, copies to the host, and CUDA graphs."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.oracle import agrees, check
from tests.processes import python

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="There is no GPU.")

ONES = [(sign * torch.ones(4),) for sign in (1, -1, 1)]


def on_gpu(calls: list[Any]) -> list[Any]:
    return [tuple(t.cuda() if torch.is_tensor(t) else t for t in call) for call in calls]


MENDED = {
    "where": """
        def f(x):
            if x.sum() > 0:
                x = x * 2
            return x + 1
        """,
    "defer": """
        def f(x):
            x = x * 2
            print("sum", x.sum(), x)
            x.mul_(3)
            return x
        """,
    "speculate": """
        def f(x):
            scale = 2.0 if x.sum() > 0 else 3
            return x * scale
        """,
    "capture": """
        def f(x):
            return torch.zeros(int((x > 0).sum().item()) + 1, device=x.device) + 1
        """,
    "cond": """
        w = torch.eye(4).cuda()
        def f(x):
            x = x * 2
            if x.mean() > 0:
                y = x @ w @ w
            else:
                y = x + 1
            return y * 2
        """,
    "while_loop": """
        def f(x):
            while x.abs().sum() > 1:
                x = x * 0.25
            return x + 1
        """,
}


@pytest.mark.parametrize("grad", [False, True], ids=["plain", "grad"])
@pytest.mark.parametrize("name", MENDED)
def test_each_strategy(name: str, grad: bool) -> None:
    grad = grad and name not in ("capture", "defer", "while_loop")
    calls = on_gpu(ONES)
    for (x,) in calls:
        x.requires_grad_(grad)
    assert agrees(MENDED[name], calls, grad=grad).mends


@pytest.mark.parametrize("mode", [None, "reduce-overhead"])
@pytest.mark.parametrize("name", MENDED)
def test_each_strategy_under_inductor(name: str, mode: str | None) -> None:
    agrees(MENDED[name], on_gpu(ONES * 3), backend="inductor", orders=1, mode=mode)


DRAWS = """
    def f(x):
        x = x * torch.rand(4, device="cuda")
        scale = 2.0 if x.sum() > 0 else 3
        x = torch.nn.functional.dropout(x * scale)
        if torch.rand((), device="cuda") < 0.5:
            x = x * 2
        return x + torch.rand(4, device="cuda")
    """


def test_generator_of_the_gpu() -> None:
    agrees(DRAWS, on_gpu(ONES * 3))


def test_writes_to_inputs_and_buffers_are_rolled_back() -> None:
    agrees(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("peak", torch.zeros((), device="cuda"))

            def forward(self, x):
                self.peak.add_(1)
                x.mul_(2)
                scale = 2.0 if x.sum() > 0 else 3
                x.mul_(scale)
                return x * self.peak

        net = Net()

        def f(x):
            return net(x)
        """,
        on_gpu(ONES * 2),
    )


def test_copies_between_devices() -> None:
    agrees(
        """
        def f(x):
            y = x.cpu()
            if y.sum() > 0:
                z = y * 2
            else:
                z = y - 1
            z = z.cuda(non_blocking=True)
            if z.max() > 1:
                z = z + x
            return z, z.cpu(), z.tolist()
        """,
        on_gpu(ONES),
    )


def test_condition_on_another_device() -> None:
    agrees(
        """
        def f(x, flag):
            if flag:
                x = x * 2
            k = 3 if flag else 4
            return x + k
        """,
        [(torch.ones(3).cuda(), torch.tensor(flag)) for flag in (True, False, True)],
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype: torch.dtype) -> None:
    agrees(
        """
        def f(x):
            if torch.isinf(x).any() or torch.isnan(x).any():
                limit = torch.finfo(x.dtype).max - 1000
                x = torch.clamp(x, min=-limit, max=limit)
            with torch.autocast("cuda"):
                y = x @ x
                if y.sum() > 0:
                    y = y * 2
            return y
        """,
        [(fill * torch.ones(4, 4, dtype=dtype).cuda(),) for fill in (1.0, float("inf"), -1.0)],
    )


def test_boolean_masks() -> None:
    agrees(
        """
        def f(x):
            rows = x[x > 0]
            if rows.numel() > 0:
                x = x + rows.mean()
            return x, torch.nonzero(x), x.unique()
        """,
        on_gpu([(torch.tensor([1.0, -1, 2]),), (torch.tensor([-1.0, -1, -2]),)] * 2),
    )


INDEXED = """
import torch, graphmend_bc as gm

def f(table, index):
    if index.max() >= table.shape[0]:
        raise ValueError(f"no row {index.max()}")
    return table[index] * 2

def g(table, index):
    k = 2.0 if index.max() < table.shape[0] else 3
    if k == 2.0:
        return torch.nn.functional.embedding(index, table) * k
    return table.sum() * k

table = torch.arange(12.0).reshape(4, 3).cuda()
for backend in ("eager", "inductor"):
    for function in (f, g):
        torch._dynamo.reset()
        seen = []
        with gm.enabled():
            compiled = torch.compile(function, backend=backend)
            for index in ([0, 3], [0, 4], [1, 2], [9, 9]):
                results = []
                for called in (function, compiled):
                    try:
                        results.append(called(table, torch.tensor(index).cuda()).tolist())
                    except ValueError as error:
                        results.append(str(error))
                assert results[0] == results[1], results
                torch.cuda.synchronize()
print("fine")
"""


def test_index_behind_a_wrong_speculation_does_not_stop_the_process() -> None:
    done = python("-c", INDEXED)
    assert done.stdout.splitlines()[-1:] == ["fine"], done.stderr[-2000:]


def test_outputs_of_cuda_graphs_are_not_kept_over_calls() -> None:
    check(
        """
        def f(x):
            x = x * 2
            print(x.sum(), x.max().item())
            if x.sum() > 0:
                x = x * 2
            return x + 1
        """,
        on_gpu([(torch.full((4,), float(n)),) for n in range(-2, 6)]),
        mends="defer@3 where@4",
        declines=None,
        breaks=None,
        backend="inductor",
        orders=1,
        mode="reduce-overhead",
    )
