"""Context variables are read before the graph, in the context of each call."""

from __future__ import annotations

import gc
import threading
import weakref
from contextvars import ContextVar, copy_context

import pytest
import torch

import graphmend_bc as gm
from tests.oracle import Change, Outcome, agrees
from tests.releases import since

OLDER = pytest.mark.skipif(since(2, 14), reason="Dynamo reads context variables itself")
X = torch.tensor([1.0, -2.0, 3.0])
HEAD = """
import contextvars, functools, types
from contextvars import ContextVar

class Thing:
    def __init__(self, k):
        self.k = k

    def get(self, *default):
        return 11

v = ContextVar("v", default=3)
u = ContextVar("u")
holder = types.SimpleNamespace(v=ContextVar("w"), many={"a": v})
"""


def run(body: str, *changes: str, before: str = "") -> Outcome:
    """Compare the arms on a function that is called twice, and twice after each change."""
    calls: list[object] = [X, X]
    for change in changes:
        calls += [Change(change), X, X]
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    return agrees(f"{HEAD}{before}\ndef f(x):\n{lines}", calls, orders=1)


@pytest.mark.parametrize(
    "body",
    [
        "return x * v.get()",
        "return x * v.get(5)",
        "return x * u.get(5)",
        "return x * u.get(v.get()) + v.get()",
        "return x * holder.v.get(4) + holder.many['a'].get()",
        "print('a')\ntry:\n    return x * u.get()\nexcept LookupError as error:\n    return x + 1, len(error.args)",
        "def inner():\n    return u.get(None)\nk = inner()\nreturn x * 2 if k is None else x * k",
        pytest.param("k = u.get(x)\nreturn k * x", marks=OLDER),
    ],
)
def test_a_value_that_changes(body: str) -> None:
    steps = ("v.set(7); u.set(8); holder.v.set(9)", "v.set(-1); u.set(2.5)", "v.set(7)", "u.set(0)")
    outcome = run(body, *steps)
    assert outcome.breaks == 0
    assert since(2, 14) or "probe@" in outcome.mends


@OLDER
def test_what_is_raised() -> None:
    run(
        "print('a')\ntry:\n    return x * u.get()\nexcept LookupError as error:\n    return x + 1, error.args == (u,)"
    )


def test_a_variable_that_is_set_and_reset() -> None:
    assert run("return x * u.get(1)", "token = u.set(4)", "u.reset(token)", "u.set(5)").breaks == 0


@pytest.mark.parametrize(
    ("before", "body", "steps"),
    [
        ("v.set(Thing(2))", "return x * v.get().k", ("v.get().k = 3", "v.set(Thing(3))", "v.set(Thing(4))")),
        ("v.set(Thing(2))", "v.get().k += 1\nreturn x * v.get().k", ("v.set(Thing(9))",)),
        ("thing = Thing(2); v.set(thing)", "thing.k += 1\nreturn x * v.get().k, v.get() is thing",
         ("v.set(Thing(9))", "v.set(thing)")),
        ("v.set([1, 2])", "v.get().append(3)\nreturn x * len(v.get())", ("v.set([])", "v.set([5])")),
        ("v.set({'a': 1})", "return x * v.get().get('b', 4)", ("v.get()['b'] = 6", "v.set({})")),
        ("v.set(torch.ones(3))", "return x * v.get()", ("v.get().mul_(2)", "v.set(torch.ones(1))", "v.set(4)")),
        ("v.set(torch.ones(3))", "v.get().add_(x)\nreturn x * v.get()", ("v.set(torch.zeros(3))",)),
        ("v.set(torch.nn.Linear(3, 3))\nwith torch.no_grad():\n    v.get().weight.fill_(1); v.get().bias.fill_(0)",
         "return v.get()(x)", ("v.set(torch.nn.ReLU())",)),
        ("v.set(torch.relu)", "return v.get()(x)", ("v.set(torch.sin)", "v.set(lambda x: x + 1)")),
        ("v.set('a')", "return x * 2 if v.get() == 'a' else x", ("v.set('b')", "v.set(None)", "v.set(0.0)", "v.set(-0.0)")),
        ("v.set(0.0)", "return x * v.get()", ("v.set(float('nan'))", "v.set(True)", "v.set(1)")),
        pytest.param("v.set(0.0)", "return x * v.get()", ("v.set(-0.0)", "v.set(0.0)"), marks=OLDER),
    ],
)  # fmt: skip
def test_values_of_all_kinds(before: str, body: str, steps: tuple[str, ...]) -> None:
    run(body, *steps, before=f"import torch\n{before}")


@pytest.mark.parametrize(
    "step",
    [
        "v = ContextVar('v', default=4)",
        "v = Thing(1)",
        "v = {}; v = types.SimpleNamespace(get=lambda: 9)",
        "v = ContextVar('v'); v.set(3)",
    ],
)
def test_another_object_in_the_place_of_the_variable(step: str) -> None:
    run("return x * v.get()", step)


def test_sets_of_the_function_itself() -> None:
    run("token = v.set(9)\ny = x * v.get()\nv.reset(token)\nreturn y * v.get()", "v.set(5)")
    run("y = x * v.get()\nv.set(v.get() + 1)\nreturn y * v.get()", "v.set(50)")


def test_deferred_calls_show_what_was_read() -> None:
    run("print('v', v.get(), x.sum())\nreturn x * v.get()", "v.set(5)", "v.set('w'[:0] or 6)")


@OLDER
def test_a_function_that_caches_its_results_reads_once() -> None:
    before = "@functools.cache\ndef cached():\n    return v.get()\n"
    run("return x * cached()", "v.set(5)", before=before)


VARIABLE = ContextVar("variable", default=2)


def read(x: torch.Tensor) -> torch.Tensor:
    return x * VARIABLE.get()


def test_contexts_and_threads() -> None:
    found: list[torch.Tensor] = []
    with gm.enabled():
        compiled = torch.compile(read, backend="eager", fullgraph=True)

        def call(k: int) -> None:
            VARIABLE.set(k)
            found.append(compiled(X))

        for k in (5, 7, 5):
            copy_context().run(call, k)
            assert torch.equal(found[-1], X * k)
            assert torch.equal(compiled(X), X * 2)
            thread = threading.Thread(target=call, args=(k + 10,))
            thread.start()
            thread.join()
            assert torch.equal(found[-1], X * (k + 10))


class Held:
    k = 3


def use(x: torch.Tensor) -> torch.Tensor:
    held: Held = VARIABLE.get()  # type: ignore[assignment]
    return x * held.k


def test_the_value_is_not_kept_alive() -> None:
    def call() -> weakref.ref[Held]:
        held = Held()
        VARIABLE.set(held)  # type: ignore[arg-type]
        with gm.enabled():
            compiled = torch.compile(use, backend="eager", fullgraph=True)
            for _ in range(3):
                assert torch.equal(compiled(X), X * 3)
        return weakref.ref(held)

    known = copy_context().run(call)
    gc.collect()
    assert known() is None
