"""Counters that the program keeps in objects: symbols of a mended graph, and eager's numbers."""

from __future__ import annotations

import pytest
import torch

from graphmend_bc.dynamo.symbols.stored_integers import as_symbols
from graphmend_bc.engine import attempts
from tests.oracle import agrees
from tests.releases import since
from tests.settling import live

CALLS = [torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, 2.0, -3.0])] * 4

USES = [
    "x * self.count",
    "x / self.count",
    "x + self.count // 3",
    "x if self.count % 2 else x + 1",
    "x * 2 if self.count > 3 else x",
    "x.sum() / (self.count + 1.5)",
    "x[: self.count % 3]",
    "x + ROWS[self.count]",
    "x + len(f'{self.count}')",
    "x + float(self.count) * 0.1",
    "x + (self.count - 4) ** 2",
    "x + torch.full((3,), self.count)",
    "x + torch.tensor(self.count)",
    "(x, self.count)",
    "x + (self.count == 5)",
    "x * [1, 2, 3][self.count % 3]",
    "x + self.count if self.count in {2, 3} else x",
]


@pytest.mark.parametrize("base", ["torch.nn.Module", "object"])
@pytest.mark.parametrize("use", USES)
def test_counter(use: str, base: str) -> None:
    if "len(f" in use and not since(2, 13):
        pytest.skip("stock 2.11 asks the number for a length, not its text")
    agrees(
        f"""
        ROWS = list(range(100))

        class Counted({base}):
            def __init__(self):
                super().__init__()
                self.count = 0

            def step(self, x):
                self.count += 1
                if x.sum() > 0:
                    x = x * 2
                return {use}

        counted = Counted()
        state = counted.__dict__

        def f(x):
            return counted.step(x)
        """,
        CALLS,
    )


OWN_USES = [
    *("x * self.count", "x / self.count", "x[: self.count % 3]", "x + self.count % 3"),
    *("x * (1 - 0.9**self.count)", "x * math.sqrt(self.count)", "x + 1 / self.count"),
    *("x * min(self.count, 3)", "x + self.count * 0.1 // 0.3", "x * math.pow(0.9, self.count)"),
    *("x + len(f'{self.count}')", "x + ROWS[self.count]", "(x, self.count)"),
    *("x if self.count % 2 else x + 1", "x * 2 if self.count > 3 else x"),
    *("x + sum(range(self.count))", "x * max(0.1, 1 - self.count / 5)"),
    *("x + int(self.count / 2)", "x + round(self.count * 0.3)", "x + (self.count & 3)"),
]


@pytest.mark.parametrize("backend", ["eager", "inductor"])
@pytest.mark.parametrize("use", OWN_USES)
def test_counter_where_nothing_breaks(use: str, backend: str) -> None:
    agrees(
        f"""
        import math

        ROWS = list(range(100))

        class Counted(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.count = 0

            def forward(self, x):
                self.count += 1
                return {use}

        counted = Counted()
        state = counted.__dict__

        def f(x):
            return counted(x)
        """,
        CALLS,
        backend=backend,
        orders=1,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "first", ["0", "1", "-3", "2**31", "2**53 + 1", "2**62", "2**63 - 3", "2**70", "True"]
)
def test_where_a_counter_begins(first: str) -> None:
    agrees(
        f"""
        class Counted(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.count = {first}

            def step(self, x):
                self.count = self.count + 1
                if x.sum() > 0:
                    x = x * 2
                return x.double() * self.count, self.count

        counted = Counted()
        state = counted.__dict__

        def f(x):
            return counted.step(x)
        """,
        CALLS,
    )


def test_counter_that_becomes_something_else() -> None:
    agrees(
        """
        class Counted:
            count = 0

            def step(self, x):
                self.count = self.count * 2 + 1 if self.count < 20 else 0.5
                if x.sum() > 0:
                    x = x * 2
                return x * self.count

        counted = Counted()
        state = counted.__dict__

        def f(x):
            return counted.step(x)
        """,
        CALLS,
    )


@pytest.mark.parametrize("base", ["torch.nn.Module", "object"])
def test_one_graph_for_all_calls(base: str) -> None:
    source = f"""
class Metric({base}):
    def __init__(self):
        super().__init__()
        self.count = 0

    def update(self, x):
        self.count += 1
        if x.isnan().any():
            raise ValueError("nan")
        return x.sum() / self.count

metric = Metric()

def f(x):
    return metric.update(x)
"""
    life = live(source, [(torch.randn(4),) for _ in range(40)], 20, mends=True)
    assert life.total.compilations <= 3
    assert (life.rest.launches, life.rest.compilations) == (20, 0)
    assert not life.report.declines


KEPT = {
    "global": ("count = 0", "global count\n    count += 1", "count"),
    "dict": ("kept = {'a b': 0, 'n': 0}", "kept['n'] += 1", "kept['n']"),
    "key": ("kept = {'a, b': 0, 3: 0}", "kept[3] += 2", "kept[3]"),
    "list": ("kept = [0, 0]", "kept[0] += 1", "kept[0]"),
    "nested": ("kept = {'of': [0]}", "kept['of'][0] += 1", "kept['of'][0]"),
    "default": (
        "from collections import defaultdict\nkept = defaultdict(int, n=0)",
        "kept['n'] += 1",
        "kept['n']",
    ),
    "class": ("class Kept:\n    n = 0", "Kept.n += 1", "Kept.n"),
    "argument": (
        "def g(x, kept=[0]):\n    kept[0] += 1\n    return x",
        "g(x)",
        "g.__defaults__[0][0]",
    ),
}


@pytest.mark.parametrize(("made", "counted", "count"), KEPT.values(), ids=KEPT)
@pytest.mark.parametrize("breaks", [False, True])
def test_where_a_count_is_kept(made: str, counted: str, count: str, breaks: bool) -> None:
    also = "x = x * 2 if x.sum() > 0 else x" if breaks else "x = x * 2"
    agrees(
        f"""
{made}

def f(x):
    {counted}
    {also}
    return x * {count}, {count}
""",
        CALLS,
    )


@pytest.mark.parametrize("kept", ["global", "dict", "list", "nested", "default"])
def test_one_graph_wherever_a_count_is_kept(kept: str) -> None:
    made, counted, count = KEPT[kept]
    source = f"""
{made}

def f(x):
    {counted}
    return x * {count} if {count} > 0 else x
"""
    life = live(source, [(torch.randn(4),) for _ in range(40)], 20, mends=True)
    assert life.total.compilations <= 3
    assert (life.rest.launches, life.rest.compilations) == (20, 0)


def test_one_graph_where_nothing_breaks() -> None:
    """Stock compiles each call until its limit, and none after that."""
    source = """
class Metric(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0

    def forward(self, x):
        self.count += 1
        return x.sum() / self.count if self.count > 0 else x

metric = Metric()

def f(x):
    return metric(x)
"""
    life = live(source, [(torch.randn(4),) for _ in range(40)], 20, mends=True)
    assert life.total.compilations <= 3
    assert (life.rest.launches, life.rest.compilations) == (20, 0)


def test_cuda_graphs_are_not_recorded_for_each_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "frame_records_cuda_graphs", lambda *_: True)
    source = """
kept = [0]

def f(x):
    kept[0] += 1
    return x * kept[0]
"""
    assert live(source, [(torch.randn(4),)] * 6, 2, mends=True).total.compilations == 6


def test_sources_that_the_program_has_named_stay() -> None:
    config = torch.compiler.config
    with config.patch(dynamic_sources="L['x']"), as_symbols({"L['self'].n", "L['self'].d['a,b']"}):
        assert config.dynamic_sources == r"L['x'],L\['self'\]\.n$"
