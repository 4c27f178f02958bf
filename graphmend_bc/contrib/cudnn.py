"""A block with cuDNN's flags set is traced as if they were not, where no kernel looks at them.

Kernels on other devices than cuDNN's do not ask for the flags, so a block is left out if entering
and leaving it leaves the flags as they were. That is tried while tracing and guarded on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import torch
from torch._dynamo.codegen import PyCodegen
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.ctx_manager import ContextWrappingVariable
from torch.fx import Node

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.before_graph.guarded_constants import NO_ANSWER, answer_of, guard_on
from graphmend_bc.dynamo.calls.callees import MarkedCalleeVariable
from graphmend_bc.dynamo.calls.known_calls import KnownCalleeVariable, known_call
from graphmend_bc.dynamo.graph.fx_nodes import is_torchs_own, tensors_of
from graphmend_bc.dynamo.patches import capabilities
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused, Trace
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.dynamo.trace.tracing import check_is_outermost
from graphmend_bc.extension import Extension
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule
from graphmend_bc.runtime.signal_handlers import pass_on

_FLAGS = torch.backends.cudnn.flags
_CODE = "torch.backends.cudnn"


def _block(
    callee: KnownCalleeVariable, tx: Translator, function: object, args: Args, kwargs: Keywords
) -> VariableTracker | None:
    """The block that a call of `torch.backends.cudnn.flags` makes; None for other functions.

    Raises:
        Refused: it cannot be left out.
    """
    del tx
    if function is not _FLAGS or _FLAGS.__module__ != _CODE:
        return None
    known = [arg.realize() for arg in (*args, *kwargs.values())]
    if not all(value.is_python_constant() for value in known):
        raise Refused("flags-not-neutral", "A flag is not constant.")
    given = [value.as_python_constant() for value in known]
    named = dict(zip(kwargs, given[len(args) :], strict=True))
    _try(lambda: _FLAGS(*given[: len(args)], **named))
    return CudnnFlagsVariable(callee)


def _try(make: Callable[[], contextlib.AbstractContextManager[Any]]) -> None:
    """Enter and leave a block; refuse if the flags are others afterwards."""
    before = answer_of(_state)
    try:
        with make():
            pass
    except Exception as error:
        pass_on(error)
        raise Refused("flags-not-neutral", f"It raises {type(error).__name__}.") from error
    if before is NO_ANSWER or answer_of(_state) != before:
        raise Refused("flags-not-neutral", "Leaving the block does not put back every flag.")
    guard_on(f"{_CODE} flags", _state, before)


def _state() -> tuple[Any, ...]:
    """All that entering and leaving a block may change."""
    precise = torch._C._get_fp32_precision_getter
    return (
        torch.backends.flags_frozen(),  # type: ignore[no-untyped-call]
        *(getattr(torch._C, name)() for name in _GETTERS if hasattr(torch._C, name)),
        *(precise("cuda", op) for op in ("all", "conv", "rnn", "matmul")),
    )


_GETTERS = (
    "_get_cudnn_enabled",
    "_get_cudnn_benchmark",
    "_cuda_get_cudnn_benchmark_limit",
    "_get_cudnn_deterministic",
    "_get_cudnn_allow_tf32",
    "_get_cudnn_depthwise_kernel",
)

_CONSTANT = frozenset(("flags", "is_available", "version"))
"""What cuDNN's module has that does not depend on the flags."""


class CudnnFlagsVariable(ContextWrappingVariable):
    """A block with the flags set, which is left out.

    Args:
        callee: what made it.
    """

    _nonvar_fields: ClassVar[set[str]] = {  # type: ignore[misc]
        "callee",
        "before",
        *ContextWrappingVariable._nonvar_fields,
    }

    def __init__(self, callee: MarkedCalleeVariable, **kwargs: Any) -> None:
        super().__init__(target_values=None, initial_values=None, **kwargs)
        self.callee = callee
        self.before: tuple[Any, ...] | None = None

    @property
    def trace(self) -> Trace:
        return self.callee.compilation.trace

    def python_type(self) -> type:
        return contextlib._GeneratorContextManager

    def enter(self, tx: InstructionTranslatorBase) -> VariableTracker:
        """Remember where the block begins."""
        if self.before is not None:
            raise self.refused("It is entered twice.")
        try:
            check_is_outermost(tx)
        except Refused as refused:
            raise SiteRefused(refused, self.callee.site) from refused
        if self.trace.of(Blocks).open:
            raise self.refused("It is inside another such block.")
        self._check_unset(tx)
        self.before = set(tx.output.graph.nodes), len(self.trace.effects)
        self.trace.of(Blocks).open.append(self)
        result: VariableTracker = ConstantVariable.create(None)
        return result

    def exit(self, tx: InstructionTranslatorBase, *args: VariableTracker) -> VariableTracker:
        """Show that nothing in the block looked at the flags."""
        assert self.before is not None
        nodes, effects = self.before
        self.trace.of(Blocks).open.remove(self)
        self._check_unset(tx)
        if len(self.trace.effects) != effects:
            raise self.refused("A call that runs after the graph is inside it.")
        for node in tx.output.graph.nodes:
            if node not in nodes and not is_torchs_own(node):
                raise self.refused(f"{node.target} is called inside it.")
            if (device := _other_device(node)) is not None:
                raise self.refused(f"A tensor is on {device}.")
        result: VariableTracker = ConstantVariable.create(None)
        return result

    def reconstruct(self, codegen: PyCodegen) -> None:
        raise self.refused("It is used outside the graph.")

    def call_function(self, tx: Translator, args: Args, kwargs: Keywords) -> VariableTracker:
        raise self.refused("It is used as a decorator.")

    def refused(self, detail: str) -> SiteRefused:
        """Why the block cannot be left out, found when it is too late to trace the call."""
        return SiteRefused(Refused("flags-not-neutral", detail), self.callee.site)

    def _check_unset(self, tx: InstructionTranslatorBase) -> None:
        changed = tx.output.side_effects.store_attr_mutations
        if any(getattr(item, "value", None) is torch.backends.cudnn for item in changed):
            raise self.refused("The function sets a flag itself.")


def _other_device(node: Node) -> torch.device | None:
    """A device, other than the CPU, that a node's value is on."""
    devices = (tensor.device for tensor in tensors_of(node))
    return next((device for device in devices if device.type not in ("cpu", "meta")), None)


@dataclass(slots=True, eq=False)
class Blocks(Feature):
    """Blocks of cuDNN's flags that are open, outermost first."""

    order: ClassVar[int] = 20

    open: list[CudnnFlagsVariable] = field(default_factory=list)

    def on_module_question(self, module: object, name: str) -> None:
        """Refuse to say what a flag is inside a block."""
        for block in self.open:
            if module is torch.backends.cudnn and name not in _CONSTANT:
                raise block.refused(f"'{name}' is read inside it.")

    def on_graph_end(
        self, compilation: Compilation, tx: InstructionTranslatorBase, is_break: bool
    ) -> None:
        """Refuse to end a graph inside a block."""
        for block in self.open:
            raise block.refused("The graph breaks inside it.")


def _matches(site: BreakSite) -> Rewrites | None:
    known = site.gb_type and site.callee == "flags" and site.op.name != "CALL_FUNCTION_EX"
    return {site.offset: MarkCallee(in_order=False)} if known else None


EXTENSION: Final = Extension(
    "cudnn",
    rules=(
        Rule(
            "flags",
            "flags",
            7,
            _matches,
            frozenset({"torch.* op returned non-Tensor"}),
            handler=known_call("flags", _block),
            needs=frozenset(
                {
                    capabilities.COMPUTED_GUARDS,
                    capabilities.MODULE_FLAGS,
                    capabilities.UNCACHED_CALLS,
                }
            ),
        ),
    ),
)
