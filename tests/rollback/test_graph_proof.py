"""Proofs that need the whole graph, asked of graphs that are made by hand."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch._dynamo.variables.base import AttributeMutationNew, ValueMutationNew
from torch.fx import Node
from torch.utils.checkpoint import checkpoint, set_checkpoint_early_stop

from graphmend_bc.dynamo.calls.backward_pass import BackwardPasses
from graphmend_bc.dynamo.calls.higher_order import HigherOrder
from graphmend_bc.dynamo.corrections.returned_inputs import ReturnedInputs
from graphmend_bc.dynamo.symbols.captures import Captures
from graphmend_bc.legality.storage import Choice, storage_of
from tests.rollback.attempts import Attempt, site

ANY: Any = SimpleNamespace(site=site(9))
NO_CHOICE = (site(), Choice(0, frozenset(), frozenset(), 0))


def mended() -> Attempt:
    """An attempt that mended line 1."""
    attempt = Attempt()
    attempt.trace.used[site()] = "where"
    return attempt


def written(attempt: Attempt) -> Node:
    """An input that the graph writes to."""
    return attempt.call("add_", attempt.given(torch.ones(3)), 1)


# What rests on ours


def test_a_trace_that_nobody_listened_to_is_not_proven() -> None:
    attempt = mended()
    attempt.trace.close()
    with pytest.raises(AssertionError):
        attempt.proof()


def test_what_there_is_to_prove() -> None:
    def is_changed(attempt: Attempt) -> bool:
        """Whether the graph is another one once it is proven: what it changes is no result."""
        assert attempt.proof(written(attempt)) == ""
        assert attempt.trace.listener is None
        return attempt.graph.output_node().args == ((None,),)

    attempt = Attempt()
    assert not is_changed(attempt)
    assert is_changed(mended())
    for change in (
        lambda attempt: attempt.trace.effects.append(site()),
        lambda attempt: attempt.trace.speculations.append((ANY, ANY)),
        lambda attempt: attempt.trace.choices.update({attempt.given(3): NO_CHOICE}),
        lambda attempt: setattr(attempt.compilation, "follows", True),
        lambda attempt: attempt.trace.of(Captures),
        lambda attempt: attempt.trace.of(HigherOrder),  # which looks at the whole graph
    ):
        attempt = Attempt()
        change(attempt)
        assert is_changed(attempt)


@pytest.mark.parametrize("name", ["stdout", "stderr"])
def test_streams_that_are_exchanged_after_effects(name: str) -> None:
    class Module:
        value: object = sys

    for has_effect, value, changed in (
        (True, sys, name),
        (False, sys, name),
        (True, sys, "path"),
        (True, None, name),
    ):
        attempt = mended()
        attempt.trace.effects += [site(2), site(3)] * has_effect
        module = Module()
        module.value = value
        attempt.output.side_effects.store_attr_mutations[module] = {changed: None}
        is_refused = has_effect and value is sys and changed == name
        assert attempt.proof() == ("effect-moved @2" if is_refused else "")


# Operators that hold others


def test_operators_of_ours_are_not_opaque() -> None:
    cond = torch.ops.higher_order.cond
    for is_ours in (True, False):
        attempt = mended()
        attempt.trace.speculations.append((ANY, ANY))
        attempt.call("add", attempt.given(torch.ones(3)), 1)
        node = attempt.graph.call_function(cond)
        if is_ours:
            attempt.trace.of(HigherOrder).functional[node] = site()
        refusal = "speculation-has-effects: The operator is cond. @9"
        assert attempt.proof() == ("" if is_ours else refusal)


# Gradients of what was written


@pytest.mark.parametrize("learns", [True, False])
@pytest.mark.parametrize("mends", [True, False])
@pytest.mark.parametrize("of", ["w", "x", ""])
def test_a_gradient_of_what_was_written(learns: bool, mends: bool, of: str) -> None:
    attempt = mended() if mends else Attempt()
    attempt.compilation.follows = True
    w = attempt.given(torch.ones(3, requires_grad=True))
    x = attempt.given(torch.ones(3))
    used = {"w": w, "x": x}.get(of)
    attempt.recorder.learns_anew = learns
    attempt.recorder.used_anew |= {storage_of(used.meta["example_value"])} if used else set()
    is_refused = learns and mends and of == "w"
    assert attempt.proof() == ("gradient-of-written @1" if is_refused else "")


@pytest.mark.parametrize(
    ("result", "kept", "is_refused"),
    [("y", "", True), ("", "y", True), ("", "", False), ("z", "z", False)],
)
def test_a_backward_pass_in_the_graph_leaves_nothing_to_differentiate(
    result: str, kept: str, is_refused: bool
) -> None:
    attempt = mended()
    attempt.trace.of(BackwardPasses).sites.append(site(5))
    w = attempt.given(torch.ones(3, requires_grad=True))
    attempt.given(torch.ones(3, requires_grad=True) * 2)  # of before, which the graph leaves alone
    y = attempt.call("mul", w, 2)
    nodes = {"y": y, "z": attempt.call("detach", y)}
    attempt.recorder.learns_anew = True
    attempt.recorder.used_anew.add(storage_of(w.meta["example_value"]))
    buffer = attempt.given(torch.zeros(3))
    attempt.call("add_", buffer, nodes[kept] if kept else 1)
    proof = attempt.proof(*([nodes[result]] if result else []))
    assert proof == ("gradient-of-written @1" if is_refused else "")


# The way back


def changing(attempt: Attempt, how: str) -> Attempt:
    """An attempt that does something after the graph."""
    effects = attempt.output.side_effects
    if how == "effect":
        attempt.trace.effects.append(site(2))
    elif how == "hook":
        effects.tensor_hooks[0] = None
    elif how:
        new = {"new object": AttributeMutationNew(), "new list": ValueMutationNew()}.get(how)
        effects.id_to_variable[0] = SimpleNamespace(mutation_type=new)
        effects.is_modified = lambda item: how != "unchanged object"
    return attempt


@pytest.mark.parametrize(
    ("mends", "handles", "how", "undone", "leaves_more"),
    [
        ("here", False, "", False, False),
        ("here", True, "", True, False),
        ("earlier", True, "", True, False),
        ("", True, "", False, False),
        ("here", False, "effect", True, True),
        ("here", False, "hook", True, True),
        ("here", False, "object", True, True),
        ("here", False, "unchanged object", False, False),
        ("here", False, "new object", False, False),
        ("here", False, "new list", False, False),
        ("earlier", False, "object", True, True),
        ("", False, "object", False, False),
        ("", False, "effect", True, False),
    ],
)
def test_when_a_graph_is_undone(
    mends: str, handles: bool, how: str, undone: bool, leaves_more: bool
) -> None:
    attempt = changing(mended() if mends == "here" else Attempt(), how)
    attempt.compilation.follows = mends == "earlier"
    attempt.trace.of(HigherOrder)
    attempt.rollback.handles = handles
    assert attempt.proof() == ""
    assert (attempt.rollback.undo is not None, attempt.rollback.leaves_more) == (
        undone,
        leaves_more,
    )


@pytest.mark.parametrize(
    ("mends", "how", "stops", "is_refused"),
    [
        (True, "effect", True, True),
        (True, "hook", True, True),
        (True, "", True, False),
        (False, "effect", True, False),
        (True, "effect", False, False),
    ],
)
def test_a_checkpoint_that_stops_early(
    mends: bool, how: str, stops: bool, is_refused: bool
) -> None:
    attempt = changing(mended() if mends else Attempt(), how)
    attempt.compilation.follows = True
    proofs = []

    def region(x: torch.Tensor) -> torch.Tensor:
        proofs.append(attempt.proof())
        return x * 2

    with set_checkpoint_early_stop(stops):
        checkpoint(region, torch.ones(3, requires_grad=True), use_reentrant=False)
    assert proofs == ["under-checkpoint @1" if is_refused else ""]


def test_who_is_blamed_for_what_cannot_be_undone() -> None:
    def blamed(attempt: Attempt, *, rejects: bool = False) -> str:
        attempt.rollback.handles = True
        attempt.recorder.foreign = "g"
        attempt.recorder.rejects = rejects
        return attempt.proof().removeprefix("speculation-has-effects: The operator is g. @")

    assert blamed(mended()) == ""
    assert blamed(mended(), rejects=True) == "1"
    attempt = mended()
    attempt.trace.of(Captures).sites |= {site(4): None, site(5): None}
    assert blamed(attempt, rejects=True) == "4,5"
    attempt = mended()
    attempt.trace.of(Captures).sites[site(4)] = None
    attempt.trace.speculations += [(ANY, ANY), (ANY, ANY)]
    assert blamed(attempt) == "9"


# What a call of the graph looks at, and what is saved


def test_how_inputs_share_memory_is_looked_up_if_something_is_mended() -> None:
    for mends in (True, False):
        attempt = mended() if mends else Attempt()
        attempt.compilation.follows = True
        attempt.given(torch.ones(2))
        written(attempt)
        assert attempt.proof() == ""
        assert (attempt.rollback.layout is not None) is mends


def test_what_cannot_be_saved() -> None:
    for is_saved in (True, False):
        attempt = mended()
        attempt.compilation.is_saved = is_saved
        attempt.trace.of(ReturnedInputs)  # which runs around the graph
        problem = "under-export: What runs around its graph cannot be saved. @1"
        assert attempt.proof() == (problem if is_saved else "")
