"""Configurations made small: by rules on the names of their settings."""

from __future__ import annotations

import inspect
import re
from typing import Any

from settings import VOCABULARY
from transformers import PretrainedConfig

FIRST_SPECIAL = 100
"""Special tokens whose ids are too large get the ids from here on."""

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

SIZES = {
    "small": (COUNTS, WIDTHS, IMAGES),
    "own image size": (COUNTS, WIDTHS),
    "own widths": (COUNTS, IMAGES),
    "eight layers": (DEPTHS, COUNTS, WIDTHS, IMAGES),
    "few layers": (COUNTS,),
}


def shrunk(
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


def tame_tokens(config: PretrainedConfig, known: dict[int, int]) -> None:
    """Give special tokens past the vocabulary small ids; the same token the same id."""
    for name, value in list(vars(config).items()):
        if isinstance(value, PretrainedConfig):
            tame_tokens(value, known)
        elif re.search(r"(token|_index|_id)s?(_id|_index)?$", name):
            ids = value if isinstance(value, list) else [value]
            if not all(isinstance(i, int) and not isinstance(i, bool) for i in ids):
                continue
            tame = [i if i < VOCABULARY else _small_id(i, known) for i in ids]
            if tame != ids:
                setattr(config, name, tame if isinstance(value, list) else tame[0])


def _small_id(token: int, known: dict[int, int]) -> int:
    return known.setdefault(token, FIRST_SPECIAL + len(known))
