"""What the user has told Dynamo about a function counts before a mend: the result is stock's."""

from __future__ import annotations

import contextlib
import io
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo import config
from torch._dynamo.testing import CompileCounter

import graphmend_bc as gm
from graphmend_bc.dynamo.calls.left_to_dynamo import is_ignored, is_opaque
from tests.oracle import check, load

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])
CALLS = [UP, DOWN, DOWN, UP, UP]
HEAD = """
import functools
from torch._dynamo import config
import graphmend_bc as gm
log = logging.getLogger("program")
"""


@pytest.fixture(autouse=True)
def _options() -> Iterator[None]:
    effects = list(gm.config.effects)
    options = {"ignore_logging_functions": set(), "reorderable_logging_functions": set()}
    with config.patch(options), gm.config.patch(effects=effects):
        yield


@dataclass
class Life:
    """What calls of a compiled function gave, with all that they wrote."""

    seen: list[tuple[Any, str]]
    graphs: int
    mends: str = ""


def _life(source: str, calls: list[Tensor], mends: bool) -> Life:
    torch._dynamo.reset()
    module, counter, life = load(HEAD + source), CompileCounter(), Life([], 0)
    with gm.enabled() if mends else contextlib.nullcontext():
        compiled = torch.compile(module.f, backend=counter)
        for x in calls:
            with contextlib.redirect_stdout(io.StringIO()) as out:
                handler = logging.StreamHandler(out)
                logging.getLogger("program").addHandler(handler)
                try:
                    value = compiled(x.clone())
                finally:
                    logging.getLogger("program").removeHandler(handler)
            life.seen.append((value.tolist(), out.getvalue()))
        if mends:
            life.mends = " ".join(sorted({m.strategy for m in gm.report().mends}))
    life.graphs = counter.frame_count
    return life


def as_stock(source: str, calls: list[Tensor] = CALLS) -> Life:
    stock, mended = _life(source, calls, False), _life(source, calls, True)
    assert mended.seen == stock.seen
    assert mended.graphs <= stock.graphs
    return mended


@pytest.mark.slow
@pytest.mark.parametrize(
    ("option", "named"),
    [
        ("ignore_logging_functions", "logging.Logger.warning"),
        ("ignore_logger_methods", "log.warning"),
        ("ignore_logging_functions", "print"),
        ("ignore_logging_functions", "print, log.warning"),
        ("ignore_logging_functions", "own"),
    ],
)
def test_what_is_ignored_is_not_deferred(option: str, named: str) -> None:
    life = as_stock(
        f"""
def own(value):
    log.error("mine: %s", value)

gm.config.effects.append(own)
config.{option} = {{{named}}}

def inner(x):
    if x.sum() > 0:
        log.warning("up by %s", x.sum())
        x = x * 2
    own(x.max())
    return x

def f(x):
    print("norm", x.norm())
    y = inner(x) + 1
    log.error("done")
    return y
"""
    )
    assert life.mends == "defer where"
    written = "".join(text for _, text in life.seen)
    assert "done" in written
    silent = {"log.warning": "up by", "logging.Logger.warning": "up by", "print": "norm"}
    silent |= {"own": "mine"}
    for text in silent.values():
        names = [name for name, its in silent.items() if its == text]
        assert (text in written) is not any(name in named.split(", ") for name in names)


def test_a_cached_function_that_calls_what_is_ignored() -> None:
    life = as_stock(
        """
@functools.lru_cache(None)
def once(text):
    log.warning(text)

config.ignore_logging_functions = {logging.Logger.warning}

def f(x):
    once("not seen")
    print("seen")
    return x + 1
"""
    )
    assert [text for _, text in life.seen] == ["seen\n"] * 5


def test_a_question_that_is_ignored() -> None:
    as_stock(
        """
config.ignore_logging_functions = {logging.Logger.isEnabledFor}

def f(x):
    if log.isEnabledFor(logging.ERROR):
        x = x * 2
    print(x.sum())
    return x + 1
"""
    )


def test_another_function_in_its_place() -> None:
    life = as_stock(
        """
def tell(value):
    print("told", value)

gm.config.effects.append(tell)

@torch.compiler.substitute_in_graph(tell)
def quiet(value):
    return None

def f(x):
    tell(x.sum())
    print("after", x.max())
    return x + 1
"""
    )
    assert not any("told" in text for _, text in life.seen)


@pytest.mark.parametrize("mark", ["torch.compiler.allow_in_graph", "torch._dynamo.nonstrict_trace"])
def test_what_the_graph_calls_is_not_deferred(mark: str) -> None:
    life = as_stock(
        f"""
@{mark}
def note(x):
    return x * 2

gm.config.effects.append(note)

def f(x):
    note(x)
    y = note(x + 1)
    print(y.sum())
    return y
"""
    )
    assert life.mends == "defer"


def test_what_must_break_the_graph_does() -> None:
    source = """
torch._dynamo.disallow_in_graph(torch.get_num_threads)

def f(x):
    return (x * 2) * torch.get_num_threads() + 1
"""
    try:
        life = as_stock(source)
    finally:
        torch._dynamo.trace_rules._disallowed_callable_ids.remove(id(torch.get_num_threads))
    assert life.graphs == 2
    assert life.mends == ""


REORDERED = """
import sys
from torch._dynamo import config

def say(*values, mark="."):
    print("say", *values, mark)

config.reorderable_logging_functions = {say, print}
"""


@pytest.mark.parametrize(
    ("body", "mends"),
    [
        ('say("sum", x.sum()); return x + 1', "defer@10"),
        ('y = x + 1; say(y, mark="!"); y.mul_(3); return y', "defer@10"),
        ('print("a", x.max(), end="|"); return x * 2', "defer@10"),
        ('say(f"{x.sum():.2f}"); say("b"); print("c"); return x + 1', "defer@10"),
    ],
)
def test_what_may_be_moved_is_shown_as_it_was(body: str, mends: str) -> None:
    check(f"{REORDERED}\ndef f(x):\n    {body}\n", [UP, DOWN], mends=mends)


def test_what_may_be_moved_is_not_lost_in_a_callee() -> None:
    check(
        f"""{REORDERED}
def inner(x):
    say("in", x.sum())
    return x * 2

def f(x):
    y = inner(x) + 1
    say("out", y.sum())
    return y
""",
        [UP, DOWN],
        mends="defer@10 defer@15",
    )


def test_what_may_be_moved_belongs_to_its_arm() -> None:
    check(
        f"""{REORDERED}
def f(x):
    y = x * 2
    if y.sum() > 0:
        say("up", y.sum())
        y = y + 1
    else:
        y = y - 1
    say("end")
    return y
""",
        [UP, DOWN],
        mends="where@11 defer@12 defer@16",
    )


def test_what_may_be_moved_but_not_shown_refuses_its_arm() -> None:
    check(
        f"""{REORDERED}
def f(x):
    y = x * 2
    if y.sum() > 0:
        say(y.cos())
        y = y + 1
    return y
""",
        [UP.clone().requires_grad_(), DOWN.clone().requires_grad_()],
        mends="speculate@11",
        grad=True,
    )


OPAQUE = """
calls = []

@{mark}
def opaque(x):
    if type(x) is torch.Tensor:  # not while it is traced
        calls.append(1)
    return x * 2
"""


@pytest.mark.parametrize("mark", ["torch.compiler.allow_in_graph", "torch._dynamo.nonstrict_trace"])
@pytest.mark.parametrize(
    ("body", "mends", "declines", "breaks"),
    [
        (
            "if x.sum() > 0:\n        x = opaque(x)\n    return x + 1",
            "",
            "speculation-has-effects@10",
            1,
        ),
        (
            "x = opaque(x)\n    if x.sum() > 0:\n        return [x]\n    return x + 1",
            "",
            "speculation-has-effects@11",
            1,
        ),
        (
            "y = opaque(x)\n    return y.repeat(int(y.abs().max()))",
            "",
            "hoist-not-input@11",
            1,
        ),
    ],
)
def test_what_the_graph_calls_is_called_once(
    mark: str, body: str, mends: str, declines: str, breaks: int
) -> None:
    source = f"{OPAQUE.format(mark=mark)}\ndef f(x):\n    {body}\n"
    check(source, [UP, DOWN, DOWN, UP], mends=mends, declines=declines, breaks=breaks)


def test_what_the_graph_calls_may_stand_in_the_other_arm() -> None:
    source = f"{OPAQUE.format(mark='torch.compiler.allow_in_graph')}"
    source += "\ndef f(x):\n    return opaque(x) if x.sum() > 0 else x + 1\n"
    check(source, [DOWN, UP, DOWN, DOWN], mends="speculate@10", orders=1)


def test_what_is_known_of_functions() -> None:
    logger = logging.getLogger("program")
    config.ignore_logging_functions = {logger.info, logging.Logger.error}
    assert is_ignored(logger.info)
    assert is_ignored(logging.getLogger("other").error)
    assert not is_ignored(logging.getLogger("other").info)
    assert not is_opaque(torch.relu)
    assert is_opaque(torch.compiler.allow_in_graph(lambda x: x))
