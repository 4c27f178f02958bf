"""Sharing the interpreter's evaluator with Dynamo, in every order.

Dynamo leaves its evaluator installed for good after a compilation that failed, so what must be
restored exactly is looked at in processes of their own.
"""

from __future__ import annotations

import itertools
import textwrap

import pytest

from tests.processes import forked

pytest.importorskip("torch")
pytest.importorskip("graphmend_bc._frame_hooks")

PRELUDE = """
import threading, torch, graphmend_bc as gm
from graphmend_bc import _frame_hooks as hooks
from torch._C._dynamo.eval_frame import get_eval_frame_callback, set_eval_frame
from torch._dynamo.testing import CompileCounter
from tests.attachment.vendor import double, outer, opaque

X = torch.tensor([1.0, 2.0])
CPYTHON = hooks.evaluator()
set_eval_frame(False)
DYNAMO = hooks.evaluator()
set_eval_frame(None)
assert hooks.evaluator() == CPYTHON != DYNAMO

def reaches_hooks():
    before = hooks.counters()["frames"]
    (lambda: None)()
    return hooks.counters()["frames"] != before

def check_restored(evaluator=CPYTHON):
    assert hooks.evaluator() == evaluator
    assert not reaches_hooks() and not hooks.installed()
    assert get_eval_frame_callback() is None
"""


def run(script: str) -> None:
    """Run a script in a process of its own, where nothing was compiled yet."""
    forked(PRELUDE + textwrap.dedent(script))


@pytest.mark.slow
def test_every_order_of_attaching_compiling_calling_and_removing() -> None:
    steps = ("attach", "remove", "compile", "call_compiled", "attach_other", "remove_other")
    orders = [
        order
        for order in itertools.permutations(steps)
        if order.index("attach") < order.index("remove")
        and order.index("attach_other") < order.index("remove_other")
        and order.index("compile") < order.index("call_compiled")
    ]
    run(
        f"orders = {orders!r}\n"
        + textwrap.dedent(
            """
            def other(x):
                x = x + 1
                opaque()
                return x * 2

            for order in orders:
                live = set()
                ours, theirs = CompileCounter(), CompileCounter()
                for step in order:
                    if step == "attach":
                        handle = gm.attach(double, backend=ours)
                    elif step == "remove":
                        handle.remove()
                    elif step == "attach_other":
                        handle_other = gm.attach(other, backend=ours)
                    elif step == "remove_other":
                        handle_other.remove()
                    elif step == "compile":
                        compiled = torch.compile(outer, backend=theirs)
                    elif step == "call_compiled":
                        assert torch.equal(compiled(X), X * 2 + 1)
                    if step.startswith(("attach", "remove")):
                        live ^= {step.partition("_")[2]}
                    assert torch.equal(double(X), X * 2)
                    assert torch.equal(other(X), (X + 1) * 2)
                    assert hooks.installed() == bool(live)
                    assert (hooks.evaluator() == CPYTHON) == (not live)
                assert theirs.frame_count == 1
                assert ours.frame_count >= 3
                check_restored()
                torch._dynamo.reset()
            """
        )
    )


def test_attached_and_removed_between_the_graphs_of_a_compiled_function() -> None:
    run(
        """
        counter, inner = CompileCounter(), CompileCounter()
        seen = []

        def change(attach):
            if attach:
                handles.append(gm.attach(double, backend=inner))
            else:
                handles.pop().remove()
            seen.append(hooks.evaluator() == DYNAMO)
            seen.append(reaches_hooks() == attach)

        @torch._dynamo.disable(recursive=False)
        def eagerly(attach):
            change(attach)

        def program(x, attach):
            x = x + 1
            eagerly(attach)
            return double(x)

        handles = []
        compiled = torch.compile(program, backend=counter)
        for attach in (True, False, True, False):
            assert torch.equal(compiled(X, attach), (X + 1) * 2)
            assert torch.equal(double(X), X * 2)
            assert (hooks.evaluator() == CPYTHON) == (not attach)
        check_restored()
        assert all(seen) and len(seen) == 8
        assert inner.frame_count == 1
        """
    )


def test_attached_while_dynamo_compiles() -> None:
    run(
        """
        counter = CompileCounter()
        handles = []

        def backend(module, inputs):
            handles.append(gm.attach(double, backend=counter))
            return module.forward

        compiled = torch.compile(lambda x: x.cos(), backend=backend)
        assert torch.equal(compiled(X), X.cos())
        assert torch.equal(double(X), X * 2)
        assert counter.frame_count == 1
        handles.pop().remove()
        assert torch.equal(compiled(X), X.cos())
        check_restored()
        """
    )


def test_attached_and_removed_while_other_threads_are_inside_compiled_regions() -> None:
    run(
        """
        counter, theirs = CompileCounter(), CompileCounter()
        inside, go = threading.Barrier(3), threading.Event()
        results = []

        @torch._dynamo.disable(recursive=False)  # Dynamo stays on inside, unlike in opaque()
        def wait():
            inside.wait(60)
            assert go.wait(60)

        def slow(x):
            x = x + 1
            wait()
            return double(x)

        def work():
            results.append(torch.compile(slow, backend=theirs)(X))

        for leave_first in (True, False):
            go.clear()
            threads = [threading.Thread(target=work) for _ in range(2)]
            [thread.start() for thread in threads]
            inside.wait(60)
            assert hooks.evaluator() == DYNAMO
            handle = gm.attach(double, backend=counter)
            assert hooks.evaluator() == DYNAMO and reaches_hooks()
            assert torch.equal(double(X), X * 2)
            if leave_first:
                handle.remove()
                assert hooks.evaluator() == DYNAMO and not reaches_hooks()
                assert torch.equal(double(X), X * 2)
            go.set()
            [thread.join() for thread in threads]
            assert torch.equal(double(X), X * 2)
            handle.remove()
            check_restored()
        assert counter.frame_count == 1
        assert all(torch.equal(result, (X + 1) * 2) for result in results) and len(results) == 4
        """
    )


def test_after_a_compilation_that_failed() -> None:
    run(
        """
        counter = CompileCounter()

        def broken(x):
            x = x + 1
            opaque()
            return x * 2

        try:
            torch.compile(broken, backend=counter, fullgraph=True)(X)
        except torch._dynamo.exc.Unsupported:
            found = hooks.evaluator()  # Dynamo's: it does not leave after this
        for _ in range(3):
            with gm.attach(double, backend=counter):
                assert reaches_hooks()
                assert torch.equal(double(X), X * 2)
            check_restored(found)
            assert torch.equal(torch.compile(outer, backend=counter)(X), X * 2 + 1)
            check_restored(found)
        assert counter.frame_count == 2

        with gm.attach(broken, backend=counter, fullgraph=True):
            try:
                broken(X)
            except torch._dynamo.exc.Unsupported:
                pass
            else:
                raise AssertionError("no error")
        check_restored(found)
        """
    )


def test_threads_attach_call_and_remove_at_will() -> None:
    run(
        """
        import random, sys
        sys.setswitchinterval(1e-5)
        failures = []

        def work(seed):
            choose, mine = random.Random(seed), []
            compiled = torch.compile(outer, backend="eager")
            try:
                for _ in range(150):
                    step = choose.randrange(4)
                    if step == 0:
                        mine.append(gm.attach(double, backend="eager"))
                    elif step == 1 and mine:
                        mine.pop(choose.randrange(len(mine))).remove()
                    elif step == 2:
                        assert torch.equal(compiled(X), X * 2 + 1)
                    assert torch.equal(double(X), X * 2)
            except BaseException as error:
                failures.append(error)
                raise
            finally:
                [handle.remove() for handle in mine]

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert not failures
        check_restored()
        """
    )
