"""Bytecode as the page shows it: what is kept, what it says, and what is marked as changed."""

from __future__ import annotations

import ast
import asyncio.tasks
import contextlib
import difflib
import dis
import gc
import pickle
import weakref
from collections.abc import Callable, Iterator
from types import CodeType, ModuleType
from typing import Any

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.reporting.code_text import CodeChange, text_of
from graphmend_bc.reporting.page import page_of
from graphmend_bc.reporting.page.bytecode import comparisons_of, pairs_of
from graphmend_bc.reporting.page.flow_graph import flow_graph
from graphmend_bc.reporting.page.svg import may_lay_out


def branching(x, y):
    if x:
        y = y + 1
    return y


def change_of(function: object) -> CodeChange:
    return CodeChange.of(function.__code__, gm.rewrite(function).__code__)


def test_all_that_control_reaches_is_there_in_its_order() -> None:
    text = text_of(branching.__code__)
    shown = [one.offset for one in text.instructions]
    assert shown == sorted(shown)
    assert {one.offset for one in text.instructions} <= {
        one.offset for one in dis.get_instructions(branching.__code__)
    }
    assert text.blocks[0].ways == tuple(sorted(text.blocks[0].ways, key=lambda way: way.target))
    assert any(one.text.endswith(" to b2") for one in text.instructions)


def test_a_rewritten_branch_is_marked_and_its_arms_are_told() -> None:
    change = change_of(branching)
    assert len(change.after.blocks) < len(change.before.blocks)
    assert len(change.arms) == 2
    pairs = list(pairs_of(change.before, change.after))
    gone = {pair.before.text.split()[0] for pair in pairs if pair.is_changed and pair.before}
    new = {pair.after.text for pair in pairs if pair.is_changed and pair.after}
    assert any(name.startswith("POP_JUMP") for name in gone)
    line = branching.__code__.co_firstlineno + 1
    assert f"LOAD_CONST <Branch for line {line}>" in new
    assert all(pair.before.key == pair.after.key for pair in pairs if not pair.is_changed)


def test_the_listings_are_whole_but_for_what_is_said_to_be_left_out() -> None:
    change = change_of(branching)
    pairs = list(pairs_of(change.before, change.after))
    skipped = sum(pair.skipped for pair in pairs)
    shown = [pair.before for pair in pairs if pair.before is not None]
    whole = change.before.instructions
    assert shown == [one for one in whole if one in shown]
    assert skipped + len(shown) <= len(whole)
    last = whole.index(shown[-1])
    assert skipped + len(shown) == last + 1


class Shouting(str):
    def __repr__(self) -> str:
        raise AssertionError("The program's code ran.")


@pytest.mark.parametrize(
    ("constant", "shown"),
    [
        (Shouting("x"), "<Shouting>"),
        ((1, Shouting("x")), "<tuple>"),
        (10**5000, "<a large int>"),
        ("x" * 100, "'" + "x" * 44 + "..."),
        ((1, None, "a"), "(1, None, 'a')"),
    ],
    ids=["object", "tuple of objects", "large", "long", "tuple"],
)
def test_constants(constant: object, shown: str) -> None:
    code = (lambda: "here").__code__
    consts = tuple(constant if c == "here" else c for c in code.co_consts)
    text = text_of(code.replace(co_consts=consts))
    assert [i.text.partition(" ")[2] for i in text.instructions if "CONST" in i.text] == [shown]


def test_no_code_object_is_kept_and_it_can_be_sent() -> None:
    scope: dict[str, object] = {}
    exec("def made(x, y):\n    if x:\n        y = 2\n    return y\n", scope)
    function = scope.pop("made")
    change = change_of(function)
    code: weakref.ref[CodeType] = weakref.ref(function.__code__)
    del function
    gm.reset()  # it was rewritten
    gc.collect()
    assert code() is None
    assert pickle.loads(pickle.dumps(change)).after == change.after


def test_telling_of_code_keeps_nothing() -> None:
    code = compile("x = 1 if y else 2", "m.py", "exec")
    dead: weakref.ref[CodeType] = weakref.ref(code)
    assert text_of(code).blocks
    del code
    assert dead() is None


def test_long_code_is_left_out_and_said_to_be() -> None:
    scope: dict[str, object] = {}
    exec("def made(x):\n" + "    x = x + 1\n" * 600 + "    return x\n", scope)
    text = text_of(scope["made"].__code__)
    assert (text.blocks, text.size > 2000) == ((), True)
    change = change_of(branching)
    (found,) = comparisons_of([CodeChange(change.code, "m.py", 1, text, text)])
    assert (found.pairs, found.pictures) == ((), ("", ""))
    assert found.note == "The code is too long to be shown."


def codes_in(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from codes_in(constant)


@pytest.mark.parametrize("module", [ast, asyncio.tasks, contextlib, difflib])
def test_any_code(module: ModuleType) -> None:
    code = module.__loader__.get_code(module.__name__)
    texts = [text_of(one) for one in codes_in(code)]
    assert len(texts) > 20
    for text in texts:
        assert {way.target for b in text.blocks for way in b.ways} <= {b.index for b in text.blocks}
        assert [block.index for block in text.blocks] == list(range(len(text.blocks)))
        pictures = flow_graph(text, ())
        assert pictures.count('"block"') == (len(text.blocks) if pictures else 0)


def shown(x):
    y = x * 2
    print("largest:", y.max())
    return y


def chosen(x):
    y = x * 2 if x.sum() > 0 else x - 1
    print("largest:", y.max())
    return y


def mended_page(function: Callable[..., Any]) -> tuple[gm.Report, str]:
    with gm.enabled():
        torch.compile(function, backend="eager")(torch.ones(2))
        return gm.report(), page_of(gm.report())


def test_a_function_whose_calls_are_only_deferred_is_shown_as_it_is() -> None:
    report, page = mended_page(shown)
    assert [mend.strategy for mend in report.mends] == ["defer"]
    (change,) = report.rewrites
    assert not change.is_rewritten
    assert change.before == text_of(shown.__code__)
    (found,) = comparisons_of([change], {change.code: {report.mends[0].site.offset}})
    (marked,) = (pair.before for pair in found.pairs if pair.is_changed)
    assert marked is not None
    assert (marked.offset, marked.line) == (
        report.mends[0].site.offset,
        report.mends[0].site.lineno,
    )
    assert found.note.startswith("Dynamo traces this code as it is.")
    assert (bool(found.pictures[0]), found.pictures[1]) == (may_lay_out(), "")
    assert '<a href="#code-1">' in page
    assert "instructions, not rewritten" in page
    assert page.count('<tr class="c">') == 1


def test_a_deferred_call_is_marked_beside_what_is_rewritten() -> None:
    report, _ = mended_page(chosen)
    (change,) = report.rewrites
    assert change.is_rewritten
    (call,) = (mend.site for mend in report.mends if mend.strategy == "defer")
    plain, marked = (
        {
            p.before.offset
            for p in pairs_of(change.before, change.after, mended)
            if p.is_changed and p.before
        }
        for mended in ((), (call.offset,))
    )
    assert marked == {*plain, call.offset}
    assert call.offset not in plain


def test_nothing_is_kept_of_a_function_without_a_mend() -> None:
    with gm.enabled():
        torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
        assert gm.report().rewritten == []
