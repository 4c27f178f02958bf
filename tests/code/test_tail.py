"""What is left of a function after a call, and whether it only hands out what is there."""

from __future__ import annotations

import pytest

from graphmend_bc.code.analysis.blocks import graph_of
from graphmend_bc.code.analysis.tail import hands_out, tail_of


def hands(body: str, *, moves: bool = False) -> bool:
    """Whether the rest of `def f(own, given)` only hands out after `last()`."""
    made: dict[str, object] = {}
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    exec(f"def f(own, given, last, *more):\n{lines}", made)
    listing = graph_of(made["f"].__code__).listing  # type: ignore[attr-defined]
    load = next(op for op in listing.ops if op.arg == "last")
    call = next(op for op in listing.ops[load.index :] if op.name == "CALL")
    return hands_out(tail_of(listing, call.index), lambda name: name == "own", moves=moves)


@pytest.mark.parametrize(
    "body",
    [
        "last()",
        "last()\nreturn given",
        "last()\nreturn own.detach()",
        "last()\nreturn own.detach().cpu().item()",
        "last()\nkept = own\nreturn {'a': [kept, given], 'b': (own.item(), 1)}",
        "if given:\n    last()\nreturn own.clone(), given",
        "if given:\n    last()\nelse:\n    given()\nreturn own",
        "last()\na, b = own, given\nreturn b",
    ],
)
def test_what_is_there_is_handed_out(body: str) -> None:
    assert hands(body)
    assert hands(body, moves=True)


@pytest.mark.parametrize(
    "body",
    [
        "last()\nreturn given.item()",
        "last()\nreturn given.state",
        "last()\nreturn own.sum()",
        "last()\nreturn own.item",
        "last()\nreturn own.clone(1)",
        "last()\nreturn own.clone(memory_format=given)",
        "last()\nreturn own.item().detach()",
        "last()\nreturn own[0]",
        "last()\nreturn own + 1",
        "last()\nreturn len",
        "last()\ngiven()",
        "last()\nkept = own\nreturn kept.item()",
        "last()\nown = given\nreturn own.item()",
        "last()\ngiven.kept = own",
        "last()\nif given:\n    return own",
        "while given:\n    last()",
        "for each in given:\n    last()\nreturn own",
        "last()\nraise ValueError",
        "last()\nassert own",
        "last()\nyield own",
        "last()\ndel given[0]",
        "last()\nimport os",
        "last()\nreturn lambda: own.item()",
        "last()\nreturn f'{own}'",
        "last()\nreturn [*given]",
    ],
)
def test_more_follows(body: str) -> None:
    assert not hands(body)


@pytest.mark.parametrize(
    "body",
    [
        "last()\ngiven.zero_grad()\nreturn own.detach()",
        "last()\ngiven.trainer.optimizer.zero_grad()",
        "last()\noptimizer.zero_grad(); other.step()\nreturn own",
        "last()\ngiven.count += 1\nreturn given.loss",
        "last()\ngiven.total = given.total - given.one * 2\nreturn own",
    ],
)
def test_attributes_may_be_moved(body: str) -> None:
    assert hands(body, moves=True)
    assert not hands(body)


@pytest.mark.parametrize(
    "rest",
    [
        "given.zero_grad(False)",
        "given.reset()",
        "given.zero_grad(set_to_none=True)",
        "given[0] += 1",
        "given.count /= 2",
        "given.count //= given.one",
        "given.text % 1",
        "del given.count",
        "kept = [*given.items]",
        "given.count < 2 or own",
        "print(own)",
        "len(own)",
        "given.all[0]",
    ],
)
def test_nothing_that_may_raise_or_read_more(rest: str) -> None:
    assert not hands(f"last()\n{rest}\nreturn own", moves=True)
