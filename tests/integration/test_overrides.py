"""Tensors and modes that run Python code of the user's where a truth value is asked for."""

from __future__ import annotations

import pytest
import torch

from tests.backends import TORCH
from tests.oracle import check

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])
BOTH = [UP, DOWN]

BODY = """
def f(x):
    t = x.as_subclass(Own)
    if t.sum() > 0:
        t = t * 2
    return t + 1
"""


def test_subclass_without_code_of_its_own() -> None:
    source = "class Own(torch.Tensor):\n    pass\n" + BODY
    check(source, BOTH, mends="speculate@6")


def test_subclass_with_a_truth_value_of_its_own() -> None:
    source = "class Own(torch.Tensor):\n    def __bool__(self): return False\n" + BODY
    check(source, BOTH, declines="predicate-not-exact@6", breaks=1)


@pytest.mark.parametrize("other", ["x", "x.as_subclass(Other)", "x * 2"])
def test_arms_that_give_other_classes(other: str) -> None:
    """Dynamo has one source for all three tensors, although they are of other classes."""
    source = f"""
class Own(torch.Tensor):
    pass

class Other(torch.Tensor):
    pass

def f(x):
    y = x.as_subclass(Own) if x.sum() > 0 else {other}
    return y + 1
"""
    check(source, BOTH, mends="speculate@8")


@pytest.mark.parametrize("start", ["x", "x.as_subclass(Own)"])
def test_loop_that_gives_another_class(start: str) -> None:
    source = f"""
class Own(torch.Tensor):
    pass

def f(x):
    y = {start}
    while y.sum() > 0:
        y = y.as_subclass(Own) - 1
    return y
"""
    outcome = check(source, BOTH, declines=None, breaks=None)  # it also breaks in torch's own code
    assert outcome.breaks > 0


@pytest.mark.parametrize("arm", ["t = t * 2", "return 1"])
def test_subclass_that_sees_every_call(arm: str) -> None:
    outcome = check(
        f"""
        asked = []

        class Own(torch.Tensor):
            @classmethod
            def __torch_function__(cls, func, types, args=(), kwargs=None):
                if func is torch.Tensor.__bool__:
                    asked.append(1)
                return super().__torch_function__(func, types, args, kwargs or {{}})

        def f(x):
            t = x.as_subclass(Own)
            if t.sum() > 0:
                {arm}
            return torch.Tensor.as_subclass(t + 1, torch.Tensor)
        """,
        BOTH,
        declines=None,  # Dynamo breaks in torch's own code as well
        breaks=None,
    )
    assert "predicate-not-exact@12" in outcome.declines


def test_subclass_that_sees_every_operator() -> None:
    check(
        """
        from torch.testing._internal.two_tensor import TwoTensor

        def f(x):
            t = TwoTensor(x, x + 1)
            if t.sum() > 0:
                t = t * 2
            return t.a, t.b
        """,
        BOTH,
        declines="predicate-not-exact@5",
        breaks=1,
    )


def test_function_mode_that_answers() -> None:
    check(
        """
        from torch.overrides import TorchFunctionMode

        class Never(TorchFunctionMode):
            def __torch_function__(self, func, types, args=(), kwargs=None):
                if func is torch.Tensor.__bool__:
                    return False
                return func(*args, **(kwargs or {}))

        def f(x):
            with Never():
                y = x + 1
                if y.sum() > 0:
                    y = y * 2
            return y
        """,
        BOTH,
        declines="inside-transform@12",
        breaks=1,
    )


def test_default_device_is_no_such_mode() -> None:
    torch.set_default_device("cpu")
    try:
        check(
            """
            def f(x):
                y = x + torch.ones(3)
                if y.sum() > 0:
                    y = y * 2
                return y
            """,
            BOTH,
            mends="where@3",
        )
    finally:
        torch.set_default_device(None)


def test_complex_numbers() -> None:
    check(
        """
        def f(x):
            y = x * 2
            if y.sum().real > 0:
                y = y * 3
            if y.sum() == 0:
                raise ValueError("nothing")
            return torch.view_as_real(y)
        """,
        [torch.complex(a, b).requires_grad_() for a in BOTH for b in (UP, -a)],
        mends="where@3 speculate@5",
        grad=True,
    )


def test_quantized_intermediates() -> None:
    torch.quantize_per_tensor(UP, 0.1, 0, torch.qint8)  # warns once in a process
    check(
        """
        def f(x):
            y = torch.quantize_per_tensor(x, 0.1, 0, torch.qint8).dequantize()
            if y.sum() > 0:
                y = y * 3
            if y.max() > 8:
                raise ValueError("large")
            return y
        """,
        [*BOTH, UP * 2],
        *("where@3 speculate@5", "", 0) if TORCH >= (2, 13) else (None, None, None),
    )


def test_sparse_tensors_stay_stock() -> None:
    check(
        """
        s = torch.eye(3).to_sparse()

        def f(x):
            y = s @ x.reshape(3, 1)
            if y.sum() < 0:
                raise ValueError("negative")
            return y
        """,
        BOTH,
        mends="",
        declines=None,
        breaks=None,
    )


def test_jagged_values() -> None:
    check(
        """
        def f(x):
            n = torch.nested.nested_tensor([x, x[:2]], layout=torch.jagged)
            if n.values().sum() > 0:
                return n.values() * 2, 1
            return n.values()
        """,
        BOTH,
        *("speculate@3", "", 0) if TORCH >= (2, 13) else (None, None, None),
    )
