"""Whether a chosen tensor with memory of its own is told apart from one that shares."""

from __future__ import annotations

import pytest
import torch

from graphmend_bc.legality.storage import Choice, check_choice, storage_of, storage_reference
from graphmend_bc.reporting.reasons import Refused

RESULT, OUTSIDE, MADE, OTHER = 1, 2, 3, 4


def choice(result: int = RESULT, outside: tuple[int, ...] = (OUTSIDE,), since: int = 1) -> Choice:
    """In eager Python it is what was outside, or what an arm has made."""
    return Choice(result, frozenset(outside), frozenset({*outside, MADE}), since)


FREE = choice(outside=())
TWIN = choice(result=OTHER, outside=())
"""Made in the same arm as `FREE`: eager Python may have one tensor for both."""


@pytest.mark.parametrize(
    ("chosen", "others", "written", "visible", "code"),
    [
        (choice(), [], [], [], ""),
        (choice(), [], [OUTSIDE], [], ""),  # before the choice
        (choice(), [], [9, OUTSIDE], [], "alias-mutated"),
        (choice(), [], [9, RESULT], [], "alias-mutated"),
        (choice(), [], [9, MADE], [], ""),
        (FREE, [], [9, RESULT], [], ""),  # eager Python has made it anew, too
        (choice(), [], [], [RESULT], ""),
        (choice(), [], [], [OUTSIDE], ""),
        (choice(), [], [], [RESULT, OUTSIDE], "alias-escapes"),
        (FREE, [], [], [RESULT, OUTSIDE], ""),
        (FREE, [TWIN], [], [], ""),
        (FREE, [TWIN], [9, RESULT], [], "alias-mutated"),
        (FREE, [TWIN], [9, OTHER], [], "alias-mutated"),
        (FREE, [TWIN], [RESULT], [], ""),
        (FREE, [TWIN], [9, OUTSIDE], [], ""),
        (FREE, [choice(OTHER, (), since=0)], [RESULT], [], "alias-mutated"),
        (FREE, [TWIN], [], [RESULT], ""),
        (FREE, [TWIN], [], [OTHER], ""),
        (FREE, [TWIN], [], [RESULT, OTHER], "alias-escapes"),
        (FREE, [FREE], [9, RESULT], [RESULT], ""),  # the same tensor
        (FREE, [Choice(OTHER, frozenset(), frozenset({9}), 0)], [9, 1], [1, OTHER], ""),
        (Choice(5, frozenset(), frozenset({MADE}), 1), [FREE], [], [5, RESULT], "alias-escapes"),
        (Choice(0, frozenset(), frozenset({MADE}), 1), [FREE], [], [0, RESULT], "alias-escapes"),
    ],
)
def test_what_would_be_noticed(
    chosen: Choice, others: list[Choice], written: list[int], visible: list[int], code: str
) -> None:
    if not code:
        return check_choice(chosen, others, written, visible)
    with pytest.raises(Refused) as found:
        check_choice(chosen, others, written, visible)
    assert found.value.reason.code == code


def test_storages() -> None:
    x = torch.ones(4)
    assert storage_of(x) == storage_of(x[1:].view(3, 1)) != storage_of(x.clone())
    assert storage_reference(x).cdata == storage_of(x)

    def wrapped(y: torch.Tensor) -> torch.Tensor:
        assert storage_of(y) == storage_of(x)
        return y * 2

    torch.func.vmap(torch.func.grad(lambda y: wrapped(y)))(x)
