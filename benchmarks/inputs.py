"""Made-up inputs for a model of transformers, by what its ``forward`` takes."""

from __future__ import annotations

import inspect
import re
from typing import Any

import torch
from recipes import BATCH, FIRST_SPECULATION, LENGTH, RECIPES, labels_of
from transformers import PretrainedConfig, PreTrainedModel


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
        if self.images and self.image_token() is not None:
            wanted |= {"input_ids"}
        if not self.images and "input_ids" in self.takes:
            wanted -= {self.main} if self.main != "input_ids" else set()
            wanted |= {"input_ids"}
        if self.labels:
            wanted |= LABELS
        if {"labels"} <= wanted & set(self.takes):
            wanted -= {"decoder_input_ids"} if labels_of(self) is not None else set()
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
        token, placed = self.image_token(), BATCH * (self.image_tokens or FIRST_SPECULATION)
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

    def image_token(self) -> int | None:
        """The token id that stands for a piece of an image."""
        token = self.setting("image_token_id", "image_token_index")
        return token if isinstance(token, int) and token >= 0 else None

    def grid(self) -> int:
        """Patches along each side of an image, where the model takes a list of patches."""
        return 2 * int(self.setting("spatial_merge_size", default=2))


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
