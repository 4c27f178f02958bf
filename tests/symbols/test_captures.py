"""Sizes and numbers that are known only at run time: none, one and several elements."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.code.facts import VERSION
from tests.backends import EAGER_AND_AOT
from tests.oracle import agrees, check
from tests.orders import Wanted
from tests.releases import since

NONE, ONE, MANY = (
    torch.tensor([-1.0, 0.0, 2.0, 1.0]),
    torch.tensor([-1.0, 0.0, 3.0, 1.0]),
    torch.tensor([4.0, 3.0, 5.0, 1.0]),
)
CALLS = [NONE, ONE, MANY]
"""Calls of which none, one and three elements are greater than 2."""

FORMS = {
    "mask": "return x[x > 2].sum() + 1",
    "mask kept": "return x[x > 2] * 2",
    "mask with a gradient": "return (x[x > 2] ** 2).sum()",
    "nonzero": "return x[(x > 2).nonzero()[:, 0]] * 2",
    "one-argument where": "return x[torch.where(x > 2)[0]] * 2",
    "item as a factor": "return x * x.max().item()",
    "item as a size": "return x[: int(x[3].item())] + 1",
    "tolist": "return x * x.long().tolist()[3]",
    "repeat_interleave": "return torch.repeat_interleave(x, (x > 2).long())",
    "unique": "return torch.unique(x.long()) + 1",
    "masked_select": "return torch.masked_select(x, x > 2).sum()",
    "broadcast of one element": "return x[x > 2] + torch.arange(3.0)",
    "unsqueeze and expand": "return x[x > 2].unsqueeze(1).expand(-1, 2)",
    "view": "return x[x > 2].view(-1, 1).sum(0)",
    "cat": "return torch.cat([x[x > 2], x])",
    "largest of none raises": "return x[x > 2].max()",
    "matmul": "y = x[x > 2]\n    return y @ y",
    "softmax": "return x[x > 2].softmax(0)",
    "mean of none is nan": "return x[x > 2].mean()",
    "contiguous": "return x[x > 2].unsqueeze(0).t().contiguous().reshape(-1)",
}


@pytest.mark.parametrize("body", FORMS.values(), ids=FORMS.keys())
@EAGER_AND_AOT
def test_captured(body: str, backend: str) -> None:
    outcome = check(
        f"def f(x):\n    {body}\n",
        CALLS,
        mends="capture@2",
        backend=backend,
        grad=backend == "eager",
    )
    assert "capture@" in outcome.mends


# How a float and an int are known, for each use; a bool is speculated on. Where the orders differ, the
# first call of the one raises, or goes another way.
USES: dict[str, tuple[Wanted[str], Wanted[str]]] = {
    "v // 2, v % 3, -v, abs(v), v / 3": ("hoist@5", "capture@5"),
    "int(v), float(v), bool(v)": ("capture@5 capture@8", "capture@5"),
    "v == 1, v != v, v > 1, 0 < v < 3": ("hoist@5", "capture@5 speculate@8"),
    "v in (1, 2), v is None, v is v": ("hoist@5", "capture@5"),
    "type(v), isinstance(v, float), isinstance(v, int)": ("capture@5", "capture@5"),
    "f'{v}', str(v), repr(v), '%s' % v": ("hoist@5", "hoist@5"),
    "[v, v + 1], {'a': v}": ("capture@5", "capture@5"),
    "'a' if v > 1 else 'b'": ("capture@5 speculate@8", "capture@5 speculate@8"),
    "x.new_zeros(int(v) if 0 <= v < 5 else 1)": (
        "capture@5 capture@8 speculate@8",
        "capture@5 speculate@8",
    ),
    "list(range(int(v))) if 0 <= v < 3 else 0": ("hoist@5", "capture@5 speculate@8"),
    "[1, 2, 3][int(v) % 3] if -5 < v < 5 else 0": (
        "hoist@5",
        {"forward": "hoist@5", "reversed": None},
    ),
    "torch.tensor(v), x.clamp(max=v), x.masked_fill(x > 0, v)": ("capture@5", "capture@5"),
    "max(v, 1) if v != v else 0": ("hoist@5", "capture@5"),
    "round(v), math.floor(v), math.ceil(v)": ("capture@5 capture@8", "capture@5"),
    "math.sqrt(abs(v))": ("hoist@5", "hoist@5"),
    "v or 3, not v, v and 5": ("capture@5 speculate@8", "capture@5 speculate@8"),
    # CPython 3.14: `deepcopy` knows numbers by their type alone.
    "copy.deepcopy(v), (lambda q=v: q + 1)()": (
        "hoist@5" if VERSION < (3, 14) else "capture@5",
        "capture@5" if since(2, 13) else "hoist@5",
    ),
    "1 / v": ({"forward": "hoist@5", "reversed": ""}, "hoist@5"),
}
NUMBERS = {
    "float": [torch.tensor([1.0, 2.0]), torch.tensor([-2.5, 0.0]), torch.tensor([0.0, 1.0])],
    "int": [torch.tensor([3, 2]), torch.tensor([-7, 2]), torch.tensor([2**60 + 1, 1])],
    "bool": [torch.tensor([True, False]), torch.tensor([False, False])],
}


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", NUMBERS)
def test_uses_of_a_captured_number(use: str, kind: str) -> None:
    as_float, as_int = USES[use]
    check(
        f"""
        import copy
        import math

        def f(x):
            v = x[0].item()
            y = x * v
            try:
                return y, ({use},)
            except (TypeError, ValueError, ZeroDivisionError) as error:
                return y, type(error).__name__
        """,
        NUMBERS[kind],
        {"float": as_float, "int": as_int, "bool": "speculate@5"}[kind],
        declines=None,
        breaks=None,
        orders=2,
    )


NAN, INFINITE = torch.tensor([float("nan"), 1.0]), torch.tensor([float("inf"), 1.0])
FLOATS = [torch.tensor([1.0, 2.0]), NAN, INFINITE, torch.tensor([0.1, 1e30]), -INFINITE]


@pytest.mark.slow
@pytest.mark.parametrize(
    "condition",
    [
        *("v != v", "not v == v", "v >= v", "v - v == 0", "v * 0 == 0", "v < v + 1", "v <= INF"),
        *("abs(v) >= 0", "abs(v) < INF", "min(v, 1.0) <= 1.0", "max(v, 0.0) >= 0", "v == v * 1"),
        *("v + 0.1 + 0.2 == v + 0.3", "v + 1 - 1 == v", "v % 1 == 0", "v > 2**60 + 1"),
        *("v > w", "v - w != v - w", "not v > 0", "v.is_integer()", "2 * v == v + v"),
    ],
)
@EAGER_AND_AOT
def test_conditions_on_floats_are_not_simplified(condition: str, backend: str) -> None:
    """Dynamo's symbols are finite real numbers; floats may be neither."""
    agrees(
        f"""
        INF = float("inf")

        def f(x):
            y = x * 2
            v, w = y[0].item(), y[1].item()
            if {condition}:
                return y + 1
            return y * v
        """,
        FLOATS,
        backend=backend,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "use",
    [
        *("n * 1e308 * 10 == INF", "n * INF != n * INF", "n * 0.1 + 0.1 + 0.2 == n * 0.1 + 0.3"),
        *("float(n) == n", "n + 1.0 - 1.0 == n", "n < n + 0.5", "math.copysign(1, 0.0 * n) > 0"),
        *("n > 0.5", "n / 2 > 1", "math.ceil(n / 3) > 1", "int(n * 0.5) > 2", "max(n, 2.5) == n"),
        *("n * 0.1 * 3", "n / 3 * 3", "(n + 1) * 0.5", "max(n, 2.5)", "float(n)"),
    ],
)
@EAGER_AND_AOT
def test_floats_of_ints_are_not_simplified(use: str, backend: str) -> None:
    source = f"""
        import math
        INF = float("inf")

        def f(z):
            n = (z * 1)[0].item()
            if {use}:
                z = z + 1
            return z.double() * ({use}), z
        """
    for n in (0, 7, -1, 2**53 + 1, 2**60):
        agrees(source, [torch.tensor([n])] * 2, backend=backend, orders=1)


@pytest.mark.parametrize("largest", ["max(n, 2.5)", "min(n, 0.5)"])
def test_a_type_that_depends_on_the_number(largest: str) -> None:
    """Dynamo makes floats of ints there once they are dynamic."""
    agrees(
        f"def f(z):\n    n = (z * 1)[0].item()\n    return z, {largest}\n",
        [torch.tensor([n]) for n in (1, 7, -1, 0, 2**53 + 1)],
    )


@pytest.mark.parametrize("use", ["int(v)", "round(v) + 1", "y.new_zeros(max(0, math.ceil(v)) % 9)"])
@EAGER_AND_AOT
def test_ints_of_floats(use: str, backend: str) -> None:
    """There is none of NaN; a kernel would make one."""
    source = f"""
        import math

        def f(x):
            y = x * 2
            v = y[0].item()
            y.add_(1)
            return y * v, {use}
        """
    calls = [*FLOATS, torch.tensor([0.75, 1.0]), torch.tensor([-1.25, 1.0]), torch.tensor([2.6, 0])]
    assert "capture" in agrees(source, calls, backend=backend).mends


@pytest.mark.parametrize("use", ["y * (6 // n)", "y * (6 % n)", "y / n", "1 / n", "y * n // 2"])
def test_divisors_that_may_be_zero(use: str) -> None:
    """A kernel that divides ints by zero stops the process."""
    source = f"""
        def f(x, z):
            y = x * 2
            n = (z * 1)[0].item()
            return y, {use}
        """
    agrees(source, [(ONE, torch.tensor([n, 0])) for n in (1, 0, 3, -2)])


def test_a_speculation_on_a_number_is_checked() -> None:
    """Dynamo asserts what it is told of ints, but not what it is told of floats."""
    check(
        """
        def f(x):
            v = x.sum().item()
            y = x * v
            return y * 2 if v > 0 else y
        """,
        [MANY, -MANY],
        mends="capture@2 speculate@4",
    )


def test_an_empty_mask_is_speculated_on_not_to_be() -> None:
    check(
        """
        def f(x):
            y = x[x > 2]
            if y.numel() == 0:
                return x.sum() * 0
            return y.mean()
        """,
        CALLS,
        mends="capture@2 speculate@3",
    )


@EAGER_AND_AOT
@pytest.mark.parametrize("scale", ["x * 1", "x * w"])
@pytest.mark.parametrize(
    "body",
    [
        "y += 1; return y, x",
        "z = y * 2; y += 1; return y, z",
        "v = y.view(-1, 1); v.mul_(2); return y",
        "y += torch.ones(1); return y",
        "y[y > 2] = 9; return y",
        "y.copy_(torch.zeros(())); return y",
        "y.add_(y); return y",
        "i = (x > 1).nonzero()[:, 0]; z = x[i]; z *= 3; return x.clone().index_add_(0, i, z)",
        "i = torch.arange(y.shape[0]); return y.scatter_(0, i, y.flip(0))",
        "i = torch.zeros(5, dtype=int); return y.scatter_add_(0, i, torch.ones(5))",
        "i = torch.arange(y.shape[0]); return y.scatter_reduce_(0, i, y * 2, 'amax')",
        "i = torch.arange(y.shape[0]); return y.scatter_(0, i, 2.0)",
    ],
)
def test_a_tensor_of_unknown_size_that_is_changed_in_place(
    body: str, scale: str, backend: str
) -> None:
    outcome = check(
        f"""
        w = nn.Parameter(torch.ones(4))

        def f(x):
            x = {scale}
            y = x[x > 1]
            {body}
        """,
        [*CALLS, torch.tensor([0.0, 2.0, 0.0, 0.0])],
        mends="capture@5",
        backend=backend,
        grad="w" in scale,
        orders=2,
    )
    assert "capture@5" in outcome.mends


@pytest.mark.parametrize(
    "body",
    [
        "y += torch.ones(3)",
        "y += x[x > 0]",
        "y = y.expand(2, -1); y += 1",
        "a, b = y[:-1], y[1:]; a += b",
        "y.scatter_(0, torch.arange(2), torch.ones(3))",
        "y.scatter_(0, torch.zeros(3, dtype=int), y)",
        "z = torch.stack([y, y]); z.scatter_(1, torch.zeros(2, 3, dtype=int), 2.0)",
    ],
)
def test_a_write_that_may_fail_for_an_unknown_size(body: str) -> None:
    """Eager Python may raise where a backend that computes it anew does not."""
    scope: dict[str, Any] = {"torch": torch}
    exec(f"def f(x):\n    y = x[x > 1]\n    {body}\n    return y", scope)
    torch._dynamo.reset()
    with gm.enabled(), gm.config.patch(rules_off=("hoist", "full-mask")):
        with contextlib.suppress(RuntimeError):
            torch.compile(scope["f"], backend="eager")(torch.tensor([2.0, 3.0, 4.0]))
        assert "capture-fails" in {decline.reason for decline in gm.report().declines}


def test_a_size_that_is_needed_breaks_as_stock() -> None:
    check(
        """
        def f(x):
            for i in x[(x @ x) * x > 50]:
                x = x + i
            return x
        """,
        CALLS,
        declines="hoist-too-dear@2",
        breaks=None,
    )


@pytest.mark.parametrize("value", [MANY, ONE])
def test_a_check_of_all_elements_is_a_speculation(value: torch.Tensor) -> None:
    check(
        """
        def f(x):
            torch._check_tensor_all(x > 0)
            return x * 2
        """,
        [MANY, value, MANY],
        mends="speculate@2",
    )


@pytest.mark.parametrize(
    "body",
    [
        "i = (x > 2).nonzero().squeeze()\n    return x[i], i.dim()",
        "i = (x > 2).nonzero().squeeze()\n    if i.dim() == 0:\n        i = i.unsqueeze(0)\n    return x[i], i",
        "z = x[x > 2].squeeze()\n    return (z**2).sum() if z.dim() else z * 5",
        "y = x[x > 2]\n    return y.squeeze(0).ndim, torch.squeeze(y.view(-1, 1), (0, 1)).dim()",
        "y = x[x > 2]\n    return (y[:, None] * x).squeeze(0).dim()",
        "y = x[x > 2].unsqueeze(1)\n    return y, y.t().is_contiguous(), y.t().stride()",
    ],
)
@pytest.mark.parametrize("off", [(), ("hoist",)])
def test_what_depends_on_whether_a_size_is_one(body: str, off: tuple[str, ...]) -> None:
    mends = [*(() if off else ("hoist@2",)), *(("capture@3",) if body.endswith("i.dim()") else ())]
    with gm.config.patch(rules_off=off):
        check(f"def f(x):\n    {body}\n", CALLS, " ".join(mends), None, None)


def test_capture_is_tried_again_for_what_is_met_late() -> None:
    """The lists cannot be captured, and are hoisted one after the other; the mask can be."""
    weight, rows = torch.eye(2), torch.arange(-8.0, 4.0).reshape(6, 2)
    lengths, others = torch.tensor([2, 1, 1]), torch.tensor([1, 2, 1])
    check(
        """
        def f(x, weight, first, second):
            one = torch.repeat_interleave(first, first).tolist()
            x = torch.cat([part * 2 for part in x.split(one)])
            two = torch.repeat_interleave(second, second).tolist()
            x = torch.cat([part * 2 for part in x.split(two)])
            keep = (x @ weight > 0).any(0)
            return x[:, keep]
        """,
        [(rows, weight, lengths, others), (-rows, weight, others, lengths)],
        mends="hoist@2 hoist@4 capture@7",
        fullgraph=True,
    )


def test_a_number_that_rests_on_a_size_is_read_before_the_graph() -> None:
    """The size stays known only at run time: what has another one is not compiled again."""
    outcome = check(
        """
        def f(x):
            large = x[x > 2]
            for _ in range((large > 3).sum()):
                x = x * 2
            return x, large + 1
        """,
        CALLS,
        mends="capture@2 hoist@3",
        fullgraph=True,
    )
    assert outcome.graphs <= len(CALLS)


def test_a_mask_under_a_transform() -> None:
    """torch has no batching rule for the size; the attempt that finds it out leaves nothing."""
    program = """
    def f(x, w):
        v = x @ w
        rows = v.isfinite().all(1)
        return torch.func.vmap(lambda column: column[rows])(v.t()), v[rows].squeeze()
    """
    full, hole = torch.ones(2, 3), torch.ones(2, 3)
    hole[1, 0] = float("inf")
    agrees(program, [(full, torch.ones(3, 4)), (hole, torch.ones(3, 4)), (full, torch.ones(3, 4))])


def test_truth_values_of_sizes_are_computed_with() -> None:
    """A size that varies is known before the graph, unlike what is captured."""
    outcome = check(
        """
        def f(x, axes):
            large = x[x > 2]
            unknown = sum(int(n == -1) for n in (len(x), *axes))
            return large * 2, unknown, int(len(x) == 6)
        """,
        [(torch.arange(float(n)), axes) for n in (4, 5, 6) for axes in ((2, -1), (-1, -1))],
        mends="capture@2",
    )
    assert outcome.graphs > 1


def test_a_capture_is_not_to_blame_for_an_input_that_is_to_require_a_gradient() -> None:
    source = """
        zero, held = torch.zeros(()), torch.zeros(4)

        def f(x):
            held.copy_(x)
            n = (held > 2).sum().item()
            total = x[torch.randperm(len(x))[:n]].sum()
            if n > 9:
                total = total + n
            zero.requires_grad_()
            return zero + total
        """
    mends = "capture@5 capture@6 speculate@7 leaf@9"
    check(source, CALLS, mends=mends, declines=None, breaks=None, orders=1)


@pytest.mark.parametrize("read", ["n.item()", "int(n)"])
def test_a_number_of_an_input_is_told_of(read: str) -> None:
    """Dynamo has a symbol for it before it is asked for."""
    calls = [(MANY, torch.tensor(2)), (MANY, torch.tensor(5)), (NONE, torch.tensor(2))]
    check(f"def f(x, n):\n    return x * {read} + 1", calls, "capture@2")
