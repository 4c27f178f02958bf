"""Losses: of embeddings, of segmentations, of images."""

from __future__ import annotations

import torch

from . import Inputs, Use, item, size, stepped, trained


def leaf(*sizes: int) -> torch.Tensor:
    """Normal numbers that want a gradient."""
    return torch.randn(*sizes, requires_grad=True)


def _embeddings() -> Inputs:
    return lambda n: (leaf(size(8, n), 6), torch.randint(3, (size(8, n),)))


def _masks(classes: int = 1) -> Inputs:
    """Logits of a segmentation and the masks."""
    return lambda n: (leaf(2, classes, size(8, n), 8), _mask(classes, size(8, n)))


def _mask(classes: int, height: int) -> torch.Tensor:
    return torch.randint(2, (2, classes, height, 8)).float()


def _labels() -> Inputs:
    """Logits of three classes and a label for each pixel."""
    return lambda n: (leaf(2, 3, size(8, n), 8), torch.randint(3, (2, size(8, n), 8)))


@item("pytorch-metric-learning")
def triplet_margin() -> Use:
    from pytorch_metric_learning import losses

    return trained(losses.TripletMarginLoss(margin=0.2), _embeddings())


@item("pytorch-metric-learning")
def contrastive() -> Use:
    from pytorch_metric_learning import losses

    return trained(losses.ContrastiveLoss(), _embeddings())


@item("pytorch-metric-learning")
def nt_xent() -> Use:
    from pytorch_metric_learning import losses

    return trained(losses.NTXentLoss(temperature=0.1), _embeddings())


@item("pytorch-metric-learning")
def supervised_contrastive() -> Use:
    from pytorch_metric_learning import losses

    return trained(losses.SupConLoss(), _embeddings())


@item("pytorch-metric-learning")
def multi_similarity_of_mined_pairs() -> Use:
    from pytorch_metric_learning import losses, miners

    miner, loss = miners.MultiSimilarityMiner(), losses.MultiSimilarityLoss()

    def mined_loss(embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return loss(embeddings, labels, miner(embeddings, labels))

    return Use("train", mined_loss, _embeddings(), (miner, loss))


@item("pytorch-metric-learning")
def arc_face() -> Use:
    from pytorch_metric_learning import losses

    return trained(losses.ArcFaceLoss(num_classes=3, embedding_size=6), _embeddings())


@item("pytorch-metric-learning")
def proxy_anchor_step() -> Use:
    from pytorch_metric_learning import losses

    model = torch.nn.Linear(5, 6)
    loss = losses.ProxyAnchorLoss(num_classes=3, embedding_size=6)
    both = torch.nn.ModuleList([model, loss])
    return stepped(
        both,
        torch.optim.SGD(both.parameters(), lr=0.01),
        lambda parts, x, labels: parts[1](parts[0](x), labels),
        lambda n: (torch.randn(size(8, n), 5), torch.randint(3, (size(8, n),))),
    )


@item("pytorch-metric-learning")
def cross_batch_memory() -> Use:
    from pytorch_metric_learning import losses

    loss = losses.CrossBatchMemory(losses.ContrastiveLoss(), embedding_size=6, memory_size=32)
    return trained(loss, _embeddings())


@item("monai")
def dice() -> Use:
    from monai.losses import DiceLoss

    return trained(DiceLoss(sigmoid=True), _masks())


@item("monai")
def dice_and_cross_entropy() -> Use:
    from monai.losses import DiceCELoss

    loss = DiceCELoss(to_onehot_y=True, softmax=True)
    return trained(
        loss, lambda n: (leaf(2, 3, size(8, n), 8), torch.randint(3, (2, 1, size(8, n), 8)))
    )


@item("monai")
def focal() -> Use:
    from monai.losses import FocalLoss

    return trained(FocalLoss(gamma=2.0), _masks(2))


@item("monai")
def tversky() -> Use:
    from monai.losses import TverskyLoss

    return trained(TverskyLoss(sigmoid=True), _masks())


@item("monai")
def generalized_dice() -> Use:
    from monai.losses import GeneralizedDiceLoss

    return trained(GeneralizedDiceLoss(softmax=True), _masks(2))


@item("monai")
def local_correlation() -> Use:
    from monai.losses import LocalNormalizedCrossCorrelationLoss

    loss = LocalNormalizedCrossCorrelationLoss(spatial_dims=2, kernel_size=3)
    return trained(loss, lambda n: (leaf(1, 1, 8, 8), torch.randn(1, 1, 8, 8)))


@item("monai")
def unet_step() -> Use:
    from monai.losses import DiceLoss
    from monai.networks.nets import UNet

    model = UNet(2, in_channels=1, out_channels=1, channels=(4, 8), strides=(2,), num_res_units=1)
    loss = DiceLoss(sigmoid=True)
    return stepped(
        model,
        torch.optim.Adam(model.parameters(), 1e-3),
        lambda net, image, mask: loss(net(image), mask),
        lambda n: (torch.randn(2, 1, 16, 16), torch.randint(2, (2, 1, 16, 16)).float()),
    )


@item("monai")
def sliding_window() -> Use:
    from monai.inferers import sliding_window_inference

    model = torch.nn.Conv2d(1, 2, 3, padding=1)

    def infer(image: torch.Tensor) -> torch.Tensor:
        return sliding_window_inference(image, (8, 8), 4, model, overlap=0.25)

    return Use("eval", infer, lambda n: (torch.randn(1, 1, 20, 20),), (model,))


@item("segmentation-models-pytorch")
def binary_dice() -> Use:
    from segmentation_models_pytorch.losses import DiceLoss

    return trained(DiceLoss("binary"), _masks())


@item("segmentation-models-pytorch")
def multiclass_dice() -> Use:
    from segmentation_models_pytorch.losses import DiceLoss

    return trained(DiceLoss("multiclass"), _labels())


@item("segmentation-models-pytorch")
def multiclass_focal() -> Use:
    from segmentation_models_pytorch.losses import FocalLoss

    return trained(FocalLoss("multiclass", ignore_index=2), _labels())


@item("segmentation-models-pytorch")
def lovasz() -> Use:
    from segmentation_models_pytorch.losses import LovaszLoss

    return trained(LovaszLoss("multiclass"), _labels())


@item("segmentation-models-pytorch")
def soft_cross_entropy() -> Use:
    from segmentation_models_pytorch.losses import SoftCrossEntropyLoss

    return trained(SoftCrossEntropyLoss(smooth_factor=0.1), _labels())


@item("segmentation-models-pytorch")
def unet_training_step() -> Use:
    import segmentation_models_pytorch as smp

    model = smp.Unet("mobilenet_v2", encoder_weights=None, decoder_channels=(32, 16, 16, 8, 8))
    loss = smp.losses.DiceLoss("binary")
    return stepped(
        model,
        torch.optim.AdamW(model.parameters(), 1e-3),
        lambda net, image, mask: loss(net(image), mask),
        lambda n: (torch.randn(2, 3, 32, 32), torch.randint(2, (2, 1, 32, 32)).float()),
    )


@item("segmentation-models-pytorch")
def intersection_over_union() -> Use:
    import segmentation_models_pytorch as smp

    def scores(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        found = smp.metrics.get_stats(output, target, mode="binary", threshold=0.5)
        return smp.metrics.iou_score(*found, reduction="micro-imagewise")

    return Use(
        "eval",
        scores,
        lambda n: (torch.rand(size(2, n), 1, 8, 8), torch.randint(2, (size(2, n), 1, 8, 8))),
    )


@item("kornia")
def image_focal() -> Use:
    from kornia.losses import FocalLoss

    return trained(FocalLoss(alpha=0.5, gamma=2.0, reduction="mean"), _labels())


@item("kornia")
def image_similarity() -> Use:
    from kornia.losses import SSIMLoss

    return trained(SSIMLoss(5), lambda n: (leaf(1, 3, 12, 12), torch.rand(1, 3, 12, 12)))


@item("kornia")
def total_variation() -> Use:
    from kornia.losses import TotalVariation

    return trained(TotalVariation(), lambda n: (leaf(1, 3, size(12, n), 12),))


@item("kornia")
def tversky_of_images() -> Use:
    from kornia.losses import tversky_loss

    def loss(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return tversky_loss(logits, labels, alpha=0.5, beta=0.5)

    return Use("train", loss, _labels())


@item("sentence-transformers")
def cosine_similarity_scores() -> Use:
    from sentence_transformers.util import cos_sim, semantic_search

    def search(queries: torch.Tensor, corpus: torch.Tensor) -> object:
        return cos_sim(queries, corpus), semantic_search(queries, corpus, top_k=2)

    return Use("eval", search, lambda n: (torch.randn(2, 6), torch.randn(size(5, n), 6)))
