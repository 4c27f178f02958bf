"""How each argument of a model's ``forward`` is made up."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from inputs import Inputs

BATCH, LENGTH, LABEL_LENGTH = 2, 16, 6
FIRST_SPECULATION = 4
"""Image tokens in a row, until the model says how many it wants."""
SAMPLES, FRAMES = 6400, 64
"""Lengths of sounds: of a wave, and of a spectrogram."""

Recipe = Callable[["Inputs"], Any]


def _input_ids(inputs: Inputs) -> torch.Tensor:
    ids = inputs.ids(inputs.length)
    token = inputs.image_token()
    if token is not None and inputs.images:
        ids[:, 1 : 1 + (inputs.image_tokens or FIRST_SPECULATION)] = token
    return ids


def _kinds_of_tokens(inputs: Inputs) -> torch.Tensor:
    kinds = torch.zeros(BATCH, inputs.length, dtype=torch.long)
    kinds[:, 1 : 1 + (inputs.image_tokens or FIRST_SPECULATION)] = 1
    return kinds


def _mask(inputs: Inputs) -> torch.Tensor | None:
    if not {"input_ids", "states"} & set(inputs.names()):
        return None
    mask = torch.ones(BATCH, inputs.length, dtype=torch.long)
    if inputs.padding:
        mask[1, -inputs.padding :] = 0
    return mask


def _pixels(inputs: Inputs) -> torch.Tensor:
    height, width = inputs.side()
    channels = int(inputs.setting("num_channels", "in_channels", "in_chans", default=3) or 3)
    if "image_grid_thw" in inputs.takes:
        patch = int(inputs.setting("patch_size"))
        depth = int(inputs.setting("temporal_patch_size", default=1))
        return inputs.noise(BATCH * inputs.grid() ** 2, channels * depth * patch**2)
    frames = inputs.setting("num_frames", "frames_per_clip")
    if frames and re.match(r"Vivit|VideoMAE|Timesformer|VJEPA|XCLIP", inputs.kind):
        return inputs.noise(BATCH, int(frames), channels, height, width)
    if _has_tiles(inputs):
        return inputs.noise(BATCH, 1, channels, height, width)
    return inputs.noise(BATCH, channels, height, width)


def _has_tiles(inputs: Inputs) -> bool:
    kinds = r"(Idefics|SmolVLM|LlavaNext|LlavaOnevision|Mllama|Aria)(?!.*Vision)"
    return re.match(kinds, inputs.kind) is not None


def _features(inputs: Inputs) -> torch.Tensor:
    names = "feature_projection_input_dim", "num_mel_bins", "input_feat_per_channel"
    bins = int(inputs.setting(*names, "feature_size", default=80))
    frames = 2 * int(inputs.setting("max_source_positions", default=32))
    if re.match(r"Whisper|Qwen2Audio|Voxtral|Clvp|GlmAsr|AudioFlamingo", inputs.kind):
        return inputs.noise(BATCH, bins, FRAMES if "Clvp" in inputs.kind else frames)
    if "Clap" in inputs.kind:
        return inputs.noise(BATCH, 1, FRAMES, bins)
    return inputs.noise(BATCH, FRAMES, bins)


def _wave(inputs: Inputs) -> torch.Tensor:
    if re.match(r"AST|SpeechT5ForTextTo", inputs.kind):
        length = inputs.config.max_length if "AST" in inputs.kind else FRAMES
        return inputs.noise(BATCH, length, int(inputs.setting("num_mel_bins")))
    channels = (1,) if re.match(r"Dac|Encodec|Mimi|Xcodec|Moshi", inputs.kind) else ()
    return inputs.noise(BATCH, *channels, SAMPLES)


def labels_of(inputs: Inputs) -> Any:
    kind = inputs.kind
    if re.search(r"Detection|InstanceSeg|ForSegmentation|DetrForSeg", kind):
        return [_target(inputs) for _ in range(BATCH)]
    if kind.endswith(("SequenceClassification", "ImageClassification", "VideoClassification")):
        return inputs.below(int(inputs.config.num_labels), BATCH)
    if kind.endswith("AudioClassification"):
        return inputs.below(int(inputs.config.num_labels), BATCH)
    if kind.endswith("TokenClassification"):
        return inputs.below(int(inputs.config.num_labels), BATCH, inputs.length)
    if kind.endswith("SemanticSegmentation"):
        return inputs.below(int(inputs.config.num_labels), BATCH, *inputs.side())
    if re.search(r"CausalLM|LMHead|MaskedLM|ConditionalGen|ForCTC|VisionEncoder|Seq2Seq", kind):
        encodes = inputs.config.is_encoder_decoder or kind.endswith(("CTC", "Seq2Seq"))
        encodes = encodes or "input_ids" not in inputs.takes
        return inputs.ids(LABEL_LENGTH) if encodes else inputs.ids(inputs.length)
    if re.search(r"EncoderDecoderModel", kind):
        return inputs.ids(LABEL_LENGTH)
    return None


def _target(inputs: Inputs) -> dict[str, torch.Tensor]:
    boxes = torch.rand(2, 4, generator=inputs.generator) * 0.2 + 0.3
    labels = inputs.below(int(inputs.config.num_labels), 2)
    masks = inputs.below(2, 2, *inputs.side()).float()
    return {"class_labels": labels, "boxes": boxes, "masks": masks}


def _boxes(inputs: Inputs) -> torch.Tensor:
    corner = inputs.below(50, BATCH, inputs.length, 2)
    return torch.cat([corner, corner + inputs.below(50, BATCH, inputs.length, 2)], dim=-1)


def _grid_sizes(inputs: Inputs) -> torch.Tensor:
    return torch.tensor([[1, inputs.grid(), inputs.grid()]] * BATCH)


def _classes_of_masks(inputs: Inputs) -> Any:
    return [inputs.below(int(inputs.config.num_labels), 2) for _ in range(BATCH)]


def _masks(inputs: Inputs) -> Any:
    return [inputs.below(2, 2, *inputs.side()).float() for _ in range(BATCH)]


def _masked_patches(inputs: Inputs) -> torch.Tensor:
    height, width = inputs.side()
    patch = int(inputs.setting("patch_size", "encoder_stride", default=16))
    return inputs.below(2, BATCH, (height // patch) * (width // patch)).bool()


def _series(inputs: Inputs) -> Any:
    if "TimesFm" in inputs.kind:
        return [inputs.noise(64) for _ in range(BATCH)]
    lags = inputs.setting("lags_sequence")
    if lags:
        return inputs.noise(BATCH, int(inputs.setting("context_length")) + max(lags))
    length = inputs.setting("context_length", "seq_length", default=64)
    return inputs.noise(BATCH, int(length), int(inputs.setting("num_input_channels", default=1)))


def _future(inputs: Inputs, *more: int) -> torch.Tensor:
    return inputs.noise(BATCH, int(inputs.setting("prediction_length")), *more)


def _time(inputs: Inputs, length: int) -> torch.Tensor:
    features = int(inputs.setting("num_time_features", default=0))
    return inputs.noise(BATCH, length, features)


RECIPES: dict[str, Recipe] = {
    "input_ids": _input_ids,
    "attention_mask": _mask,
    "decoder_input_ids": lambda i: i.ids(LABEL_LENGTH) if i.config.is_encoder_decoder else None,
    "bbox": _boxes,
    "pixel_values": _pixels,
    "image_grid_thw": _grid_sizes,
    "mm_token_type_ids": _kinds_of_tokens,
    "image_sizes": lambda i: torch.tensor([i.side()] * BATCH) if _has_tiles(i) else None,
    "input_features": _features,
    "input_values": _wave,
    "labels": labels_of,
    "start_positions": lambda i: i.below(LENGTH // 2, BATCH),
    "end_positions": lambda i: i.below(LENGTH // 2, BATCH) + LENGTH // 2,
    "mask_labels": _masks,
    "class_labels": _classes_of_masks,
    "next_sentence_label": lambda i: i.below(2, BATCH),
    "sentence_order_label": lambda i: i.below(2, BATCH),
    "bool_masked_pos": _masked_patches,
    "past_values": _series,
    "past_time_features": lambda i: _time(i, _series(i).shape[1]),
    "past_observed_mask": lambda i: torch.ones_like(_series(i)),
    "future_values": lambda i: _future(i),
    "query_embeds": lambda i: i.noise(BATCH, LENGTH, int(i.setting("hidden_size"))),
    "qformer_input_ids": lambda i: i.ids(LENGTH),
    "encoder_hidden_states": lambda i: i.noise(BATCH, LENGTH, int(i.setting("hidden_size"))),
    "flattened_patches": lambda i: i.noise(BATCH, LENGTH, 2 + 3 * 16**2),
    "visual_feats": lambda i: i.noise(BATCH, 4, int(i.setting("visual_feat_dim"))),
    "visual_pos": lambda i: i.noise(BATCH, 4, int(i.setting("visual_pos_dim"))),
    "freq": lambda i: [0] * BATCH,
    "states": lambda i: i.noise(BATCH, LENGTH, int(i.setting("state_dim"))),
    "actions": lambda i: i.noise(BATCH, LENGTH, int(i.setting("act_dim"))),
    "rewards": lambda i: i.noise(BATCH, LENGTH, 1),
    "returns_to_go": lambda i: i.noise(BATCH, LENGTH, 1),
    "timesteps": lambda i: torch.arange(LENGTH).repeat(BATCH, 1),
    "future_time_features": lambda i: _time(i, int(i.setting("prediction_length"))),
}
