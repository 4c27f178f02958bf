"""Writes to a graph's inputs: which are put back, asked of graphs that are made by hand."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch
from torch._dynamo.source import ConstantSource
from torch.fx.experimental.symbolic_shapes import (
    DimDynamic,
    StatelessSymbolicContext,
    StrictMinMaxConstraint,
)
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._sympy.value_ranges import ValueRanges

import graphmend_bc as gm
from graphmend_bc.dynamo.graph.state_snapshot import StateSnapshot
from graphmend_bc.dynamo.rollback.rollback_analysis import Rollback, need_of
from graphmend_bc.dynamo.symbols.captures import Captures
from graphmend_bc.dynamo.trace.features import RollbackNeed
from graphmend_bc.legality.storage import storage_of
from tests.rollback.attempts import Attempt, site

REFUSED = "speculation-writes-input: "
SECOND = StateSnapshot(inputs=(1,))


def ones() -> torch.Tensor:
    """A tensor of twelve bytes."""
    return torch.ones(3)


def writing(given: torch.Tensor | None = None, *, grad: bool = True) -> Attempt:
    """An attempt whose graph may raise and writes to its second input."""
    attempt = Attempt()
    attempt.rollback.handles = True
    attempt.given(3)
    with torch.set_grad_enabled(grad):
        attempt.call("add_", attempt.given(ones() if given is None else given), 1)
    attempt.given(ones())
    return attempt


# Whether somebody wants them put back


def test_what_makes_a_graph_useless() -> None:
    trace, needs = Attempt().trace, RollbackNeed
    assert need_of(trace) is needs.NOT_NEEDED
    trace.effects.append(site())
    assert need_of(trace) is needs.IF_FREE
    nothing: Any = None
    trace.speculations.append((nothing, nothing))
    assert need_of(trace) is needs.WORTH_COPIES
    trace = Attempt().trace
    trace.of(Captures)
    assert need_of(trace) is needs.WORTH_COPIES


@pytest.mark.parametrize("because", ["", "speculation", "handler", "operator"])
def test_inputs_are_copied_only_if_the_graph_may_raise(because: str) -> None:
    attempt, nothing = writing(), cast("Any", None)
    attempt.trace.effects.append(site())
    attempt.trace.speculations += [(nothing, nothing)] * (because == "speculation")
    attempt.rollback.handles = because == "handler"
    attempt.recorder.checks = because == "operator"
    assert attempt.undo() == (SECOND if because else REFUSED + "It is not known to raise.")


def test_what_a_commit_may_need() -> None:
    compilation = Attempt().compilation
    nothing: Any = object()
    assert not Rollback().on_commit(compilation)
    assert Rollback(undo=StateSnapshot()).on_commit(compilation)
    assert Rollback(layout=nothing).on_commit(compilation)
    assert Rollback(leaves_more=True).on_commit(compilation)


# Which can be


def test_positions_of_what_is_written() -> None:
    assert writing().undo() == SECOND
    attempt = writing()
    whole = attempt.given(torch.ones(4))
    attempt.call("add_", attempt.call("view", whole, 2, 2), 1)
    assert attempt.undo() == StateSnapshot(inputs=(1, 3))


def test_what_the_graph_holds_is_not_written() -> None:
    for is_written in (False, True):
        attempt = Attempt()
        attempt.rollback.handles = True
        attempt.module.buffer = ones()
        held = attempt.given(ones(), op="get_attr", name="buffer")
        attempt.call("add_" if is_written else "add", held, 1)
        refusal = REFUSED + "It is no argument of the graph."
        assert attempt.undo() == (refusal if is_written else StateSnapshot())


def test_histories_are_not_put_back() -> None:
    history = REFUSED + "The write has an autograd history."
    leaf = torch.ones(3, requires_grad=True)
    assert writing(leaf, grad=False).undo() == SECOND
    assert writing(leaf * 2, grad=False).undo() == history
    attempt = writing()  # written from a tensor that requires a gradient
    attempt.call("add_", [*attempt.graph.nodes][1], attempt.given(leaf))
    assert attempt.undo() == history
    attempt = writing()  # a tensor of the graph has the history
    alias = attempt.call("detach", [*attempt.graph.nodes][1])
    attempt.call("add_", alias, attempt.given(leaf))
    assert attempt.undo() == SECOND


def test_a_tensor_that_is_asked_for_its_history_and_raises() -> None:
    attempt = Attempt()
    attempt.rollback.handles = True
    with attempt.mode:
        rows = torch.ones(2, 3, requires_grad=True) * 1
        row = rows.unbind()[0]
        with torch.no_grad():
            rows.add_(1)
    attempt.given(row)
    assert attempt.undo() == REFUSED + "The write has an autograd history."


def test_tensors_of_other_classes_are_not_put_back() -> None:
    for is_written in (False, True):
        attempt = Attempt()
        attempt.rollback.handles = True
        two = TwoTensor(ones(), ones())  # type: ignore[no-untyped-call]
        attempt.given(two)
        attempt.recorder.written += [storage_of(two)] * is_written
        refusal = REFUSED + "The write has an autograd history."
        assert attempt.undo() == (refusal if is_written else StateSnapshot())


# How much of it


def test_how_many_bytes_are_put_back() -> None:
    for limit, size in ((12, ""), (11, "Its 12 bytes are"), (0, "Its 12 bytes are")):
        with gm.config.patch(snapshot_limit=limit):
            message = f"{REFUSED}{size} more than config.snapshot_limit, {limit}."
            assert writing().undo() == (message if size else SECOND)


def test_memory_counts_once() -> None:
    def twice() -> Attempt:
        attempt = writing()
        fake = [*attempt.graph.nodes][1].meta["example_value"]
        with attempt.mode:
            attempt.given(fake[1:])
        attempt.call("add_", attempt.given(ones()), 1)
        return attempt

    with gm.config.patch(snapshot_limit=24):
        assert twice().undo() == StateSnapshot(inputs=(1, 3, 4))
    with gm.config.patch(snapshot_limit=23):
        assert twice().undo() == f"{REFUSED}Its 24 bytes are more than config.snapshot_limit, 23."


def sized(most: int | None = None, *, exports: bool = False) -> Attempt:
    """As `writing`, with an input of a dynamic size that is 3 now, and may be bounded."""
    attempt = Attempt()
    attempt.rollback.handles = True
    bound = None if most is None else StrictMinMaxConstraint(True, ValueRanges(2, most))
    context: Any = StatelessSymbolicContext([DimDynamic.DYNAMIC], constraint_sizes=[bound])
    source = ConstantSource("x")
    fake = attempt.mode.from_tensor(ones(), source=source, symbolic_context=context)
    attempt.given(3)
    attempt.call("add_", attempt.given(fake), 1)
    attempt.output.export = exports
    return attempt


def test_dynamic_sizes_are_guarded() -> None:
    assert sized().undo() == SECOND
    with gm.config.patch(snapshot_limit=8):
        assert sized().undo() == f"{REFUSED}It is more than config.snapshot_limit, 8."
    with gm.config.patch(snapshot_limit=100):
        assert sized(most=25).undo() == SECOND
    with gm.config.patch(snapshot_limit=99):
        message = f"{REFUSED}Its 100 bytes are more than config.snapshot_limit, 99."
        assert sized(most=25).undo() == message


def test_sizes_that_cannot_be_guarded() -> None:
    unknown = REFUSED + "Its size is not known."
    assert sized(exports=True).undo() == unknown
    attempt = Attempt()
    attempt.rollback.handles = True
    with attempt.mode:
        size = attempt.symbols.create_unbacked_symint()
        fake = torch.ones(size)
    attempt.call("add_", attempt.given(fake), 1)
    assert attempt.undo() == unknown
