"""Exceptions that leave a graph without coming from one of its operators pass as they are."""

from __future__ import annotations

import ctypes
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

import numpy
import pytest
import torch
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode

import graphmend_bc as gm
from graphmend_bc.dynamo.rollback.raised_errors import was_raised_by_operator
from graphmend_bc.runtime.deoptimise import deoptimising
from graphmend_bc.runtime.draws import Drawn, Draws
from tests.oracle import check

BACKENDS = ["eager", "aot_eager"]
UP = torch.tensor([1.0, 2.0, 3.0])


class Late(Exception):
    """Of a program that gives a call so much time."""


def slow(x: torch.Tensor) -> torch.Tensor:
    for _ in range(40):
        x = torch.tanh(x @ x)
    if x[0, 0] > 2:
        raise ValueError("impossible")
    return x


def _by_alarm(error: type[BaseException], after: float) -> None:
    def handle(*_: object) -> None:
        raise error("too late")

    signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, after)


class Alarm:
    """A handler that is an object, and raises in a function that it calls."""

    def __call__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        raise RuntimeError("too late")


def _by_object(error: type[BaseException], after: float) -> None:
    signal.signal(signal.SIGALRM, Alarm())
    signal.setitimer(signal.ITIMER_REAL, after)


def _by_interrupt(error: type[BaseException], after: float) -> None:
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, after)


def _by_thread(error: type[BaseException], after: float) -> None:
    victim = ctypes.c_ulong(threading.get_ident())

    def raise_there() -> None:
        time.sleep(after)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(victim, ctypes.py_object(error))

    threading.Thread(target=raise_there).start()


def _repeat(call: Callable[[], Any]) -> None:
    for _ in range(9):
        call()


@pytest.fixture(autouse=True)
def _alarms_are_put_back() -> Iterator[None]:
    before = signal.getsignal(signal.SIGALRM)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("start", "error"),
    [
        (_by_alarm, Late),
        (_by_alarm, TimeoutError),
        (_by_alarm, RuntimeError),
        (_by_object, RuntimeError),
        (_by_interrupt, KeyboardInterrupt),
        (_by_thread, Late),
        (_by_thread, ValueError),
    ],
)
def test_from_outside(start: Callable[..., None], error: type[BaseException], backend: str) -> None:
    x = torch.randn(300, 300)
    with gm.enabled():
        compiled = torch.compile(slow, backend=backend)
        compiled(x)
        began = time.perf_counter()
        compiled(x)
        whole = time.perf_counter() - began
        start(error, whole / 2)
        # On a busy machine a call may be done before half its time.
        with pytest.raises(error):
            _repeat(lambda: compiled(x))
        (outcome,) = gm.report().speculations
        assert outcome.failed_checks == 0
        assert torch.equal(compiled(x), slow(x))


def test_while_a_frame_is_compiled() -> None:
    """Stock raises InternalTorchDynamoError in the place of the handler's."""

    def backend(graph: Any, _: object) -> Any:
        _by_alarm(Late, 0.01)
        time.sleep(1)
        return graph

    with gm.enabled(), pytest.raises(Late, match="too late") as caught:
        torch.compile(slow, backend=backend)(torch.ones(2, 2))
    assert caught.value.__cause__ is None


def test_while_numbers_are_drawn_before_the_graph() -> None:
    missed: list[int] = []
    generator = numpy.random.mtrand._rand  # type: ignore[attr-defined]
    state = Draws()
    drawn = Drawn(state, lambda: [generator], lambda: time.sleep(1), None, lambda: missed.append(1))
    _by_alarm(Late, 0.01)
    with pytest.raises(Late):
        state.beginning(deoptimising(drawn))()
    assert not missed


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("error", [Late, RuntimeError, IndexError])
def test_hook_on_saved_tensors(error: type[Exception], backend: str) -> None:
    """It raises once; were the original code to run, it would not."""
    counted = []

    def pack(t: torch.Tensor) -> torch.Tensor:
        counted.append(1)
        if len(counted) == 1:
            raise error("from the hook")
        return t

    def f(x: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
        c.add_(1)
        y = x.sin() * x
        if y.sum() > 1e9:
            raise ValueError
        return y.exp()

    with gm.enabled():
        compiled = torch.compile(f, backend=backend)
        x, c = UP.clone().requires_grad_(), torch.zeros(1)
        compiled(x, c)
        with saved_tensors_hooks(pack, lambda t: t), pytest.raises(error, match="from the hook"):
            compiled(x, c)
        assert len(counted) == 1
        assert c.item() == 2  # what was written before stays, as in eager Python
        assert gm.report().speculations[0].failed_checks == 0


def test_hook_that_runs_an_operator() -> None:
    calls = []

    def pack(t: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return t[torch.tensor([99])]

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        print(y.sum())
        return y.exp()

    with gm.enabled():
        compiled = torch.compile(f, backend="eager")
        compiled(UP.clone().requires_grad_())
        with saved_tensors_hooks(pack, lambda t: t), pytest.raises(IndexError, match="index 99"):
            compiled(UP.clone().requires_grad_())
    assert len(calls) == 1


def without_grad(x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad(), torch.enable_grad():
        y = x.exp()
        if y.sum() > 1e9:
            raise ValueError
    return y


def half(x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16):
        y = x.exp()
        if y.sum() > 1e9:
            raise ValueError
    return y


@pytest.mark.parametrize("f", [without_grad, half])
def test_modes_are_left(f: Callable[..., Any]) -> None:
    """The exception passes through the `with` block of the program."""

    def pack(t: torch.Tensor) -> torch.Tensor:
        raise Late

    def state() -> Any:
        return torch.is_grad_enabled(), torch.is_autocast_enabled("cpu")

    before = state()
    with gm.enabled():
        compiled = torch.compile(f, backend="eager")
        compiled(UP.clone().requires_grad_())
        with saved_tensors_hooks(pack, lambda t: t), pytest.raises(Late) as held:
            compiled(UP.clone().requires_grad_())
        assert held.value.__traceback__ is not None
        assert state() == before
        assert gm.report().mends


class Watching(TorchDispatchMode):
    """A mode that hands operators on; or one that raises.

    Args:
        error: what it raises.
    """

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.error = error

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if self.error is not None:
            raise self.error
        return func(*args, **(kwargs or {}))


class Picky(torch.Tensor):
    """A class of tensors with an operator that raises in Python."""

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError


GRAPH = torch.fx.symbolic_trace(lambda x, i: x[i] * 2)
INSIDE, OUTSIDE = torch.tensor([1]), torch.tensor([7])


def _helper_raises(_: torch.Tensor) -> Any:
    return int("no number")


def _hook(pack: Callable[..., Any]) -> Any:
    return saved_tensors_hooks(pack, lambda t: t)


@pytest.mark.parametrize(
    ("block", "x", "index", "expected"),
    [
        (nullcontext(), UP, OUTSIDE, True),
        (Watching(), UP, OUTSIDE, True),
        (Watching(RuntimeError("the mode's")), UP, INSIDE, False),
        (Watching(Late("the mode's")), UP, INSIDE, False),
        (nullcontext(), UP.as_subclass(Picky), INSIDE, True),
        (_hook(lambda t: t), UP.clone().requires_grad_(), OUTSIDE, True),
        (_hook(_helper_raises), UP.clone().requires_grad_(), INSIDE, False),
        (_hook(lambda t: t[OUTSIDE]), UP.clone().requires_grad_(), INSIDE, False),
    ],
)
def test_who_raised(block: Any, x: torch.Tensor, index: torch.Tensor, expected: bool) -> None:
    def raised() -> BaseException:
        try:
            with block:
                GRAPH(x, index)
        except Exception as error:
            return error
        raise AssertionError("It should have raised.")

    assert was_raised_by_operator(raised()) == expected


def _wrapping(graph: Any, _: object) -> Any:
    return lambda *args: graph(*args)


def _interpreting(graph: Any, _: object) -> Any:
    class Interpreter(torch.fx.Interpreter):
        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            return target(*args, **kwargs)

    return lambda *args: Interpreter(graph, garbage_collect_values=False).run(*args)


def _compiling(graph: Any, inputs: Any) -> Any:
    def compiler(forward: Any, _: object) -> Any:
        def run(args: Any) -> Any:
            return forward(*args)

        run._boxed_call = True  # type: ignore[attr-defined]
        return run

    return aot_autograd(fw_compiler=compiler)(graph, inputs)


INDEXES = """
def f(x, i):
    print("about to index", x)
    y = x[i]
    if y.sum() > 1e9:
        raise ValueError
    return y * 2
"""
CALLS = [(UP, torch.tensor([1])), (UP, torch.tensor([7])), (UP, torch.tensor([0]))]


@pytest.mark.slow
@pytest.mark.parametrize("backend", [*BACKENDS, _wrapping, _interpreting, _compiling])
def test_operators_are_known_in_every_backend(backend: Any) -> None:
    check(INDEXES, CALLS, "defer@2 speculate@4", backend=backend, orders=1)


def test_operators_are_known_with_inductor() -> None:
    check(INDEXES, CALLS, "defer@2 speculate@4", backend="inductor", orders=1)


def test_operators_are_known_under_hooks() -> None:
    """The hooks are called, and are not what raises."""
    with saved_tensors_hooks(lambda t: t * 1, lambda t: t), torch.autograd.graph.save_on_cpu():
        calls = [(x.clone().requires_grad_(), i) for x, i in CALLS]
        check(INDEXES.replace("x)", "x.shape)"), calls, "defer@2 speculate@4")


def test_user_exception_of_another_module_is_not_torchs() -> None:
    class Torchlike(Late):
        __module__ = "torchlike.errors"

    def pack(t: torch.Tensor) -> torch.Tensor:
        raise Torchlike("x")

    net = nn.Linear(3, 3)

    def f(x: torch.Tensor) -> torch.Tensor:
        y = net(x)
        if torch.isnan(y).any():
            raise ValueError
        return y.exp()

    with gm.enabled():
        compiled = torch.compile(f, backend="eager")
        compiled(UP)
        with saved_tensors_hooks(pack, lambda t: t), pytest.raises(Torchlike):
            compiled(UP)
