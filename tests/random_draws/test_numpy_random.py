"""Functions that draw from NumPy's generator are called before the graph, in order."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import graphmend_bc as gm
from tests.oracle import Outcome, check, load

A, B, C = torch.ones(2, 6), -torch.ones(2, 6), torch.arange(12.0).reshape(2, 6)
CALLS = [A, B, C]

MASK = """
import numpy as np

def mask_of(shape, share, lengths=None):
    rows, columns = shape
    if share > 1:
        raise ValueError("share is above one")
    extra = np.random.rand(1).item()

    def count(length):
        return max(int(share * length + extra), 1)

    mask = np.zeros((rows, columns), dtype=bool)
    lengths = lengths.sum(-1).tolist() if lengths is not None else [columns for _ in range(rows)]
    found = []
    for length in lengths:
        index = np.random.choice(np.arange(length), count(length), replace=False)
        found.append(np.concatenate([index, np.ones(columns - len(index), dtype=np.int64) * index[0]]))
    np.put_along_axis(mask, np.array(found), 1, -1)
    return mask
"""


def draws(source: str, calls: list[object] = CALLS, **kwargs: object) -> Outcome:
    """The program is whole, and `mask_of` was called before the graph."""
    kwargs.setdefault("fullgraph", True)
    return check(MASK + source, calls, "draw@7", **kwargs)  # type: ignore[arg-type]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_masks(backend: str) -> None:
    draws(
        """
def f(x):
    mask = torch.tensor(mask_of((x.shape[0], x.shape[1]), 0.3), dtype=torch.bool)
    return x.masked_fill(mask, 0.0) * 2
""",
        backend=backend,
        orders=1 if backend == "inductor" else 3,
    )


def test_the_order_of_draws() -> None:
    draws("""
def either(x, share):
    mask = mask_of(x.shape, share)
    return x * torch.from_numpy(mask_of(x.shape, share * 2)) + torch.from_numpy(mask)

def f(x):
    for share in (0.2, 0.3, 0.4):
        x = either(x, share) + 1
    return x
""")


def test_lists_and_tuples_of_arrays() -> None:
    check(
        """
        import numpy as np

        def noise(n, k):
            scale = np.random.rand(1).item()
            return [np.random.randn(n).astype("float32") * scale, (np.random.randint(0, 5, k),)]

        def f(x):
            value, (more,) = noise(x.shape[1], 6)
            return (x + torch.from_numpy(value)) * torch.from_numpy(more)
        """,
        CALLS,
        mends="draw@4",
    )


def test_gradients_go_through_the_rest() -> None:
    weights = [torch.full((2, 6), float(n), requires_grad=True) for n in (1, 2)]
    draws(
        """
w = nn.Parameter(torch.ones(6))

def f(x):
    return x * w * torch.from_numpy(mask_of(x.shape, 0.3))
""",
        weights,
        grad=True,
    )


LONG, SHORT = torch.ones(2, 6, dtype=torch.long), torch.tensor([[1] * 6, [1, 1, 1, 0, 0, 0]])


@pytest.mark.parametrize("lengths", ["lengths", "(lengths > 0).long()", "lengths.flip(0)"])
def test_numbers_that_depend_on_inputs(lengths: str) -> None:
    draws(
        f"""
def f(x, lengths):
    return x * torch.from_numpy(mask_of(x.shape, 0.3, {lengths}))
""",
        [(A, LONG), (C, SHORT), (B, SHORT)],
    )


def test_another_batch_size() -> None:
    draws(
        """
def f(x):
    return x * torch.from_numpy(mask_of(x.shape, 0.3))
""",
        [A, torch.ones(3, 6), torch.ones(4, 6), torch.ones(4, 5)],
    )


def test_an_exception_of_the_function() -> None:
    draws(
        """
def f(x, lengths):
    y = x * torch.from_numpy(mask_of(x.shape, 0.3))
    return y + torch.from_numpy(mask_of(x.shape, 0.3, lengths))
""",
        [(A, LONG), (C, LONG - 1), (B, SHORT)],
    )


def test_an_array_of_another_shape() -> None:
    check(
        """
        import numpy as np

        def some(flags):
            return np.random.rand(3 + int(flags.sum().item())) * np.random.rand(1).item()

        def f(x, flags):
            return x.sum() + torch.from_numpy(some(flags)).sum()
        """,
        [(A, torch.zeros(2)), (A, torch.ones(2)), (A, torch.zeros(2))],
        mends="draw@4",
    )


def test_draws_are_rolled_back_with_the_graph() -> None:
    check(
        MASK
        + """
def f(x):
    x = x * torch.from_numpy(mask_of(x.shape, 0.3)) + torch.rand(6)
    if x.sum() < -1:
        raise ValueError("below")
    return x * torch.from_numpy(mask_of(x.shape, 0.3))
""",
        CALLS,
        mends="draw@7 speculate@23",
    )


def test_draws_are_rolled_back_if_the_graph_raises() -> None:
    draws(
        """
def f(x, i):
    x = x * torch.from_numpy(mask_of(x.shape, 0.3))
    x = x[:, i]
    return x * torch.from_numpy(mask_of(x.shape, 0.3))
""",
        [(A, torch.tensor([0, 1])), (A, torch.tensor([0, 9])), (B, torch.tensor([2, 1]))],
    )


def test_a_break_after_the_draws() -> None:
    check(
        MASK
        + """
def f(x):
    x = x * torch.from_numpy(mask_of(x.shape, 0.3))
    torch._dynamo.graph_break()
    return x * torch.from_numpy(mask_of(x.shape, 0.3))
""",
        CALLS,
        mends="draw@7",
        declines="break-requested@23",
        breaks=1,
    )


def test_effects_around_the_draws() -> None:
    check(
        MASK
        + """
def f(x):
    print("before", x.sum())
    x = x * torch.from_numpy(mask_of(x.shape, 0.3))
    print("after", x.sum())
    return x
""",
        CALLS,
        mends="draw@7 defer@22 defer@24",
    )


HOST = """
import functools
import numpy as np

seen = []
w = nn.Parameter(torch.ones(6))

class Mine(np.float64):
    pass

def rounds():
    yield draw(1)
    yield draw(2)

@functools.cache
def cached(n):
    return draw(n)

def draw(n):
    {function}

def f(x):
    values = {call}
    return x + sum(torch.as_tensor(v).sum() for v in values)
"""
LEFT_ALONE = [
    (
        "seen.append({one}); return np.zeros(n)",
        "draw(3)",
        "draw-not-host: The function that draws random numbers may do something else as well. It uses 'seen.append'",
        "capture@19 draw@19",
    ),
    ("return np.zeros(n) + np.full(n, {one})", "draw([1, 2])", "is a list", "draw@19"),
    (
        "return np.zeros(6) + max(n.tolist()) * {one}",
        "draw((w * x).sum(0))",
        "requires a gradient",
        "capture@19 draw@19 hoist@19",
    ),
    (
        "n[0] = 5; return np.zeros(2) + {one}",
        "draw(x)",
        "changes an argument",
        "capture@19 draw@19",
    ),
    ("return np.zeros(n) + {one}", "[v for n in rounds() for v in n]", "in a generator", ""),
    ("return {one}", "[draw(x)]", "gives a float", "capture@19 draw@19"),
    ("return np.zeros(n) + {one}", "[v for v in cached(2)]", "not called every time", ""),
    (
        "return n.sum(0).numpy() * {one} if {one} < 0 else n.numpy()",
        "draw(x)",
        "shares memory",
        "capture@19 draw@19 speculate@19",
    ),
    (
        "return np.broadcast_to(np.zeros(2) + {one}, (3, n))",
        "draw(2)",
        "cannot have",
        "capture@19 draw@19",
    ),
    ("return np.array([None, {one}])", "[draw(2)[1]]", "array of object", "draw@19"),
    ("return np.zeros(n) + Mine({one})", "draw(2)", "uses 'Mine'", "draw@19"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("function", "call", "reason"), [case[:3] for case in LEFT_ALONE])
def test_what_is_left_alone(function: str, call: str, reason: str) -> None:
    """The rule is passed over; values are not compared, as stock draws from torch's generator."""
    function = function.replace("{one}", "np.random.rand(1).item()")
    module = load(HOST.format(function=function, call=call))
    torch._dynamo.reset()
    with gm.enabled(), gm.config.patch(rules_off=("drawn",)):
        torch.compile(module.f, backend="eager")(A.clone())
        report = str(gm.report())
    assert reason in report, report
    assert "\ndraw " not in report, report


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "call", "mends"), [(*case[:2], case[3]) for case in LEFT_ALONE]
)
def test_what_is_drawn_number_by_number(function: str, call: str, mends: str) -> None:
    """Where the function cannot be called before the graph, its draws may be, or it breaks there."""
    function = function.replace("{one}", "np.random.rand(1).item()")
    source = HOST.format(function=function, call=call)
    check(source, CALLS, mends, declines=None, breaks=None)


def test_in_an_arm() -> None:
    check(
        MASK
        + """
def f(x):
    y = x
    if x.sum() > 0:
        y = x * torch.from_numpy(mask_of(x.shape, 0.3))
    return y
""",
        CALLS,
        mends="draw@7 speculate@23",
        declines=None,
        breaks=None,
    )


def test_a_name_that_means_something_else_later(monkeypatch: pytest.MonkeyPatch) -> None:
    scope = {"np": np, "torch": torch}
    source = """
def noise(n):
    return np.random.rand(n).astype("float32") * np.random.rand(1).item()

def f(x):
    return x + torch.from_numpy(noise(6))
"""
    exec(compile(source, "<noise>", "exec"), scope)
    torch._dynamo.reset()
    with gm.enabled():
        compiled = torch.compile(scope["f"], backend="eager")
        for _ in range(2):
            np.random.seed(1)
            expected = scope["f"](A)
            np.random.seed(1)
            assert torch.equal(compiled(A), expected)
            assert "draw" in str(gm.report())
            monkeypatch.setattr(np.random, "rand", lambda n: np.full(n, 2.0))


def test_warnings_come_when_the_function_is_called() -> None:
    check(
        """
        import numpy as np

        def noise(n):
            scale = np.random.rand(1).item()
            return np.log(np.zeros(n)) * scale

        def f(x):
            return x + torch.from_numpy(noise(6))
        """,
        CALLS,
        mends="draw@4",
        orders=2,
    )


@pytest.mark.parametrize("change", ["np.put_along_axis(a, a.argsort() * 0, 7, 0)", "a.sort()"])
def test_a_function_that_changes_an_array_of_the_callers(change: str) -> None:
    """A NumPy array shares memory with a tensor; the tensor's version does not count the write."""
    check(
        f"""
        import numpy as np

        def draw(lengths):
            a = lengths.numpy()
            {change}
            return np.random.rand(6) + a.max()

        def f(x, lengths):
            return x + torch.tensor(draw(lengths))
        """,
        [(A, torch.tensor([3, 1, 2])), (B, torch.tensor([2, 5, 1]))],
        mends="draw@6",
        declines=None,
        breaks=None,
    )
