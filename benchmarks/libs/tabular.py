"""Tables: TabNet, the models of rtdl, TabTransformer, forecasting."""

from __future__ import annotations

from typing import Any

import torch

from . import Use, evaluated, item, size, stepped, trained


@item("pytorch-tabnet")
def tabnet() -> Use:
    from pytorch_tabnet.tab_network import TabNet

    model = TabNet(6, 2, n_d=4, n_a=4, n_steps=2, group_attention_matrix=torch.eye(6))
    return evaluated(model, lambda n: (torch.randn(size(8, n), 6),))


@item("pytorch-tabnet")
def tabnet_training_step() -> Use:
    from pytorch_tabnet.tab_network import TabNet

    model = TabNet(
        6, 3, n_d=4, n_a=4, n_steps=2, group_attention_matrix=torch.eye(6), virtual_batch_size=4
    )

    def loss(net: Any, x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        logits, sparsity = net(x)
        return torch.nn.functional.cross_entropy(logits, labels) - 1e-3 * sparsity

    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    return stepped(
        model,
        optimizer,
        loss,
        lambda n: (torch.randn(8, 6), torch.randint(3, (8,))),
        clip=1.0,
        scheduler=torch.optim.lr_scheduler.StepLR(optimizer, 2),
    )


@item("pytorch-tabnet")
def sparsemax() -> Use:
    from pytorch_tabnet.sparsemax import Sparsemax

    return trained(Sparsemax(dim=-1), lambda n: (torch.randn(size(4, n), 6, requires_grad=True),))


@item("rtdl_revisiting_models")
def feature_transformer() -> Use:
    from rtdl_revisiting_models import FTTransformer

    model = FTTransformer(
        n_cont_features=3, cat_cardinalities=[4, 5], d_out=1, **FTTransformer.get_default_kwargs(1)
    )
    return evaluated(
        model, lambda n: (torch.randn(size(4, n), 3), torch.randint(4, (size(4, n), 2)))
    )


@item("rtdl_revisiting_models")
def residual_network_step() -> Use:
    from rtdl_revisiting_models import ResNet

    model = ResNet(
        d_in=6, d_out=1, n_blocks=2, d_block=8, d_hidden=16, d_hidden_multiplier=None,
        dropout1=0.1, dropout2=0.0,
    )  # fmt: skip
    return stepped(
        model,
        torch.optim.AdamW(model.parameters(), 1e-3),
        lambda net, x, y: torch.nn.functional.mse_loss(net(x).squeeze(-1), y),
        lambda n: (torch.randn(8, 6), torch.randn(8)),
    )


@item("rtdl_num_embeddings")
def periodic_embeddings() -> Use:
    from rtdl_num_embeddings import PeriodicEmbeddings

    return trained(PeriodicEmbeddings(5, 4, lite=False), lambda n: (torch.randn(size(4, n), 5),))


@item("rtdl_num_embeddings")
def piecewise_embeddings() -> Use:
    from rtdl_num_embeddings import PiecewiseLinearEmbeddings, compute_bins

    bins = compute_bins(torch.randn(40, 3), n_bins=4)
    embeddings = PiecewiseLinearEmbeddings(bins, 4, activation=False, version="B")
    return trained(embeddings, lambda n: (torch.randn(size(4, n), 3),))


@item("tab-transformer-pytorch")
def tab_transformer() -> Use:
    from tab_transformer_pytorch import TabTransformer

    model = TabTransformer(
        categories=(4, 5),
        num_continuous=3,
        dim=8,
        dim_out=1,
        depth=1,
        heads=2,
        mlp_act=torch.nn.ReLU(),
    )
    return evaluated(
        model, lambda n: (torch.randint(4, (size(4, n), 2)), torch.randn(size(4, n), 3))
    )


@item("tab-transformer-pytorch")
def tab_transformer_step() -> Use:
    from tab_transformer_pytorch import FTTransformer

    model = FTTransformer(
        categories=(4, 5), num_continuous=3, dim=8, dim_out=1, depth=1, heads=2, attn_dropout=0.1
    )
    return stepped(
        model,
        torch.optim.Adam(model.parameters(), 1e-3),
        lambda net, kinds, x, y: torch.nn.functional.mse_loss(net(kinds, x), y),
        lambda n: (torch.randint(4, (4, 2)), torch.randn(4, 3), torch.randn(4, 1)),
    )


@item("pytorch-forecasting")
def quantile_loss() -> Use:
    from pytorch_forecasting.metrics import QuantileLoss

    loss = QuantileLoss()

    def of_prediction(predicted: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return loss.loss(predicted, target).mean()

    return Use(
        "train",
        of_prediction,
        lambda n: (torch.randn(3, size(5, n), 7, requires_grad=True), torch.randn(3, size(5, n))),
    )


@item("pytorch-forecasting")
def symmetric_percentage_error() -> Use:
    from pytorch_forecasting.metrics import SMAPE

    measure = SMAPE()

    def update(predicted: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        measure.update(predicted, target)
        return measure.compute()

    return Use("state", update, lambda n: (torch.rand(3, 5), torch.rand(3, 5)), (measure,))


@item("pytorch-forecasting")
def gated_residual_network() -> Use:
    from pytorch_forecasting.models.temporal_fusion_transformer.sub_modules import (
        GatedResidualNetwork,
    )

    return trained(
        GatedResidualNetwork(6, 8, 6, dropout=0.1), lambda n: (torch.randn(size(4, n), 6),)
    )


@item("gluonts")
def student_t_loss() -> Use:
    from gluonts.torch.distributions import StudentTOutput

    output = StudentTOutput()
    project = output.get_args_proj(in_features=6)

    def loss(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return -output.distribution(project(x)).log_prob(target).mean()

    return Use(
        "train", loss, lambda n: (torch.randn(size(4, n), 6), torch.randn(size(4, n))), (project,)
    )


@item("gluonts")
def scaled_series() -> Use:
    from gluonts.torch.scaler import MeanScaler, StdScaler

    mean, deviation = MeanScaler(dim=1, keepdim=True), StdScaler(dim=1, keepdim=True)

    def scaled(x: torch.Tensor, observed: torch.Tensor) -> object:
        return mean(x, observed), deviation(x, observed)

    return Use("eval", scaled, lambda n: (torch.randn(2, size(6, n)), torch.ones(2, size(6, n))))


@item("chronos-forecasting")
def tokens_of_series() -> Use:
    from chronos.chronos import ChronosConfig, MeanScaleUniformBins

    config = ChronosConfig(
        tokenizer_class="MeanScaleUniformBins", tokenizer_kwargs={}, context_length=16,
        prediction_length=4, n_tokens=64, n_special_tokens=2, pad_token_id=0, eos_token_id=1,
        use_eos_token=True, model_type="seq2seq", num_samples=2, temperature=1.0, top_k=5,
        top_p=1.0,
    )  # fmt: skip
    tokenizer = MeanScaleUniformBins(-5.0, 5.0, config)
    return Use("eval", tokenizer.context_input_transform, lambda n: (torch.randn(2, size(9, n)),))


@item("chronos-forecasting")
def patches_of_series() -> Use:
    from chronos.chronos_bolt import InstanceNorm, Patch

    norm, patch = InstanceNorm(), Patch(patch_size=4, patch_stride=4)

    def patches(series: torch.Tensor) -> object:
        scaled, place = norm(series)
        return patch(scaled), place

    return Use("eval", patches, lambda n: (torch.randn(2, size(9, n)),))
