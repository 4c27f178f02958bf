"""What single architectures of transformers need to be built and called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from transformers import PretrainedConfig

VOCABULARY = 128
"""Size of every vocabulary."""

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
