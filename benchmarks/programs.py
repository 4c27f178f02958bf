"""The programs of the benchmarks, as an engineer wrote them and as one would fix them."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_leaves
from twins import families, forms

TWIN = "twin"
"""The arm that is fixed by hand; all others run the program as it is."""

SCALE = 1e6
"""Factor by which an input that takes the unlikely arm is larger."""


@dataclass(frozen=True, slots=True)
class Ready:
    """One arm of a program on a device, not compiled yet.

    Attributes:
        model: what is compiled.
        args, kwargs: of every call.
        prepare: what the caller does with the arguments before the call, outside the graph.
        settle: what the caller does with the result, outside the graph.
        trains: whether a call is a training step; the loss is made of the first result.
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
                _loss(result).backward()
            return result

        return call

    def results(self, function: Callable[..., Any]) -> list[torch.Tensor]:
        """Copies of what a call returns, and of the gradients if it trains."""
        result = plain(self.caller(function)())
        leaves = [leaf for leaf in tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        if self.trains:
            assert isinstance(self.model, torch.nn.Module)
            leaves += [p.grad for p in self.model.parameters() if p.grad is not None]
        return [leaf.detach().clone() for leaf in leaves]


def plain(result: Any) -> Any:
    """The result without the class that transformers gives it."""
    return result.to_tuple() if hasattr(result, "to_tuple") else result


def _loss(result: Any) -> torch.Tensor:
    first: torch.Tensor = tree_leaves(plain(result))[0]
    return first if first.ndim == 0 else first.square().mean()


@dataclass(frozen=True, slots=True)
class Program:
    """A program of the benchmarks.

    Attributes:
        make: builds an arm, `TWIN` or another, on a device, with the same weights and inputs.
        compares: also measure it with each strategy for branches alone, on a GPU.
        trains: measure a training step as well; the program must not be one already.
        misses: the factor on an input that takes the arm that was not speculated on; else None.
        is_whole: it has no break, so nothing was fixed by hand.
    """

    make: Callable[[str, torch.device], Ready]
    compares: bool = False
    trains: bool = False
    misses: float | None = None
    is_whole: bool = False


def programs(device: torch.device) -> dict[str, Program]:
    """All programs by name, the most telling first.

    Args:
        device: on a GPU models have the sizes of base models, on the CPU small ones.

    Models of transformers are there if the version is the one whose code they break in, 4.52.
    """
    is_small = device.type == "cpu"
    sizes = families.SMALL if is_small else families.BASE
    found = {name: _family(name, kind, sizes) for name, kind in families.FAMILIES.items()}
    if has_transformers():
        names = {"BART": False, "T5": False}
        if is_small:
            names |= {"Mixtral": False, "BERT": True, "LLaMA": True}
        for name, is_whole in names.items():
            make = _small_transformers(name) if is_small else _transformers(name)
            found[f"{name}, transformers 4.52"] = Program(make, is_whole=is_whole)
    width, batch = (64, 16) if is_small else (1024, 256)
    return found | {form.name: _form(form, width, batch) for form in FORMS}


@dataclass(frozen=True, slots=True)
class _Form:
    """A form; the names of its classes in `twins/forms.py` are `cls` and `cls` + "Twin"."""

    name: str
    cls: str
    misses: float | None = None
    trains: bool = False
    is_whole: bool = False


FORMS = (
    _Form("early return", "EarlyReturn", trains=True),
    _Form("clamp", "Clamp", trains=True),
    _Form("ternary", "Ternary"),
    _Form("short circuit", "ShortCircuit"),
    _Form("nested ifs", "Nested"),
    _Form("layer loop", "LayerLoop", trains=True),
    _Form("raise guard", "RaiseGuard", float("nan")),
    _Form("assert", "AssertGuard", SCALE),
    _Form("Python value", "PythonValue", SCALE, trains=True),
    _Form("break", "Break", SCALE),
    _Form("while loop", "WhileLoop"),
    _Form("dear arm", "DearArm"),
    _Form("partial op", "PartialOp"),
    _Form("steering item", "Steering", SCALE),
    _Form("buffer update", "BufferUpdate"),  # a miss raises the peak: there is no second one
    _Form("in-place arm", "InPlace", SCALE),
    _Form("log only", "LogOnly"),
    _Form("nothing to mend", "Whole", is_whole=True),
)


def _form(form: _Form, width: int, batch: int) -> Program:
    def make(arm: str, device: torch.device) -> Ready:
        torch.manual_seed(0)
        name = form.cls + ("Twin" if arm == TWIN else "")
        model: forms.Form = getattr(forms, name)(width).eval().to(device)
        x = torch.randn(batch, width, generator=torch.Generator().manual_seed(1))
        return Ready(model, (x.to(device),), settle=model.settle)

    compares = form.name in ("clamp", "dear arm")
    return Program(make, compares, form.trains, form.misses, form.is_whole)


def _family(name: str, kind: type[families.Family], sizes: families.Sizes) -> Program:
    def make(arm: str, device: torch.device) -> Ready:
        torch.manual_seed(0)
        built = getattr(families, kind.__name__ + "Twin") if arm == TWIN else kind
        model = built(sizes).to(device).train(kind.trains)
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

    return Program(make, name.startswith("clamped"), trains=kind.may_train)


def _transformers(name: str) -> Callable[[str, torch.device], Ready]:
    """A model as large as a base model, in half precision if it clamps there."""

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
        model = (getattr(hugging_face, f"{name.title()}Twin") if arm == TWIN else kind)(config)
        model = model.to(device).eval()
        if device.type == "cuda" and name == "BART":
            model = model.half()
        tokens = torch.randint(3, 1000, (8, 128), generator=torch.Generator().manual_seed(1))
        tokens = tokens.to(device)
        inputs = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
        return Ready(model, kwargs={**inputs, "decoder_input_ids": tokens[:, :64].flip(1)})

    return make


def _small_transformers(name: str) -> Callable[[str, torch.device], Ready]:
    """A model of a laptop's size."""

    def make(arm: str, device: torch.device) -> Ready:
        from models import build
        from twins import hugging_face

        case = build(name)
        model = case.model
        if arm == TWIN:
            model = getattr(hugging_face, f"{name.title()}Twin")(case.model.config)
            model.to(case.model.dtype).eval().load_state_dict(case.model.state_dict())
        return Ready(model, kwargs=case.inputs)

    return make


def has_transformers() -> bool:
    """Whether the version of transformers is there whose models break."""
    if importlib.util.find_spec("transformers") is None:
        return False
    import transformers

    return bool(transformers.__version__.startswith("4.52."))
