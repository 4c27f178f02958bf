"""What a caller can see of some calls: results, gradients, state, output, errors and draws."""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import random
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields
from typing import Any

import numpy
import torch

from graphmend_bc.testing.values import Records, raised, same_objects, sharing, shown

Call = tuple[tuple[Any, ...], dict[str, Any]]
"""Positional and keyword arguments."""


@dataclass(slots=True)
class Observed:
    """One call, in comparable form.

    Attributes:
        exception: what it raised, with its notes; None if nothing.
        result: what it returned.
        arguments: after the call.
        gradients: of the arguments and the state, after a backward pass.
        state: of the module that was called, and what `state` gave.
        shared_memory: which tensors among all these share memory.
        identity: which of them are one object.
        printed: standard output.
        log_records: of all loggers but torch's own.
        warnings: text and class.
        random_numbers: the state of torch's, NumPy's and Python's generators, of the GPU's as well.
        modes: grad mode, autocast on the CPU, inference mode.
        handled: the class of the exception that the thread handles after the call.
    """

    exception: object = None
    result: object = None
    arguments: object = None
    gradients: object = None
    state: object = None
    shared_memory: object = None
    identity: object = None
    printed: str = ""
    log_records: list[object] = field(default_factory=list)
    warnings: list[object] = field(default_factory=list)
    random_numbers: object = None
    modes: object = None
    handled: str = ""


FIELDS = tuple(field.name for field in fields(Observed))
"""The names of what is seen of a call."""


def observed(
    function: Callable[..., Any],
    calls: Sequence[Call],
    state: Callable[[], Any],
    *,
    grad: bool,
) -> list[Observed]:
    """Make calls with copies of the arguments, and see what comes of them.

    Args:
        function: what is called.
        calls: the arguments.
        state: gives what the calls may change besides the arguments.
        grad: whether a backward pass follows each call.
    """
    with _generators_kept(), torch.set_grad_enabled(torch.is_grad_enabled()):
        torch.manual_seed(0)
        numpy.random.seed(0)
        random.seed(0)
        return [
            observe_call(function, args, kwargs, state, grad=grad)
            for args, kwargs in copy.deepcopy(list(calls))
        ]


def observe_call(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    state: Callable[[], Any],
    *,
    grad: bool,
    recorded: Callable[[Observed], AbstractContextManager[None]] | None = None,
) -> Observed:
    """Make one call, and see what comes of it.

    Args:
        function: what is called.
        args, kwargs: the arguments; the call may change them.
        state: gives what the call may change besides the arguments.
        grad: whether a backward pass follows.
        recorded: notes log records and warnings in a block; all but torch's own by default.
    """
    seen, out = Observed(), io.StringIO()
    leaves = _tensors((args, kwargs, state()))
    for leaf in leaves:
        leaf.grad = None
    with (recorded or _recorded)(seen), contextlib.redirect_stdout(out):
        try:
            value = function(*args, **kwargs)
            if grad:
                _backward(value)
            seen.result = shown(value)
            tensors = _tensors((value, args, kwargs, state()))
            seen.shared_memory, seen.identity = sharing(tensors), same_objects(tensors)
        except Exception as error:
            notes = getattr(error, "__notes__", [])
            seen.exception = raised(error), error.__suppress_context__, notes
    seen.printed = out.getvalue()
    seen.arguments = shown((args, kwargs))
    seen.gradients = [shown(leaf.grad) if _keeps_gradient(leaf) else None for leaf in leaves]
    seen.state = shown(state())
    drawn: Any = numpy.random.get_state()
    host = drawn[0], drawn[1].tolist(), drawn[2:], random.getstate()
    devices = [torch.get_rng_state().tolist()]
    if torch.cuda.is_available():
        devices.append(torch.cuda.get_rng_state().tolist())
    seen.random_numbers = *devices, *host
    seen.modes = (
        torch.is_grad_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.is_inference_mode_enabled(),
    )
    seen.handled = type(sys.exc_info()[1]).__name__
    return seen


def state_of(module: torch.nn.Module) -> list[Any]:
    """What calls of a module may change: parameters, buffers, and attributes of all its parts."""
    attributes = [
        {k: v for k, v in vars(part).items() if not k.startswith("_")} for part in module.modules()
    ]
    return [list(module.parameters()), list(module.buffers()), attributes]


def _tensors(values: Any) -> list[torch.Tensor]:
    leaves = torch.utils._pytree.tree_leaves(values)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _keeps_gradient(tensor: torch.Tensor) -> bool:
    """False for a tensor whose gradient is not kept; torch warns if one asks for it."""
    return tensor.is_leaf or tensor.retains_grad


def _backward(value: Any) -> None:
    """Each element with a weight of its own, so that no two gradients are mixed up."""
    floats = [t for t in _tensors(value) if t.requires_grad]
    weighted: list[Any] = [
        (t * torch.arange(1, t.numel() + 1).reshape(t.shape)).sum() for t in floats
    ]
    if weighted:
        sum(weighted).backward()


@contextlib.contextmanager
def _recorded(seen: Observed) -> Iterator[None]:
    """Note log records and warnings; torch's own about compiling are not the program's."""
    root, handler = logging.getLogger(), Records(seen.log_records)
    handler.addFilter(lambda record: not record.name.startswith(("torch", "graphmend_bc")))
    root.addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as met:
            warnings.simplefilter("always")
            yield
    finally:
        root.removeHandler(handler)
    seen.warnings = [
        (str(one.message), one.category.__name__)
        for one in met
        if "/torch/" not in one.filename.replace("\\", "/")
    ]


@contextlib.contextmanager
def _generators_kept() -> Iterator[None]:
    """Leave the caller's random numbers as they were."""
    before = torch.get_rng_state(), numpy.random.get_state(), random.getstate()
    try:
        yield
    finally:
        torch.set_rng_state(before[0])
        numpy.random.set_state(before[1])
        random.setstate(before[2])
