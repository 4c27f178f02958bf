"""What a program compiled: the first call of each callable that ``torch.compile`` returned."""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

import graphmend_bc as gm
from graphmend_bc.cli.explanation.hidden_output import hidden_output
from graphmend_bc.dynamo.facts import default_backend


@dataclass(frozen=True, slots=True)
class FirstCall:
    """The first call of a callable that ``torch.compile`` returned.

    Attributes:
        label: the callable's name, numbered if the program compiled several of that name.
        function: what was compiled.
        options: keyword arguments of ``torch.compile``.
        args, kwargs: the arguments, with cloned tensors.
        grad: whether grad mode was on.
    """

    label: str
    function: Callable[..., Any]
    options: dict[str, Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    grad: bool

    def explain(self, seconds: float) -> gm.Explanation:
        """Compares stock and mended compilation of this call, with the program's text hidden.

        The backend is that of the program.

        Args:
            seconds: for how long each version is called again; 0 to call each but once.
        """
        with hidden_output(), torch.set_grad_enabled(self.grad):
            backend = self.options.get("backend") or default_backend()
            options = self.options | {"backend": backend, "fullgraph": False}
            return gm.explain(self.function, seconds=seconds, **options)(*self.args, **self.kwargs)


@dataclass(slots=True)
class CompileRecorder:
    """Stands in for ``torch.compile`` and remembers each compiled callable's first call.

    The program gets what ``torch.compile`` returns, so it runs as it would without us; the
    comparison needs a fresh Dynamo and therefore comes afterwards, from these calls.
    """

    calls: list[FirstCall] = field(default_factory=list)
    _compile: Callable[..., Any] = torch.compile
    _compiled: dict[Any, Callable[..., Any]] = field(default_factory=dict)

    @contextlib.contextmanager
    def recording(self) -> Iterator[None]:
        torch.compile = self.compile
        try:
            yield
        finally:
            torch.compile = self._compile

    def compile(self, model: Callable[..., Any] | None = None, **options: Any) -> Any:
        """Has the signature of ``torch.compile``, decorator form included."""
        if model is None:
            return functools.partial(self.compile, **options)
        if isinstance(model, types.FunctionType):
            model = self._compiled.get(model, model)  # compiled before: hand over torch's own
        compiled = self._compile(model, **options)
        if isinstance(compiled, torch.nn.Module):
            return self._watch_module(model, compiled, options)
        return self._watch_function(model, compiled, options)

    def _watch_module(
        self, model: Callable[..., Any], compiled: torch.nn.Module, options: dict[str, Any]
    ) -> torch.nn.Module:
        # The hook sits on the wrapper that torch.compile made: Dynamo never sees it.
        def remember(_: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            handle.remove()
            self.remember(type(model).__name__, model, options, args, kwargs)

        handle = compiled.register_forward_pre_hook(remember, with_kwargs=True)
        return compiled

    def _watch_function(
        self, function: Callable[..., Any], compiled: Callable[..., Any], options: dict[str, Any]
    ) -> Callable[..., Any]:
        seen = False

        @functools.wraps(compiled)
        def watched(*args: Any, **kwargs: Any) -> Any:
            nonlocal seen
            if not seen and not torch.compiler.is_compiling():
                seen = True
                label = getattr(function, "__qualname__", type(function).__name__)
                self.remember(label, function, options, args, kwargs)
            return compiled(*args, **kwargs)

        self._compiled[watched] = compiled
        return watched

    def remember(
        self,
        label: str,
        function: Callable[..., Any],
        options: dict[str, Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> None:
        """Keep one call; the arguments' tensors are cloned before it can write to them."""
        taken = sum(call.label.partition(" #")[0] == label for call in self.calls)
        if taken:
            label = f"{label} #{taken + 1}"
        args, kwargs = tree_map_only(torch.Tensor, _clone, (args, kwargs))
        grad = torch.is_grad_enabled()
        self.calls.append(FirstCall(label, function, options, args, kwargs, grad))


def _clone(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().clone().requires_grad_(tensor.requires_grad)
