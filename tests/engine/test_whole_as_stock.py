"""Where stock makes one graph of a frame and mending would not, the frame is stock's."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from graphmend_bc import session
from tests.oracle import check, load
from tests.releases import since

ONES, NEGATIVE = torch.ones(3), -torch.ones(3)

GETSTATE = """
import random
R = random.Random(3)
def f(x):
    before = R.getstate()
    y = x * R.random()
    R.setstate(before)
    return y
"""


def graphs_and_error(source: str, args: tuple[Any, ...], mends: bool, **kwargs: Any) -> Any:
    """How many graphs a call makes, or what it raises; and the reasons that are reported."""
    graphs, state = [], session.new_state(mends=mends)

    def backend(graph: torch.fx.GraphModule, inputs: object) -> Any:
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    with session.mending_by(state):
        try:
            torch.compile(load(source).f, backend=backend, **kwargs)(*args)
        except Exception as error:
            return type(error), []
    return len(graphs), [decline.reason for decline in state.report_now().declines]


@pytest.mark.parametrize(
    ("source", "args", "reasons"),
    [
        (GETSTATE, (ONES,), ["hoist-not-input"]),
        (
            """
            import numpy as np
            def f(x):
                return x + np.random.permutation([1, 2, 3])[0]
            """,
            (ONES,),
            None,
        ),
        (
            """
            def f(x, n):
                return x * (6 // n.item())
            """,
            (ONES, torch.tensor(2)),
            None,
        ),
        (
            """
            def f(x, n):
                y = x[x > n]
                y += torch.ones(3)
                return y
            """,
            (ONES, torch.tensor(0)),
            None,
        ),
        (
            """
            def f(x, n):
                found = torch.max(x, dim=0)
                return x + 1, str(found)
            """,
            (ONES, 0),
            None,
        ),
        (
            """
            def f(x, n):
                return x.roll(n.sum().item(), 0) + x[n:].sum()
            """,
            (ONES, torch.tensor(1)),
            None,
        ),
    ],
)
def test_one_graph_stays_one_graph(
    source: str, args: tuple[Any, ...], reasons: list[str] | None
) -> None:
    wanted, _ = graphs_and_error(source, args, mends=False, fullgraph=True)
    found, told = graphs_and_error(source, args, mends=True, fullgraph=True)
    assert found == 1 or (found == wanted and wanted != 1)
    assert reasons is None or told == reasons


def test_the_state_of_a_generator_is_stocks_where_it_must_be_one_graph() -> None:
    check(GETSTATE, [ONES, NEGATIVE], declines="hoist-not-input@4", fullgraph=True)


def test_what_both_break_raises_stocks_error_with_our_reason() -> None:
    source = """
    import threading
    def f(x):
        return x + 1 if threading.Lock().acquire() else x
    """
    wanted, _ = graphs_and_error(source, (ONES,), mends=False, fullgraph=True)
    found, _ = graphs_and_error(source, (ONES,), mends=True, fullgraph=True)
    assert found is wanted is torch._dynamo.exc.Unsupported


@pytest.mark.skipif(not since(2, 13), reason="2.11 gives the text of its own variables.")
def test_stocks_text_is_not_taken_if_it_shows_what_the_trace_ran_on() -> None:
    check(
        """
        def f(x):
            found = torch.max(x, dim=0)
            text = str(found)
            return x + 1, text
        """,
        [ONES, NEGATIVE],
        declines="call-not-traced@3",
        breaks=None,
    )
