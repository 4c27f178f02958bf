"""Equations and transport: torchdiffeq, torchsde, torchcde, torchdyn, neuralop, geomloss, POT."""

from __future__ import annotations

import torch

from . import Use, evaluated, item, size, stepped, trained


class Field(torch.nn.Module):
    """The derivative of a state."""

    def __init__(self) -> None:
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2)
        )

    def forward(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.net(y)


def _solved(**options: object) -> Use:
    from torchdiffeq import odeint

    field, times = Field(), torch.linspace(0, 1, 3)

    def solve(start: torch.Tensor) -> torch.Tensor:
        return odeint(field, start, times, **options)

    return Use("train", solve, lambda n: (torch.randn(size(3, n), 2),), (field,))


@item("torchdiffeq")
def runge_kutta_with_fixed_steps() -> Use:
    return _solved(method="rk4", options={"step_size": 0.25})


@item("torchdiffeq")
def euler() -> Use:
    return _solved(method="euler")


@item("torchdiffeq")
def adaptive_dopri5() -> Use:
    return _solved(method="dopri5", rtol=1e-3, atol=1e-4)


@item("torchdiffeq")
def adjoint_step() -> Use:
    from torchdiffeq import odeint_adjoint

    field, times = Field(), torch.linspace(0, 1, 3)
    return stepped(
        field,
        torch.optim.RMSprop(field.parameters(), lr=1e-3),
        lambda net, start, end: (
            (odeint_adjoint(net, start, times, method="rk4")[-1] - end).abs().mean()
        ),
        lambda n: (torch.randn(3, 2), torch.randn(3, 2)),
    )


@item("torchsde")
def stochastic_equation() -> Use:
    import torchsde

    class Equation(torch.nn.Module):
        noise_type, sde_type = "diagonal", "ito"

        def __init__(self) -> None:
            super().__init__()
            self.drift, self.spread = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)

        def f(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return self.drift(y)

        def g(self, t: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return self.spread(y).sigmoid()

    equation, times = Equation(), torch.linspace(0, 1, 3)

    def solve(start: torch.Tensor) -> torch.Tensor:
        noise = torchsde.BrownianInterval(t0=0.0, t1=1.0, size=tuple(start.shape), entropy=7)
        return torchsde.sdeint(equation, start, times, method="euler", dt=0.25, bm=noise)

    return Use("train", solve, lambda n: (torch.randn(size(3, n), 2),), (equation,))


@item("torchcde")
def cubic_spline() -> Use:
    import torchcde

    def interpolated(path: torch.Tensor, t: torch.Tensor) -> object:
        coefficients = torchcde.hermite_cubic_coefficients_with_backward_differences(path)
        spline = torchcde.CubicSpline(coefficients)
        return spline.evaluate(t), spline.derivative(t)

    return Use("eval", interpolated, lambda n: (torch.randn(2, size(5, n), 3), torch.tensor(1.5)))


@item("torchcde")
def controlled_equation() -> Use:
    import torchcde

    class Controlled(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = torch.nn.Linear(4, 12)

        def forward(self, t: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
            return self.net(z).tanh().view(z.shape[0], 4, 3)

    field = Controlled()

    def solve(coefficients: torch.Tensor) -> torch.Tensor:
        path = torchcde.LinearInterpolation(coefficients)
        options = {"method": "rk4", "options": {"step_size": 1.0}, "adjoint": False}
        return torchcde.cdeint(path, field, torch.zeros(2, 4), path.interval, **options)

    return Use("train", solve, lambda n: (torch.randn(2, size(4, n), 3),), (field,))


@item("torchdyn")
def neural_ode() -> Use:
    from torchdyn.core import NeuralODE

    net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    model = NeuralODE(net, sensitivity="autograd", solver="rk4")
    times = torch.linspace(0, 1, 4)
    return trained(model, lambda n: (torch.randn(size(3, n), 2), times))


@item("geomloss")
def sinkhorn_divergence() -> Use:
    from geomloss import SamplesLoss

    loss = SamplesLoss("sinkhorn", p=2, blur=0.3, backend="tensorized")
    return trained(
        loss, lambda n: (torch.rand(size(5, n), 2, requires_grad=True), torch.rand(6, 2))
    )


@item("geomloss")
def kernel_distance() -> Use:
    from geomloss import SamplesLoss

    loss = SamplesLoss("gaussian", blur=0.5, backend="tensorized")
    return trained(
        loss, lambda n: (torch.rand(size(5, n), 2, requires_grad=True), torch.rand(6, 2))
    )


@item("POT")
def entropic_transport() -> Use:
    import ot

    def plan(cost: torch.Tensor) -> torch.Tensor:
        rows, columns = (torch.full((count,), 1.0 / count) for count in cost.shape)
        return ot.sinkhorn(rows, columns, cost, reg=0.5, numItermax=20, warn=False)

    return Use("eval", plan, lambda n: (torch.rand(size(4, n), 5),))


@item("POT")
def sliced_distance() -> Use:
    import ot

    def distance(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return ot.sliced_wasserstein_distance(one, other, n_projections=5, seed=3)

    return Use(
        "train",
        distance,
        lambda n: (torch.rand(size(5, n), 2, requires_grad=True), torch.rand(6, 2)),
    )


@item("POT")
def exact_distance() -> Use:
    import ot

    def loss(cost: torch.Tensor) -> torch.Tensor:
        rows, columns = (torch.full((count,), 1.0 / count) for count in cost.shape)
        return ot.emd2(rows, columns, cost)

    return Use("train", loss, lambda n: (torch.rand(size(4, n), 4, requires_grad=True),))


@item("neuraloperator")
def fourier_operator() -> Use:
    from neuralop.models import FNO

    model = FNO(n_modes=(4, 4), in_channels=1, out_channels=1, hidden_channels=8, n_layers=1)
    return evaluated(model, lambda n: (torch.randn(1, 1, 12, 12),))


@item("neuraloperator")
def fourier_operator_step() -> Use:
    from neuralop.losses import LpLoss
    from neuralop.models import FNO

    model = FNO(n_modes=(4, 4), in_channels=1, out_channels=1, hidden_channels=8, n_layers=1)
    loss = LpLoss(d=2)
    return stepped(
        model,
        torch.optim.Adam(model.parameters(), 1e-3),
        lambda net, x, y: loss(net(x), y),
        lambda n: (torch.randn(1, 1, 12, 12), torch.randn(1, 1, 12, 12)),
    )


@item("pykan")
def splines() -> Use:
    from kan.spline import B_batch, coef2curve

    grid = torch.linspace(-1, 1, 6).repeat(2, 1)

    def both(x: torch.Tensor, coefficients: torch.Tensor) -> object:
        return B_batch(x, grid, k=2), coef2curve(x, grid, coefficients, k=2)

    return Use("eval", both, lambda n: (torch.rand(size(4, n), 2), torch.randn(2, 3, 3)))
