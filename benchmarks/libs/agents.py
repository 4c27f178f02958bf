"""Reinforcement learning: torchrl and tensordict, stable_baselines3, skrl."""

from __future__ import annotations

from typing import Any

import torch

from . import Use, evaluated, item, size, stepped


@item("tensordict")
def module_on_a_dictionary() -> Use:
    from tensordict import TensorDict
    from tensordict.nn import TensorDictModule, TensorDictSequential

    first = TensorDictModule(torch.nn.Linear(4, 5), in_keys=["x"], out_keys=["hidden"])
    second = TensorDictModule(torch.nn.Linear(5, 2), in_keys=["hidden"], out_keys=["y"])
    model = TensorDictSequential(first, second)

    def call(x: torch.Tensor) -> torch.Tensor:
        return model(TensorDict({"x": x}, batch_size=[x.shape[0]]))["y"]

    return Use("train", call, lambda n: (torch.randn(size(3, n), 4),), (model,))


@item("tensordict")
def stacked_dictionaries() -> Use:
    from tensordict import TensorDict

    def stack(one: torch.Tensor, other: torch.Tensor) -> object:
        both = torch.stack([TensorDict({"x": x}, batch_size=[3]) for x in (one, other)])
        return both["x"], both.sum()["x"]

    return Use("eval", stack, lambda n: (torch.randn(3, size(2, n)), torch.randn(3, size(2, n))))


@item("torchrl")
def advantages() -> Use:
    from torchrl.objectives.value.functional import generalized_advantage_estimate

    def estimate(values: torch.Tensor, following: torch.Tensor, reward: torch.Tensor) -> object:
        done = torch.zeros_like(reward, dtype=torch.bool)
        return generalized_advantage_estimate(0.99, 0.95, values, following, reward, done, done)

    return Use("eval", estimate, lambda n: tuple(torch.randn(2, size(5, n), 1) for _ in range(3)))


@item("torchrl")
def clipped_policy_step() -> Use:
    from tensordict import TensorDict
    from tensordict.nn import NormalParamExtractor, TensorDictModule
    from torchrl.modules import ProbabilisticActor, TanhNormal, ValueOperator
    from torchrl.objectives import ClipPPOLoss

    net = torch.nn.Sequential(torch.nn.Linear(4, 4), NormalParamExtractor())
    actor = ProbabilisticActor(
        TensorDictModule(net, in_keys=["observation"], out_keys=["loc", "scale"]),
        in_keys=["loc", "scale"],
        distribution_class=TanhNormal,
        return_log_prob=True,
    )
    loss = ClipPPOLoss(actor, ValueOperator(torch.nn.Linear(4, 1), in_keys=["observation"]))

    def objective(part: Any, *batch: torch.Tensor) -> torch.Tensor:
        keys = ("observation", "action", "action_log_prob", "advantage", "value_target")
        found = part(TensorDict(dict(zip(keys, batch, strict=True)), batch_size=[6]))
        return found["loss_objective"] + found["loss_critic"] + found["loss_entropy"]

    return stepped(
        loss,
        torch.optim.Adam(loss.parameters(), 3e-4),
        objective,
        lambda n: (
            torch.randn(6, 4),
            torch.rand(6, 2) - 0.5,
            torch.randn(6),
            torch.randn(6, 1),
            torch.randn(6, 1),
        ),
        clip=1.0,
    )


@item("torchrl")
def bounded_normal() -> Use:
    from torchrl.modules import TanhNormal

    def sample(place: torch.Tensor, scale: torch.Tensor) -> object:
        distribution = TanhNormal(place, scale)
        action = distribution.rsample()
        return action, distribution.log_prob(action)

    return Use(
        "train",
        sample,
        lambda n: (torch.randn(size(3, n), 2, requires_grad=True), torch.rand(size(3, n), 2) + 0.1),
    )


@item("torchrl")
def exploration() -> Use:
    from torchrl.modules import NoisyLinear

    model = NoisyLinear(4, 3)

    def step(x: torch.Tensor) -> torch.Tensor:
        model.reset_noise()
        return model(x)

    return Use("step", step, lambda n: (torch.randn(size(3, n), 4),), (model,))


def _spaces() -> tuple[Any, Any]:
    import gymnasium

    return gymnasium.spaces.Box(-1.0, 1.0, (4,)), gymnasium.spaces.Box(-1.0, 1.0, (2,))


@item("stable_baselines3")
def actor_and_critic() -> Use:
    from stable_baselines3.common.policies import ActorCriticPolicy

    policy = ActorCriticPolicy(*_spaces(), lr_schedule=lambda _: 1e-3, net_arch=[8])
    return evaluated(policy, lambda n: (torch.randn(size(3, n), 4),))


@item("stable_baselines3")
def policy_gradient_step() -> Use:
    from stable_baselines3.common.policies import ActorCriticPolicy

    policy = ActorCriticPolicy(*_spaces(), lr_schedule=lambda _: 1e-3, net_arch=[8])

    def loss(net: Any, seen: torch.Tensor, actions: torch.Tensor, gains: torch.Tensor) -> Any:
        values, logs, entropy = net.evaluate_actions(seen, actions)
        return ((values.flatten() - gains) ** 2 - logs * gains - 0.01 * entropy).mean()

    return stepped(
        policy,
        policy.optimizer,
        loss,
        lambda n: (torch.randn(6, 4), torch.rand(6, 2), torch.randn(6)),
        clip=0.5,
    )


@item("stable_baselines3")
def target_network_update() -> Use:
    from stable_baselines3.common.utils import polyak_update

    model, target = torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)

    def update(x: torch.Tensor) -> torch.Tensor:
        polyak_update(model.parameters(), target.parameters(), 0.1)
        return target(x)

    return Use("eval", update, lambda n: (torch.randn(size(3, n), 4),), (model, target))


@item("skrl")
def scaled_states() -> Use:
    from skrl.resources.preprocessors.torch import RunningStandardScaler

    scaler = RunningStandardScaler(4, device="cpu")

    def scaled(states: torch.Tensor) -> torch.Tensor:
        return scaler(states, train=True)

    return Use("state", scaled, lambda n: (torch.randn(size(6, n), 4),), (scaler,))


@item("skrl")
def gaussian_policy() -> Use:
    from skrl.models.torch import GaussianMixin, Model

    class Policy(GaussianMixin, Model):
        def __init__(self) -> None:
            seen, actions = _spaces()
            Model.__init__(
                self, observation_space=seen, state_space=None, action_space=actions, device="cpu"
            )
            GaussianMixin.__init__(self, clip_actions=True)
            self.net = torch.nn.Linear(4, 2)
            self.spread = torch.nn.Parameter(torch.zeros(2))

        def compute(self, inputs: Any, role: str = "") -> Any:
            return self.net(inputs["observations"]), {"log_std": self.spread}

    policy = Policy()

    def act(states: torch.Tensor) -> object:
        return policy.act({"observations": states, "states": states}, role="policy")[:2]

    return Use("step", act, lambda n: (torch.randn(size(3, n), 4),), (policy,))
