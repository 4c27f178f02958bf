"""Rows of a tensor that a loop goes through, or that are written to."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import agrees, check

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])


def test_rows_of_a_loop_changed_in_place_under_autograd() -> None:
    """Eager iterates over `unbind()`, whose outputs may not be changed in place."""
    source = """
        def f(x):
            count, y = 0, x * 1
            for row in y:
                if row.sum() > 0:
                    count += 1
                row.add_(1)
            return y * count
        """
    rows = torch.stack([UP, DOWN])
    assert agrees(source, [rows.clone().requires_grad_()], grad=True).mends == ""
    assert agrees(source, [rows]).mends == "speculate@4"


def test_rows_of_a_loop_changed_in_place_by_the_unlikely_arm() -> None:
    """The second compilation begins with the plan that the first one has proven."""
    agrees(
        """
        def f(x):
            y = x * 1
            for row in y:
                if row.sum() > 0:
                    row.add_(1)
            return y
        """,
        [torch.stack([UP, UP]).requires_grad_(), torch.stack([UP, DOWN]).requires_grad_()],
        grad=True,
        orders=1,
    )


def test_rows_of_a_loop_changed_in_place_beside_a_call_that_is_put_off() -> None:
    """The rewritten code fails to trace; what is left of its plan must not shape the stock graph."""
    source = """
        def helper(x):
            for row in torch.stack([x, -x]):
                row.add_(2)
                print("row")
            return x

        def f(x):
            x = x * 1
            helper(x)
            return x
        """
    seen = agrees(source, [UP.clone().requires_grad_()], grad=True)
    assert seen.mends == ""


def test_rows_of_a_loop_have_the_gradients_of_unbind() -> None:
    """A sum of rows that are zero elsewhere would make +0.0 of -0.0."""
    source = """
        def f(x, y):
            total = y * 3 if y.sum() > 0 else y
            for row in x:
                total = total + row * -0.0
            return total
        """
    rows = torch.stack([UP, DOWN]).requires_grad_()
    assert agrees(source, [(rows, UP), (rows, DOWN)], grad=True).mends == "where@2"


@pytest.mark.parametrize("result", ["z", "z + x"])
def test_row_of_a_tensor_that_is_changed_before_a_break(result: str) -> None:
    """Autograd refuses to tell the row's history, and Dynamo asks for it where a function goes on."""
    check(
        f"""
        import time
        import torch
        def f(y):
            print("rows")
            for x in y:
                break
            with torch.no_grad():
                y[0].add_(1)
                time.sleep(0)
                z = x.detach() * 2
            return {result}
        """,
        [torch.full((2, 3), n, requires_grad=True) for n in (1.0, -1.0)],
        "defer@4",
        declines="call-not-traced@9",
        breaks=None,
        grad=True,
    )
