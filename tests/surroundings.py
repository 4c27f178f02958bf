"""Programs whose surroundings change between calls: eager Python and mended code must agree."""

from __future__ import annotations

import torch

from tests.oracle import Change, Outcome, agrees

X = torch.tensor([1.0, 2.0, 3.0])


def changing(before: str, body: str, *steps: str, mends: bool | None = True) -> Outcome:
    """Compare the arms on a function that is called twice, and twice after each change.

    Args:
        before: source of what the function uses.
        body: source of a function of `x`.
        steps: source of the changes, which are run in the program's globals.
        mends: whether something must be mended, or nothing; None for either.

    Returns:
        What was seen under mending.
    """
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    source = f"import collections, contextlib\n{before}\ndef f(x):\n{lines}"
    calls: list[object] = [X, X]
    for step in steps:
        calls += [Change(step), X, X]
    outcome = agrees(source, calls, orders=1)
    assert mends is None or bool(outcome.mends) == mends, outcome
    return outcome
