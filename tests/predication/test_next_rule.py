"""A rule is refused after arms were traced: the trace goes on at the branch, as if nothing was."""

from __future__ import annotations

import textwrap
from types import CodeType

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.code.facts import VERSION
from graphmend_bc.engine.plans.site_plans import Plans
from tests.frames.test_on_stack_replacement import attempts_of
from tests.oracle import check, load

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])

# Each with its mends, and the attempts that it takes.
PROGRAMS = {
    "results of other types": (
        """
        def f(x):
            y = x * 2
            if y.sum() > 0:
                return [y + 1]
            return y - 1, y
        """,
        "speculate@3",
        1,
    ),
    "one after the other": (
        """
        def f(x):
            k = 2 if x.sum() > 0 else 3
            x = x * k
            n = "up" if x[0] > 4 else "down"
            return x * len(n), n
        """,
        "speculate@2 speculate@4",
        1,
    ),
    "a callee in an arm has a branch": (
        """
        def g(x):
            if x.max() > 2:
                x = x - 1
            return x

        def f(x):
            if x.sum() > 0:
                x, n = g(x), 1
            else:
                x, n = g(-x) * 2, 2
            return x * n
        """,
        "where@2 where@7" if VERSION > (3, 11) else "where@2 speculate@7",
        None,
    ),
    "an arm prints": (
        """
        def f(x):
            n = 1
            if x.sum() > 0:
                print("up", x.sum())
                n = 2
            print(n)
            return x * n
        """,
        "speculate@3 defer@4 defer@6",
        None,
    ),
    "an arm writes to its input": (
        """
        def f(x):
            y = x * 2
            n = 1
            if y.sum() > 0:
                y.add_(1)
                n = 2
            return y * n
        """,
        "speculate@4",
        None,
    ),
    "an arm sets an attribute": (
        """
        class Box:
            n = 1

        def f(x):
            box = Box()
            if x.sum() > 0:
                box.n = 2
            else:
                box.m = x + 1
            return x * box.n, getattr(box, "m", None)
        """,
        "speculate@6",
        None,
    ),
    "an arm appends to a list": (
        """
        def f(x):
            seen = [x]
            if x.sum() > 0:
                seen.append(x * 2)
            return seen
        """,
        "speculate@3",
        None,
    ),
    "an arm looks up what is outside": (
        """
        table = {"up": 2.0, "down": [3.0, 4.0]}

        class Scale:
            by = 5.0

            def __call__(self, x):
                return x * self.by * table["up"]

        scale = Scale()

        def f(x):
            if x.sum() > 0:
                x, n = scale(x), 1
            else:
                x, n = x * table["down"][1], 2
            return scale(x) * n
        """,
        "speculate@12",
        1,
    ),
    "an arm raises": (
        """
        def f(x):
            y = x * 2
            if y.sum() > 0:
                y = y + {}["a"]
            return y
        """,
        "",
        None,
    ),
    "in a try, in a with": (
        """
        def f(x):
            try:
                with torch.no_grad():
                    n = torch.sin if x.sum() > 0 else torch.cos
                    y = n(x) * 4
                if y.max() > 3:
                    raise ValueError(2)
            except ValueError as error:
                y = y + error.args[0]
            return y
        """,
        "speculate@4 speculate@6",
        None,
    ),
    "a mask in an arm": (
        """
        def f(x):
            rows = x > 1
            n = 1
            if x.sum() > 0:
                y, n = x[rows].sum(), 2
            else:
                y = x.sum()
            return y * n, x[rows].sum()
        """,
        "speculate@4 capture@5",
        None,
    ),
    "a short circuit": (
        """
        def f(x):
            if x.sum() > 0 and x[0] > 0:
                return "both", x + 1
            return x - 1
        """,
        "speculate@2",
        None,
    ),
    "in a loop": (
        """
        def f(x):
            names = []
            for i in range(3):
                if x[i] > 1:
                    names.append("big")
                    x = x + 1
                else:
                    names.append("small")
            return x, names
        """,
        "speculate@4",
        None,
    ),
    "on the stack lies more": (
        """
        def f(x):
            return {"a": [x, (1 if x.sum() > 0 else "one")], "b": x * (2 if x[0] > 0 else 3)}
        """,
        "speculate@2",
        2 if VERSION > (3, 11) else 1,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_what_was_traced_of_the_arms_is_gone(name: str, grad: bool) -> None:
    source, mends, attempts = PROGRAMS[name]
    check(source, [UP, UP, UP, DOWN, UP, UP, UP], mends=mends, breaks=not mends, grad=grad)
    if attempts is not None:
        assert attempts_of(source, UP) == [attempts]


def test_the_graph_has_the_operators_of_one_arm() -> None:
    source = """
        def f(x):
            y = x * 2
            if y.sum() > 0:
                return [y.sin().cos()]
            return y.tan().exp()
    """
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, inputs: object) -> torch.fx.GraphModule:
        graphs.append(graph)
        return graph

    function = load(textwrap.dedent(source)).f
    with gm.enabled():
        torch._dynamo.reset()
        torch.compile(function, backend=backend)(UP)
    (graph,) = graphs
    called = [node.target for node in graph.graph.nodes if node.op == "call_method"]
    assert "sin" in called
    assert "tan" not in called
    assert "exp" not in called


LARGE = """
def layer(x):
    return (x * 1.5).sin()

def plain(x):
    for _ in range(100):
        x = layer(x)
    return x

def silent(x):
    with torch.no_grad():
        return plain(x)

def handled(x):
    try:
        raise ValueError
    except ValueError:
        return plain(x)

def f(x):
    if x.sum() > 0:
        x = {called}(x + 1) + x
    return x + 1
"""


@pytest.mark.parametrize(("called", "traced"), [("plain", 32), ("silent", 100), ("handled", 100)])
def test_an_arm_that_costs_too_much_is_left_before_its_end(
    called: str, traced: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """But not where a mode is on that the arm would end, or while an exception is handled."""
    source = LARGE.format(called=called)
    calls = 0

    def counted(code: CodeType) -> CodeType:
        nonlocal calls
        calls += code.co_name == "layer"
        return code

    with gm.config.patch(rules_off=("cond",)):
        check(source, [DOWN, UP], "speculate@20", None, None, grad=True)
        torch._dynamo.reset()
        with gm.enabled():
            f = load(textwrap.dedent(source)).f
            stock = Plans.code_for
            monkeypatch.setattr(Plans, "code_for", lambda self, code: stock(self, counted(code)))
            assert torch.equal(torch.compile(f, backend="eager")(DOWN), f(DOWN))
        gm.reset()
    assert calls == traced


@pytest.mark.parametrize(
    ("ends", "mends"),
    [("", "speculate@4"), (" and n < 3", "where@4")],
    ids=["a tensor", "a number"],
)
def test_function_that_calls_itself(ends: str, mends: str) -> None:
    """Both arms are computed as deep as a number says, and the likely one if only a tensor does."""
    source = f"""
def g(x, n):
    if n > 30:
        raise ValueError(n)
    if x.sum() <= 50{ends}:
        return g(x * 2, n + 1)
    return x * 2

def f(x):
    return g(x, 0)
"""
    check(source, [torch.ones(3), torch.full((3,), 9.0)], mends=mends)
