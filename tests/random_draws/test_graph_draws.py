"""Conditions on what torch draws: it is drawn before the graph, and guards draw ahead."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import agrees, check

X = torch.tensor([1.0, -2.0, 3.0])

ARMS = """
def f(x):
    if {condition}:
        x = F.dropout(torch.cat([x, x]), 0.5)
    return F.dropout(x, 0.5) + torch.rand([])
"""

HALF = {
    "rand": "torch.rand(1) < 0.5",
    "rand, as a number": "torch.rand(()).item() < 0.5",
    "negated": "not torch.rand([], dtype=torch.float64) < 0.5",
    "one of several": "torch.rand(4, device='cpu')[2] >= 0.5",
    "randn": "torch.randn([]) < 0",
    "randint": "torch.randint(2, ()) == 0",
    "randint between two": "torch.randint(0, 4, (2,))[1] > 1",
    "randperm": "torch.randperm(2)[0] == 1",
    "in place": "torch.zeros(2).uniform_(0, 1)[0] < 0.5",
    "in place, in the empty": "torch.empty(3).bernoulli_(0.5).sum() > 1",
    "normal": "torch.empty(()).normal_(0.0, 2.0) > 0",
    "after another draw": "[torch.rand(2), torch.rand(1)][1] < 0.5",
}


@pytest.mark.parametrize("condition", HALF.values(), ids=HALF.keys())
def test_each_value_has_a_version(condition: str) -> None:
    outcome = agrees(ARMS.format(condition=condition), [X] * 8)
    assert (outcome.declines, outcome.breaks, outcome.graphs) == ("", 0, 2)
    assert "hoist@2" in outcome.mends


@pytest.mark.parametrize("backend", ["aot_eager"])
def test_with_another_backend(backend: str) -> None:
    source = ARMS.format(condition=HALF["in place"]).replace("F.dropout(x, 0.5)", "x")
    check(source, [X] * 6, mends=None, backend=backend)


def test_a_condition_that_is_asked_twice_has_two_versions() -> None:
    source = """
    def f(x):
        keep = torch.rand(2) < 0.5
        if keep[0]:
            x = F.dropout(x, 0.25)
        if keep[0]:
            x = torch.cat([x, F.dropout(x, 0.25)])
        return x
    """
    outcome = agrees(source, [X] * 8)
    assert (outcome.declines, outcome.breaks, outcome.graphs) == ("", 0, 2)


def test_where_a_break_is_an_error() -> None:
    source = ARMS.format(condition=HALF["rand"])
    outcome = check(source, [X] * 6, mends="hoist@2", fullgraph=True)
    assert outcome.graphs == 2


def test_blocks_that_are_skipped() -> None:
    source = """
    def f(x):
        for keep in torch.zeros(2).uniform_(0, 1) > 0.5:
            if keep:
                x = F.dropout(x.cos(), 0.5)
        return x
    """
    outcome = agrees(source, [X] * 16)
    assert (outcome.declines, outcome.breaks) == ("", 0)
    assert outcome.graphs <= 4


@pytest.mark.parametrize("name", ["made", "drawn"])
def test_both_names_of_what_is_drawn_in_place(name: str) -> None:
    source = f"""
    def f(x):
        made = torch.zeros(3)
        drawn = made.uniform_(0, 1)
        if drawn[0] < 0.5:
            x = F.dropout(torch.cat([x, x])[:3], 0.5)
        drawn.mul_(2)
        {name}.add_(1)
        return x + made, drawn, made is drawn
    """
    check(source, [X] * 8, mends=None)


def test_a_graph_that_raises_has_drawn_nothing() -> None:
    source = """
    def f(x, at):
        if torch.rand(1) < 0.5:
            x = F.dropout(torch.cat([x, x]), 0.5)
        return x[at] + torch.rand([])
    """
    inside, outside = torch.tensor([0, 2]), torch.tensor([1, 7])
    check(source, [(X, at) for at in (inside, outside, inside, outside, inside)], mends=None)


def test_a_check_that_fails_has_drawn_nothing() -> None:
    source = """
    def f(x):
        if torch.rand(1) < 0.5:
            x = F.dropout(x, 0.5)
        if x.sum() > 0:
            return torch.cat([x, torch.rand(2)])
        return x - torch.rand([])
    """
    check(source, [X, -X, X, -X, X, X], mends=None, declines=None, breaks=None)


@pytest.mark.parametrize(
    "before",
    [
        "x = F.dropout(x, 0.5)",
        "x = torch.bernoulli(x.sigmoid())",
        "x = x + torch.rand_like(x)",
        "x = checkpoint(lambda x: F.dropout(x, 0.5), x, use_reentrant=False)",
    ],
)
def test_nothing_else_may_be_drawn_before(before: str) -> None:
    source = ARMS.format(condition=HALF["rand"]).replace("    if", f"    {before}\n    if")
    source = source.replace("\n", "from torch.utils.checkpoint import checkpoint\n", 1)
    check(source, [X] * 6, mends=None, declines="decided-by-chance@4", breaks=None)


@pytest.mark.parametrize(
    "draw", ["F.dropout(torch.empty(2, device='meta'), 0.5)", "torch.rand(2, device='meta')"]
)
def test_another_device_draws_from_a_generator_of_its_own(draw: str) -> None:
    """A device without data stands in for a GPU."""
    source = ARMS.format(condition=HALF["rand"])
    source = source.replace("    if", f"    other = {draw}\n    if")
    source = source.replace("torch.rand([])", "torch.rand(other.shape[0] - 1)")
    outcome = agrees(source, [X] * 8)
    assert (outcome.declines, outcome.breaks, outcome.graphs) == ("", 0, 2)
    assert "hoist@3" in outcome.mends


def test_what_is_drawn_in_inference_mode() -> None:
    source = """
    def f(x):
        with torch.inference_mode():
            drawn = torch.rand(3)
        if drawn[0] < 0.5:
            x = F.dropout(torch.cat([x, x])[:3], 0.5)
        return x + drawn, drawn.is_inference()
    """
    check(source, [X] * 6, mends=None, declines=None, breaks=None)
    source = "around = torch.inference_mode\n" + ARMS.format(condition=HALF["rand"])
    check(source, [X] * 6, mends="hoist@4")


@pytest.mark.parametrize(
    "condition",
    [
        "torch.rand(1, generator=own) < 0.5",
        "torch.rand(x.shape)[0] < x.abs().min()",
        "torch.zeros(2).uniform_(0, 1).add_(torch.rand(2))[0] < 1",
    ],
)
def test_other_draws(condition: str) -> None:
    source = "own = torch.Generator().manual_seed(3)\n" + ARMS.format(condition=condition)
    check(source, [X] * 6, mends=None, declines=None, breaks=None)


def test_a_site_that_chance_decides_too_often_where_it_is_met_again() -> None:
    """What the graph had of it before is given up in an attempt of its own."""
    source = """
    import torch

    layers = [torch.nn.Linear(3, 3) for _ in range(2)]

    def kept(layers):
        drop = torch.zeros(len(layers)).uniform_(0., 1.) < 0.5
        if all(drop):
            return layers[:1]
        return [layer for layer, left in zip(layers, drop) if not left]

    def f(x):
        for layer in kept(layers): x = layer(x)
        for layer in kept(layers): x = layer(x)
        return x
    """
    outcome = check(source, [torch.ones(2, 3)] * 6, None, None, None)
    assert "does-not-compile" not in outcome.declines
    assert "decided-by-chance" in outcome.declines


def test_numbers_that_are_captured_before_a_condition_that_chance_decides() -> None:
    """They have no part in that, so they stay what they are."""
    source = """
    import torch

    layers = [torch.nn.Linear(3, 3) for _ in range(2)]

    def some_of(layers, y):
        for each in layers:
            if torch.rand([]) < 0.4:
                continue
            y = each(y)
        return y

    def f(x):
        y = torch.dropout(layers[0](x), 0.1, True)
        index = y.mean(0).argmax()
        picked = y[:, index] + y.roll(-int(index), 1)[:, 0]
        return some_of(layers, y) + picked[:, None]
    """
    outcome = check(source, [torch.ones(2, 3)] * 4, None, None, None)
    assert "capture@15" in outcome.mends
    assert "decided-by-chance@7" in outcome.declines
