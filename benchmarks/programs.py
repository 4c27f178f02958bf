"""The programs of the GPU benchmark, as an engineer wrote them and as one would fix them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from side_by_side import SUBJECTS, Build, Subject
from twins import families

FORM_WIDTH, FORM_BATCH = 1024, 256


@dataclass(frozen=True, slots=True)
class Ready:
    """One arm of a program on a device, not compiled yet.

    Attributes:
        model: what is compiled.
        args, kwargs: of every call.
        prepare: what the caller does with the arguments before the call, outside the graph.
        settle: what the caller does with the result, outside the graph.
        trains: whether a call is a training step; the loss is the result, or its first part.
    """

    model: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    prepare: Callable[..., tuple[Any, ...]] = lambda *args: args
    settle: Callable[[Any], Any] = lambda result: result
    trains: bool = False

    def caller(self, function: Callable[..., Any]) -> Callable[[], Any]:
        """One call of the model, or of what it was compiled to, as its user makes it.

        A training step leaves gradients behind; the next one begins without.
        """

        def call() -> Any:
            torch.compiler.cudagraph_mark_step_begin()
            with torch.set_grad_enabled(self.trains):
                result = self.settle(function(*self.prepare(*self.args), **self.kwargs))
            if self.trains:
                assert isinstance(self.model, torch.nn.Module)
                self.model.zero_grad(set_to_none=True)
                result[0].backward()
            return result

        return call


@dataclass(frozen=True, slots=True)
class Program:
    """A program of the benchmark.

    Attributes:
        make: builds an arm, "stock" or "twin", on a device, with the same weights and inputs.
        compares: also measure it with each strategy for branches alone.
    """

    make: Callable[[str, torch.device], Ready]
    compares: bool = False


def _form(subject: Subject) -> Program:
    def make(arm: str, device: torch.device) -> Ready:
        build = Build(subject, FORM_WIDTH, FORM_BATCH, device)
        model = build.models[arm]
        return Ready(model, (build.x,), settle=model.settle)

    return Program(make, subject.name in ("clamp", "dear arm"))


def _family(name: str, kind: type[families.Family]) -> Program:
    def make(arm: str, device: torch.device) -> Ready:
        torch.manual_seed(0)
        model = (getattr(families, kind.__name__ + "Twin") if arm == "twin" else kind)()
        model = model.to(device).train(kind.trains)
        torch.manual_seed(1)
        inputs = model.inputs()
        if device.type == "cuda" and not kind.trains:
            model = model.half()
            inputs = tuple(t.half() if t.is_floating_point() else t for t in inputs)
        prepare = getattr(model, "prepare", None)
        return Ready(
            model,
            tuple(t.to(device) for t in inputs),
            settle=model.settle,
            trains=kind.trains,
            **({} if prepare is None else {"prepare": prepare}),
        )

    return Program(make, name.startswith("clamped"))


def _transformers(name: str) -> Program:
    def make(arm: str, device: torch.device) -> Ready:
        import transformers
        from twins import hugging_face

        if name == "T5":
            config, kind = transformers.T5Config(), transformers.T5ForConditionalGeneration
        else:
            sizes = {"encoder_layers": 6, "decoder_layers": 6, "d_model": 768}
            config = transformers.BartConfig(**sizes, encoder_ffn_dim=3072, decoder_ffn_dim=3072)
            kind = transformers.BartForConditionalGeneration
        torch.manual_seed(0)
        model = (getattr(hugging_face, f"{name.title()}Twin") if arm == "twin" else kind)(config)
        model = model.to(device).eval()
        if device.type == "cuda" and name == "BART":
            model = model.half()
        tokens = torch.randint(3, 1000, (8, 128), generator=torch.Generator().manual_seed(1))
        tokens = tokens.to(device)
        inputs = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
        return Ready(model, kwargs={**inputs, "decoder_input_ids": tokens[:, :64].flip(1)})

    return Program(make)


def programs() -> dict[str, Program]:
    """All programs by name, the most telling first.

    Models of transformers are there if the version is the one whose code they break in, 4.52.
    """
    found = {name: _family(name, kind) for name, kind in families.FAMILIES.items()}
    if has_transformers():
        found |= {f"{name}, transformers 4.52": _transformers(name) for name in ("BART", "T5")}
    return found | {subject.name: _form(subject) for subject in SUBJECTS}


def has_transformers() -> bool:
    """Whether the version of transformers is there whose models break."""
    if importlib.util.find_spec("transformers") is None:
        return False
    import transformers

    return bool(transformers.__version__.startswith("4.52."))
