"""Metrics: torchmetrics."""

from __future__ import annotations

import torch

from . import Inputs, Use, evaluated, item, metric, size


def _classes(classes: int = 5) -> Inputs:
    """Logits and labels."""
    return lambda n: (torch.randn(size(8, n), classes), torch.randint(classes, (size(8, n),)))


def _scores(*shape: int) -> Inputs:
    """Probabilities and labels of two classes."""
    return lambda n: (torch.rand(size(8, n), *shape), torch.randint(2, (size(8, n), *shape)))


def _numbers(*shape: int) -> Inputs:
    return lambda n: (torch.randn(size(8, n), *shape), torch.randn(size(8, n), *shape))


def _images() -> Inputs:
    return lambda n: (torch.rand(2, 3, 24, 24), torch.rand(2, 3, 24, 24))


@item("torchmetrics")
def multiclass_accuracy() -> Use:
    from torchmetrics.classification import MulticlassAccuracy

    return metric(MulticlassAccuracy(num_classes=5), _classes())


@item("torchmetrics")
def accuracy_of_a_batch() -> Use:
    from torchmetrics import Accuracy

    measure = Accuracy(task="multiclass", num_classes=5)
    return Use("state", measure, _classes(), (measure,))


@item("torchmetrics")
def binary_f1() -> Use:
    from torchmetrics.classification import BinaryF1Score

    return metric(BinaryF1Score(), _scores())


@item("torchmetrics")
def multilabel_precision() -> Use:
    from torchmetrics.classification import MultilabelPrecision

    return metric(MultilabelPrecision(num_labels=3), _scores(3))


@item("torchmetrics")
def confusion_matrix() -> Use:
    from torchmetrics.classification import MulticlassConfusionMatrix

    return metric(MulticlassConfusionMatrix(num_classes=5, normalize="true"), _classes())


@item("torchmetrics")
def binary_auroc() -> Use:
    from torchmetrics.classification import BinaryAUROC

    return metric(BinaryAUROC(), _scores())


@item("torchmetrics")
def binned_average_precision() -> Use:
    from torchmetrics.classification import BinaryAveragePrecision

    return metric(BinaryAveragePrecision(thresholds=11), _scores())


@item("torchmetrics")
def calibration_error() -> Use:
    from torchmetrics.classification import MulticlassCalibrationError

    return metric(
        MulticlassCalibrationError(num_classes=5, n_bins=10),
        lambda n: (torch.randn(size(8, n), 5).softmax(-1), torch.randint(5, (size(8, n),))),
    )


@item("torchmetrics")
def cohen_kappa() -> Use:
    from torchmetrics.classification import MulticlassCohenKappa

    return metric(MulticlassCohenKappa(num_classes=5), _classes())


@item("torchmetrics")
def mean_squared_error() -> Use:
    from torchmetrics.regression import MeanSquaredError

    return metric(MeanSquaredError(squared=False), _numbers())


@item("torchmetrics")
def pearson_correlation() -> Use:
    from torchmetrics.regression import PearsonCorrCoef

    return metric(PearsonCorrCoef(), _numbers())


@item("torchmetrics")
def r2_score() -> Use:
    from torchmetrics.regression import R2Score

    return metric(R2Score(), _numbers())


@item("torchmetrics")
def spearman_correlation() -> Use:
    from torchmetrics.regression import SpearmanCorrCoef

    return metric(SpearmanCorrCoef(), _numbers())


@item("torchmetrics")
def explained_variance() -> Use:
    from torchmetrics.regression import ExplainedVariance

    return metric(ExplainedVariance(), _numbers(2))


@item("torchmetrics")
def structural_similarity() -> Use:
    from torchmetrics.image import StructuralSimilarityIndexMeasure

    return metric(StructuralSimilarityIndexMeasure(data_range=1.0), _images())


@item("torchmetrics")
def peak_signal_to_noise() -> Use:
    from torchmetrics.image import PeakSignalNoiseRatio

    return metric(PeakSignalNoiseRatio(data_range=1.0), _images())


@item("torchmetrics")
def signal_to_noise_of_speech() -> Use:
    from torchmetrics.audio import ScaleInvariantSignalDistortionRatio

    return metric(ScaleInvariantSignalDistortionRatio(), _numbers(100))


@item("torchmetrics")
def perplexity() -> Use:
    from torchmetrics.text import Perplexity

    return metric(
        Perplexity(ignore_index=-100),
        lambda n: (torch.randn(2, size(6, n), 11), torch.randint(11, (2, size(6, n)))),
    )


@item("torchmetrics")
def retrieval_average_precision() -> Use:
    from torchmetrics.retrieval import RetrievalMAP

    return metric(
        RetrievalMAP(),
        lambda n: (torch.rand(12), torch.randint(2, (12,)), torch.randint(3, (12,))),
    )


@item("torchmetrics")
def running_mean_of_losses() -> Use:
    from torchmetrics.aggregation import RunningMean

    return metric(RunningMean(window=3), lambda n: (torch.rand(()),))


@item("torchmetrics")
def mean_of_losses() -> Use:
    from torchmetrics.aggregation import MeanMetric

    return metric(MeanMetric(), lambda n: (torch.rand(()),))


@item("torchmetrics")
def collection_of_metrics() -> Use:
    from torchmetrics import MetricCollection
    from torchmetrics.classification import MulticlassAccuracy, MulticlassPrecision

    measures = MetricCollection([MulticlassAccuracy(5), MulticlassPrecision(5)])
    return metric(measures, _classes())


@item("torchmetrics")
def evaluation_step() -> Use:
    from torchmetrics.classification import MulticlassAccuracy

    model, measure = torch.nn.Linear(6, 5), MulticlassAccuracy(num_classes=5)

    def evaluate(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        logits = model(x)
        measure(logits, labels)
        return logits

    return Use(
        "eval",
        evaluate,
        lambda n: (torch.randn(size(8, n), 6), torch.randint(5, (size(8, n),))),
        (model, measure),
    )


@item("pytorch-msssim")
def structural_similarity_loss() -> Use:
    from pytorch_msssim import SSIM

    return evaluated(SSIM(data_range=1.0, channel=3), _images())


@item("piq")
def vector_similarity() -> Use:
    import piq

    return Use("eval", piq.ssim, _images())


@item("piq")
def gradient_similarity() -> Use:
    import piq

    return evaluated(piq.MultiScaleGMSDLoss(data_range=1.0), _images())
