"""Programs of one tensor whose surroundings change, or which begin with a branch that is mended."""

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
    calls: list[object] = [X, X]
    for step in steps:
        calls += [Change(step), X, X]
    outcome = agrees(_program(before, body), calls, orders=1)
    assert mends is None or bool(outcome.mends) == mends, outcome
    return outcome


def after_branch(before: str, body: str) -> Outcome:
    """Compare the arms on a function that first branches, in calls of either way.

    Args:
        before: source of what the function uses.
        body: source of a function of `x`, after the branch.

    Returns:
        What was seen under mending.
    """
    source = _program(before, f"if x.sum() > 0: x = x * 2\n{body}")
    return agrees(source, [X, -X, X], orders=1)


def _program(before: str, body: str) -> str:
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    return f"import collections, contextlib\n{before}\ndef f(x):\n{lines}"
