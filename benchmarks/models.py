"""Small Hugging Face models, most of which break under stock ``torch.compile``.

Each has the published configuration of its architecture with the sizes shrunk, random weights and
fixed inputs: nothing is fetched. What matters for graph breaks is kept: the kinds of layers, the
attention implementation, the dtype, ``use_cache`` and an attention mask.

The breaks are those of transformers 4.52.4: every decoder warns once about a cache in the form of
tuples, and BART's encoder layers clamp half-precision infinities behind a data-dependent branch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
import transformers

VOCABULARY = 128


@dataclass(frozen=True, slots=True)
class Case:
    """A model in eval mode and the keyword arguments to call it with."""

    model: torch.nn.Module
    inputs: dict[str, torch.Tensor]


def t5() -> Case:
    """T5 as t5-small has it."""
    config = transformers.T5Config(
        vocab_size=VOCABULARY,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
    )
    return Case(transformers.T5ForConditionalGeneration(config), _encoder_decoder_inputs())


def bart() -> Case:
    """BART as bart-large has it, in half precision, where its encoder layers clamp."""
    config = transformers.BartConfig(**_ENCODER_DECODER_SIZES)
    model = transformers.BartForConditionalGeneration(config).half()
    return Case(model, _encoder_decoder_inputs())


def bert() -> Case:
    """BERT, which has no break."""
    config = transformers.BertConfig(**_SIZES)
    return Case(transformers.BertModel(config), _decoder_inputs())


def llama() -> Case:
    """LLaMA, which has no break."""
    config = transformers.LlamaConfig(**_SIZES, num_key_value_heads=4)
    return Case(transformers.LlamaForCausalLM(config), _decoder_inputs())


def mixtral() -> Case:
    """A mixture of experts that are reached or not."""
    sizes = {**_SIZES, "num_hidden_layers": 2}
    config = transformers.MixtralConfig(**sizes, num_key_value_heads=4, num_local_experts=4)
    return Case(transformers.MixtralForCausalLM(config), _decoder_inputs())


def biogpt() -> Case:
    """BioGPT as microsoft/biogpt has it."""
    config = transformers.BioGptConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=64,
    )
    return Case(transformers.BioGptForCausalLM(config), _decoder_inputs())


def blenderbot() -> Case:
    """Blenderbot as blenderbot-400M-distill has it."""
    config = transformers.BlenderbotConfig(**_ENCODER_DECODER_SIZES)
    return Case(transformers.BlenderbotForConditionalGeneration(config), _encoder_decoder_inputs())


def pegasus() -> Case:
    """The decoder of Pegasus as a causal language model, as pegasus-large has it."""
    config = transformers.PegasusConfig(**_ENCODER_DECODER_SIZES)
    return Case(transformers.PegasusForCausalLM(config), _decoder_inputs())


_SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 6,
    "num_attention_heads": 4,
}

MODELS: dict[str, Callable[[], Case]] = {
    "T5": t5,
    "BART": bart,
    "BioGPT": biogpt,
    "Blenderbot": blenderbot,
    "Pegasus": pegasus,
}
"""Models that break."""

OTHERS: dict[str, Callable[[], Case]] = {"BERT": bert, "LLaMA": llama, "Mixtral": mixtral}
"""Models without a break, and one of experts."""


def build(name: str) -> Case:
    """The model of that name in ``MODELS`` or ``OTHERS``, with the same weights on every call."""
    transformers.logging.set_verbosity_warning()
    torch.manual_seed(0)
    case = {**MODELS, **OTHERS}[name]()
    case.model.eval()
    return case


_ENCODER_DECODER_SIZES = {
    "vocab_size": VOCABULARY,
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "max_position_embeddings": 64,
}


def _decoder_inputs() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    # Ids from 3 on: the smaller ones are padding and other special tokens.
    input_ids = torch.randint(3, VOCABULARY, (2, 7), generator=generator)
    return {"input_ids": input_ids, "attention_mask": torch.ones_like(input_ids)}


def _encoder_decoder_inputs() -> dict[str, torch.Tensor]:
    inputs = _decoder_inputs()
    return {**inputs, "decoder_input_ids": inputs["input_ids"][:, :5].flip(1).contiguous()}
