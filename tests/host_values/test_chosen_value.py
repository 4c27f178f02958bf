"""Values of which no operator chooses one: the host takes it once the graph has run."""

from __future__ import annotations

import random

import pytest
import torch

from tests.oracle import agrees, check
from tests.settling import both


def signs(count: int = 10, width: int = 4) -> list[torch.Tensor]:
    """Vectors of random signs, the same in every run."""
    drawn = random.Random(3)
    return [torch.tensor([drawn.choice((-1.0, 1.0)) for _ in range(width)]) for _ in range(count)]


def chosen(arms: str, use: str) -> str:
    return f"def f(x):\n    k = {arms}\n    y = x * 2\n    return {use}\n"


NUMBERS = {
    "int and float": "1.5 if x[0] > 0 else 2",
    "inexact": "0.1 if x[0] > 0 else 3",
    "truth and int": "True if x[0] > 0 else 2",
    "infinity": "float('inf') if x[0] > 0 else 1",
    "zeros": "0.0 if x[0] > 0 else -0.0",
    "zero and negative zero": "0 if x[0] > 0 else -0.0",
    "large": "2**40 if x[0] > 0 else 0.5",
    "truths": "True if x[0] > 0 else False",
}
USES = [
    *(f"y {op} k" for op in ("+", "-", "*", "/", "//", "%", "**", ">", "<=", "==", "!=")),
    *(f"k {op} y" for op in ("+", "-", "*", "/", "//", "%", "**", "<", "==")),
    "y * (k * 3 + 1)",
    "y - -k",
    "(y * k, k)",
    "y.int() * k, y.half() * k, y.double() / k, y.bfloat16() + k",
    "y.int() > k",
    "y[0] * k",
    "(y, [k, k + 1], {'k': k}, (k, k))",
    "(y, f'{k}', f'{k!r:>6}')",
    "(y, k is None, k is not None)",
    "(y, k > 1, k == 2)",
    "(y, str(k), int(k == k))",
    "y.mul(k)",
    "y.mul_(k)",
    "torch.full((2,), k)",
    "y * k if k else y",
    "y if isinstance(k, int) else y + 1",
]


@pytest.mark.slow
@pytest.mark.parametrize("arms", NUMBERS.values(), ids=NUMBERS)
def test_numbers(arms: str) -> None:
    for use in USES:
        if use == "k ** y" and "-0.0" in arms:
            continue  # Dynamo's graph raises another zero
        agrees(chosen(arms, use), signs(), orders=1)


@pytest.mark.parametrize("use", ["y * k", "(y - k) / k", "k ** y", "y > k", "(y, k)", "k / y"])
def test_one_graph_for_numbers_of_two_types(use: str) -> None:
    stock, mended = both(chosen("1.5 if x[0] > 0 else 2", use), [(x,) for x in signs(40)])
    assert mended.total.compilations == 2 < stock.total.compilations
    assert (mended.rest.launches, mended.rest.failed) == (20, 0)


@pytest.mark.slow
@pytest.mark.parametrize("use", ["y * k + k", "k - y", "y / k", "k / y", "y ** k", "y % k"])
def test_gradients(use: str) -> None:
    numbers = [("1.5", "2"), ("float('inf')", "0"), ("0.0", "2"), ("0.0", "-0.0")]
    numbers += [("1e-50", "2"), ("1e300", "2"), ("1e-45", "2"), ("1e39", "2")]
    for one, two in numbers:
        arms = f"{one} if x[0] > 0 else {two}"
        source = chosen(arms, f"({use}).sin()")
        agrees(source, [x.requires_grad_() for x in signs(8)], orders=1, grad=True)


KINDS = {
    "text or nothing": 'k = "up" if x[0] > 0 else None\n    return x * 2, k',
    "texts": 'k = "up" if x[0] > 0 else "down"\n    return x, [k], {"state": k}',
    "text of a value": 'k = f"{x.sum():.2f}" if x[0] > 0 else "none"\n    return x + 1, k',
    "value or nothing": "k = x.sum().item() if x[0] > 0 else None\n    return x, k",
    "tuples": "k = (1, 2) if x[0] > 0 else ()\n    return x, k",
    "a tensor or nothing": "k = x * 3 if x[0] > 0 else None\n    return x - 1, k",
    "the argument or nothing": "k = x if x[0] > 0 else None\n    return k",
    "a view or a number": "k = x[1:] if x[0] > 0 else 3\n    return k, x",
    "tensors and numbers": "k = (x, 1) if x[0] > 0 else (2, x.sum())\n    return k, k[0] is x",
    "lists": "k = [1] if x[0] > 0 else [2, x]\n    return k",
    "list twice": "k = [1] if x[0] > 0 else [2, 3]\n    return k, k",
    "one list in two": """r = [1]
    if x[0] > 0:
        a = [1]
        a, b = a, a
    else:
        a, b = [2, 3], None
    return a, b""",
    "nested lists": "k = ([1], 2) if x[0] > 0 else ([2, 3], None)\n    return k",
    "list that grows": "k = [1] if x[0] > 0 else [2, 3]\n    k.append(x)\n    return k",
    "tuple that is unpacked": "a, b = (x, None) if x[0] > 0 else (3, x)\n    return a, b",
    "two conditions": """a = "a" if x[0] > 0 else None
    b = a if x[1] > 0 else "b"
    return x, a, b""",
    "in a branch": """k = None
    if x[0] > 0:
        x = x + 1
        k = "big" if x[1] > 1.5 else 3
    return x, k""",
    "in a loop": """found = None
    for i in range(4):
        if x[i] > 0:
            found = i
    return x, found""",
    "early exit": """for i in range(3):
        if x[i] > 0:
            return x * i, "found"
    return x, None""",
    "functions": "k = torch.sin if x[0] > 0 else torch.cos\n    return k(x)",
    "key": 'k = "a" if x[0] > 0 else "b"\n    return x * {"a": 2, "b": 3}[k]',
    "comparison": 'k = "a" if x[0] > 0 else "b"\n    return x * 2 if k == "a" else x',
    "written to": "k = (x, 1) if x[0] > 0 else (None, 2)\n    x.add_(1)\n    return k",
    "shown": 'k = "up" if x[0] > 0 else None\n    print(k, [k], f"<{k}>", x)\n    return x',
    "shown tensor": "k = (x, 1) if x[0] > 0 else None\n    print(k)\n    x.add_(1)\n    return x",
    "before a break": """k = (x + 1, "up") if x[0] > 0 else None
    torch._dynamo.graph_break()
    return x, k""",
    "draw": 'k = "a" if torch.rand([]) < 0.5 else None\n    return x + torch.rand(4), k',
}


@pytest.mark.slow
@pytest.mark.parametrize("body", KINDS.values(), ids=KINDS)
def test_kinds(body: str) -> None:
    agrees(f"def f(x):\n    {body}\n", signs(14), orders=2)


SHARED = {
    "written to": """if x[0] > 0: t = x * 2; k = (t, 1)
    else: t = x * 3; k = (2, t)
    t.add_(1)
    return k""",
    "returned": """y = x + 1
    if x[0] > 0: y = x + 2; k = y
    else: k = None
    return y, k""",
    "view": """if x[0] > 0: t = x + 1; k = t[1:]
    else: t = x - 1; k = "n"
    t.mul_(2)
    return k""",
    "base": """if x[0] > 0: t = torch.zeros(4); k = (t[:2], t[2:])
    else: t = torch.ones(4); k = None
    t += x
    return t, k""",
    "list": """if x[0] > 0: t = x * 2; k = [t]
    else: t = x * 3; k = [t, 2]
    t.add_(1)
    return k""",
    "in a branch": """if x[0] > 0:
        t = x * 2
        k = (t, 1) if x[1] > 0 else None
    else: t = x * 3; k = 4
    t.add_(1)
    return t, k""",
    "branch after": """t = x * 2
    k = (t, 1) if x[0] > 0 else None
    if x[1] > 0: t = t * 2
    t.add_(1)
    return t, k""",
    "made before": """t = x * 2
    k = (t, t[1:]) if x[0] > 0 else None
    t.add_(1)
    return t, k""",
}


@pytest.mark.slow
@pytest.mark.parametrize("body", SHARED.values(), ids=SHARED)
def test_memory_that_is_shared(body: str) -> None:
    agrees(f"def f(x):\n    {body}\n", signs(20), orders=1)


ONCE = {
    "a comparison": """i = x[3].item() > 0
    c = i if x[0] > 0 else None
    return c, i""",
    "a function of ours": """k = str(x[3].item()) if x[0] > 0 else None
    m = str(x[2].item()) if x[1] > 0 else None
    return k, m""",
    "a deferred call": """if x[0] > 0: print("%s", x[3].item() > 0)
    return x, x[2].item() > 0""",
}


@pytest.mark.parametrize("body", ONCE.values(), ids=ONCE)
def test_what_is_made_in_code_that_is_jumped_over(body: str) -> None:
    agrees(f"def f(x):\n    {body}\n", signs(20))


def test_what_tells_the_operator() -> None:
    for use in ("y, y.grad_fn.name()", "y, type(y.grad_fn).__name__", "y, y is x"):
        source = f"def f(x):\n    k = 1.5 if x[0] > 0 else 2\n    y = x * k\n    return {use}\n"
        agrees(source, [x.requires_grad_() for x in signs(12)], orders=1)


def test_an_exponent_that_the_dtype_does_not_hold() -> None:
    for arms in ("1e30 if x[0] > 0 else 2", "2 if x[0] > 0 else 70000"):
        for use in ("y.double() ** k", "(k ** y.half(), y * k)", "k if x[0] > 9 else y"):
            agrees(chosen(arms, use), signs(12), orders=1)
    source = """
        def f(x):
            k = 70000 if x[0] > 0 else 2
            try:
                return x.half() ** k
            except RuntimeError:
                return x
    """
    agrees(source, signs(12), orders=1)


def test_empty_tensors() -> None:
    for use in ("x.new_zeros(2, 0).t() * k", "x.new_zeros(0) * k", "x.reshape(2, 2).t() * k"):
        agrees(chosen("1.5 if x[0] > 0 else 2", use), signs(12), orders=1)
    source = """
        def f(x):
            y = x.as_strided((0, 2), (3, 5))
            if x[0] > 0:
                y = y * 1.5
            else:
                y = y + 2
            return y
    """
    agrees(source, signs(12), orders=1)


STATE = """
class Log:
    def __init__(self):
        self.state, self.states = None, []

log = Log()

def f(x):
    log.state = "up" if x[0] > 0 else None
    log.states.append(log.state)
    return x * 2
"""


def test_state() -> None:
    agrees(STATE, signs(14), orders=1)


@pytest.mark.parametrize(
    "name", ["text or nothing", "tuples", "tensors and numbers", "lists", "text of a value"]
)
def test_one_graph(name: str) -> None:
    source = f"def f(x):\n    {KINDS[name].replace(', k[0] is x', '')}\n"
    check(source, signs(14), mends="speculate@2 where@2", orders=1)


def test_values_with_gradients_are_not_chosen() -> None:
    """What is not chosen would get a gradient of zeros, where it gets none."""
    calls = [x.requires_grad_() for x in signs()]
    source = "def f(x):\n    k = x.log() if x[0] > 0 else None\n    return x * 2, k\n"
    assert "where" not in agrees(source, calls, orders=1, grad=True).mends


def test_compiled_by_inductor() -> None:
    source = """
def f(x):
    k = 0.1 if x.sum() > 0 else 3
    name, pair = ("up", (x, 1)) if x[0] > 0 else (None, 7)
    return (x * k + 1) / k, name, pair
"""
    calls = [torch.randn(5, generator=torch.Generator().manual_seed(i)) for i in range(8)]
    agrees(source, [*calls, *calls], orders=1, backend="inductor")
