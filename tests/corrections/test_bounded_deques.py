"""Deques with a largest length, which stock takes for deques without one."""

from __future__ import annotations

from collections import deque

import pytest
import torch

from tests.oracle import agrees

X = torch.tensor([1.0, 2.0, 3.0])


@pytest.mark.slow
@pytest.mark.parametrize("length", [0, 1, 2, 3, 5])
@pytest.mark.parametrize(
    "change",
    [
        "window.append(2)",
        "window.appendleft(2)",
        "window.extend([2, 3])",
        "window.extendleft([2, 3])",
        "window.append(2); window and window.popleft(); window.appendleft(7)",
        "window.rotate(1); window.append(8)",
        "window.insert(1, 9)",
        "window.append(1); window[-1] = 3",
        "window.clear(); window.extend(range(9))",
    ],
)
def test_what_a_full_one_is_changed_to(change: str, length: int) -> None:
    agrees(
        f"""
        from collections import deque

        window = deque([1, 1], maxlen={length})

        def f(x):
            if x.sum() > 0:
                x = x * 3
            {change}
            print("hi")
            return x * len(window), list(window), window.maxlen, sum(window)
        """,
        [X] * 4,
    )


@pytest.mark.slow
@pytest.mark.parametrize("make", ["", "window = deque([1, 4, 6], maxlen=2)"])
@pytest.mark.parametrize(
    "change",
    [
        "w = window; w *= 2",
        "w = window; w += [3]; x = x * len(w) + w[0]",
        "x = x * len(window + window)",
        "w = window + deque([7]); x = x * len(w) + w[0]",
        "w = window * 3; w.append(9); x = x * len(w) + w[0]",
        "x = x * len(2 * window) * (window * 2).maxlen",
    ],
)
def test_operators_on_a_full_one(change: str, make: str) -> None:
    agrees(
        f"""
        from collections import deque

        window = deque([1, 4], maxlen=2)

        def f(x):
            {make or "global window"}
            if x.sum() > 0:
                x = x * 3
            {change}
            print("hi")
            return x * len(window), list(window), window.maxlen, sum(window)
        """,
        [X] * 3,
    )


def test_a_window_of_losses() -> None:
    outcome = agrees(
        """
        from collections import deque

        window = deque(maxlen=3)

        def f(x):
            loss = x.sum().item()
            window.append(loss)
            if sum(window) / len(window) > 12:
                print("high", len(window))
                x = x / 2
            return x, list(window)
        """,
        [X * k for k in range(1, 7)],
    )
    assert outcome.mends


def test_another_length_is_another_graph() -> None:
    agrees(
        """
        from collections import deque

        def f(x, window):
            window.append(2)
            print(len(window))
            return x * len(window), list(window)
        """,
        [(X, deque([1, 1], maxlen=length)) for length in (2, 3, None, 2)],
    )
