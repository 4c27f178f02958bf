"""Programs that once were not exact, or broke the compiler: each stays mended exactly or declined."""

from __future__ import annotations

from types import CodeType
from typing import Any

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.frame import Frame
from graphmend_bc.plans import Plans
from graphmend_bc.runtime import Site
from tests.backends import EAGER_AND_AOT
from tests.oracle import Outcome, check

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])
YES, NO = torch.tensor(True), torch.tensor(False)
PQ = [(UP, p, q) for p in (YES, NO) for q in (YES, NO)]


def agrees(body: str, calls: list[object], **kwargs: object) -> Outcome:
    """All arms agree, whatever is mended and declined."""
    return check(body, calls, mends=None, declines=None, breaks=None, **kwargs)  # type: ignore[arg-type]


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
    assert "hoist@8" in outcome.mends


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


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("read", ["int((6 // z)[0])", "float(x[z][0])", "(6 // z).tolist()"])
def test_value_that_raises_and_is_not_used(read: str, backend: str) -> None:
    agrees(
        f"""
        store, items = {{}}, []

        def f(x, z):
            try:
                store["n"] = {read}
            except Exception:
                items.append(1)
            store["n"] = 5
            return x + 1
        """,
        [(UP, torch.tensor([0, 1])), (UP, torch.tensor([9, 1])), (UP, torch.tensor([1, 1]))],
        backend=backend,
    )


def test_rows_of_a_loop_changed_in_place_under_autograd() -> None:
    """Eager iterates over `unbind()`, whose outputs may not be changed in place."""
    source = """
        def f(x):
            count, y = 0, x * 1
            for row in y:
                if row.sum() > 0:
                    count += 1
                row.add_(1)
            return y * count
        """
    rows = torch.stack([UP, DOWN])
    assert agrees(source, [rows.clone().requires_grad_()], grad=True).mends == ""
    assert agrees(source, [rows]).mends == "speculate@4"


def test_rows_of_a_loop_changed_in_place_by_the_unlikely_arm() -> None:
    """The second compilation begins with the plan that the first one has proven."""
    agrees(
        """
        def f(x):
            y = x * 1
            for row in y:
                if row.sum() > 0:
                    row.add_(1)
            return y
        """,
        [torch.stack([UP, UP]).requires_grad_(), torch.stack([UP, DOWN]).requires_grad_()],
        grad=True,
        orders=1,
    )


def test_rows_of_a_loop_changed_in_place_beside_a_call_that_is_put_off() -> None:
    """The rewritten code fails to trace; what is left of its plan must not shape the stock graph."""
    source = """
        def helper(x):
            for row in torch.stack([x, -x]):
                row.add_(2)
                print("row")
            return x

        def f(x):
            x = x * 1
            helper(x)
            return x
        """
    seen = agrees(source, [UP.clone().requires_grad_()], grad=True)
    assert seen.mends == ""


def test_rows_of_a_loop_have_the_gradients_of_unbind() -> None:
    """A sum of rows that are zero elsewhere would make +0.0 of -0.0."""
    source = """
        def f(x, y):
            total = y * 3 if y.sum() > 0 else y
            for row in x:
                total = total + row * -0.0
            return total
        """
    rows = torch.stack([UP, DOWN]).requires_grad_()
    assert agrees(source, [(rows, UP), (rows, DOWN)], grad=True).mends == "where@2"


@pytest.mark.parametrize("result", ["z", "z + x"])
def test_row_of_a_tensor_that_is_changed_before_a_break(result: str) -> None:
    """Autograd refuses to tell the row's history, and Dynamo asks for it where a function goes on."""
    check(
        f"""
        import time
        import torch
        def f(y):
            print("rows")
            for x in y:
                break
            with torch.no_grad():
                y[0].add_(1)
                time.sleep(0)
                z = x.detach() * 2
            return {result}
        """,
        [torch.full((2, 3), n, requires_grad=True) for n in (1.0, -1.0)],
        "defer@4",
        declines="call-not-traced@9",
        breaks=None,
        grad=True,
    )


def test_index_out_of_bounds_whose_result_is_not_used() -> None:
    agrees(
        """
        def f(x, z):
            y = x[z][0] if x.sum() > 0 else x[z]
            z[x > 0]
            y = x * 2 if x.sum() > 0 else x
            return y
        """,
        [(UP, torch.tensor([0, 1, 2])), (UP, torch.tensor([0, 1, 5])), (DOWN, torch.tensor([5]))],
    )


def test_index_out_of_bounds_that_is_not_used_in_a_resumed_function() -> None:
    """The resume function holds what was rewritten; no plan of its own does."""
    agrees(
        """
        def f(x, z):
            n = x.sum().clamp(0, 4)
            while n < 3:
                n = n + 1
                if len(z.unique()) > 1:
                    x[z + 1]
            return x
        """,
        [
            (UP.clone().requires_grad_(), torch.tensor([0, 1, 2])),
            (DOWN.clone().requires_grad_(), torch.tensor([0, 1, 2])),
        ],
        grad=True,
        orders=1,
    )


@pytest.mark.parametrize("write", ["y -= y[0]", "y.expand(2, 3).add_(1)", "y[1:].copy_(y[:-1])"])
def test_effects_before_a_write_to_memory_that_overlaps(write: str) -> None:
    agrees(
        f"""
        items = []

        def f(x, c):
            y = x[:1] if "expand" in {write!r} else x
            print("before", c.sum())
            items.append(1)
            {write}
            return x
        """,
        [(torch.stack([UP, DOWN]), UP), (torch.stack([DOWN, UP]), UP)],
    )


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
            return x * 2, must
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


@EAGER_AND_AOT
def test_a_leaf_that_is_written_without_a_gradient_is_put_back(backend: str) -> None:
    """Under `no_grad` it stays a leaf, so a graph that raises can be taken back."""
    leaf = torch.ones(2, 3, requires_grad=True)
    calls = [(UP, leaf, torch.tensor([0, 1, 2])), (DOWN, leaf, torch.tensor([3, 1, 2]))]
    check(
        """
        state = {"n": 0}

        def f(x, y, z):
            with torch.no_grad():
                state["n"] += 1
                y[z.argmax() % 2].add_(x)
                z = 6 // z
            return (y * x).sum() + z
        """,
        calls,
        mends="capture@6",
        backend=backend,
        grad=True,
    )
