"""Normalising flows and inference: nflows, normflows, zuko, pyro, sbi."""

from __future__ import annotations

from typing import Any

import torch

from . import Inputs, Use, item, size, stepped, trained


def _points(width: int = 2) -> Inputs:
    return lambda n: (torch.randn(size(5, n), width),)


@item("zuko")
def neural_spline_flow() -> Use:
    import zuko

    flow = zuko.flows.NSF(features=2, context=0, transforms=2, hidden_features=(8,))

    def log_probability(x: torch.Tensor) -> torch.Tensor:
        return flow().log_prob(x)

    return Use("train", log_probability, _points(), (flow,))


@item("zuko")
def conditional_flow_step() -> Use:
    import zuko

    flow = zuko.flows.MAF(features=2, context=3, transforms=2, hidden_features=(8,))
    return stepped(
        flow,
        torch.optim.Adam(flow.parameters(), 1e-3),
        lambda net, x, context: -net(context).log_prob(x).mean(),
        lambda n: (torch.randn(5, 2), torch.randn(5, 3)),
    )


@item("zuko")
def samples_of_a_flow() -> Use:
    import zuko

    flow = zuko.flows.MAF(features=2, context=3, transforms=1, hidden_features=(8,))

    def sample(context: torch.Tensor) -> torch.Tensor:
        return flow(context).sample((4,))

    return Use("eval", sample, lambda n: (torch.randn(size(2, n), 3),), (flow,))


@item("nflows")
def masked_autoregressive_flow() -> Use:
    from nflows.distributions.normal import StandardNormal
    from nflows.flows.base import Flow
    from nflows.transforms.autoregressive import MaskedAffineAutoregressiveTransform
    from nflows.transforms.base import CompositeTransform
    from nflows.transforms.permutations import ReversePermutation

    steps = [ReversePermutation(features=2), MaskedAffineAutoregressiveTransform(2, 8)]
    flow = Flow(CompositeTransform(steps), StandardNormal(shape=[2]))
    return stepped(
        flow,
        torch.optim.Adam(flow.parameters()),
        lambda net, x: -net.log_prob(inputs=x).mean(),
        _points(),
    )


@item("nflows")
def spline_coupling() -> Use:
    from nflows.nn.nets import ResidualNet
    from nflows.transforms.coupling import PiecewiseRationalQuadraticCouplingTransform

    transform = PiecewiseRationalQuadraticCouplingTransform(
        mask=torch.tensor([1, 0]),
        transform_net_create_fn=lambda width, out: ResidualNet(width, out, hidden_features=8),
        num_bins=4,
        tails="linear",
        tail_bound=2.0,
    )
    return trained(transform, _points())


@item("normflows")
def real_nvp_step() -> Use:
    import normflows

    layers: list[Any] = []
    for _ in range(2):
        net = normflows.nets.MLP([1, 8, 2], init_zeros=True)
        layers += [
            normflows.flows.AffineCouplingBlock(net),
            normflows.flows.Permute(2, mode="swap"),
        ]
    model = normflows.NormalizingFlow(normflows.distributions.base.DiagGaussian(2), layers)
    return stepped(
        model,
        torch.optim.Adam(model.parameters(), 5e-4, weight_decay=1e-5),
        lambda flow, x: flow.forward_kld(x),
        _points(),
    )


@item("normflows")
def activation_norm() -> Use:
    import normflows

    return trained(normflows.flows.ActNorm(2), _points())


@item("normflows")
def planar_flow() -> Use:
    import normflows

    return trained(normflows.flows.Planar((2,)), _points())


@item("pyro-ppl")
def transformed_normal() -> Use:
    import pyro.distributions as dist
    from pyro.distributions.transforms import affine_coupling

    coupling = affine_coupling(2, hidden_dims=[8])

    def log_probability(x: torch.Tensor) -> torch.Tensor:
        base = dist.Normal(torch.zeros(2), torch.ones(2)).to_event(1)
        return dist.TransformedDistribution(base, [coupling]).log_prob(x)

    return Use("train", log_probability, _points(), (coupling,))


@item("pyro-ppl")
def sampled_mixture() -> Use:
    import pyro.distributions as dist

    def log_probability(x: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        parts = dist.Normal(torch.arange(3.0), torch.ones(3))
        return dist.MixtureSameFamily(dist.Categorical(logits=logits), parts).log_prob(x)

    return Use(
        "train",
        log_probability,
        lambda n: (torch.randn(size(5, n)), torch.randn(3, requires_grad=True)),
    )


@item("sbi")
def posterior_network_step() -> Use:
    from sbi.neural_nets import posterior_nn

    build = posterior_nn("maf", hidden_features=8, num_transforms=1)
    estimator = build(torch.randn(30, 2), torch.randn(30, 3))
    return stepped(
        estimator,
        torch.optim.Adam(estimator.parameters(), 5e-4),
        lambda net, theta, x: net.loss(theta, x).mean(),
        lambda n: (torch.randn(6, 2), torch.randn(6, 3)),
        clip=5.0,
    )
