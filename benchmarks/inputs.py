"""Made-up inputs for a model of transformers, by what its ``forward`` takes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import torch
from transformers import PretrainedConfig, PreTrainedModel

BATCH, LENGTH, LABEL_LENGTH = 2, 16, 6
FIRST_GUESS = 4
"""Image tokens in a row, until the model says how many it wants."""
SAMPLES, FRAMES = 6400, 64
"""Lengths of sounds: of a wave, and of a spectrogram."""

Recipe = Callable[["Inputs"], Any]


class Inputs:
    """Makes keyword arguments for a model.

    Attributes:
        config: the model's configuration.
        images: whether inputs besides text are given.
        labels: whether labels are given.
        image_tokens: places for image features in the text; `learn` corrects it.
    """

    def __init__(
        self,
        config: PretrainedConfig,
        model_class: type[PreTrainedModel],
        images: bool,
        labels: bool,
    ) -> None:
        self.config, self.images, self.labels = config, images, labels
        self.kind = model_class.__name__
        self.main = model_class.main_input_name
        self.takes = inspect.signature(model_class.forward).parameters
        self.image_tokens: int | None = None
        self.length = LENGTH
        self.generator = torch.Generator()
        self.padding = 2

    def make(self, seed: int) -> dict[str, Any]:
        """The arguments of one call; shapes do not depend on the seed, padding does."""
        self.generator.manual_seed(seed)
        self.padding = 2 if seed % 2 else 0
        made = {name: value for name in self.names() if (value := self._one(name)) is not None}
        return made

    def names(self) -> list[str]:
        """Names of the arguments that are given."""
        wanted = {self.main, *WELCOME} if self.images else {self.main, *TEXT}
        if self.images and self._image_token() is not None:
            wanted |= {"input_ids"}
        if not self.images and "input_ids" in self.takes:
            wanted -= {self.main} if self.main != "input_ids" else set()
            wanted |= {"input_ids"}
        if self.labels:
            wanted |= LABELS
        if {"labels"} <= wanted & set(self.takes):
            wanted -= {"decoder_input_ids"} if self._labels() is not None else set()
        if self.main in ("inputs", "input_values") and "SpeechEncoder" in self.kind:
            wanted -= {"input_features"}
        needed = {
            name
            for name, parameter in self.takes.items()
            if parameter.default is inspect.Parameter.empty
            and parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
            and name != "self"
        }
        return [name for name in self.takes if name in wanted | needed]

    def learn(self, error: Exception) -> bool:
        """Correct the number of image tokens after a complaint; whether anything was learnt."""
        token, placed = self._image_token(), BATCH * (self.image_tokens or FIRST_GUESS)
        numbers = [int(number) for number in re.findall(r"\d+", str(error))]
        if token is None or placed not in numbers:
            return False
        others = [number for number in numbers if number != placed]
        # Equal and still a complaint: one of the two counts the numbers in a feature too.
        width = int(getattr(self.config.get_text_config(), "hidden_size", 1))
        features = others[-1] if others else placed // width
        per_row = features // BATCH if features % BATCH == 0 else features
        if per_row == self.image_tokens or not 0 < per_row < 4000:
            return False
        self.image_tokens = per_row
        self.length = LENGTH + per_row
        return True

    def _one(self, name: str) -> Any:
        recipe = RECIPES.get(name)
        return None if recipe is None else recipe(self)

    # What recipes ask

    def setting(self, *names: str, default: Any = None) -> Any:
        """The first of some settings that the configuration or a part of it has."""
        parts = [self.config]
        for part in parts:
            parts += [p for p in vars(part).values() if isinstance(p, PretrainedConfig)]
        for name in names:
            for part in parts:
                value = getattr(part, name, None)
                if value is not None:
                    return value
        return default

    def _vocabulary(self) -> int:
        text = self.config.get_text_config()
        return min(
            int(getattr(text, "vocab_size", 0) or self.setting("vocab_size", default=99)), 99
        )

    def ids(self, length: int, batch: int = BATCH) -> torch.Tensor:
        """Ordinary token ids."""
        return torch.randint(5, self._vocabulary(), (batch, length), generator=self.generator)

    def noise(self, *shape: int) -> torch.Tensor:
        """Standard normal numbers."""
        return torch.randn(*shape, generator=self.generator)

    def below(self, high: int, *shape: int) -> torch.Tensor:
        """Integers from 0."""
        return torch.randint(0, max(high, 1), shape, generator=self.generator)

    def side(self) -> tuple[int, int]:
        """Height and width of images."""
        size = self.setting("image_size", "img_size", "input_size", default=64)
        if isinstance(size, dict):
            size = size.get("height", 64), size.get("width", 64)
        return (size, size) if isinstance(size, int) else tuple(size)[:2]

    def _image_token(self) -> int | None:
        token = self.setting("image_token_id", "image_token_index")
        return token if isinstance(token, int) and token >= 0 else None

    def _grid(self) -> int:
        return 2 * int(self.setting("spatial_merge_size", default=2))

    # Recipes

    def _input_ids(self) -> torch.Tensor:
        ids = self.ids(self.length)
        token = self._image_token()
        if token is not None and self.images:
            ids[:, 1 : 1 + (self.image_tokens or FIRST_GUESS)] = token
        return ids

    def _kinds_of_tokens(self) -> torch.Tensor:
        kinds = torch.zeros(BATCH, self.length, dtype=torch.long)
        kinds[:, 1 : 1 + (self.image_tokens or FIRST_GUESS)] = 1
        return kinds

    def _mask(self) -> torch.Tensor | None:
        if not {"input_ids", "states"} & set(self.names()):
            return None
        mask = torch.ones(BATCH, self.length, dtype=torch.long)
        if self.padding:
            mask[1, -self.padding :] = 0
        return mask

    def _pixels(self) -> torch.Tensor:
        height, width = self.side()
        channels = int(self.setting("num_channels", "in_channels", "in_chans", default=3) or 3)
        if "image_grid_thw" in self.takes:
            patch = int(self.setting("patch_size"))
            depth = int(self.setting("temporal_patch_size", default=1))
            return self.noise(BATCH * self._grid() ** 2, channels * depth * patch**2)
        frames = self.setting("num_frames", "frames_per_clip")
        if frames and re.match(r"Vivit|VideoMAE|Timesformer|VJEPA|XCLIP", self.kind):
            return self.noise(BATCH, int(frames), channels, height, width)
        if self._has_tiles():
            return self.noise(BATCH, 1, channels, height, width)
        return self.noise(BATCH, channels, height, width)

    def _has_tiles(self) -> bool:
        return (
            re.match(r"Idefics|SmolVLM|LlavaNext|LlavaOnevision|Mllama|Aria", self.kind) is not None
        )

    def _features(self) -> torch.Tensor:
        names = "feature_projection_input_dim", "num_mel_bins", "input_feat_per_channel"
        bins = int(self.setting(*names, "feature_size", default=80))
        frames = 2 * int(self.setting("max_source_positions", default=32))
        if re.match(r"Whisper|Qwen2Audio|Voxtral|Clvp|GlmAsr|AudioFlamingo", self.kind):
            return self.noise(BATCH, bins, FRAMES if "Clvp" in self.kind else frames)
        return self.noise(BATCH, FRAMES, bins)

    def _wave(self) -> torch.Tensor:
        if re.match(r"AST|SpeechT5ForTextTo", self.kind):
            length = self.config.max_length if "AST" in self.kind else FRAMES
            return self.noise(BATCH, length, int(self.setting("num_mel_bins")))
        channels = (1,) if re.match(r"Dac|Encodec|Mimi|Xcodec|Moshi", self.kind) else ()
        return self.noise(BATCH, *channels, SAMPLES)

    def _labels(self) -> Any:
        kind = self.kind
        if re.search(r"Detection|InstanceSeg|ForSegmentation|DetrForSeg", kind):
            return [self._target() for _ in range(BATCH)]
        if kind.endswith(("SequenceClassification", "ImageClassification", "VideoClassification")):
            return self.below(int(self.config.num_labels), BATCH)
        if kind.endswith("AudioClassification"):
            return self.below(int(self.config.num_labels), BATCH)
        if kind.endswith("TokenClassification"):
            return self.below(int(self.config.num_labels), BATCH, self.length)
        if kind.endswith("SemanticSegmentation"):
            return self.below(int(self.config.num_labels), BATCH, *self.side())
        if re.search(r"CausalLM|LMHead|MaskedLM|ConditionalGen|ForCTC|VisionEncoder|Seq2Seq", kind):
            encodes = self.config.is_encoder_decoder or kind.endswith(("CTC", "Seq2Seq"))
            encodes = encodes or "input_ids" not in self.takes
            return self.ids(LABEL_LENGTH) if encodes else self.ids(self.length)
        if re.search(r"EncoderDecoderModel", kind):
            return self.ids(LABEL_LENGTH)
        return None

    def _target(self) -> dict[str, torch.Tensor]:
        boxes = torch.rand(2, 4, generator=self.generator) * 0.2 + 0.3
        labels = self.below(int(self.config.num_labels), 2)
        masks = self.below(2, 2, *self.side()).float()
        return {"class_labels": labels, "boxes": boxes, "masks": masks}

    def _boxes(self) -> torch.Tensor:
        corner = self.below(50, BATCH, self.length, 2)
        return torch.cat([corner, corner + self.below(50, BATCH, self.length, 2)], dim=-1)

    def _grid_sizes(self) -> torch.Tensor:
        return torch.tensor([[1, self._grid(), self._grid()]] * BATCH)

    def _classes_of_masks(self) -> Any:
        return [self.below(int(self.config.num_labels), 2) for _ in range(BATCH)]

    def _masks(self) -> Any:
        return [self.below(2, 2, *self.side()).float() for _ in range(BATCH)]

    def _masked_patches(self) -> torch.Tensor:
        height, width = self.side()
        patch = int(self.setting("patch_size", "encoder_stride", default=16))
        return self.below(2, BATCH, (height // patch) * (width // patch)).bool()

    def _series(self) -> Any:
        if "TimesFm" in self.kind:
            return [self.noise(64) for _ in range(BATCH)]
        lags = self.setting("lags_sequence")
        if lags:
            return self.noise(BATCH, int(self.setting("context_length")) + max(lags))
        length = self.setting("context_length", "seq_length", default=64)
        return self.noise(BATCH, int(length), int(self.setting("num_input_channels", default=1)))

    def _future(self, *more: int) -> torch.Tensor:
        return self.noise(BATCH, int(self.setting("prediction_length")), *more)

    def _time(self, length: int) -> torch.Tensor:
        features = int(self.setting("num_time_features", default=0))
        return self.noise(BATCH, length, features)


TEXT = {"input_ids", "attention_mask", "decoder_input_ids", "bbox"}
WELCOME = TEXT | {
    "pixel_values",
    "input_features",
    "input_values",
    "image_grid_thw",
    "image_sizes",
    "mm_token_type_ids",
    "bool_masked_pos",
    "actions",
    "rewards",
    "returns_to_go",
    "timesteps",
    "flattened_patches",
    "visual_feats",
    "visual_pos",
    "past_time_features",
    "past_observed_mask",
    "future_values",
    "future_time_features",
}
"""Arguments that are given although they have defaults."""

LABELS = {
    "labels",
    "start_positions",
    "end_positions",
    "mask_labels",
    "class_labels",
    "next_sentence_label",
    "sentence_order_label",
}

RECIPES: dict[str, Recipe] = {
    "input_ids": Inputs._input_ids,
    "attention_mask": Inputs._mask,
    "decoder_input_ids": lambda i: i.ids(LABEL_LENGTH) if i.config.is_encoder_decoder else None,
    "bbox": Inputs._boxes,
    "pixel_values": Inputs._pixels,
    "image_grid_thw": Inputs._grid_sizes,
    "mm_token_type_ids": Inputs._kinds_of_tokens,
    "image_sizes": lambda i: torch.tensor([i.side()] * BATCH) if i._has_tiles() else None,
    "input_features": Inputs._features,
    "input_values": Inputs._wave,
    "labels": Inputs._labels,
    "start_positions": lambda i: i.below(LENGTH // 2, BATCH),
    "end_positions": lambda i: i.below(LENGTH // 2, BATCH) + LENGTH // 2,
    "mask_labels": Inputs._masks,
    "class_labels": Inputs._classes_of_masks,
    "next_sentence_label": lambda i: i.below(2, BATCH),
    "sentence_order_label": lambda i: i.below(2, BATCH),
    "bool_masked_pos": Inputs._masked_patches,
    "past_values": Inputs._series,
    "past_time_features": lambda i: i._time(i._series().shape[1]),
    "past_observed_mask": lambda i: torch.ones_like(i._series()),
    "future_values": lambda i: i._future(),
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
    "future_time_features": lambda i: i._time(int(i.setting("prediction_length"))),
}
