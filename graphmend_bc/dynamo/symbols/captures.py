"""Where Dynamo makes symbols for sizes and numbers that are known only at run time."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn, TypeGuard

import sympy  # type: ignore[import-untyped]
import torch
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.tensor import SymNodeVariable
from torch.fx import GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

from graphmend_bc.dynamo.frames.attempt import capturing
from graphmend_bc.dynamo.frames.breaks import instruction_of
from graphmend_bc.dynamo.symbols.idle_asserts import drop_idle_asserts
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused, Trace, current
from graphmend_bc.dynamo.trace.features import Feature, RollbackNeed
from graphmend_bc.dynamo.trace.truth_overrides import is_under_mode
from graphmend_bc.dynamo.trace.value_memos import ValueMemos
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Marker, Site


@dataclass(slots=True, eq=False)
class Captures(Feature):
    """The symbols of an attempt.

    Attributes:
        sites: those at which Dynamo made a symbol for what is known only at run time.
        symbols: these symbols, each with its site.
        under_mode: whether one was made under a torch function mode of the user's, where Dynamo
            takes what the graph gives for a tensor.
    """

    order: ClassVar[int] = 50

    sites: dict[Site, None] = field(default_factory=dict)
    symbols: dict[sympy.Basic, Site] = field(default_factory=dict)
    under_mode: bool = False

    def on_graph_end(
        self, compilation: Compilation, tx: InstructionTranslatorBase, is_break: bool
    ) -> None:
        if self.under_mode:
            refuse_captured("A torch function mode is entered.")

    def on_question(self, compilation: Compilation, tensor: VariableTracker, name: str) -> None:
        _check_question(tensor, name)
        if name == "item" and _has_symbol(tensor):
            tx = tensor.as_proxy().tracer.output_graph.current_tx
            if not tx.current_instruction.opname.startswith("LOAD_"):
                note_here(tx, compilation)

    def give_up_numbers(self, detail: str) -> None:
        refuse_captured(detail)

    def rolls_back(self) -> RollbackNeed:
        return RollbackNeed.WORTH_COPIES

    def blamed(self) -> Iterable[Site]:
        return self.sites

    def on_proof(self, gm: GraphModule, written: list[int], opaque: list[Node]) -> None:
        if drop_idle_asserts(gm.graph):
            gm.recompile()

    def mended(self) -> Mapping[Site, str]:
        return dict.fromkeys(self.sites, "capture")


def _has_symbol(tensor: VariableTracker) -> bool:
    """Whether Dynamo has made a symbol of a tensor's number already, as it does for an input's."""
    example = tensor.as_proxy().node.meta.get("example_value")
    return getattr(example, "item_memo", None) is not None


def captured_in(trace: Trace) -> Collection[Site]:
    """The sites at which symbols were made so far."""
    captures = trace.known(Captures)
    return () if captures is None else captures.sites


MAKERS = ("create_unbacked_symint", "create_unbacked_symfloat", "create_unbacked_symbool")


def listen_to_captures(output: OutputGraph, compilation: Compilation) -> None:
    """Note in the running trace each of the user's instructions at which a symbol is made."""
    note = compilation.planner.note_capture
    compilation.trace.listen_ahead(output)
    compilation.trace.of(Captures)
    assert compilation.trace.listener is not None
    compilation.trace.listener.memos = ValueMemos()

    def heard(stock: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(stock)
        def make(*args: Any, **kwargs: Any) -> Any:
            # A backend, which gets the graph once it is proven, makes symbols of its own.
            found = None if compilation.trace.proven else instruction_of(output.current_tx)
            symbol = stock(*args, **kwargs)
            if found is not None:
                site = note(*found)
                captures = compilation.trace.of(Captures)
                captures.sites[site] = None
                captures.symbols[symbol.node.expr] = site
                captures.under_mode |= is_under_mode(output.current_tx)
            return symbol

        return make

    env = output.shape_env
    for name in MAKERS:
        setattr(env, name, heard(getattr(env, name)))
    # Torch remembers shape environments in a cache of its own, and with one all that it refers to.
    compilation.settings.callback(stop_listening, output)


def note_here(tx: InstructionTranslatorBase, compilation: Compilation) -> None:
    """The instruction that is being traced can be traced for what is captured alone."""
    found = instruction_of(tx)
    if found is not None:
        compilation.trace.of(Captures).sites[compilation.planner.note_capture(*found)] = None


def stop_listening(output: OutputGraph) -> None:
    """Leave the makers of symbols as they were, so that they can be saved with the graph."""
    for name in MAKERS:
        vars(output.shape_env).pop(name, None)


def captured(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    marker: Marker,
    args: list[VariableTracker],
) -> VariableTracker:
    """Handler: a callee that is called again once Dynamo makes symbols, from here on."""
    start_capturing(tx, compilation)
    return args[0]


def start_capturing(tx: InstructionTranslatorBase, compilation: Compilation) -> None:
    """Let Dynamo make symbols from here on, if it does not yet."""
    output, env = tx.output, tx.output.shape_env
    if not compilation.captures and env is not None:
        compilation.capture(capturing(True))
        env.settings = dataclasses.replace(
            env.settings, allow_scalar_outputs=True, allow_dynamic_output_shape_ops=True
        )
        compilation.trace.listen(output)
        listen_to_captures(output, compilation)


def is_unknown(value: VariableTracker) -> TypeGuard[SymNodeVariable]:
    """True for a symbol whose value is known only when the graph runs."""
    return isinstance(value, SymNodeVariable) and bool(free_unbacked_symbols(value.sym_num))


def refuse_captured(detail: str) -> NoReturn:
    """Give up all symbols of the running trace: one of them is not the number it stands for.

    Args:
        detail: what cannot be done with it; one sentence.
    """
    compilation = current()
    captured = () if compilation is None else captured_in(compilation.trace)
    raise SiteRefused(Refused("capture-fails", detail), *captured)


def check_truths(values: Iterable[VariableTracker], function: Any = None) -> None:
    """Refuse to compute with a truth value: Dynamo takes it that True is not 1.

    Args:
        values: the operands.
        function: what is done with them; `int` makes a number of what is known of a size.

    Raises:
        SiteRefused: one of the operands is known only at run time.
    """
    if (compilation := current()) is None or not compilation.captures:
        return
    for value in values:
        known = value.realize()
        if function is int and not is_unknown(known):
            continue
        if isinstance(known, SymNodeVariable) and known.python_type() is bool:
            refuse_captured("A truth value known only at run time is computed with.")


def check_identity(values: Sequence[VariableTracker]) -> None:
    """Refuse to ask whether a number known only at run time is another object: small ints are one.

    Raises:
        SiteRefused: one of the operands is such a number, and the other may be the same one.
    """
    if (compilation := current()) is None or not compilation.captures:
        return
    known = [value.realize() for value in values]
    if known[0] is known[-1] or not any(map(is_unknown, known)):
        return
    if all(isinstance(value, SymNodeVariable) or _is_number(value) for value in known):
        refuse_captured("A number known only at run time is asked whether it is another one.")


def _is_number(value: VariableTracker) -> bool:
    return value.is_python_constant() and isinstance(value.as_python_constant(), (int, float))


def _check_question(tensor: VariableTracker, name: str) -> None:
    """Refuse questions about the layout of a tensor of unknown size: it may be of one element.

    Raises:
        SiteRefused: the answer may depend on the size.
    """
    if name in ("is_contiguous", "stride"):
        value = tensor.as_proxy().node.meta.get("example_value")
        if isinstance(value, torch.Tensor) and free_unbacked_symbols(value):
            refuse_captured(f"A tensor of such a size is asked for '{name}'.")


def refuse_symbols(detail: str) -> None:
    """Give up all numbers that the running trace has symbols for, if there are any.

    Args:
        detail: what they are not good for; one sentence.
    """
    if (compilation := current()) is None:
        return
    for feature in compilation.trace.obliged(Feature.give_up_numbers):
        feature.give_up_numbers(detail)


def raising(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Around Dynamo's choice of an exception that the program is taken to raise.

    A symbol is not the number: `f"{n:d}"` fails for one where the program goes on with the text.
    """

    def get_dynamo_observed_exception(exc_type: type[Exception]) -> Any:
        if issubclass(exc_type, (TypeError, ValueError, ArithmeticError)):
            refuse_symbols(f"Tracing raised {exc_type.__name__} once there were such numbers.")
        return stock(exc_type)

    return get_dynamo_observed_exception
