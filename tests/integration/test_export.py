"""Exported programs: mended where the graph alone is exact, else the break stays export's error."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

import graphmend_bc as gm

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])
Body = Callable[["Program", torch.Tensor], torch.Tensor]


class Program(torch.nn.Module):
    def __init__(self, body: Body) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
        self.other = torch.nn.Linear(3, 3)
        self.body = body

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(self, x)


def cheap(self: Program, x: torch.Tensor) -> torch.Tensor:
    y = self.layer(x)
    if y.sum() > 0:
        y = y * 2
    else:
        y = y - 1
    return y


def dear(self: Program, x: torch.Tensor) -> torch.Tensor:
    y = self.layer(x)
    if y.sum() > 0:
        y = self.layer(y) * self.other(y)
    else:
        y = self.layer(y) - self.other(y)
    return y


def loop(self: Program, x: torch.Tensor) -> torch.Tensor:
    y = self.layer(x)
    while y.abs().sum() < 100:
        y = y * 2
    return y + 1


def dropped(self: Program, x: torch.Tensor) -> torch.Tensor:
    if torch.rand([]) < 0.0:
        return x + 1
    return self.layer(x)


def prints(self: Program, x: torch.Tensor) -> torch.Tensor:
    y = self.layer(x)
    print("shape", y.shape)
    return y


def raises(self: Program, x: torch.Tensor) -> torch.Tensor:
    if x.isnan().any():
        raise ValueError("nan")
    return self.layer(x)


def numbers(self: Program, x: torch.Tensor) -> torch.Tensor:
    scale = 0.5 if x.sum() > 0 else 3.0
    return self.layer(x) * scale


def writes(self: Program, x: torch.Tensor) -> torch.Tensor:
    y = x.view(3) if x.sum() > 0 else x + 1
    self.layer.bias.add_(1)
    return y * 2


def _export(program: Program, strict: bool) -> torch.nn.Module:
    with torch.no_grad():
        return torch.export.export(program, (UP.clone(),), strict=strict).module()


@pytest.mark.parametrize(
    ("body", "mends"),
    [
        (cheap, ["where"]),
        (dear, ["cond"]),
        (loop, ["while_loop"]),
        (dropped, ["fold"]),
        (prints, []),
    ],
)
def test_strict_export_is_exact(body: Body, mends: list[str]) -> None:
    program = Program(body)
    with gm.enabled():
        exported = _export(program, strict=True)
        assert [mend.strategy for mend in gm.report().mends] == mends
        assert not gm.report().declines
    for x in (UP, DOWN, UP * 100):
        with torch.no_grad():
            torch.manual_seed(0)
            expected = program(x.clone()), torch.rand(2)
            torch.manual_seed(0)
            found = exported(x.clone()), torch.rand(2)
        assert all(map(torch.equal, found, expected))


def misfits(self: Program, x: torch.Tensor) -> torch.Tensor:
    y = self.layer(x)
    if y.sum() > 0:
        y = y * 2
    return y + torch.ones(4)


def test_strict_export_of_what_raises_fails_as_ever() -> None:
    program = Program(misfits)
    with pytest.raises(torch._dynamo.exc.Unsupported):
        _export(program, strict=True)
    torch._dynamo.reset()
    with gm.enabled(), pytest.raises(torch._dynamo.exc.Unsupported):
        _export(program, strict=True)


@pytest.mark.parametrize("body", [raises, numbers, writes])
def test_strict_export_that_would_need_a_check_fails_as_ever(body: Body) -> None:
    program = Program(body)
    with pytest.raises(torch._dynamo.exc.Unsupported) as stock:
        _export(program, strict=True)
    torch._dynamo.reset()
    with gm.enabled(), pytest.raises(torch._dynamo.exc.Unsupported) as ours:
        _export(program, strict=True)
    assert str(ours.value).startswith(str(stock.value)[:80])
    assert "under-export" in "".join(ours.value.__notes__)
    assert not gm.report().mends


@pytest.mark.parametrize("body", [cheap, prints])
def test_export_that_is_not_strict_is_unaffected(body: Body) -> None:
    program = Program(body)

    def outcome() -> str:
        try:
            return str(_export(program, strict=False).code)  # type: ignore[union-attr]
        except Exception as error:
            return type(error).__name__

    expected = outcome()
    with gm.enabled():
        assert outcome() == expected
        assert not gm.report().mends
        assert not gm.report().declines
