"""A `with` block around a scheduler's `step` at the end of a function runs as a whole, last."""

from __future__ import annotations

import dis
from types import CodeType, FunctionType
from typing import Any

import pytest

from graphmend_bc import config
from graphmend_bc.code.analysis.blocks import graph_of
from graphmend_bc.dynamo import facts
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting import Plan, rewrite
from graphmend_bc.rewriting.plan import OutlineBlock
from graphmend_bc.rules.last_blocks import LAST_BLOCK
from graphmend_bc.rules.rule import BreakSite
from tests.deferral.test_final_calls import COSINE, STEP, breaks

WARMUP = """
from contextlib import contextmanager

class Warmup:
    last, lrs, suppresses = 0, [0.5], False

    @contextmanager
    def dampening(self):
        for group, lr in zip(opt.param_groups, self.lrs):
            group["lr"] = lr
        yield self
        self.lrs = [group["lr"] for group in opt.param_groups]
        self.last += 1
        grad = m.weight.grad
        told.append((self.last, float(m.weight.sum()), grad is not None and float(grad.sum())))
        for group in opt.param_groups:
            group["lr"] *= min(1.0, self.last / 5)

    @contextmanager
    def noting(self):
        told.append("in")
        try:
            yield told
        except ValueError as error:
            told.append(str(error))
            if not self.suppresses:
                raise
        finally:
            told.append(rate())

w = Warmup()
class State: n, kept = 0, None
s = State()
"""
BEFORE = f"{COSINE}\n{WARMUP}"
BLOCK = "with w.dampening():\n    schedule.step()\n"
traced = pytest.mark.skipif(not facts.TRACES_BACKWARD, reason="not on torch 2.11")


@traced
@pytest.mark.parametrize(
    "rest",
    [
        f"{BLOCK}return loss.detach()",
        f"{BLOCK}return loss.item()",
        f"{BLOCK}return [loss, {{'also': loss.detach().cpu()}}]",
        BLOCK,
        f"s.n += 1\nprint('before')\ntold.append(3)\ns.kept = x\n{BLOCK}return loss",
        "with w.noting() as notes:\n    notes.append(1)\n    schedule.step()\nreturn loss",
        "with w.noting(), w.dampening():\n    schedule.step()\nreturn loss",
        "with w.noting():\n    with w.dampening():\n        schedule.step()\nreturn loss.detach()",
        "with torch.no_grad():\n    schedule.step()\n    told.append(torch.is_grad_enabled())\nreturn loss",
        "if x.shape[0] > 2:\n    with w.dampening():\n        schedule.step()\nreturn loss.detach()",
        "with w.dampening():\n    for _ in range(2):\n        schedule.step()\nreturn loss",
        "with w.noting():\n    told.append(m(x).sum().item())\n    schedule.step()\nreturn loss",
        "with w.noting():\n    schedule.step()\n    raise ValueError(f'{rate()}')\nreturn loss",
    ],
)
def test_the_block_runs_last(rest: str) -> None:
    assert breaks(BEFORE, f"{STEP}{rest}") == (0, "")


@traced
def test_a_block_that_suppresses_what_is_raised_in_it() -> None:
    before = f"{BEFORE}\nw.suppresses = True"
    rest = "with w.noting():\n    schedule.step()\n    raise ValueError(f'{rate()}')\nreturn loss"
    assert breaks(before, f"{STEP}{rest}") == (0, "")


@traced
@pytest.mark.parametrize("schedule", ["lambda e: 1 / (3 - e)", "lambda e: told.append(e) or 0.5"])
def test_a_scheduler_that_raises_or_notes(schedule: str) -> None:
    before = f"schedule = LambdaLR(opt, {schedule})\n{WARMUP}"
    assert breaks(before, f"{STEP}{BLOCK}return loss.detach()") == (0, "")


@traced
@pytest.mark.parametrize(
    ("functions", "call"),
    [
        (f"def after(loss):\n    {BLOCK}    return [loss]", "return after(loss)"),
        (f"def after():\n    {BLOCK}", "after()\nreturn loss.detach()"),
        (
            "def made(schedule, w):\n    def after(loss):\n        with w.dampening():\n"
            "            schedule.step()\n        return loss.item()\n    return after\n"
            "after = made(schedule, w)",
            "return after(loss), 1",
        ),
        (
            "class Trainer:\n    def __init__(self):\n        self.w, self.schedule = w, schedule\n"
            "    def after(self, loss):\n        with self.w.dampening():\n"
            "            self.schedule.step()\n        return loss.detach()\ntrainer = Trainer()",
            "return trainer.after(loss)",
        ),
    ],
)
def test_a_block_inside_of_another_function(functions: str, call: str) -> None:
    functions = functions.replace("\n    schedule.step()", "\n        schedule.step()")
    assert breaks(f"{BEFORE}\n{functions}", f"{STEP}{call}") == (0, "")
    functions = functions.replace("return loss.item()", "return rate()")
    assert breaks(f"{BEFORE}\n{functions}", f"{STEP}{call}, rate()")[0]


ZEROED = "with w.noting():\n    {}.zero_()\n    schedule.step()\nreturn {}"


@traced
@pytest.mark.parametrize(
    ("first", "zeroed", "result"),
    [
        ("s.kept = loss.detach()", "s.kept", "loss.item()"),
        ("s.kept = loss.detach().view(1)", "s.kept", "loss.detach().clone()"),
        ("told.append(loss.detach())", "told[-2]", "loss.item()"),
        ("s.kept = {'also': (loss.detach(),)}", "s.kept['also'][0]", "loss.detach().cpu()"),
        ("global told_now\ntold_now = loss.detach()", "told_now", "loss.item()"),
        ("def found(of=loss.detach()): return of\ns.kept = found", "s.kept()", "loss.item()"),
        ("v = m.weight.detach().view(-1)", "m.weight.data", "v.clone()"),
        ("v = m.weight.detach().view(-1)", "m.weight.data", "v"),
        ("v = x.view(-1)", "x", "v.clone()"),
        ("v = loss.detach() + 0", "v", "v.item()"),
        ("v = loss.detach() * 1\nx.grad = v.expand(6, 4)", "x.grad[0, 0]", "v.item()"),
    ],
)
def test_a_tensor_that_the_block_may_change(first: str, zeroed: str, result: str) -> None:
    """Whether it is mended is not said, but what is read is what it is after the block."""
    breaks(BEFORE, f"{STEP}{first}\n{ZEROED.format(zeroed, result)}")


@traced
@pytest.mark.parametrize(
    "rest",
    [
        f"{BLOCK}return loss, rate()",
        f"{BLOCK}s.n += 1\nreturn loss",
        f"{BLOCK}told.append(1)\nreturn loss",
        f"{BLOCK}opt.zero_grad()\nreturn loss",
        f"{BLOCK}{BLOCK}return loss",
        f"{BLOCK}return m.weight.sum()",
        "with w.noting() as notes:\n    schedule.step()\nreturn loss, notes",
        "with w.noting() as notes:\n    schedule.step()\n    return loss",
        "try:\n    with w.dampening():\n        schedule.step()\nfinally:\n    told.append(1)\nreturn 1",
        "while s.n % 2 == 0:\n    s.n += 1\n    with w.dampening():\n        schedule.step()\nreturn 1",
        "n = [w]\nwith n[0].dampening():\n    schedule.step()\nreturn loss",
        "v = 1\nf = lambda: v\nwith w.noting():\n    told.append(f())\n    schedule.step()\nreturn 1",
        "def inner():\n    yield 1\n    with w.dampening():\n        schedule.step()\nlist(inner())",
    ],
)
def test_what_is_left(rest: str) -> None:
    assert breaks(BEFORE, f"{STEP}{rest}")[0]


@traced
@pytest.mark.parametrize("most", [0.5, 2.3, 2.45, 3.5])
def test_a_condition_that_decides(most: float) -> None:
    breaks(BEFORE, f"{STEP}if loss > {most}:\n    return loss, 1\n{BLOCK}return loss", count=8)
    rest = BLOCK.replace("\n", "\n    ")
    breaks(BEFORE, f"{STEP}if loss > {most}:\n    {rest}told.append(2)\nreturn loss", count=8)


@traced
def test_calls_that_are_verified() -> None:
    with config.patch(verify=1):
        breaks(BEFORE, f"{STEP}{BLOCK}return loss.detach()")


@traced
@pytest.mark.parametrize("backend", ["aot_eager"])
def test_a_backend(backend: str) -> None:
    rest = f"{STEP}{BLOCK}return loss.detach().argmax()"
    assert breaks(BEFORE, rest.replace(".argmax()", ""), backend=backend) == (0, "")


@traced
def test_a_warning_says_where_the_block_is() -> None:
    body = "loss = mse_loss(m(x), y)\nloss.backward()\nwith w.noting():\n    schedule.step()"
    assert breaks(BEFORE, f"{body}\nreturn loss.detach()", count=3) == (0, "")


@traced
def test_the_frames_around_the_block() -> None:
    before = f"""{BEFORE}
import sys
def after(loss):
    with w.noting():
        schedule.step()
        told.append(named())
    return loss.detach()
def named():
    frame, found = sys._getframe(1), []
    while len(found) < 2:
        found.append((frame.f_code.co_name, frame.f_lineno))
        frame = frame.f_back
    return found
"""
    assert breaks(before, f"{STEP}return after(loss)") == (0, "")


class _Manager:
    def __init__(self, notes: list[Any], *, suppresses: bool) -> None:
        self.notes, self.suppresses = notes, suppresses

    def __enter__(self) -> list[Any]:
        self.notes.append("in")
        return self.notes

    def __exit__(self, kind: Any, *_: object) -> bool:
        self.notes.append(kind)
        return self.suppresses


class _Stepped:
    def __init__(self, notes: list[Any], *, raises: bool) -> None:
        self.notes, self.raises = notes, raises

    def step(self, *given: Any) -> None:
        self.notes.append(given)
        if self.raises:
            raise ValueError(given)


def _plain(manager: Any, s: Any, n: int) -> Any:
    m = n + 1
    with manager:
        s.step()
    return m


def _bound(manager: Any, s: Any, n: int) -> Any:
    with manager as notes:
        if n:
            s.step(len(notes))
        for i in range(n):
            notes.append(i)
    return n.real


def _nested(manager: Any, s: Any, n: int) -> None:
    if n > 1:
        n = 5
    with manager, _Manager(manager.notes, suppresses=True):
        s.step(n)


def _tried(manager: Any, s: Any, n: int) -> Any:
    with manager as notes:
        try:
            s.step()
        except ValueError:
            notes.append("caught")
            if n:
                raise
        finally:
            notes.append("end")
    return n, [1.0, True]


def _raising(manager: Any, s: Any, n: int) -> Any:
    with manager:
        if n:
            raise KeyError(n)
        s.step()
    return n


def _closure(manager: Any, s: Any, n: int) -> Any:
    m = n

    def seen() -> int:
        return m

    with manager as notes:
        s.step(seen(), m)
        notes.append(lambda: m)
        notes.append(notes.pop()())
    return n


def outlined(function: Any) -> Any:
    """The function with the block around its first `step` outlined."""
    code: CodeType = function.__code__
    graph = graph_of(code)
    calls = (op.offset for op in graph.listing.ops if BreakSite(code, op.offset).callee == "step")
    new = rewrite(code, Plan({next(calls): OutlineBlock(LAST_BLOCK.name)})).code
    return FunctionType(new, function.__globals__, function.__name__, None, function.__closure__)


@pytest.mark.parametrize("function", [_plain, _bound, _nested, _tried, _raising, _closure])
@pytest.mark.parametrize("suppresses", [True, False])
@pytest.mark.parametrize("raises", [True, False])
def test_rewritten_code_means_the_same(function: Any, *, suppresses: bool, raises: bool) -> None:
    rewritten = outlined(function)
    assert [c for c in rewritten.__code__.co_consts if isinstance(c, CodeType)]
    for n in range(3):
        seen = []
        for each in (function, rewritten):
            notes: list[Any] = []
            given = _Manager(notes, suppresses=suppresses), _Stepped(notes, raises=raises)
            try:
                result: Any = each(*given, n)
            except (KeyError, ValueError) as error:
                result = repr(error)
            seen.append((result, notes))
        assert seen[0] == seen[1]


def _used(manager: Any, s: Any, n: int) -> Any:
    with manager:
        s.step()
        n = 3
    return n


def _returning(manager: Any, s: Any, n: int) -> Any:
    with manager:
        s.step()
        return n


def _looking(manager: Any, s: Any, n: int) -> Any:
    with manager:
        s.step(locals())
    return n


def _looping(manager: Any, s: Any, n: int) -> Any:
    while n:
        n -= 1
        with manager:
            s.step()
    return n


@pytest.mark.parametrize("function", [_used, _returning, _looking, _looping])
def test_what_is_not_rewritten(function: Any) -> None:
    with pytest.raises(Refused):
        outlined(function)
    assert [i for i in dis.get_instructions(function) if i.argval == "step"]
