"""Every architecture of the installed transformers, small enough to compile on a laptop.

A configuration is built with its defaults, read, and built again with smaller sizes; the weights
are random and the inputs made up from the signature of ``forward``. Nothing is fetched. Not every
model accepts the smallest sizes or the richest inputs: `attempts` lists what to try, best first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from inputs import Inputs
from settings import COMPOSITES, EXTRAS, SETTINGS
from shrinking import SIZES, shrunk, tame_tokens
from transformers import PretrainedConfig, PreTrainedModel
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

HEADS = (
    "SPEECH_SEQ_2_SEQ",
    "SEQ_TO_SEQ_CAUSAL_LM",
    "IMAGE_TEXT_TO_TEXT",
    "MULTIMODAL_LM",
    "VISION_2_SEQ",
    "CAUSAL_LM",
    "CTC",
    "MASKED_LM",
    "ZERO_SHOT_OBJECT_DETECTION",
    "OBJECT_DETECTION",
    "UNIVERSAL_SEGMENTATION",
    "INSTANCE_SEGMENTATION",
    "SEMANTIC_SEGMENTATION",
    "AUDIO_CLASSIFICATION",
    "VIDEO_CLASSIFICATION",
    "IMAGE_CLASSIFICATION",
    "DEPTH_ESTIMATION",
    "MASKED_IMAGE_MODELING",
    "TIME_SERIES_PREDICTION",
    "SEQUENCE_CLASSIFICATION",
    "QUESTION_ANSWERING",
    "TOKEN_CLASSIFICATION",
    "ZERO_SHOT_IMAGE_CLASSIFICATION",
    "KEYPOINT_DETECTION",
    "KEYPOINT_MATCHING",
    "IMAGE_TO_IMAGE",
    "TEXT_TO_SPECTROGRAM",
    "TEXT_TO_WAVEFORM",
    "MASK_GENERATION",
    "PRETRAINING",
    "MODEL",
)
"""Kinds of heads; an architecture is built with the first one that it has."""

LARGEST = 200_000_000
"""Most parameters that a model may have."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One way to build a model and to call it.

    Attributes:
        sizes: which rules shrink the configuration: a key of `SIZES`.
        images: give the inputs that are not text, where there is text too.
        labels: give labels.
    """

    sizes: str
    images: bool
    labels: bool

    def __str__(self) -> str:
        said = [self.sizes, "" if self.images else "text only", "labels" if self.labels else ""]
        return ", ".join(filter(None, said))


def attempts() -> Iterator[Attempt]:
    """What to try, best first."""
    for sizes in SIZES:
        for images in (True, False):
            for labels in (True, False):
                yield Attempt(sizes, images, labels)


def architectures() -> list[str]:
    """Names of all architectures that have a model class."""
    return [name for name in CONFIG_MAPPING_NAMES if any(_class_names(name))]


def class_of(architecture: str) -> type[PreTrainedModel]:
    """The class that an architecture is built with.

    Raises:
        AttributeError: the installed transformers does not export it.
        ValueError: every class is built with another configuration.
    """
    for name in _class_names(architecture):
        found: type[PreTrainedModel] = getattr(transformers, name)
        if found.config_class is _config_class(architecture):
            return found
    raise ValueError(f"no class is built with {CONFIG_MAPPING_NAMES[architecture]}")


def _config_class(architecture: str) -> type[PretrainedConfig]:
    return getattr(transformers, CONFIG_MAPPING_NAMES[architecture])


def _class_names(architecture: str) -> Iterator[str]:
    for head in HEADS:
        table = "MODEL_MAPPING_NAMES" if head == "MODEL" else f"MODEL_FOR_{head}_MAPPING_NAMES"
        found = getattr(modeling_auto, table, {}).get(architecture)
        if found:
            yield found if isinstance(found, str) else found[0]


def build(architecture: str, attempt: Attempt) -> tuple[PreTrainedModel, Inputs]:
    """A model with random weights, the same on every call, and its inputs.

    Raises:
        Exception: whatever transformers raises for a configuration that it does not like.
        ValueError: the model is too large.
    """
    config = small_config(architecture, attempt.sizes)
    model_class = class_of(architecture)
    with torch.device("meta"):
        size = sum(p.numel() for p in model_class(config).parameters())
    if size > LARGEST:
        raise ValueError(f"{size:,} parameters are too many")
    torch.manual_seed(0)
    return model_class(config), Inputs(config, model_class, attempt.images, attempt.labels)


def small_config(architecture: str, sizes: str) -> PretrainedConfig:
    """The configuration of an architecture, shrunk."""
    config_class = _config_class(architecture)
    rules = tuple(rule for table in SIZES[sizes] for rule in table)
    make = COMPOSITES.get(architecture)
    if make is not None:
        config = make(config_class, lambda part: small_config(part, sizes))
    else:
        settings = _of(architecture, SETTINGS)
        config = shrunk(_default(config_class, settings), rules, settings)
    tame_tokens(config, {})
    if config.is_encoder_decoder and getattr(config, "decoder_start_token_id", None) is None:
        config.decoder_start_token_id = 0
    _set_everywhere(config, _of(architecture, EXTRAS))
    return config


def _of(architecture: str, table: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The entry whose key names the architecture, among others perhaps."""
    return next((table[key] for key in table if architecture in key.split("|")), {})


def _default(config_class: Any, settings: dict[str, Any]) -> PretrainedConfig:
    """The default configuration; with some settings if there is none without."""
    try:
        return config_class()
    except (ValueError, TypeError, AttributeError):
        return config_class(**settings)


def _set_everywhere(config: PretrainedConfig, settings: dict[str, Any]) -> None:
    for name, value in settings.items():
        if name == "rope_scaling":
            config.get_text_config().rope_scaling = value
            continue
        setattr(config, name, value)
        for part in parts_of(config):
            if hasattr(part, name):
                setattr(part, name, value)


def parts_of(config: PretrainedConfig) -> Iterator[PretrainedConfig]:
    """The configurations inside a configuration."""
    for value in list(vars(config).values()):
        if isinstance(value, PretrainedConfig):
            yield value
            yield from parts_of(value)
