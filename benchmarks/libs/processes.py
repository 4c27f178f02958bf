"""Gaussian processes: gpytorch, linear_operator, botorch."""

from __future__ import annotations

from typing import Any

import torch

from . import Use, evaluated, item, size, stepped


def _gp(x: torch.Tensor, y: torch.Tensor, kernel: str = "RBFKernel") -> tuple[Any, Any]:
    """The regression of gpytorch's first example."""
    import gpytorch

    class ExactGP(gpytorch.models.ExactGP):
        def __init__(self, likelihood: Any) -> None:
            super().__init__(x, y, likelihood)
            self.mean_module = gpytorch.means.ConstantMean()
            base = getattr(gpytorch.kernels, kernel)()
            self.covar_module = gpytorch.kernels.ScaleKernel(base)

        def forward(self, x: torch.Tensor) -> Any:
            mean, covariance = self.mean_module(x), self.covar_module(x)
            return gpytorch.distributions.MultivariateNormal(mean, covariance)

    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    return ExactGP(likelihood), likelihood


def _training_step(kernel: str) -> Use:
    import gpytorch

    x = torch.linspace(0, 1, 12)
    y = torch.sin(6 * x)
    model, likelihood = _gp(x, y, kernel)
    marginal = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
    model.train()
    return stepped(
        model,
        torch.optim.Adam(model.parameters(), lr=0.1),
        lambda net, targets: -marginal(net(x), targets),
        lambda n: (y + 0.1 * torch.randn(12),),
    )


@item("gpytorch")
def regression_step() -> Use:
    return _training_step("RBFKernel")


@item("gpytorch")
def regression_step_of_matern() -> Use:
    return _training_step("MaternKernel")


@item("gpytorch")
def prediction() -> Use:
    x = torch.linspace(0, 1, 12)
    model, likelihood = _gp(x, torch.sin(6 * x))
    model.eval()
    likelihood.eval()

    def predict(points: torch.Tensor) -> object:
        found = likelihood(model(points))
        return found.mean, found.variance

    return Use("eval", predict, lambda n: (torch.rand(size(5, n)),), (model,))


@item("gpytorch")
def kernel_matrix() -> Use:
    import gpytorch

    kernel = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel(ard_num_dims=2))

    def dense(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        return kernel(one, other).to_dense()

    return Use("train", dense, lambda n: (torch.randn(size(5, n), 2), torch.randn(4, 2)), (kernel,))


@item("gpytorch")
def periodic_kernel() -> Use:
    import gpytorch

    kernel = gpytorch.kernels.PeriodicKernel() + gpytorch.kernels.LinearKernel()

    def dense(points: torch.Tensor) -> torch.Tensor:
        return kernel(points).to_dense()

    return Use("train", dense, lambda n: (torch.randn(size(5, n), 1),), (kernel,))


@item("gpytorch")
def variational_step() -> Use:
    import gpytorch
    from gpytorch.variational import CholeskyVariationalDistribution, VariationalStrategy

    class Sparse(gpytorch.models.ApproximateGP):
        def __init__(self, points: torch.Tensor) -> None:
            found = CholeskyVariationalDistribution(points.size(0))
            super().__init__(VariationalStrategy(self, points, found))
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x: torch.Tensor) -> Any:
            mean, covariance = self.mean_module(x), self.covar_module(x)
            return gpytorch.distributions.MultivariateNormal(mean, covariance)

    model, likelihood = Sparse(torch.rand(5, 1)), gpytorch.likelihoods.GaussianLikelihood()
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=40)
    both = torch.nn.ModuleList([model, likelihood])
    return stepped(
        both,
        torch.optim.Adam(both.parameters(), lr=0.01),
        lambda parts, x, y: -bound(parts[0](x), y),
        lambda n: (torch.rand(8, 1), torch.randn(8)),
    )


@item("linear_operator")
def solve() -> Use:
    from linear_operator import to_linear_operator

    def solved(root: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        matrix = root @ root.mT + torch.eye(root.shape[0])
        return to_linear_operator(matrix).solve(right)

    return Use(
        "train",
        solved,
        lambda n: (torch.randn(size(4, n), 3, requires_grad=True), torch.randn(size(4, n), 2)),
    )


@item("linear_operator")
def quadratic_form_and_log_determinant() -> Use:
    from linear_operator import to_linear_operator

    def both(root: torch.Tensor, right: torch.Tensor) -> object:
        matrix = to_linear_operator(root @ root.mT).add_diagonal(torch.ones(root.shape[0]))
        return matrix.inv_quad_logdet(right, logdet=True)

    return Use("eval", both, lambda n: (torch.randn(size(4, n), 3), torch.randn(size(4, n), 2)))


@item("linear_operator")
def kronecker_product() -> Use:
    from linear_operator.operators import DenseLinearOperator, KroneckerProductLinearOperator

    def product(one: torch.Tensor, other: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        parts = DenseLinearOperator(one), DenseLinearOperator(other)
        return KroneckerProductLinearOperator(*parts) @ right

    return Use(
        "eval",
        product,
        lambda n: (torch.randn(3, 3), torch.randn(2, 2), torch.randn(6, size(2, n))),
    )


@item("botorch")
def expected_improvement() -> Use:
    from botorch.acquisition import LogExpectedImprovement
    from botorch.models import SingleTaskGP

    x = torch.rand(8, 2, dtype=torch.double)
    model = SingleTaskGP(x, (x**2).sum(-1, keepdim=True))
    acquisition = LogExpectedImprovement(model, best_f=1.0)
    return evaluated(acquisition, lambda n: (torch.rand(size(4, n), 1, 2, dtype=torch.double),))


@item("botorch")
def posterior() -> Use:
    from botorch.models import SingleTaskGP

    x = torch.rand(8, 2, dtype=torch.double)
    model = SingleTaskGP(x, (x**2).sum(-1, keepdim=True)).eval()

    def mean_and_variance(points: torch.Tensor) -> object:
        found = model.posterior(points)
        return found.mean, found.variance

    return Use(
        "eval", mean_and_variance, lambda n: (torch.rand(size(4, n), 2, dtype=torch.double),)
    )


@item("botorch")
def pareto_front() -> Use:
    from botorch.utils.multi_objective.pareto import is_non_dominated

    def front(values: torch.Tensor) -> torch.Tensor:
        return values[is_non_dominated(values)]

    return Use("eval", front, lambda n: (torch.rand(size(6, n), 2),))


@item("botorch")
def normalised_test_function() -> Use:
    from botorch.test_functions import Ackley
    from botorch.utils.transforms import normalize, unnormalize

    problem = Ackley(dim=3)

    def evaluate(points: torch.Tensor) -> object:
        raw = unnormalize(points, problem.bounds)
        return problem(raw), normalize(raw, problem.bounds)

    return Use("eval", evaluate, lambda n: (torch.rand(size(4, n), 3),))
