"""Which calls are compared, why others are not, and what is told of them; all in this process."""

from __future__ import annotations

import contextlib
import io
import random
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from types import CellType
from typing import Any

import numpy
import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.dynamo.verification import verifier
from graphmend_bc.dynamo.verification.copies import MISSING, NotCopied, copied, in_place, world_of
from graphmend_bc.dynamo.verification.random_state import RandomState
from graphmend_bc.reporting.verification import Verification
from tests import oracle, wrong_rule

PRELUDE = """
import random, struct
import numpy

def number():
    return struct.calcsize("ii")
"""

X = torch.ones(2)


@pytest.fixture(autouse=True)
def _compares_calls() -> Iterator[None]:
    handle = wrong_rule.register()
    with gm.enabled(cache=False), gm.config.patch(verify=1):
        yield
    handle.remove()


def verified(
    body: str, *calls: Any, around: Callable[[], AbstractContextManager[object]] = nullcontext
) -> tuple[Verification, list[Any]]:
    """What came of comparing the calls of `f`, and what each gave or raised."""
    module = oracle.load(PRELUDE + textwrap.dedent(body))
    compiled = torch.compile(module.f, backend="eager")
    given: list[Any] = []
    for args in calls:
        with around(), contextlib.redirect_stdout(io.StringIO()):
            try:
                given.append(compiled(*args) if isinstance(args, tuple) else compiled(args))
            except (ValueError, IndexError) as error:
                given.append(error)
    (found,) = (each for each in gm.report().verified if each.site.function == "f")
    return found, given


def differences(body: str, *calls: Any) -> tuple[str, ...]:
    """What differs in the first of some calls that all are compared, and differ."""
    found, _ = verified(body, *calls)
    assert (found.compared, found.differing) == (len(calls), len(calls)), found
    return found.differences


def assert_same(body: str, *calls: Any) -> list[Any]:
    found, given = verified(body, *calls)
    assert (found.compared, found.differing) == (len(calls), 0), found
    return given


def reasons(body: str, *calls: Any, **kwargs: Any) -> list[str]:
    """Why some calls are not compared."""
    found, _ = verified(body, *calls, **kwargs)
    assert (found.compared, sum(found.left.values())) == (0, len(calls)), found
    return [*found.left]


def test_what_eager_python_raises() -> None:
    body = """
    def f(x):
        if number() == 8:
            raise ValueError(number())
        return x * 2
    """
    assert differences(body, X) == ("the result: eager raises ValueError(8), mended returns",)


RAISES = """
def f(x, at):
    print(x.sum())
    return torch.nn.functional.embedding(at, x[:, None]) * {}
"""


@pytest.mark.parametrize("every", [1, 2])
def test_what_the_graph_raises(every: int) -> None:
    calls = [(X, torch.tensor([at])) for at in (1, 0, 2, 2)]
    with gm.config.patch(verify=every):
        found, given = verified(RAISES.format("2"), *calls)
    assert [type(each) for each in given] == [torch.Tensor] * 2 + [IndexError] * 2
    assert (found.differing, found.differences) == (0, ())
    assert found.compared + sum(found.left.values()) == 4 // every, found


def test_random_numbers() -> None:
    body = """
    def f(x):
        for _ in range(number()):
            x = x + {}
        return x
    """
    told = "random numbers: the generators of {} differ afterwards"
    for draw, name in (
        ("torch.rand(2)", "torch"),
        ("random.random()", "Python"),
        ("numpy.random.rand()", "NumPy"),
    ):
        gm.reset()
        assert differences(body.format(draw), X)[-1] == told.format(name)
    gm.reset()
    all_three = "torch.rand(2) + random.random() + numpy.random.rand()"
    assert differences(body.format(all_three), X)[-1] == told.format("Python and NumPy and torch")


def test_gradients_that_the_call_makes() -> None:
    body = """
    net = torch.nn.Linear(2, 1)

    def f(x):
        loss = net(x).sum() * {}
        loss.backward()
        print("loss", loss.item())
        return loss.detach() * 0
    """
    for _ in assert_same(body.format("2"), X, X, X):  # each adds to the gradients of the one before
        pass
    gm.reset()
    wrong = differences(body.format("number()"), X, X)
    assert any(text.startswith("the global 'net'") and ".grad: 2 of 2" in text for text in wrong)


def test_gradients_of_arguments() -> None:
    body = """
    def f(x):
        (x * number()).sum().backward()
        return x.grad.clone() * 0
    """
    x = torch.ones(2, requires_grad=True)
    x.grad = torch.ones(2)
    found, _ = verified(body, x)
    assert "the argument 'x'.grad: 2 of 2 values differ, by at most 1" in found.differences, found


def test_results_of_autograd_are_copied() -> None:
    body = """
    def f(x, y):
        print(x.sum())
        return x * y, x
    """
    leaf = torch.ones(4, requires_grad=True)
    assert_same(body, (leaf * 2, leaf * 3), (leaf * 2, X.sum()))
    result = leaf * 2
    gm.reset()
    shares = ["A tensor with a history shares memory with another one."]
    assert reasons(body, (result, result.detach()), ((leaf * 2)[1:], torch.ones(3))) == shares


def test_why_calls_are_not_compared() -> None:
    body = """
    @torch.library.custom_op("tests_of_comparing::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)

    def f(x):
        print(x.sum())
        return twice(x)
    """
    foreign = ["Its graph calls what is not torch's own, which may have effects."]
    assert reasons(body, X, X) == foreign
    gm.reset()
    module = oracle.load("count = 0\nkept = []")
    body = f"""
    import {module.__name__} as other

    def f(x):
        print(x.sum())
        {{}}
        return x * 2
    """
    assert reasons(body.format("other.kept.append(1)"), X, X) == [
        "It changes an object that is not copied."
    ]
    assert module.kept == [1, 1]
    gm.reset()
    assert_same(body.format("other.kept[:]"), X)


def test_when_nothing_is_compared() -> None:
    body = """
    def f(x):
        print("called")
        return x * 2
    """

    def hooks() -> AbstractContextManager[object]:
        return torch.autograd.graph.saved_tensors_hooks(lambda x: x, lambda x: x)

    @contextlib.contextmanager
    def busy() -> Iterator[None]:
        """Another thread has a call compared."""
        entered, ends = threading.Event(), threading.Event()

        def hold() -> None:
            with verifier._one_at_a_time:
                entered.set()
                ends.wait()

        thread = threading.Thread(target=hold)
        thread.start()
        entered.wait()
        yield
        ends.set()
        thread.join()

    def mode() -> AbstractContextManager[object]:
        return torch.device("cpu")

    for around, why in (
        (mode, "A mode would see the operators that are repeated."),
        (hooks, "Hooks on saved tensors, such as a checkpoint's, would see them twice."),
        (busy, "Another thread has a call compared."),
    ):
        gm.reset()
        torch._dynamo.reset()
        assert reasons(body, X, X, around=around) == [why]
    assert_same(body, X)


def test_nothing_can_be_compared_inside_a_transform() -> None:
    said: list[str] = []

    def ask(x: torch.Tensor) -> torch.Tensor:
        said.append(verifier._problem_now())
        return x

    torch.func.vmap(ask)(X)
    ask(X)
    assert said == ["A transform of torch.func runs.", ""]


def test_context_variables_are_those_of_the_call() -> None:
    module = oracle.load("import contextvars\nKIND = contextvars.ContextVar('KIND', default=1)")
    body = f"""
    import {module.__name__} as other

    def f(x):
        print(x.sum())
        return x * other.KIND.get()
    """
    module.KIND.set(3)
    given = assert_same(body, X, X)
    assert [each.tolist() for each in given] == [[3.0, 3.0]] * 2


UNREPEATED = {
    "hooks": ("x.register_hook(doubled)", "It registers hooks on tensors."),
    "standard error": (
        "sys.stderr.write('w')",
        "It makes a call whose effect cannot be kept from the program.",
    ),
    "handlers": (
        "logger.warning('w')",
        "A call that is deferred runs code of the program's, such as a handler.",
    ),
}


@pytest.mark.parametrize(("line", "why"), UNREPEATED.values(), ids=UNREPEATED.keys())
def test_what_cannot_be_repeated(line: str, why: str) -> None:
    body = f"""
    import logging, sys

    class Handler(logging.Handler):
        def emit(self, record):
            pass

    logger = logging.getLogger("tests.of.compared.calls")
    logger.handlers[:] = [Handler()]

    def doubled(gradient):
        return gradient * 2

    def f(x):
        print("called")
        {line}
        return x * 2
    """
    leaf = torch.ones(2, requires_grad=True)
    with contextlib.redirect_stderr(io.StringIO()):
        assert reasons(body, leaf, leaf) == [why]


class Plain:
    """Something with attributes."""


def test_what_the_call_writes_is_compared() -> None:
    body = """
    def f(x, plain):
        n = number()
        x.add_(n)
        plain.n = n
        return x * 0
    """
    (one, *others) = differences(body, (torch.ones(2), Plain()))
    assert one == "the argument 'x': 2 of 2 values differ, by at most 1"
    assert others == ["the argument 'plain'.n: 8 in eager, 9 mended"]


def test_an_interrupt_of_the_repetition_is_passed_on() -> None:
    body = """
    def f(x):
        if number() == 8:
            raise KeyboardInterrupt
        return x * 2
    """
    with pytest.raises(KeyboardInterrupt):
        verified(body, X)
    (found,) = gm.report().verified
    assert (found.compared, found.left) == (0, {})
    gm.reset()
    assert_same("def f(x):\n    print(x.sum())\n    return x", X)  # it is over for the next one


def test_globals_that_are_not_there() -> None:
    body = """
    def f(x):
        global LATE
        print(x.sum())
        {}
        return x * 2
    """
    module_globals = {"LATE": 1}
    world = world_of((), (), module_globals, ["LATE", "OTHER"])
    assert world.named == {"LATE": 1, "OTHER": MISSING}
    with in_place({"LATE": 2, "OTHER": MISSING}, world.named, module_globals):
        assert module_globals == {"LATE": 2}
        module_globals["OTHER"] = 3
        del module_globals["LATE"]
    assert module_globals == {"LATE": 1}
    assert_same(body.format("LATE = 3"), X, X)


def test_empty_cells() -> None:
    world = world_of((), (CellType(), CellType(1)), {}, [])
    assert world.contents == (MISSING, 1)
    assert copied(world)[0].contents == (MISSING, 1)


def test_what_cannot_be_copied() -> None:
    class Refusing:
        def __deepcopy__(self, memo: object) -> Refusing:
            raise ValueError("not me")

    class Stopping(Refusing):
        def __deepcopy__(self, memo: object) -> Refusing:
            raise NotCopied("It says so itself.")

    for value, text in (
        (Refusing(), "It cannot be copied: ValueError: not me"),
        (Stopping(), "It says so itself."),
    ):
        with pytest.raises(NotCopied, match=text):
            copied(world_of((value,), (), {}, []))


def test_gradients_of_parameters_are_copied() -> None:
    weight = torch.nn.Parameter(torch.ones(2))
    weight.grad = torch.ones(2)
    other = torch.nn.Parameter(torch.ones(2))
    world, memo = copied(world_of(([weight, other], weight.grad), (), {}, []))
    (copy, plain), gradient = world.values
    assert copy.grad is gradient is memo[id(weight.grad)]
    assert gradient is not weight.grad
    assert plain.grad is None


def test_states_of_random_generators() -> None:
    before = RandomState.now()
    torch.rand(1), random.random(), numpy.random.rand()
    after = RandomState.now()
    assert after.differs_in(before) == "Python and NumPy and torch"
    before.restore()
    assert RandomState.now().differs_in(before) == ""


def test_states_of_devices() -> None:
    cpu = torch.zeros(1)
    one, other = (RandomState((), (), cpu, (torch.tensor([n]),)) for n in (1, 2))
    assert one.differs_in(other) == "torch"
    assert one.differs_in(RandomState((), (), cpu, (torch.tensor([1]),))) == ""
