"""Values computed before the graph, of what the function changes."""

from __future__ import annotations

import pytest
import torch

import graphmend_bc as gm
from tests.backends import EAGER_AND_AOT
from tests.oracle import check
from tests.releases import since

A, B, C = (
    torch.tensor([3.0, 1.0, 0.0]),
    torch.tensor([2.0, 2.0, 1.0]),
    torch.tensor([0.0, 1.0, 4.0]),
)
CALLS = [A, B, C]


def test_a_value_of_changed_memory_is_computed_anew() -> None:
    """The same tensor object, written between calls, once behind autograd's back."""

    def f(x: torch.Tensor) -> torch.Tensor:
        for i in range(int(x[0].item())):
            x = x + i
        return x

    with gm.enabled():
        compiled = torch.compile(f, backend="eager", fullgraph=True)
        x = torch.tensor([3.0, 1.0])
        for change in (lambda: None, lambda: x.sub_(1), lambda: x.data.add_(2), lambda: None):
            change()
            assert torch.equal(compiled(x), f(x))
        assert {mend.strategy for mend in gm.report().mends} == {"hoist"}


@pytest.mark.slow
@EAGER_AND_AOT
@pytest.mark.parametrize(
    ("value", "use"),
    [
        ("int(x[0].item())", "[x + i for i in range(v)]"),
        ("x.long().tolist()", "[x + i for i in v for _ in range(i)]"),
        ("x[x > 1]", "[e + 1 for e in v]"),
        ("(x > 1).nonzero()", "len([e for e in v])"),
    ],
)
@pytest.mark.parametrize("write", ["x.add_(1)", "x.data.mul_(2)", "v = v * 2 if False else v"])
def test_a_value_outlives_the_inputs_it_was_made_of(
    value: str, use: str, write: str, backend: str
) -> None:
    outcome = check(
        f"def f(x):\n    v = {value}\n    y = {use}\n    {write}\n    return y, v\n",
        [A.clone(), B.clone(), C.clone()],
        "hoist@2",
        None,
        None,
        backend=backend,
        orders=2,
    )
    assert "hoist@2" in outcome.mends


def test_a_hoisted_tensor_may_be_changed() -> None:
    check(
        """
        def f(x):
            v = x[x > 1]
            y = [e + 1 for e in v]
            v.add_(5)
            return y, v, x
        """,
        CALLS,
        mends="hoist@2",
    )


IN_PLACE = {
    "method": "y = x.clone()\n    y.add_(1)",
    "item": "y = x * 1\n    y[0] = 4",
    "made here": "y = torch.zeros(3)\n    y[1] = x[0]",
    "copy": "y = torch.zeros_like(x)\n    y.copy_(x)",
    "out": "y = x.clone()\n    torch.add(x, 1, out=y)",
    "foreach": "y = x.clone()\n    torch._foreach_add_([y], 1)",
    "view": "y = x.clone()\n    y.view(-1)[0].fill_(4)",
}


@pytest.mark.parametrize("write", IN_PLACE.values(), ids=IN_PLACE.keys())
def test_what_was_changed_in_the_frame_is_not_computed_before_it(write: str) -> None:
    check(
        f"def f(x):\n    {write}\n    for i in range(int(y[0].item())):\n        x = x + i\n    return x\n",
        CALLS,
        "" if write in (IN_PLACE["out"], IN_PLACE["foreach"]) else "hoist@4",
        None,
        None,
    )


@pytest.mark.parametrize("make", ["x[x > 1]", "(x > 1).nonzero()", "x.long().tolist()"])
def test_every_time_another_object(make: str) -> None:
    check(
        f"""
        def f(x):
            a, b = [{make} for _ in range(2)]
            c = len([1 for v in a])
            if isinstance(a, list):
                a.append(1)
            else:
                a.add_(5)
            return x + c, a, b, a is b
        """,
        CALLS,
        "capture@2" if "tolist" in make and since(2, 13) else "hoist@2",
        None,
        None,
    )


@pytest.mark.parametrize(
    "write",
    [
        "flags[0] = True",
        "flags[x > 2] = True",
        "flags.logical_not_()",
        "flags[1:].copy_(x[:2] > 1)",
        "flags[:1].fill_(True); flags[1:].fill_(False); flags |= x > 2",
        "flags = flags.clone(); other = flags[1:]; other[0] = True",
    ],
)
def test_what_was_written_to_is_computed_with_the_writes(write: str) -> None:
    outcome = check(
        f"""
        def f(x):
            flags = x > 1
            {write}
            y = x + 1
            for i in flags.nonzero():
                y = y + x[i]
            flags[0] = False
            for n in flags.long().tolist():
                y = [y + n for _ in range(n + 1)][-1]
            return y, flags
        """,
        CALLS,
        mends="hoist@5 hoist@8",
        fullgraph=True,
    )
    assert "hoist" in outcome.mends


def test_writes_to_inputs_are_left_alone() -> None:
    check(
        """
        seen = torch.zeros(3)

        def f(x):
            seen.add_(x)
            return [seen + n for n in seen.long().tolist() for _ in range(n)]
        """,
        CALLS,
        mends="",
        declines="hoist-not-input@5",
        breaks=1,
    )


@EAGER_AND_AOT
@pytest.mark.parametrize("grad", [False, True])
def test_a_function_that_changes_what_it_is_given(backend: str, grad: bool) -> None:
    """The mark at `F.batch_norm`, made for the second module, is met by the first one too.

    What the first one normalises is an input. Its statistics must not be updated while compiling.
    """
    x = torch.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 7.0], [0.0, 1.0, 0.0]])
    masks = [torch.tensor(mask) for mask in ([1, 1, 0], [0, 0, 0], [1, 1, 1])]
    check(
        """
        first, second = torch.nn.BatchNorm1d(3), torch.nn.BatchNorm1d(3)

        def f(x, mask):
            y = first(x)
            rows = torch.where((y.sum(-1) * 0 + mask) > 0)[0]
            if len(rows) > 0:
                y[rows] = second(y[rows])
            return y, first.running_mean.clone(), second.running_mean.clone()
        """,
        [(x, mask) for mask in masks],
        mends="capture@5 speculate@6",
        declines=None,
        breaks=None,
        backend=backend,
        grad=grad,
        orders=2,
    )
