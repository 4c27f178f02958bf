"""Every architecture of the installed transformers, small enough to compile on a laptop.

A configuration is built with its defaults, read, and built again with smaller sizes; the weights
are random and the inputs made up from the signature of ``forward``. Nothing is fetched. Not every
model accepts the smallest sizes or the richest inputs: `attempts` lists what to try, best first.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import transformers
from inputs import Inputs
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

VOCABULARY = 128
FIRST_SPECIAL = 100
"""Special tokens whose ids are too large get the ids from here on."""

LARGEST = 200_000_000
"""Most parameters that a model may have."""

_Rule = tuple[re.Pattern[str], int]


def _rules(*rules: tuple[str, int]) -> tuple[_Rule, ...]:
    return tuple((re.compile(rf"(?:{pattern})\Z"), most) for pattern, most in rules)


COUNTS = _rules(
    (r"num_feat_extract_layers|num_conv_layers|num_hidden_groups|num_encoder_blocks", 99),
    (r"(.*_)?(num_)?(hidden_|encoder_|decoder_)?(layers?|blocks)|n_layers?|depth", 2),
    (r"(resampler|encoder|decoder|perceiver)_depth|n_.*_layers", 2),
    (r"attn_layer_period|expert_layer_period|.*sparse_step|cross_attention_frequency", 2),
    (r"attn_layer_offset|expert_layer_offset", 1),
    (r"vocab_size|.*_vocab_size(_.*)?|vocab_size_.*|num_embeddings|codebook_size", VOCABULARY),
    (r"n_positions|max_position_embeddings|max_seq_len(gth)?|sliding_window", 512),
    (r"num_queries|num_denoising|num_query_tokens|two_stage_num_proposals", 10),
    (r"n_routed_experts|(moe_)?num_(local_)?experts|num_virtual_.*|n_group", 4),
    (r"topk_group|num_experts_per_tok|moe_topk|moe_k|num_selected_experts", 2),
    (r"expert_capacity|train_num_points", 64),
)
"""Largest values of what is counted, by the name of the setting; the first match counts."""

DEPTHS = _rules(
    (r"num_(hidden_)?layers|n_layers?", 8),
)
"""The same for layers, where two are not enough to have one of each kind."""

WIDTHS = _rules(
    (r"head_dim|attention_head_dim|d_kv|.*_head_dim|d_head|kv_channels", 16),
    (r"(.*_)?num(_.*)?_attention_heads|(.*_)?num_heads|n_heads?|(.*_)?attention_heads", 4),
    (r"num_key_value_heads|num_kv_heads|multi_query_group_num", 2),
    (r"hidden_size|.*_hidden_size|d_model|n_embd|dim|hidden_dim|word_embed_proj_dim", 64),
    (r"embedding_size|embedding_dim|emb_dim|embed_dim|.*_embed_dim|projection_(dim|size)", 64),
    (r"output_dim|.*_output_dim|.*_hidden_dim|encoder_hidden_dim", 64),
    (r"(.*_)?intermediate_size(_.*)?|d_ff|(.*_)?ffn_dim|mlp_dim|n_inner|ffn_hidden_size", 128),
    (r"dim_feedforward|encoder_feedforward_dim|d_inner", 128),
    (r"q_lora_rank|kv_lora_rank|rotary_dim|time_step_rank|state_size|mamba_d_state", 16),
)
"""The same for widths. Heads of 16 numbers each make up a width of 64."""

IMAGES = _rules(
    (r"image_size|(pretrain_)?img_size", 64),
)


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


SIZES = {
    "small": (COUNTS, WIDTHS, IMAGES),
    "own image size": (COUNTS, WIDTHS),
    "own widths": (COUNTS, IMAGES),
    "eight layers": (DEPTHS, COUNTS, WIDTHS, IMAGES),
    "few layers": (COUNTS,),
}


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
        config = _shrunk(_default(config_class, settings), rules, settings)
    _tame_tokens(config, {})
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


def _shrunk(
    config: PretrainedConfig, rules: tuple[_Rule, ...], fixed: dict[str, Any]
) -> PretrainedConfig:
    """A configuration of the same class, made anew, so that derived values fit the small ones."""
    return type(config)(**{**_small_settings(config, rules), **fixed})


def _value(config: PretrainedConfig, name: str) -> Any:
    """A setting, or None if there is none, or one for each layer."""
    try:
        return getattr(config, name, None)
    except (ValueError, RuntimeError):
        return None


def _small_settings(config: PretrainedConfig, rules: tuple[_Rule, ...]) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    layers = _value(config, "num_hidden_layers")
    if any(isinstance(_value(config, name), list) for name in ("hidden_sizes", "depths")):
        layers = None
        rules = tuple(rule for rule in rules if rule not in WIDTHS)  # widths go by stage
    for parameter in inspect.signature(type(config).__init__).parameters.values():
        name, default = parameter.name, parameter.default
        value = _value(config, name)
        if isinstance(value, PretrainedConfig):
            settings[name] = {"model_type": value.model_type, **_small_settings(value, rules)}
        elif isinstance(value, (bool, float, str)):
            settings[name] = value
        elif isinstance(value, int):
            settings[name] = _at_most(name, value, rules, config)
        elif isinstance(value, list) and default is not None and value:
            settings[name] = _shorter(name, value, layers, rules)
    heads, groups = "num_attention_heads", "num_key_value_heads"
    if {heads, groups} <= settings.keys() and _value(config, heads) == _value(config, groups):
        settings[groups] = settings[heads]
    return settings


def _at_most(name: str, value: int, rules: tuple[_Rule, ...], config: PretrainedConfig) -> int:
    for pattern, most in rules:
        if pattern.match(name):
            if "im" in name and "size" in name:
                patch = getattr(config, "patch_size", None)
                most = patch * 4 if isinstance(patch, int) and patch > 4 else most
            return min(value, most)
    return value


def _shorter(name: str, value: list[Any], layers: object, rules: tuple[_Rule, ...]) -> list[Any]:
    """Lists with an entry a layer keep the first ones and the last; stages keep one layer each."""
    if name in ("depths", "layer_depths") and all(isinstance(v, int) for v in value):
        return [min(v, 1 if len(value) > 2 else 2) for v in value]
    if name in ("image_size", "img_size") and all(isinstance(v, int) for v in value):
        return [min(v, 64) for v in value]
    if isinstance(layers, int) and len(value) == layers:
        kept = next((most for rule, most in rules if rule.match("num_hidden_layers")), layers)
        return value if kept >= layers else [*value[: kept - 1], value[-1]]
    return value


def _tame_tokens(config: PretrainedConfig, known: dict[int, int]) -> None:
    """Give special tokens past the vocabulary small ids; the same token the same id."""
    for name, value in list(vars(config).items()):
        if isinstance(value, PretrainedConfig):
            _tame_tokens(value, known)
        elif re.search(r"(token|_index|_id)s?(_id|_index)?$", name):
            ids = value if isinstance(value, list) else [value]
            if not all(isinstance(i, int) and not isinstance(i, bool) for i in ids):
                continue
            tame = [i if i < VOCABULARY else _small_id(i, known) for i in ids]
            if tame != ids:
                setattr(config, name, tame if isinstance(value, list) else tame[0])


def _small_id(token: int, known: dict[int, int]) -> int:
    return known.setdefault(token, FIRST_SPECIAL + len(known))


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


_SmallPart = Callable[[str], PretrainedConfig]


def _encoder_and_decoder(encoder: str, decoder: str) -> Callable[[Any, _SmallPart], Any]:
    def make(config_class: Any, small: _SmallPart) -> Any:
        config = config_class.from_encoder_decoder_configs(small(encoder), small(decoder))
        config.decoder_start_token_id = config.pad_token_id = 0
        return config

    return make


COMPOSITES: dict[str, Callable[[Any, _SmallPart], Any]] = {
    "encoder-decoder": _encoder_and_decoder("bert", "bert"),
    "vision-encoder-decoder": _encoder_and_decoder("vit", "bert"),
    "speech-encoder-decoder": _encoder_and_decoder("wav2vec2", "bert"),
    "vision-text-dual-encoder": lambda config_class, small: config_class.from_vision_text_configs(
        small("vit"), small("bert")
    ),
}
"""Configurations that have no defaults."""

_SECTIONS = {
    "type": "mrope",
    "rope_theta": 10000.0,
    "rope_type": "default",
    "mrope_section": [2, 3, 3],
}
_RESNET = {
    "model_type": "resnet",
    "embedding_size": 16,
    "hidden_sizes": [16, 32, 64, 64],
    "depths": [1, 1, 1, 1],
}
_NO_TIMM = {"use_timm_backbone": False, "use_pretrained_backbone": False, "backbone": None}
SETTINGS: dict[str, dict[str, Any]] = {
    "detr|conditional_detr|dab-detr|table-transformer": {
        **_NO_TIMM,
        "backbone_config": {**_RESNET, "out_features": ["stage4"]},
    },
    "deformable_detr": {
        **_NO_TIMM,
        "backbone_config": {**_RESNET, "out_features": ["stage2", "stage3", "stage4"]},
    },
    "autoformer|informer|time_series_transformer": {
        "prediction_length": 8,
        "context_length": 16,
        "lags_sequence": [1, 2, 3],
    },
    "beit|data2vec-vision": {"num_hidden_layers": 4, "out_indices": [1, 2, 3, 4]},
    "bamba|granitemoehybrid": {"mamba_n_heads": 8, "mamba_d_head": 16},
    "mamba2": {"num_heads": 8, "head_dim": 16},
    "jamba": {"use_mamba_kernels": False},
    "gpt_neo": {"attention_types": [[["global", "local"], 1]]},
    "esm": {"vocab_size": VOCABULARY, "pad_token_id": 1},
    "reformer": {"is_decoder": True},
    "gemma3": {"mm_tokens_per_image": 4},
    "xmod": {"default_language": "en_XX"},
    "wav2vec2-bert|wav2vec2-conformer": {"vocab_size": VOCABULARY},
    "nemotron": {"head_dim": 16},
    "transfo-xl": {"cutoffs": [20, 40], "vocab_size": VOCABULARY},
    "superglue": {
        "hidden_size": 64,
        "keypoint_encoder_sizes": [16, 32],
        "gnn_layers_types": ["self", "cross"],
    },
    "dpt": {"num_hidden_layers": 4, "backbone_out_indices": [0, 1, 2, 3]},
    "efficientnet": {"hidden_dim": 2560},
    "chameleon": {"vocabulary_map": {"<image>": 4}},
}
"""Arguments of configurations that have no working defaults."""

EXTRAS: dict[str, dict[str, Any]] = {
    "qwen2_vl|qwen2_5_vl": {
        "rope_scaling": _SECTIONS,
        "vocab_size": VOCABULARY,
        "vision_start_token_id": 110,
        "image_token_id": 111,
        "video_token_id": 112,
    },
    "qwen2_vl_text|qwen2_5_vl_text|qwen2_5_omni_thinker": {"rope_scaling": _SECTIONS},
    "reformer": {"axial_pos_shape": (4, 4), "axial_pos_embds_dim": (32, 32)},
    "longformer|led": {"attention_window": [4, 4]},
    "prophetnet": {"num_encoder_layers": 2, "num_decoder_layers": 2},
}
"""Settings that are changed afterwards, in all parts."""
