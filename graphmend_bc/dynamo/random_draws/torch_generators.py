"""What is drawn from a generator of torch's that the program has, drawn before the graph.

    noise = torch.randn(latents.shape, generator=generator)
    generator.manual_seed(0)

A graph holds no such generator. It must be one of the CPU that was there before the frame, and not
torch's default one, from which the graph draws as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch._dynamo.source import (
    GetItemSource,
    SyntheticLocalSource,
    TensorProperty,
    TensorPropertySource,
)
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.lists import BaseListVariable, SizeVariable
from torch._dynamo.variables.tensor import SymNodeVariable, TensorVariable
from torch._guards import Source

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.calls.callees import name_of, owner_of
from graphmend_bc.dynamo.calls.known_calls import KnownCalleeVariable, known_call
from graphmend_bc.dynamo.random_draws.drawn_values import (
    HostDraw,
    HostDraws,
    check_always_runs,
    check_inference_mode,
    input_of,
    tried,
)
from graphmend_bc.dynamo.trace.truth_overrides import check_no_function_mode
from graphmend_bc.reporting.reasons import Refused

FUNCTIONS: Final = ("rand", "randn", "randint", "randperm")
SEEDS: Final = "manual_seed"
_KEYWORDS: Final = frozenset(
    ("size", "low", "high", "n", "dtype", "device", "layout", "pin_memory", "requires_grad")
)


@dataclass(slots=True)
class _Given:
    """The arguments of a call as they are found in each call of the frame.

    Attributes:
        sources: where tensors are found whose sizes are among them.
        dims: which of their sizes.
        symbols: the sizes in the trace.
    """

    sources: list[Source] = field(default_factory=list)
    dims: list[int] = field(default_factory=list)
    symbols: list[Any] = field(default_factory=list)

    def form(self, tx: InstructionTranslatorBase, value: VariableTracker) -> Any:
        """A constant, a `_Size`, or a tuple of these.

        Raises:
            Refused: it is something else.
        """
        value = value.realize()
        if isinstance(value, (BaseListVariable, SizeVariable)):
            return tuple(self.form(tx, item) for item in value.items)
        if isinstance(value, SymNodeVariable):
            return self._size(tx, value)
        if not value.is_python_constant():
            raise Refused("hoist-not-input", "An argument is no constant.")
        return value.as_python_constant()

    def _size(self, tx: InstructionTranslatorBase, value: SymNodeVariable) -> _Size:
        known = value.sym_num.node.expr
        sources = tx.output.shape_env.var_to_sources.get(known, ())
        for source in sources:
            if isinstance(source, TensorPropertySource) and source.prop is TensorProperty.SIZE:
                self.sources.append(source.base)
                self.dims.append(source.idx or 0)
                self.symbols.append(value.sym_num)
                return _Size(len(self.dims) - 1)
        raise Refused("hoist-not-input", "A size is no size of an input.")

    def filled(self, form: Any, tensors: Sequence[torch.Tensor]) -> Any:
        """The argument in a call."""
        if isinstance(form, tuple):
            return tuple(self.filled(item, tensors) for item in form)
        if isinstance(form, _Size):
            return tensors[form.number].size(self.dims[form.number])
        return form

    def traced(self, form: Any) -> Any:
        """The argument in the trace."""
        if isinstance(form, tuple):
            return tuple(map(self.traced, form))
        return self.symbols[form.number] if isinstance(form, _Size) else form


@dataclass(frozen=True, slots=True)
class _Size:
    """A size of an input, by its number among those that are given."""

    number: int


def _drawn(
    callee: KnownCalleeVariable, tx: Translator, function: object, args: Args, kwargs: Keywords
) -> VariableTracker | None:
    """What a call draws from a generator, or the generator that it seeds; None for other calls."""
    owner = owner_of(callee.callee)
    if type(getattr(owner, "value", None)) is torch.Generator:
        return _seeded(callee, tx, owner, args, kwargs)
    names = [name for name in FUNCTIONS if getattr(torch, name) is function]
    generator = kwargs.get("generator")
    if not names or generator is None:
        return None
    generator, given = generator.realize(), _Given()
    named = {name: value for name, value in kwargs.items() if name != "generator"}
    place = _place_of(generator)
    _check(tx, callee, named)
    fixed = [given.form(tx, value) for value in args]
    forms = {name: given.form(tx, value) for name, value in named.items()}
    _check_values(forms)

    def on(copy: torch.Generator, _: object, *tensors: torch.Tensor) -> tuple[Any, Any]:
        positional = given.filled(tuple(fixed), tensors)
        keywords = {name: given.filled(form, tensors) for name, form in forms.items()}
        drawn = getattr(torch, names[0])(*positional, **keywords, generator=copy)
        return (drawn,), (drawn.dtype, drawn.dim())

    draw = HostDraw(
        (place, *given.sources),
        lambda generator, *tensors: on(generator, generator, *tensors),
        _generators,
        on=on,
    )
    shape = given.traced(_shape(names[0], fixed, forms))
    return _as_input(callee, tx, draw, shape)


def _seeded(
    callee: KnownCalleeVariable, tx: Translator, owner: Any, args: Args, kwargs: Keywords
) -> VariableTracker | None:
    if name_of(callee.callee) != SEEDS or len(args) != 1 or kwargs:
        return None
    place = _place_of(owner)
    _check(tx, callee, {})
    seed = _Given().form(tx, args[0])
    if type(seed) is not int:
        raise Refused("hoist-not-input", "The seed is no constant.")

    def on(copy: torch.Generator, *_: object) -> tuple[Any, Any]:
        copy.manual_seed(seed)
        return (), None

    trace = callee.compilation.trace
    draw = HostDraw((place,), on, _generators, on=on)
    tried(tx, draw)
    trace.of(HostDraws).add(tx, callee.compilation, callee.site, draw, None)
    found: VariableTracker = owner
    return found


drawn_from_generator = known_call("draw", _drawn)


def _place_of(generator: VariableTracker) -> Source:
    value, source = getattr(generator, "value", None), generator.source
    if type(value) is not torch.Generator or source is None:
        raise Refused("hoist-not-input", "The generator was not there before the function.")
    if _generators(value) is None:
        raise Refused("hoist-not-input", "It draws from the generator that graphs draw from.")
    return source


def _generators(generator: object, *_: object) -> list[torch.Generator] | None:
    """The generator, if it is one that the graph does not draw from."""
    if type(generator) is not torch.Generator or generator is torch.default_generator:
        return None
    return [generator] if generator.device.type == "cpu" else None


def _check(
    tx: InstructionTranslatorBase, callee: KnownCalleeVariable, named: dict[str, VariableTracker]
) -> None:
    check_always_runs(tx, callee.compilation.trace)
    check_no_function_mode(tx)
    if not named.keys() <= _KEYWORDS:
        raise Refused("hoist-not-input", "It is called with other arguments.")
    check_inference_mode(tx)


def _check_values(forms: dict[str, Any]) -> None:
    device = forms.get("device")
    plain = (
        (device is None or torch.device(device).type == "cpu")
        and forms.get("layout") in (None, torch.strided)
        and not forms.get("pin_memory")
        and not forms.get("requires_grad")
    )
    if not plain:
        raise Refused("hoist-not-input", "It draws no plain tensor of the CPU.")


def _shape(function: str, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """The shape of what is drawn, by the arguments of the function."""
    if function == "randperm":
        return (kwargs["n"] if "n" in kwargs else args[0],)
    if "size" in kwargs:
        return tuple(kwargs["size"])
    if args and isinstance(args[-1], tuple):
        return args[-1]
    return tuple(args)


def _as_input(
    callee: KnownCalleeVariable, tx: Translator, draw: HostDraw, shape: tuple[Any, ...]
) -> VariableTracker:
    """A new input of the graph, on which nothing guards: it is as large as inputs say."""
    (drawn,), described = tried(tx, draw)
    local = callee.compilation.trace.of(HostDraws).add(
        tx, callee.compilation, callee.site, draw, described
    )
    fake = None
    if not all(type(size) is int for size in shape):
        with tx.output.fake_mode:
            fake = torch.empty(shape, dtype=drawn.dtype)
    source = GetItemSource(SyntheticLocalSource(local), 0)
    return input_of(tx, TensorVariable, source, drawn, fake)
