"""Language: adapters of weights, losses of sentences, retrieval."""

from __future__ import annotations

from typing import Any

import torch

from . import Use, evaluated, item, size, stepped, trained


def _bert() -> Any:
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=30,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=32,
    )
    return BertModel(config)


def _network() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))


def _labelled(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(size(4, n), 6), torch.randint(3, (size(4, n),))


def _adapted_step(config: Any) -> Use:
    from peft import get_peft_model

    model = get_peft_model(_network(), config)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    return stepped(
        model,
        torch.optim.AdamW(weights, 1e-3),
        lambda net, x, labels: torch.nn.functional.cross_entropy(net(x), labels),
        _labelled,
    )


@item("peft")
def lora_step() -> Use:
    from peft import LoraConfig

    return _adapted_step(LoraConfig(r=2, target_modules=["0", "2"], lora_dropout=0.1))


@item("peft")
def dora_step() -> Use:
    from peft import LoraConfig

    return _adapted_step(LoraConfig(r=2, target_modules=["0"], use_dora=True))


@item("peft")
def scaled_activations() -> Use:
    from peft import IA3Config, get_peft_model

    config = IA3Config(target_modules=["0", "2"], feedforward_modules=["2"])
    return evaluated(get_peft_model(_network(), config), lambda n: (torch.randn(size(4, n), 6),))


@item("peft")
def lora_of_bert() -> Use:
    from peft import LoraConfig, get_peft_model

    model = get_peft_model(_bert(), LoraConfig(r=2, target_modules=["query", "value"]))
    return trained(model, lambda n: (torch.randint(30, (2, size(6, n))),))


@item("peft")
def prefix_of_bert() -> Use:
    from peft import PromptTuningConfig, get_peft_model

    config = PromptTuningConfig(task_type="FEATURE_EXTRACTION", num_virtual_tokens=3)
    model = get_peft_model(_bert(), config)
    return evaluated(model, lambda n: (torch.randint(30, (2, size(6, n))),))


@item("loralib")
def low_rank_linear_step() -> Use:
    import loralib

    model = torch.nn.Sequential(loralib.Linear(6, 8, r=2), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    loralib.mark_only_lora_as_trainable(model)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    return stepped(
        model,
        torch.optim.SGD(weights, 0.1),
        lambda net, x, labels: torch.nn.functional.cross_entropy(net(x), labels),
        _labelled,
    )


@item("sentence-transformers")
def pooled_sentences() -> Use:
    from sentence_transformers.models import Normalize, Pooling

    pool, norm = Pooling(6, pooling_mode="mean"), Normalize()

    def pooled(tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        features = {"token_embeddings": tokens, "attention_mask": mask}
        return norm(pool(features))["sentence_embedding"]

    return Use(
        "train",
        pooled,
        lambda n: (torch.randn(2, size(5, n), 6, requires_grad=True), torch.ones(2, size(5, n))),
    )


@item("sentence-transformers")
def ranking_loss_of_pairs() -> Use:
    from sentence_transformers.util import pairwise_cos_sim

    def loss(anchors: torch.Tensor, others: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        scores = pairwise_cos_sim(anchors, others) * 20
        gaps = scores[:, None] - scores[None, :]
        gaps = gaps - (1 - (labels[:, None] < labels[None, :]).float()) * 1e12
        return torch.logsumexp(torch.cat([torch.zeros(1), gaps.view(-1)]), 0)

    return Use(
        "train",
        loss,
        lambda n: (
            torch.randn(size(4, n), 6, requires_grad=True),
            torch.randn(size(4, n), 6),
            torch.rand(size(4, n)),
        ),
    )


@item("sentence-transformers")
def communities() -> Use:
    from sentence_transformers.util import community_detection

    def found(embeddings: torch.Tensor) -> object:
        groups = community_detection(embeddings, threshold=0.3, min_community_size=2)
        return groups, embeddings.sum()

    return Use("eval", found, lambda n: (torch.randn(size(8, n), 4),))


@item("captum")
def integrated_gradients() -> Use:
    from captum.attr import IntegratedGradients

    explain = IntegratedGradients(_network().eval())

    def attributed(x: torch.Tensor) -> torch.Tensor:
        return explain.attribute(x, target=1, n_steps=4)

    return Use("step", attributed, lambda n: (torch.randn(size(3, n), 6),))


@item("captum")
def saliency() -> Use:
    from captum.attr import Saliency

    explain = Saliency(_network().eval())

    def attributed(x: torch.Tensor) -> torch.Tensor:
        return explain.attribute(x.requires_grad_(), target=0)

    return Use("step", attributed, lambda n: (torch.randn(size(3, n), 6),))
