"""Ways to compile and modes around and inside: each gives what eager gives."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import graphmend_bc as gm
from tests.oracle import check
from tests.releases import STOCK_RAISES, since

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])
BOTH = [UP, DOWN]

MIXED = """
def f(x):
    y = x + 1
    if torch.isinf(y).any():
        y = torch.clamp(y, max=1e4)
    if y.sum() < 0:
        return y * 2, 1
    print("largest", y.max())
    return y * 3
"""


@pytest.mark.parametrize(
    "settings",
    [
        {"backend": "inductor", "mode": "reduce-overhead"},
        pytest.param(
            {"backend": "inductor", "mode": "max-autotune-no-cudagraphs"},
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            {"backend": "inductor", "options": {"fallback_random": True}},
            marks=pytest.mark.nightly,
        ),
        {"backend": "eager", "fullgraph": True},
        {"backend": "aot_eager", "dynamic": True},
    ],
)
def test_ways_to_compile(settings: dict[str, Any]) -> None:
    check(MIXED, [*BOTH, UP / 0, DOWN], "where@3 speculate@5 defer@7", **settings, orders=1)


@pytest.mark.parametrize(
    ("around", "mends"),
    [
        ("torch.no_grad()", "where@6 speculate@10"),
        ("torch.enable_grad()", "speculate@6 speculate@10"),
        ("torch.inference_mode()", "where@6 speculate@10"),
    ],
)
def test_grad_modes_around(around: str, mends: str) -> None:
    check(
        f"""
        w = nn.Parameter(torch.ones(3))

        @{around}
        def f(x):
            y = x * w
            if y.sum() > 0:
                y = y * 2
            else:
                y = y.exp()
            if y.max() > 5:
                return len
            return y, y + 1
        """,
        BOTH,
        mends=mends,
        grad=True,
    )


def test_autocast_around() -> None:
    check(
        """
        layer = nn.Linear(3, 3)

        @torch.autocast("cpu", dtype=torch.bfloat16)
        def f(x):
            y = layer(x)
            if y.sum() > 0:
                y = y * 2
            if y.max() > 1e3:
                raise ValueError("large")
            return y, y @ y
        """,
        [*BOTH, UP * 1e4],
        mends="where@6 speculate@8",
        grad=True,
    )


def test_autocast_inside() -> None:
    check(
        """
        layer = nn.Linear(3, 3)

        def f(x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = layer(x)
                if y.sum() > 0:
                    y = layer(y)
                else:
                    y = layer(y * 2)
                if y.max() > 1e3:
                    return y, None
            with torch.autocast("cpu", enabled=False):
                if y.sum() < 0:
                    y = y.float() + 1
                else:
                    y = y.float() * 2
            return y, torch.is_autocast_enabled("cpu")
        """,
        [*BOTH, UP * 1e4],
        # The last branch is speculated on where the calls before it have told how it goes.
        mends={
            "forward": "speculate@6 speculate@10",
            "twice": "speculate@6 speculate@10 speculate@13",
        },
        grad=True,
    )


def test_loop_under_autocast_is_left() -> None:
    check(
        """
        @torch.autocast("cpu", dtype=torch.bfloat16)
        def f(x):
            y = x @ x
            while y < 100:
                y = y * 2
            return y
        """,
        BOTH,
        mends="hoist@4",
        declines="loop-unbounded@4",
        breaks=2,
    )


def test_grad_mode_set_before_a_miss() -> None:
    check(
        """
        w = nn.Parameter(torch.ones(3))

        def f(x):
            y = x * w
            torch.set_grad_enabled(False)
            z = x * w
            if z.sum() < 0:
                torch.set_grad_enabled(True)
                return z, y * 3, 1
            torch.set_grad_enabled(True)
            return y + z
        """,
        BOTH,
        mends="speculate@7",
        grad=True,
    )


def test_loop_without_grad_inside_training() -> None:
    check(
        """
        w = nn.Parameter(torch.ones(3))

        def f(x):
            y = x * w
            with torch.no_grad():
                s = (x * x).sum() + 1
                while s < 100:
                    s = s * 2
            return y * s
        """,
        BOTH,
        mends="while_loop@7",
        grad=True,
    )


@pytest.mark.parametrize("block", ["no_grad()", "autocast('cpu', dtype=torch.bfloat16)"])
@pytest.mark.parametrize("limit", [0, 100])
def test_modes_after_a_graph_that_raised(limit: int, block: str) -> None:
    with gm.config.patch(snapshot_limit=limit):
        check(
            f"""
            def f(x, i):
                x.add_(1)
                with torch.{block}:
                    y = x * 2 if x.sum() > 0 else x + 1
                    return y[i]
            """,
            [(UP, torch.tensor([1])), (DOWN, torch.tensor([7])), (UP, torch.tensor([2]))],
            mends="where@4",
        )


class Watching(TorchDispatchMode):
    """Counts operators, and gives the sums of tensors another sign if it is told to."""

    def __init__(self, sign: int) -> None:
        super().__init__()
        self.sign, self.seen = sign, Counter[str]()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen[str(func)] += 1
        result = func(*args, **(kwargs or {}))
        return self.sign * result if func is torch.ops.aten.sum.default else result


class WatchingFunctions(TorchFunctionMode):
    """Counts calls of functions."""

    def __init__(self, sign: int) -> None:
        super().__init__()
        self.seen = Counter[str]()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name != "__get__":  # asked by Dynamo itself, while it compiles
            self.seen[name] += 1
        return func(*args, **(kwargs or {}))


def listed(x: torch.Tensor) -> list[torch.Tensor]:
    function = torch.sin if x.sum() > 0 else torch.cos
    return [function(x)]


def counted(x: torch.Tensor) -> list[torch.Tensor]:
    rows = int(abs(x.sum().item()))
    return [x + i for i in range(rows)]


@pytest.mark.parametrize(("mode", "sign"), [(Watching, 1), (Watching, -1), (WatchingFunctions, 1)])
@pytest.mark.parametrize("program", [listed, counted])
def test_operators_that_a_mode_sees(program: Any, mode: Any, sign: int) -> None:
    """None more than eager Python runs, whatever guards compute from the inputs."""
    if mode is WatchingFunctions and not since(2, 13):
        pytest.skip(STOCK_RAISES)

    def seen(function: Any, x: torch.Tensor) -> object:
        with mode(sign) as watching:
            result = function(x)
        return [t.tolist() for t in result], dict(watching.seen)

    torch._dynamo.reset()
    with gm.enabled():
        compiled = torch.compile(program, backend="eager")
        for _ in range(8):
            compiled(UP)
            compiled(DOWN)
        assert "hoist" in {mend.strategy for mend in gm.report().mends}
        for x in (UP, DOWN, UP):
            assert seen(compiled, x) == seen(program, x)
        assert [t.tolist() for t in compiled(UP)] == [t.tolist() for t in program(UP)]


NOTING = """
from torch.overrides import TorchFunctionMode

seen = []

class Noting(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        seen.append(func.__name__)
        result = func(*args, **kwargs or {})
        return result + 1 if func is torch.Tensor.item else result
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "declines", "breaks"),
    [
        ("return x * 2, x.sum().item()", "capture-fails@8", 12),
        ("n = [x.max().item(), float(x.min())]\n    return n", "capture-fails@8", 20),
    ],
)
def test_function_mode_around_the_call(body: str, declines: str, breaks: int) -> None:
    """It sees what reads a tensor; with a symbol of what is read, Dynamo's code would raise."""
    if not since(2, 13):
        pytest.skip(STOCK_RAISES)
    around = "def around():\n    return Noting()"
    source = f"{NOTING.strip()}\n\ndef f(x):\n    {body}\n\n{around}\n"
    check(source, [UP, DOWN, UP], "", declines, breaks)
