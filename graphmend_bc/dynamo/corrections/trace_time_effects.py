"""What Dynamo does for real while it traces, although the program may not come by.

torch.set_float32_matmul_precision("high")     sets it for the process, and again in the graph
self.lazy(x)                                   gives a lazy module its parameters
g(x), after torch.compiler.allow_in_graph(g)   runs the user's code, and again in the graph
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from torch._dynamo.symbolic_convert import InstructionTranslatorBase

from graphmend_bc.dynamo.calls.left_to_dynamo import is_opaque
from graphmend_bc.dynamo.trace.compilation import SiteRefused, current
from graphmend_bc.reporting.reasons import Refused

_SETTER = re.compile(r"(^|_)set_")
_PUT_BACK = frozenset(
    (
        "_set_default_dtype",
        "_set_deterministic_algorithms",
        "_set_grad_enabled",
        "set_inplace_requires_grad_allowed",
    )
)
"""What Dynamo puts back when it has traced, or a graph when it has run."""


def trace_call(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`TorchInGraphFunctionVariable.call_function`: functions of torch's."""

    def call_function(self: Any, *args: Any, **kwargs: Any) -> Any:
        name = getattr(self.value, "__name__", "")
        if _SETTER.search(name) and name not in _PUT_BACK:
            _check_is_met("arm-changes-mode", f"It calls {name}.")
        if is_opaque(self.value):
            _note_opaque(args[0], name)
        return stock(self, *args, **kwargs)

    return call_function


def _note_opaque(tx: InstructionTranslatorBase, name: str) -> None:
    """A graph calls a function of the user's: not in an arm, and not if it may be rolled back.

    Raises:
        SiteRefused: the arm that it is in.
    """
    compilation = current()
    if compilation is None or not compilation.may_mend:
        return
    if arms := compilation.trace.arms:
        detail = f"It calls {name}, whose code Dynamo does not trace."
        raise SiteRefused(Refused("arm-op-unknown", detail), arms[-1])
    recorder = compilation.trace.listen(tx.output)
    recorder.foreign = recorder.foreign or name


def initialize_lazy(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`initialize_lazy_module`: the first call of a lazy module, and others."""

    def initialize_lazy_module(tx: Any, module: Any, *args: Any, **kwargs: Any) -> Any:
        if hasattr(module, "_initialize_hook"):
            name = type(module).__name__
            _check_is_met("arm-changes-state", f"{name} gets its parameters in its first call.")
        return stock(tx, module, *args, **kwargs)

    return initialize_lazy_module


def _check_is_met(in_arm: str, detail: str) -> None:
    """Refuse ways that may not be taken.

    Raises:
        SiteRefused: with the branch around the call, or the speculations before it.
    """
    compilation = current()
    trace = None if compilation is None else compilation.trace
    if trace is not None and trace.arms:
        raise SiteRefused(Refused(in_arm, detail), trace.arms[-1])
    if trace is not None and trace.speculations:
        sites = dict.fromkeys(speculation.site for speculation, _ in trace.speculations)
        raise SiteRefused(Refused("speculation-has-effects", detail), *sites)
