"""Audio: torchaudio without its extension, speechbrain, auraloss, asteroid_filterbanks, julius."""

from __future__ import annotations

import torch

from . import Inputs, Use, evaluated, item, size, stepped, trained


def _waves(*shape: int) -> Inputs:
    return lambda n: (torch.randn(*shape, 400 if n < 2 else 480),)


def _pairs() -> Inputs:
    """A wave that wants a gradient, and another."""
    return lambda n: (torch.randn(2, 1, 600, requires_grad=True), torch.randn(2, 1, 600))


@item("torchaudio")
def mel_spectrogram() -> Use:
    from torchaudio.transforms import MelSpectrogram

    return evaluated(MelSpectrogram(16000, n_fft=64, n_mels=8), _waves(2))


@item("torchaudio")
def mel_cepstrum() -> Use:
    from torchaudio.transforms import MFCC

    arguments = {"n_fft": 64, "n_mels": 8, "hop_length": 32}
    return evaluated(MFCC(16000, n_mfcc=5, melkwargs=arguments), _waves(2))


@item("torchaudio")
def decibels() -> Use:
    from torchaudio.transforms import AmplitudeToDB

    return evaluated(AmplitudeToDB(top_db=80), lambda n: (torch.rand(2, 8, size(10, n)),))


@item("torchaudio")
def masked_spectrogram() -> Use:
    from torchaudio.transforms import FrequencyMasking, TimeMasking

    masks = torch.nn.Sequential(FrequencyMasking(3), TimeMasking(4))
    return transforming(masks, lambda n: (torch.rand(2, 8, size(10, n)),))


def transforming(module: torch.nn.Module, inputs: Inputs) -> Use:
    """A transform that is used while a model is trained."""
    return Use("step", module.train(), inputs, (module,))


@item("torchaudio")
def resampling() -> Use:
    from torchaudio.transforms import Resample

    return evaluated(Resample(16000, 8000), _waves(2))


@item("torchaudio")
def griffin_lim() -> Use:
    from torchaudio.transforms import GriffinLim

    transform = GriffinLim(n_fft=64, n_iter=4, rand_init=False)
    return evaluated(transform, lambda n: (torch.rand(1, 33, size(10, n)),))


@item("torchaudio")
def low_pass_filter() -> Use:
    from torchaudio.functional import convolve

    return Use("eval", convolve, lambda n: (torch.randn(2, size(60, n)), torch.randn(2, 9)))


@item("torchaudio")
def conformer() -> Use:
    from torchaudio.models import Conformer

    model = Conformer(8, num_heads=2, ffn_dim=16, num_layers=1, depthwise_conv_kernel_size=3)
    return evaluated(
        model, lambda n: (torch.randn(2, size(10, n), 8), torch.tensor([size(10, n), 7]))
    )


@item("speechbrain")
def fbank() -> Use:
    from speechbrain.lobes.features import Fbank

    return evaluated(Fbank(n_mels=8), lambda n: (torch.randn(2, 1600),))


@item("speechbrain")
def normalised_features() -> Use:
    from speechbrain.processing.features import InputNormalization

    return transforming(
        InputNormalization(norm_type="global"),
        lambda n: (torch.randn(2, size(10, n), 4), torch.tensor([1.0, 0.8])),
    )


@item("speechbrain")
def ecapa_tdnn() -> Use:
    from speechbrain.lobes.models.ECAPA_TDNN import ECAPA_TDNN

    model = ECAPA_TDNN(
        8, lin_neurons=4, channels=[16] * 5, attention_channels=4, res2net_scale=2, se_channels=4
    )
    lengths = torch.tensor([1.0, 0.7])
    return evaluated(model, lambda n: (torch.randn(2, size(30, n), 8), lengths))


@item("speechbrain")
def masked_loss() -> Use:
    from speechbrain.nnet.losses import nll_loss

    def loss(x: torch.Tensor, labels: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return nll_loss(x.log_softmax(-1), labels, length=lengths)

    return Use(
        "train",
        loss,
        lambda n: (
            torch.randn(2, 6, 5, requires_grad=True),
            torch.randint(5, (2, 6)),
            torch.tensor([1.0, 0.5 + 0.1 * n / 2]),
        ),
    )


@item("speechbrain")
def recurrent_step() -> Use:
    from speechbrain.nnet.losses import mse_loss
    from speechbrain.nnet.RNN import LiGRU

    model = LiGRU(8, input_shape=[2, 6, 4], num_layers=1)
    return stepped(
        model,
        torch.optim.SGD(model.parameters(), 0.01),
        lambda net, x, y: mse_loss(net(x)[0], y),
        lambda n: (torch.randn(2, 6, 4), torch.randn(2, 6, 8)),
        clip=5.0,
    )


@item("auraloss")
def stft_loss() -> Use:
    from auraloss.freq import STFTLoss

    return trained(STFTLoss(fft_size=64, hop_size=16, win_length=64), _pairs())


@item("auraloss")
def multi_resolution_loss() -> Use:
    from auraloss.freq import MultiResolutionSTFTLoss

    return trained(MultiResolutionSTFTLoss([64, 128], [16, 32], [64, 128]), _pairs())


@item("auraloss")
def signal_to_distortion_loss() -> Use:
    from auraloss.time import SISDRLoss

    return trained(SISDRLoss(), _pairs())


@item("asteroid-filterbanks")
def learnt_filters() -> Use:
    from asteroid_filterbanks import Decoder, Encoder, ParamSincFB

    encoder = Encoder(ParamSincFB(8, 16, stride=8))
    decoder = Decoder(ParamSincFB(8, 16, stride=8))
    return trained(torch.nn.Sequential(encoder, decoder), _waves(2, 1))


@item("julius")
def bands() -> Use:
    from julius import SplitBands

    return evaluated(SplitBands(16000, n_bands=3), _waves(2))


@item("julius")
def filtered_waves() -> Use:
    from julius import LowPassFilter

    return evaluated(LowPassFilter(0.1), _waves(2))


@item("torch-audiomentations")
def augmented_waves() -> Use:
    from torch_audiomentations import Gain, PolarityInversion

    gain = Gain(p=0.5, sample_rate=16000, output_type="tensor")
    both = torch.nn.Sequential(gain, PolarityInversion(p=0.5, output_type="tensor"))
    return transforming(both, _waves(2, 1))


@item("encodec")
def residual_quantiser() -> Use:
    from encodec.quantization import ResidualVectorQuantizer

    quantizer = ResidualVectorQuantizer(dimension=8, n_q=2, bins=16)
    return evaluated(quantizer, lambda n: (torch.randn(2, 8, size(12, n)), 50, 1.0))
