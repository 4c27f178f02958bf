"""Looking which way a condition goes while compiling, and leaving no trace of having looked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

import graphmend_bc as gm
from graphmend_bc.dynamo.before_graph import concrete_eval, graph_slice

X = torch.tensor([-3.0, 1.0, 0.5])


def _first_call(f: Callable[..., Any], *args: Any, grad: bool = False) -> list[int]:
    """Compile and call once, compare with eager Python; how many speculations at each site missed."""
    torch.manual_seed(0)
    expected = f(*args)
    drawn = torch.rand(1)
    torch.manual_seed(0)
    with gm.enabled(), torch.set_grad_enabled(grad):
        found = torch.compile(f, backend="eager")(*args)
        outcomes = gm.report().speculations
    assert torch.equal(torch.rand(1), drawn)
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
    return [outcome.failed_checks for outcome in outcomes]


def _steered(x: torch.Tensor) -> tuple[torch.Tensor, int]:
    k = 2 if x.sum() > 0 else 3
    return x * k, k


def test_first_speculation_is_right_either_way() -> None:
    assert _first_call(_steered, X) == [0]
    assert _first_call(_steered, -X) == [0]


def test_matrix_products_are_run() -> None:
    layer = torch.nn.Linear(3, 3)

    def f(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        return _steered(layer(x))

    assert _first_call(f, X) == [0]
    assert _first_call(f, -X) == [0]


def test_second_condition_is_seen_after_the_first() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        k = 2 if x.sum() > 0 else 3
        y = x * k
        return y, (k if y.max() > 2.5 else -k)

    assert _first_call(f, X) == [0, 0]


def test_sizes_are_seen() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        rows = x[x > 0]
        return rows, (2 if rows.shape[0] > 1 else 3)

    assert sum(_first_call(f, X)) == 0
    assert sum(_first_call(f, -X)) == 0


def test_draws_that_a_condition_does_not_rest_on() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        noise = torch.rand(3)
        y, k = _steered(x)
        return y + noise, k

    assert _first_call(f, X) == [0]
    assert _first_call(f, -X) == [0]


def test_no_look_at_memory_that_is_filled_with_draws() -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        y = x.clone()
        y[1:].uniform_()
        return _steered(y)

    assert _first_call(f, X) == [1]


@pytest.mark.parametrize("sign", [1, -1])
def test_no_look_after_a_draw(sign: int) -> None:
    """The numbers drawn are not known, so one of the two ways is a miss or luck; both are exact."""

    def f(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        return _steered(x + torch.rand(3))

    _first_call(f, X * sign)


def test_running_statistics_are_updated_once() -> None:
    def count(norm: torch.nn.BatchNorm1d, x: torch.Tensor) -> tuple[torch.Tensor, int]:
        y = norm(x)
        return y, (2 if y.max() > 100 else 3)

    rows = torch.randn(8, 3)
    ours, eager = torch.nn.BatchNorm1d(3), torch.nn.BatchNorm1d(3)
    with gm.enabled():
        compiled = torch.compile(count, backend="eager")
        for _ in range(3):
            assert compiled(ours, rows)[1] == count(eager, rows)[1]
    torch.testing.assert_close(ours.state_dict(), eager.state_dict(), rtol=0, atol=0)


class Passing(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def test_code_of_the_users_is_not_run(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[Any] = []

    def slice_of(*args: Any, **kwargs: Any) -> Any:
        looked.append(args)
        return graph_slice.slice_of(*args, **kwargs)

    monkeypatch.setattr(concrete_eval, "slice_of", slice_of)
    with gm.enabled():
        with Passing():
            assert torch.compile(_steered, backend="eager")(X)[1] == 3
        assert looked == []
        torch.compiler.reset()
        assert torch.compile(_steered, backend="eager")(X)[1] == 3
        assert looked


def test_what_the_look_raises_stays_inside(capsys: pytest.CaptureFixture[str]) -> None:
    """An index that is wrong is the program's to find, where it finds it."""

    def f(x: torch.Tensor, at: torch.Tensor) -> tuple[torch.Tensor, int]:
        picked = x[at]
        return picked, (2 if picked.sum() > 0 else 3)

    with gm.enabled():
        compiled = torch.compile(f, backend="eager")
        with pytest.raises(IndexError, match="index 7"):
            compiled(X, torch.tensor([7]))
        assert compiled(X, torch.tensor([1]))[1] == 2
    assert capsys.readouterr().err == ""
