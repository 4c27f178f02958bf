"""Forms of data-dependent control flow, each beside what a careful engineer would write instead.

Every form is a small network with two linear layers and one form of control flow. Its twin has the
same weights and no graph breaks: `torch.where`, `torch.cond` or `torch.while_loop`, or, where the
other arm is rare, the likely arm written out. Such a twin hands out whether the other arm was due,
and its `settle`, called after the graph, looks at that.
"""

from __future__ import annotations

import logging
from typing import Any

import torch
from torch import nn

logger = logging.getLogger("benchmarks.forms")
logger.propagate = False
logger.addHandler(logging.NullHandler())


class Form(nn.Module):
    """Two linear layers; a subclass adds the control flow."""

    def __init__(self, width: int, layers: int = 2) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.first, self.second = self.layers[0], self.layers[1]

    def settle(self, result: Any) -> Any:
        """What the twin's caller does with its result, outside the graph."""
        return result


class Checked(Form):
    """A twin that hands out its result and whether it holds."""

    def settle(self, result: Any) -> Any:
        value, is_wrong = result
        if is_wrong:
            raise RuntimeError("The twin has only the likely arm.")
        return value


class Whole(Form):
    """Nothing breaks here."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(torch.relu(self.first(x)))


class EarlyReturn(Form):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        if x.abs().max() < 0.1:
            return torch.tanh(x)
        x = torch.relu(x)
        return x + 1


class EarlyReturnTwin(EarlyReturn):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        return torch.where(x.abs().max() < 0.1, torch.tanh(x), torch.relu(x) + 1)


class Clamp(Form):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        if x.max() > 1e4:
            x = torch.clamp(x, max=1e4)
        return self.second(x)


class ClampTwin(Clamp):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        x = torch.where(x.max() > 1e4, torch.clamp(x, max=1e4), x)
        return self.second(x)


class Ternary(Form):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        y = torch.relu(x) if x.mean() > 0 else torch.sigmoid(x)
        return self.second(y)


class TernaryTwin(Ternary):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        y = torch.where(x.mean() > 0, torch.relu(x), torch.sigmoid(x))
        return self.second(y)


class ShortCircuit(Form):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        if torch.isinf(x).any() or torch.isnan(x).any():
            x = torch.clamp(x, min=-1e4, max=1e4)
        return self.second(x)


class ShortCircuitTwin(ShortCircuit):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        is_bad = torch.isinf(x).any() | torch.isnan(x).any()
        x = torch.where(is_bad, torch.clamp(x, min=-1e4, max=1e4), x)
        return self.second(x)


class Nested(Form):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        if x.mean() > 0:
            if x.max() > 10:
                y = torch.tanh(x)
            else:
                y = torch.relu(x)
        elif x.min() < -10:
            y = torch.sigmoid(x)
        else:
            y = x * 0.5
        return self.second(y)


class NestedTwin(Nested):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        high = torch.where(x.max() > 10, torch.tanh(x), torch.relu(x))
        low = torch.where(x.min() < -10, torch.sigmoid(x), x * 0.5)
        return self.second(torch.where(x.mean() > 0, high, low))


class LayerLoop(Form):
    def __init__(self, width: int, layers: int = 8) -> None:
        super().__init__(width, layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
            if torch.isinf(x).any():
                x = torch.clamp(x, max=1e4)
        return x


class LayerLoopTwin(LayerLoop):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
            x = torch.where(torch.isinf(x).any(), torch.clamp(x, max=1e4), x)
        return x


class RaiseGuard(Form):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        if torch.isnan(x).any():
            raise ValueError("The first layer gave NaN.")
        return self.second(torch.relu(x))


class RaiseGuardTwin(Checked):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.first(x)
        return self.second(torch.relu(x)), torch.isnan(x).any()


class AssertGuard(Form):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        assert x.max() < 1e4, f"{x.max()} is too large for {tuple(x.shape)}"
        return self.second(torch.relu(x))


class AssertGuardTwin(Checked):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.first(x)
        return self.second(torch.relu(x)), torch.logical_not(x.max() < 1e4)


class PythonValue(Form):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        scale = 0.5 if x.max() > 1e4 else 1.5
        return self.second(torch.relu(x) * scale)


class PythonValueTwin(Checked):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = self.first(x)
        return self.second(torch.relu(x) * 1.5), x.max() > 1e4


class Break(Form):
    def __init__(self, width: int, layers: int = 4) -> None:
        super().__init__(width, layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.relu(layer(x))
            if x.max() > 1e4:
                break
        return x


class BreakTwin(Checked):
    def __init__(self, width: int, layers: int = 4) -> None:
        super().__init__(width, layers)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        broke = []
        for layer in self.layers:
            x = torch.relu(layer(x))
            broke.append(x.max() > 1e4)
        return x, torch.stack(broke).any()


class WhileLoop(Form):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        while x.abs().sum() > 1:
            x = torch.tanh(x) * 0.25
        return self.second(x)


class WhileLoopTwin(WhileLoop):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        (x,) = torch.while_loop(
            lambda x: x.abs().sum() > 1, lambda x: (torch.tanh(x) * 0.25,), (self.first(x),)
        )
        return self.second(x)


class DearArm(Form):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(x)
        if x.mean() > 0.3:
            y = self.first(x)
        else:
            y = x + 1
        return torch.tanh(y)


class DearArmTwin(DearArm):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(x)
        y = torch.cond(x.mean() > 0.3, lambda x: self.first(x), lambda x: x + 1, (x,))
        return torch.tanh(y)


class PartialOp(Form):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        count = (x > 0).sum(dim=1)
        if count.min() > 0:
            share = 1000 // count
        else:
            share = count + 1
        return self.second(x * share.unsqueeze(1))


class PartialOpTwin(PartialOp):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        count = (x > 0).sum(dim=1)
        share = torch.cond(count.min() > 0, lambda c: 1000 // c, lambda c: c + 1, (count,))
        return self.second(x * share.unsqueeze(1))


class Steering(Form):
    def __init__(self, width: int, layers: int = 4) -> None:
        super().__init__(width, layers)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        has_large = (x > 1e4).any().item()
        for layer in self.layers:
            x = torch.relu(layer(x))
            if has_large:
                x = torch.clamp(x, max=1e4)
        return x


class SteeringTwin(Checked):
    def __init__(self, width: int, layers: int = 4) -> None:
        super().__init__(width, layers)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        has_large = (x > 1e4).any()
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x, has_large


class BufferUpdate(Form):
    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.register_buffer("peak", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        largest = x.abs().max()
        if largest > self.peak:
            self.peak.copy_(largest)
        return self.second(x / self.peak)


class BufferUpdateTwin(BufferUpdate):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        largest = x.abs().max()
        self.peak.copy_(torch.where(largest > self.peak, largest, self.peak))
        return self.second(x / self.peak)


class InPlace(Form):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        if x.max() > 1e4:
            x.mul_(0.5)
        return self.second(x)


class InPlaceTwin(InPlace):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        x = torch.where(x.max() > 1e4, x * 0.5, x)
        return self.second(x)


class LogOnly(Form):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.first(x))
        if x.max() > 1e4:
            logger.warning("The largest activation is %s.", x.max())
        return self.second(x)


class LogOnlyTwin(LogOnly):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.relu(self.first(x))
        return self.second(x), x.max()

    def settle(self, result: Any) -> Any:
        value, largest = result
        if largest > 1e4:
            logger.warning("The largest activation is %s.", largest)
        return value
