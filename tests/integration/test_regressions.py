"""Programs that once were not exact, or broke the compiler: each stays mended exactly or declined."""

from __future__ import annotations

from types import CodeType
from typing import Any

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.code import facts
from graphmend_bc.engine.frame_compiler import Frame
from graphmend_bc.engine.plans.site_plans import Plans
from graphmend_bc.runtime import Site
from tests.oracle import agrees, check

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])
YES, NO = torch.tensor(True), torch.tensor(False)
PQ = [(UP, p, q) for p in (YES, NO) for q in (YES, NO)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        "if p: y = x if q else x + 1\n    else: y = x + 2\n    y.add_(5)\n    return y * 2",
        "if p: y = x if q else x + 1\n    else: y = x + 2\n    return y",
        "y = x if p else x + 1\n    z = y if q else y + 2\n    return z",
        "if p: a = x + 1; b = a\n    else: a = x + 2; b = x + 3\n    return a, b",
        "if p: a = x + 1; b = a\n    else: a = x + 2; b = x + 3\n    a.add_(10)\n    return b",
        "if p: a = x + 1; b = a.view(3, 1)\n    else: a = x + 2; b = (x + 3).view(3, 1)\n    return a, b",
        "if p: a = x + 1; b = a\n    else: a = x + 2; b = x + 3\n    return x * 2 if a is b else x",
        "if p: a = b = x + 1\n    else: a = b = x + 2\n    a.add_(1)\n    return a, b",
        "h = x + 1\n    if p: a, b = h, h.view(3, 1)\n    else: a, b = h * 2, h.view(3, 1) * 3\n    return a, b",
    ],
)
def test_shared_memory(body: str) -> None:
    agrees(f"def f(x, p, q):\n    {body}\n", PQ)


@pytest.mark.parametrize(
    "use",
    [
        "torch.as_strided(y, (3,), (1,), 0)",
        "x + y.storage_offset()",
        "x + y._is_view()",
        "x + (id(y) == id(h))",
        "x + (y in {h: 1})",
        "x + hasattr(y, 'tag')",
        "x + y.is_leaf",
        "x + y._version",
    ],
)
def test_what_a_chosen_tensor_is_asked_for(use: str) -> None:
    agrees(
        f"""
        def f(x, p):
            h = torch.cat([x, x * 2]) + 1
            h.tag = 5
            h.add_(1)
            y = h if p else h * 3
            y = y[2:5] if p else y[1:4]
            return {use}
        """,
        [(UP, YES), (UP, NO)],
        orders=1,
    )


@pytest.mark.parametrize(
    "use",
    ["x + (id(y) == id(h))", "x + (y in {h: 1})", "x + hasattr(y, 'tag')"],
)
def test_whether_a_chosen_tensor_is_another(use: str) -> None:
    agrees(
        f"""
        def f(x, p):
            h = x + 1
            h.tag = 5
            y = h if p else h * 3
            return {use}
        """,
        [(UP, YES), (UP, NO)],
        orders=1,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        "with torch.no_grad():\n        y = x if p else z\n    return y * 2",
        "y = x * 2\n    if p: y.detach_()\n    return y",
        "y = x * 1e300 if p else x * 2\n    return y",
        "y = x / 1e-300 if p else x * 2\n    return y",
        "y = torch.add(x, x, alpha=float('inf')) if p else x * 2\n    return y",
        "y = x.expand_as(z) + 1 if p else x + z\n    return y",
        "y = torch.broadcast_tensors(x, z)[0] + 1 if p else x + z\n    return y",
        "y = x.type_as(z) + 1 if p else x + z\n    return y",
        "y = x * 3 if p else x * 2\n    p.logical_not_()\n    return y",
        "y = x.detach() + z if p else x + z\n    return y",
    ],
)
def test_gradients(body: str) -> None:
    x, z = UP.clone().requires_grad_(), DOWN.clone().requires_grad_()
    agrees(f"def f(x, z, p):\n    {body}\n", [(x, z, YES), (x, z, NO)], grad=True, orders=2)


@pytest.mark.parametrize(
    ("make", "read"),
    [
        ("(v for v in (1, 2, 3))", "next(it)"),
        ("enumerate([1, 2, 3])", "next(it)[0]"),
        ("itertools.cycle([1, 2, 3])", "next(it)"),
        ("itertools.islice([1, 2, 3], 2)", "next(it)"),
        ("iter({1: 2, 3: 4}.items())", "next(it)[0]"),
        ("iter(range(4))", "next(it)"),
        ("iter([1, 2, 3])", "next(it)"),
        ("collections.defaultdict(int)", "it['q']"),
    ],
)
def test_reading_that_changes(make: str, read: str) -> None:
    agrees(
        f"""
        import collections, itertools

        def f(x, p):
            it = {make}
            y = x + 1
            if p:
                y = y + {read}
            rest = len(it) if isinstance(it, dict) else next(it)
            return y, rest
        """,
        [(UP, YES), (UP, NO)],
        orders=1,
    )


@pytest.mark.parametrize(
    "body",
    [
        "if p: print('taken')\n    y = x + 1\n    p.logical_not_()\n    return y",
        "print(nn.Parameter(x, requires_grad=False))\n    return x + 1",
        "try: print('a', sep=3)\n    except TypeError: x = x * 2\n    return x + 1",
        "old = sys.stdout\n    sys.stdout = io.StringIO()\n    print('hidden')\n    sys.stdout = old\n    return x + 1",
        "g = gen(x)\n    a = next(g)\n    return a",
        "g = gen(x)\n    return [v for v in g][0]",
    ],
)
def test_effects(body: str) -> None:
    agrees(
        f"import io, sys\ndef gen(x):\n    print('start')\n    yield x + 1\n    print('mid')\n    yield x\n"
        f"def f(x, p):\n    {body}\n",
        [(UP, YES), (UP, NO)],
        orders=2,
    )


@pytest.mark.parametrize(
    "body",
    [
        "if m is None: m = 2\n    if x.sum() > 0: x = x * m\n    return x + 1",
        "if 0 < x.sum() < x.max() < 100: return x * 2\n    return x - 1",
        "k = [1, 2]\n    match k:\n        case [a, b] if x.sum() > 0: y = x + a\n        case _: y = x + 5\n    return y",
    ],
)
def test_forms(body: str) -> None:
    agrees(f"def f(x, m=None):\n    {body}\n", [UP, DOWN, (UP, 3)])


def test_super_without_arguments() -> None:
    check(
        """
        class Base(nn.Module):
            def forward(self, x):
                return x + 1

        class Derived(Base):
            def forward(self, x):
                x = super().forward(x)
                if x.sum() > 0:
                    x = x * 2
                return x + 1

        model = Derived()

        def f(x):
            return model(x)
        """,
        [UP, DOWN],
        mends="where@8",
    )


def test_declined_site_inside_a_resume_function() -> None:
    agrees(
        """
        def f(x, p, flag):
            h = x + 1
            if flag: torch._dynamo.graph_break()
            y = h if p else x + 2
            return y
        """,
        [(UP, YES, False), (UP, YES, True), (UP, NO, True), (UP, NO, False)],
    )


def test_recompile_limit_falls_back_as_stock_does() -> None:
    agrees(
        """
        def f(x, n):
            if x.sum() > 0: x = x * 2
            return x + len(n)
        """,
        [(UP, "a" * n) for n in range(12)],
        orders=1,
    )


_HOISTS_IN_RESUMED = """
        def f(x, z):
            if z[0].item() in (1, 2):
                pass
            else:
                n = x.sum().clamp(0, 4)
                while n < 3:
                    n = n + 1
                    if z.tolist()[0] > 0:
                        print("seen")
                        x = x
                x = x
            return x
        """
_HOISTED = [(UP, torch.tensor([0, 1])), (DOWN, torch.tensor([0, 0])), (DOWN, torch.tensor([5, 0]))]


def test_conditions_in_code_that_nothing_leads_to() -> None:
    outcome = agrees(_HOISTS_IN_RESUMED, _HOISTED)
    # From CPython 3.12 on, a function that breaks in such a loop is skipped, as stock does it.
    assert ("hoist@8" in outcome.mends) is (facts.VERSION < (3, 12))


def test_resume_function_of_rewritten_code_after_a_failure_of_ours(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stock = Plans.start

    def start(self: Plans, code: CodeType, site: Site) -> bool:
        if code.co_name.startswith("torch_dynamo_resume"):
            raise KeyError("a failure of ours")
        return stock(self, code, site)

    monkeypatch.setattr(Plans, "start", start)
    agrees(_HOISTS_IN_RESUMED, _HOISTED)


def test_question_that_the_program_asks_wrongly() -> None:
    """Dynamo's error is about the program's own call, as without us."""

    def f(x: torch.Tensor) -> torch.Tensor:
        if torch.allclose(x.double(), x.half()):
            return x + 1
        return x

    def error() -> str:
        torch._dynamo.reset()
        with pytest.raises(RuntimeError) as caught:
            torch.compile(f, backend="eager")(UP)
        return str(caught.value)

    stock = error()
    with gm.enabled():
        assert error() == stock


@pytest.mark.parametrize(
    "condition",
    [
        "a.sum() > 0",
        "a.any()",
        "a[0]",
        "not a.min() < 0",
        "a.mean() > 0 and a[1] != 2",
        "a[:1]",
        "a",
    ],
)
def test_conditions_on_arrays(condition: str) -> None:
    """More than one element is NumPy's own error."""
    found = agrees(
        f"""
        import numpy as np

        def f(x):
            a = x.numpy() * 2
            y = x * 2 if {condition} else x - 1
            return y, np.abs(a) + 1
        """,
        [UP, DOWN, UP * float("nan"), torch.zeros(3)],
    )
    assert bool(found.mends) is (condition != "a")


def test_conditions_on_numbers_of_numpy() -> None:
    found = agrees(
        """
        import numpy as np

        def f(x, n):
            step = np.lcm(n, 3)
            must = x.shape[0] % step != 0 and x.shape[0] > n
            if must:
                x = torch.cat([x, x[: step - x.shape[0] % step]])
            return x * 2, bool(must)
        """,
        [(torch.ones(4), 2), (torch.ones(6), 2), (torch.ones(7), 3)],
    )
    assert "speculate" in found.mends


def test_dynamo_fails_on_rewritten_code_that_still_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dynamo's own code for a break may not come to terms with an exception table of ours."""
    try_ = Frame._try

    def failing(self: Frame, compilation: Any, call: Any) -> Any:
        if call is self.call and self.plans.rewrites():
            return AssertionError("exception table entry start instruction has no offset")
        return try_(self, compilation, call)

    monkeypatch.setattr(Frame, "_try", failing)
    source = """
        def f(x):
            y = x * 2 if x.sum() > 0 else x
            torch._dynamo.graph_break()
            return y + 1
        """
    found = agrees(source, [UP, DOWN], orders=1)
    assert found.mends == ""
