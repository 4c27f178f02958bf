"""Values that depend on the inputs only are computed before the graph and enter it as inputs."""

from __future__ import annotations

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.dynamo.before_graph.graph_slice import Slice
from tests.backends import EAGER_AND_AOT
from tests.oracle import check, load
from tests.releases import since

A, B, C = (
    torch.tensor([3.0, 1.0, 0.0]),
    torch.tensor([2.0, 2.0, 1.0]),
    torch.tensor([0.0, 1.0, 4.0]),
)
CALLS = [A, B, C]


@EAGER_AND_AOT
@pytest.mark.parametrize(
    ("body", "mends"),
    [
        ("for i in (x > 1).nonzero():\n        y = y + x[i]", "hoist@3"),
        ("for i in range(int(x[0].item())):\n        y = y + i", "hoist@3"),
        (
            "for n in x.long().tolist():\n        for j in range(n):\n            y = y + j",
            "hoist@3",
        ),
        ("y = y * [1, 2, 3, 4, 5][int(x.max().item())]", "hoist@3"),
        ("for v in x.tolist():\n        y = y + {0.0: 7}.get(v, 1)", "hoist@3"),
        (
            "sizes = x.long().tolist()\n    sizes.append(1)\n    y = [y + n for n in sizes for _ in range(n)]",
            "hoist@3",
        ),
        ("y = {n: y + n for n in x.long().tolist()}", "hoist@3"),
        ("for v in x[x > 1]:\n        y = y + v", "hoist@3"),
        ("for v in torch.stack([x, y])[1][x > 1]:\n        y = y + v", "hoist@3"),
        ("y = y.view(*([1] * int(x[2].item())), -1)", "hoist@3"),
    ],
)
def test_forms(body: str, mends: str | None, backend: str) -> None:
    outcome = check(
        f"def f(x):\n    y = x + 1\n    {body}\n    return y\n", CALLS, mends, backend=backend
    )
    assert "hoist@3" in outcome.mends


def test_in_an_inlined_method_from_a_buffer_and_two_inputs() -> None:
    check(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("offset", torch.tensor([1, 0, 2]))

            def spans(self, x, k):
                return (x.long() + self.offset * k).tolist()

            def forward(self, x, k):
                return [x[:n] * n for n in self.spans(x, k) for _ in range(n)]

        net = Net()

        def f(x, k):
            return net(x, k)
        """,
        [(A, 1), (B, 2), (C, 1)],
        mends="hoist@7",
        fullgraph=True,
    )


def test_gradients_go_through_the_rest() -> None:
    check(
        """
        w = nn.Parameter(torch.ones(3))

        def f(x):
            y = x * w
            for n in x.long().tolist():
                for i in range(n):
                    y = y * w
            return y
        """,
        CALLS,
        mends="hoist@5",
        grad=True,
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("n = int(torch.rand(2).sum().item() * 4)", "hoist-not-input"),
        ("x.add_(1)\n    n = int(x[0].item())", "hoist-not-input"),
        ("n = int((x @ x).item() / 7)", "hoist-too-dear"),
        ("n = int(x.cumsum(0)[0].item())\n    print(n)", ""),
        ("with torch.autocast('cpu'):\n        n = int(x[0].item())", "hoist-not-input"),
    ],
)
def test_what_is_not_an_input_is_declined(body: str, reason: str) -> None:
    outcome = check(
        f"def f(x):\n    {body}\n    for i in range(n):\n        x = x + i\n    return x\n",
        [A.clone(), C.clone()],
        "" if reason else "hoist@2 defer@3",
        None,
        None,
    )
    assert reason in outcome.declines


def test_a_call_that_raises_raises_as_in_eager() -> None:
    check(
        """
        def f(x):
            y = x + 1
            return [y] * int(x[:2].item())
        """,
        [A, B],
        mends="",
        declines=None,
        breaks=None,
    )


def test_inside_a_speculated_arm_and_with_an_effect() -> None:
    check(
        """
        def f(x):
            if x.max() > 3:
                print("large")
                return x * len(range(int(x[2].item())))
            return x
        """,
        CALLS,
        {
            "forward": "speculate@2 defer@3 hoist@4",
            "twice": "speculate@2",
            "reversed": "speculate@2 defer@3 hoist@4",
            "both ways": "speculate@2 defer@3 hoist@4",
        },
        None,
        None,
    )


def test_dynamic_shapes() -> None:
    check(
        """
        def f(x):
            y = x * 2
            for n in x[:2].long().tolist():
                for i in range(n):
                    y = y + n
            return y
        """,
        [A, torch.tensor([3.0, 1.0, 5.0, 6.0]), torch.tensor([3.0, 1.0, 5.0, 6.0, 7.0]), C],
        mends="hoist@3",
        dynamic=True,
    )


def test_a_value_that_varies_too_much_is_given_up() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        for i in range(int(x[0].item())):
            x = x + i
        return x

    with gm.enabled():
        compiled = torch.compile(f, backend="eager")
        for n in [*range(12), *range(12)]:
            x = torch.tensor([float(n), 1.0])
            assert torch.equal(compiled(x), f(x))
        assert [d.reason for d in gm.report().declines] == ["hoist-varies"]


def test_arguments_of_other_types_find_other_code() -> None:
    def f(x: object) -> object:
        return [x * i for i in range(int(x[0].item()))] if hasattr(x, "item") else x  # type: ignore

    with gm.enabled():
        compiled = torch.compile(f, backend="eager")
        for x in (A, None, [1, 2], B, torch.tensor([2]), {}, A.double()):
            expected, found = f(x), compiled(x)
            assert str(found) == str(expected)


def test_a_frame_that_calls_itself() -> None:
    check(
        """
        def f(x, depth=2):
            y = [x * i for i in range(int(x[0].item()))]
            if depth:
                y.append(f(x[:2] + 1, depth - 1))
            return y
        """,
        CALLS,
        "hoist@2",
        None,
        None,
    )


@pytest.mark.parametrize(
    "body",
    [
        "t = x[0]\n    a, b = [1] * int(t), {float(t): 5}\n    return x + len(a) + b.get(2.5, 1), b",
        "a, b = [g(x, k) for k in (False, True)]\n    return [x + i.sum() for i in a], [x + i.sum() for i in b], a, b",
    ],
)
def test_different_functions_of_the_same_tensor_on_one_line(body: str) -> None:
    if "b.get" in body and not since(2, 13):
        pytest.skip("2.11 traces no dict with such a key")
    check(
        f"def g(x, k):\n    return torch.nonzero(x, as_tuple=k)\n\ndef f(x):\n    {body}\n",
        [torch.tensor([2.5, 1.0]), *CALLS],
        "hoist@2" if "g(" in body else "hoist@6",
        None,
        None,
    )


@EAGER_AND_AOT
def test_a_gradient_goes_through_what_is_read_from_an_input(backend: str) -> None:
    check(
        """
        w = nn.Parameter(torch.tensor([1.0, 2.0, 3.0]))

        def f(x):
            y = x * 2
            for v in x[x > 1]:
                y = y + v * v
            for v in w[w > 1]:
                y = y + v
            with torch.no_grad():
                for v in w[w > 2]:
                    y = y + v
            return y, v.requires_grad, v.is_leaf
        """,
        CALLS,
        "hoist@5 hoist@10",
        None,
        None,
        grad=True,
        backend=backend,
    )


def test_the_sign_of_zero() -> None:
    check(
        """
        def f(x):
            d = {}
            for v in x.tolist():
                d[v] = v
            return d, x + 1
        """,
        [torch.tensor([0.0, 1.0]), torch.tensor([-0.0, 1.0])],
        "hoist@3",
        None,
        None,
    )


@pytest.mark.parametrize(
    ("block", "whole"),
    [
        ('torch.autocast("cpu", enabled=False)', True),
        ('torch.autocast("cpu", torch.bfloat16)', False),
        ("torch.inference_mode()", True),
    ],
)
def test_after_a_block_in_another_mode(block: str, whole: bool) -> None:
    """What is computed in a mode is not computed before the graph; what comes after it may be."""
    check(
        f"""
        def f(x):
            with {block}:
                y = x.reshape(1, 3) @ x.reshape(3, 1)
            return [x + n for n in (x * 2).long().tolist() for _ in range(n)], y
        """,
        CALLS,
        mends="hoist@4",
    )
    check(
        f"""
        def f(x):
            with {block}:
                y = x + 0.001
            return [x + n for n in y.long().tolist() for _ in range(n)]
        """,
        CALLS,
        mends="hoist@4" if whole else "",
        declines=None if not whole else "",
        breaks=None if not whole else 0,
    )


@pytest.mark.parametrize("enters", ["enabled=False", "dtype=torch.bfloat16"])
@pytest.mark.parametrize("on", ["False", "True", "next(turns)"])
def test_within_a_block_in_another_mode(enters: str, on: str) -> None:
    """A block that switches autocast off, where it was off before, is like none."""
    source = f"""
    import itertools

    turns = itertools.cycle([False, True])

    def around():
        return torch.autocast("cpu", dtype=torch.bfloat16, enabled={on})

    def f(x):
        with torch.autocast("cpu", {enters}):
            y = (x.bfloat16().prod() * 10000).long().reshape(1)
            parts = [x + n for n in y.tolist() for _ in range(n % 5)]
        return parts, y
    """
    calls = [torch.tensor([1.001, 0.5, n]) for n in (2.003, 1.0, 3.017)]
    assumed = enters == "enabled=False" and on == "False"
    check(
        source,
        calls,
        mends="hoist@11" if assumed else None,
        declines="" if assumed else None,
        breaks=0 if assumed else None,
    )


@pytest.mark.slow
def test_a_module_moved_to_the_dtype_it_has() -> None:
    check(
        """
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.part = nn.Linear(3, 3)

            def forward(self, x):
                self.part = self.part.to(x.dtype)
                y = self.part(x)
                if y.sum() > 1000:
                    raise ValueError("large")
                for n in x.long().tolist():
                    for _ in range(n):
                        y = y + 1
                return y

        torch.manual_seed(0)
        net = Net()

        def f(x):
            return net(x)
        """,
        [A, A + 0.25, torch.tensor([9000.0, 1, 2]), A.double()],
        # The other way round the first call moves the module, where the graph breaks.
        mends="speculate@9 hoist@11",
        declines=None,  # torch's own Module.to where the dtype is another one
        breaks=None,
    )


def test_values_that_are_computed_from_one_another() -> None:
    """Guards compare tensors by address, so none may go before all have been looked at."""
    check(
        """
        def f(x, z):
            some = len(z.unique()) > 1
            if x[sum([v for v in x[x > 0]], x) > 0].numel() == 0:
                return x + some
            return x - some
        """,
        [
            (x, z)
            for x in (-A, A, B, -C)
            for z in (torch.tensor([2, 2, 0]), torch.tensor([0, 0, 0]))
        ],
        mends="hoist@2 capture@3 hoist@3 speculate@3",
        declines=None,
        breaks=None,
    )


def test_a_number_that_is_asked_for_in_each_round_is_read_once() -> None:
    """Once for each element and each place in the code; each round asked for it."""
    program = """
    def f(x, sizes):
        for _ in range(2):
            for place in (0, 1, 0):
                x = x + x[: sizes[place].item()].sum()
        return x * sizes[1].item()
    """
    f = load(program).f
    with gm.config.patch(strategies=("hoist",)), gm.enabled():
        torch._dynamo.reset()
        gm.reset()
        compiled = torch.compile(f, backend="eager", fullgraph=True)
        given = torch.randn(5), torch.tensor([3, 2])
        assert torch.equal(compiled(*given), f(*given))
        with torch.profiler.profile() as profiler:
            compiled(*given)
        others = torch.randn(5), torch.tensor([1, 4])
        assert torch.equal(compiled(*others), f(*others))
    found = {event.key: event.count for event in profiler.key_averages()}
    assert found["aten::_local_scalar_dense"] == 3


@pytest.mark.parametrize("step", ["sample", "torch.inference_mode()(sample)"])
def test_numbers_of_a_schedule_in_inference_mode(step: str) -> None:
    """As samplers of diffusion models have it; nothing but constants decides on the numbers."""
    source = f"""
        def sample(x, steps):
            times = torch.linspace(-1, 9, steps=steps + 1)
            times = list(reversed(times.int().tolist()))
            for now, then in zip(times[:-1], times[1:]):
                if then < 0:
                    return x + now
                x = x * now - table[then]
            return x

        table = torch.arange(10.0)
        step = {step}

        def f(x):
            with torch.inference_mode():
                return step(x, len(x) + 1)
        """
    longer = torch.cat([A, A])
    check(source, [A, A + 1, longer, longer, A], mends=None)


def test_a_tensor_of_inference_mode_is_none_of_ours() -> None:
    check(
        """
        def f(x):
            with torch.inference_mode():
                kept = x[x > 1]
                return [kept.is_inference(), *(n for n in kept.long().tolist() for _ in range(n))]
        """,
        CALLS,
        mends=None,
        declines=None,
        breaks=None,
    )


@pytest.mark.parametrize(
    ("numbers", "guarded"), [("(torch.arange(3) * 2)", False), ("(x + 1).long()", True)]
)
def test_numbers_that_rest_on_no_input_are_constants(
    numbers: str, guarded: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the guards of each call would compute them again."""
    source = f"""
        def f(x):
            rows = []
            for n in {numbers}.tolist():
                rows += [x[i % 3] * n for i in range(n)]
            return torch.stack(rows)
        """
    check(source, CALLS, "hoist@3")
    f, ran, run = load(source).f, list[str](), Slice.run
    torch._dynamo.reset()
    with gm.enabled():
        compiled = torch.compile(f, backend="eager")
        compiled(A)
        monkeypatch.setattr(Slice, "run", lambda *args: ran.append(args[0].label) or run(*args))
        assert torch.equal(compiled(A), f(A))
        assert gm.report().compiled.graphs == 1
    assert bool(ran) == guarded


COMMON = """
def f(x):
    sizes = ((x + 1).sin().exp().abs() * 2).long()
    rows = [x]
    for i in range(3):
        rows += [x * j for j in range({read})]
        {then}
    return torch.stack(rows)
"""


@pytest.mark.parametrize(
    ("read", "then", "most"),
    [
        ("int(sizes[i])", "pass", 2),
        ("sizes[i].item()", "pass", 2),
        ("int(sizes[i])", "sizes = sizes + 1", 3),  # the last one is in the graph
        ("int(sizes[i])", "sizes.add_(1)", 4),
        ("sum(sizes.tolist()[:i])", "pass", 2),
    ],
)
def test_what_several_numbers_have_in_common_is_run_for_all(
    read: str, then: str, most: int
) -> None:
    """By the first of them, and by the second for those that follow; in place it is written anew."""
    source = COMMON.format(read=read, then=then)
    check(source, CALLS, None, None, 0)
    f = load(source).f
    with gm.enabled():
        torch._dynamo.reset()
        compiled = torch.compile(f, backend="eager")
        assert torch.equal(compiled(A), f(A))
        with torch.profiler.profile() as profiler:
            assert torch.equal(compiled(A), f(A))
    found = {event.key: event.count for event in profiler.key_averages()}
    assert found["aten::exp"] - 1 <= most
