"""Each form of branch that is mended, in both arms, several orders and more than one call."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import check

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])
BOTH = [UP, DOWN, UP * 0.1]


def test_if_else() -> None:
    check(
        """
        def f(x):
            if x.sum() > 0:
                y = x * 2
            else:
                y = x - 1
            return y + 1
        """,
        BOTH,
        mends="where@2",
    )


def test_one_armed_if() -> None:
    check(
        """
        def f(x):
            x = x + 1
            if x.sum() > 3:
                x = x * 2
            return x + 1
        """,
        BOTH,
        mends="where@3",
    )


def test_elif_chain() -> None:
    check(
        """
        def f(x):
            if x.sum() > 3:
                y = x * 2
            elif x.sum() > 0:
                y = x * 3
            elif x.min() < -2:
                y = x * 5
            else:
                y = x * 7
            return y
        """,
        [*BOTH, DOWN * 0.1],
        mends="where@2 where@4 where@6",
    )


def test_nested() -> None:
    check(
        """
        def f(x):
            y = x + 1
            if x.sum() > 0:
                if x.max() > 2:
                    y = y * 2
                y = y - 1
            return y
        """,
        BOTH,
        mends="where@3 where@4",
    )


def test_ternary_inside_an_expression() -> None:
    check(
        """
        def f(x):
            return torch.add(x, (x * 2 if x.sum() > 0 else x - 1) + 1, alpha=2)
        """,
        BOTH,
        mends="where@2",
    )


def test_ternary_with_a_deeper_stack() -> None:
    check(
        """
        def f(x):
            return [x + 1, (x + 2, x * 2 if x.sum() > 0 else x - 1)]
        """,
        BOTH,
        mends="where@2",
    )


@pytest.mark.parametrize("operator", ["and", "or"])
def test_short_circuit_condition(operator: str) -> None:
    check(
        f"""
        def f(x):
            y = x + 1
            if x.sum() > 0 {operator} x.max() > 2:
                y = y * 2
            return y
        """,
        [*BOTH, torch.tensor([-9.0, 1.0, 3.0])],
        mends="where@3",
    )


@pytest.mark.parametrize(
    "condition",
    [
        "not x.sum() > 0",
        "x.sum() > 0 and not x.max() > 2",
        "not x.sum() > 0 or x.max() > 2",
        "(x.sum() > 0 or x.max() > 2) and x.min() > 0.5",
        "x.sum() > 0 and (x.max() > 2 or x.min() > 0.5)",
        "x.sum() > 0 or x.max() > 2 or x.min() < -1",
        "flag and x.sum() > 0",
        "x.sum() > 0 and flag",
        "flag or x.sum() > 0",
        "x.sum() > 0 or flag",
        "0 < x.sum() < 3",
    ],
)
def test_conditions(condition: str) -> None:
    calls = [(x, flag) for x in [*BOTH, torch.tensor([-9.0, 1.0, 3.0])] for flag in (True, False)]
    check(
        f"""
        def f(x, flag):
            y = x + 1
            if {condition}:
                y = y * 2
            else:
                y = y - 3
            return y
        """,
        calls,
        mends="where@3",
        orders=2,
    )


@pytest.mark.parametrize("operator", ["and", "or"])
def test_short_circuit_value(operator: str) -> None:
    check(
        f"""
        def f(x):
            y = (x.sum() > 0) {operator} (x.max() > 2)
            return x * y
        """,
        [*BOTH, torch.tensor([-9.0, 1.0, 3.0])],
        mends="where@2",
    )


def test_early_return() -> None:
    check(
        """
        def f(x):
            y = x + 1
            if x.sum() > 0:
                return y * 2
            y = y - 1
            return y
        """,
        BOTH,
        mends="where@3",
    )


def test_early_returns_in_a_row() -> None:
    check(
        """
        def f(x):
            if x.sum() > 3:
                return x * 2, x + 1
            if x.sum() > 0:
                return x * 3, x + 2
            return x * 5, x + 3
        """,
        [*BOTH, DOWN * 0.1],
        mends="where@2 where@4",
    )


def test_lists_made_in_the_arms() -> None:
    check(
        """
        def f(x):
            if x.sum() > 0:
                return [x + 1, [x * 2]]
            return [x + 2, [x * 3]]
        """,
        BOTH,
        mends="where@2",
    )


def test_continue_in_an_unrolled_loop() -> None:
    check(
        """
        def f(x):
            y = x + 1
            for i in range(4):
                if y.sum() > 2 * i:
                    continue
                y = y + i
            return y
        """,
        BOTH,
        mends="where@4",
    )


def test_layers_of_one_module() -> None:
    check(
        """
        class Layer(nn.Module):
            def __init__(self, scale):
                super().__init__()
                self.scale = scale

            def forward(self, x):
                x = x * self.scale
                if torch.isinf(x).any() or torch.isnan(x).any():
                    x = torch.clamp(x, min=-1000, max=1000)
                return x

        model = nn.Sequential(*[Layer(s) for s in (2.0, 1e30, 1e30, 0.5)])

        def f(x):
            return model(x + 1)
        """,
        [UP, torch.tensor([float("nan"), 0.0, 1.0]), UP * 0],
        mends="where@8",
    )


def test_site_in_a_callee() -> None:
    check(
        """
        def relu_like(x, slope):
            if x.mean() > 0:
                return x
            return x * slope

        def f(x):
            return relu_like(relu_like(x + 1, 2), 3) + 1
        """,
        BOTH,
        mends="where@2",
    )


def test_method_and_closure_cells() -> None:
    check(
        """
        def make(scale):
            def inner(x):
                if x.sum() > 0:
                    x = x * scale
                return x + scale
            return inner

        g = make(torch.tensor(3.0))

        def f(x):
            factor = x + 1
            h = lambda z: z * factor
            if x.sum() > 0:
                y = h(x)
            else:
                y = x - factor
            return g(y)
        """,
        BOTH,
        mends="where@3 where@13",
    )


def test_python_condition_stays_python() -> None:
    check(
        """
        def f(x, n):
            if n:
                x = x + n
            if x.sum() > 0 and n > 1:
                x = x * 2
            return x + 1
        """,
        [(UP, 0), (DOWN, 1), (UP, 2), (UP, 3)],
        mends="where@4",
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "dtype", [torch.bool, torch.int64, torch.float16, torch.float64, torch.complex64]
)
def test_predicate_dtypes(dtype: torch.dtype) -> None:
    check(
        """
        def f(x, p):
            y = x + 1
            if p:
                y = y * 2
            return y
        """,
        [(UP, torch.tensor(1, dtype=dtype)), (UP, torch.tensor([[0]], dtype=dtype))],
        mends="where@3",
    )


def test_nan_predicate_is_true() -> None:
    check(
        """
        def f(x):
            y = x + 1
            if x.sum():
                y = y * 2
            return y
        """,
        [UP, torch.tensor([float("nan")]), UP * 0],
        mends="where@3",
    )


def test_in_a_resume_function() -> None:
    check(
        """
        def f(x):
            y = x + 1
            torch._dynamo.graph_break()
            if y.sum() > 0:
                y = y * 2
            return y + 1
        """,
        BOTH,
        mends="where@4",
        declines="break-requested@3",
        breaks=1,
    )


@pytest.mark.nightly  # test_arm_writes.py has a more telling one
def test_with_inductor() -> None:
    check(
        """
        def f(x):
            y = x + 1
            if y.sum() > 3:
                y = y * 2
            else:
                y = y - 1
            return y
        """,
        BOTH,
        mends="where@3",
        backend="inductor",
        orders=2,
    )


def test_large_function_with_extended_arguments() -> None:
    """Dynamo counts offsets without EXTENDED_ARG; the site must be found all the same."""
    constants = "\n            ".join(f"y = y + {i}.25" for i in range(300))
    check(
        f"""
        def f(x):
            y = x * 2
            {constants}
            if x.sum() > 0:
                y = y * 2
            if x.min() < 0: y = y - 1
            return y
        """,
        BOTH,
        mends="where@303 where@305",
        orders=1,
    )


def test_arm_that_makes_a_function_of_a_parameter() -> None:
    """Its cell is the parameter's place, which CPython 3.13 loads as it loads a local."""
    check(
        """
        def f(x, z, w):
            if x.sum() > 0:
                def inner(y):
                    nonlocal z
                    z = y + w
                    return z
                x = x * 2
            return x, z
        """,
        [(UP, 1, 2.0), (DOWN, 2, 3.0), (UP, 3, 4.0)],
        mends="speculate@2",
    )


def test_cells_of_parameters_in_both_arms() -> None:
    check(
        """
        def f(x, z):
            if x.sum() > 0:
                y = (lambda: x * z)()
            else:
                y = (lambda n: x - z + n)(1)
            return y + z
        """,
        [(UP, 2), (DOWN, 3)],
        mends="where@2",
    )
