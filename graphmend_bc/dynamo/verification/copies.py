"""Copies of all that a frame may change, so that it can be run on them."""

from __future__ import annotations

import copy
import dis
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import BuiltinFunctionType, CellType, CodeType, FrameType, FunctionType, ModuleType
from typing import Any, Final

import torch

from graphmend_bc.dynamo.verification.random_state import global_generators
from graphmend_bc.runtime.signal_handlers import pass_on

MISSING: Final = object()
"""Stands for the content of an empty cell, and for a global that is not there."""

_SHARED: Final = (ModuleType, type, FunctionType, BuiltinFunctionType)
"""Globals that are not copied: nothing of theirs is known to change."""

_POOL: Final = "concurrent.futures.thread"
"""Whose threads wait until a thread that runs gives them work."""

_SERVANTS: Final = ("torch.", "concurrent.futures.process", "multiprocessing.", "tqdm.")
"""Begins the modules whose threads run no code of the program."""


class NotCopied(Exception):
    """A call cannot be repeated on copies; the text says why."""


@dataclass(frozen=True, slots=True)
class World:
    """What a frame can reach and change.

    Attributes:
        values: its arguments, in the order of `co_varnames`.
        contents: of its free variables.
        named: of the globals that its code names.
    """

    values: tuple[Any, ...]
    contents: tuple[Any, ...]
    named: Mapping[str, Any]


def world_of(
    values: tuple[Any, ...],
    cells: Sequence[CellType],
    module_globals: Mapping[str, Any],
    names: Sequence[str],
) -> World:
    """What a frame can reach now.

    Args:
        values: its arguments.
        cells: of its free variables.
        module_globals: its globals.
        names: those that it may change.
    """
    named = {name: module_globals.get(name, MISSING) for name in names}
    return World(values, tuple(map(_content, cells)), named)


def copied(world: World) -> tuple[World, Mapping[int, Any]]:
    """A copy, and what it has copies of, by `id`.

    Raises:
        NotCopied: something in it cannot be copied.
    """
    memo: dict[int, Any] = {id(kept): kept for kept in (MISSING, *global_generators())}
    named = {name: value for name, value in world.named.items() if _changes(value)}
    parts: list[Any] = [list(world.values), list(world.contents), named]
    try:
        _copy_results(parts, memo)
        values, contents, changed = copy.deepcopy(parts, memo)
        _copy_gradients(memo)
    except Exception as error:
        pass_on(error)
        if isinstance(error, NotCopied):
            raise
        raise NotCopied(f"It cannot be copied: {type(error).__name__}: {error}") from None
    whole = World(tuple(values), tuple(contents), {**world.named, **changed})
    return whole, memo


@contextmanager
def in_place(
    copies: Mapping[str, Any], now: Mapping[str, Any], module_globals: dict[str, Any]
) -> Iterator[None]:
    """A block in which the program's globals are the copies.

    Args:
        copies: of globals, by name.
        now: these globals as they are.
        module_globals: the dict in which they are.

    Raises:
        NotCopied: another thread might see them.
    """
    changed = {name: value for name, value in copies.items() if value is not now[name]}
    if changed and (other := _other_thread()):
        raise NotCopied(f"The thread {other!r} might see copies of globals.")
    _bind(module_globals, changed)
    try:
        yield
    finally:
        _bind(module_globals, now)


def named_in(code: CodeType) -> set[str]:
    """The globals that code and the functions in it name."""
    found = {i.argval for i in dis.get_instructions(code) if i.opname in _NAMING}
    return found.union(
        *(named_in(const) for const in code.co_consts if isinstance(const, CodeType))
    )


_NAMING: Final = ("LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL")


def _bind(module_globals: dict[str, Any], named: Mapping[str, Any]) -> None:
    for name, value in named.items():
        if value is MISSING:
            module_globals.pop(name, None)
        elif module_globals.get(name, MISSING) is not value:
            module_globals[name] = value


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return MISSING


def _changes(value: object) -> bool:
    return value is not MISSING and not isinstance(value, _SHARED)


def _copy_results(parts: Any, memo: dict[int, Any]) -> None:
    """Copy the tensors that autograd has computed, which `deepcopy` refuses to do."""
    leaves = [t for t in torch.utils._pytree.tree_leaves(parts) if isinstance(t, torch.Tensor)]
    results = {id(tensor): tensor for tensor in leaves if not tensor.is_leaf}
    if not results:
        return
    memories = {id(tensor): _memory(tensor) for tensor in leaves}
    for key, tensor in results.items():
        if list(memories.values()).count(memories[key]) > 1 or tensor._is_view():
            raise NotCopied("A tensor with a history shares memory with another one.")
        memo[key] = tensor.detach().clone().requires_grad_().clone()


def _copy_gradients(memo: dict[int, Any]) -> None:
    """Copy the gradients of parameters, which `deepcopy` leaves out.

    Args:
        memo: of `deepcopy`, which keeps in it what it has copied.
    """
    for given in [*memo.get(id(memo), ())]:
        if isinstance(given, torch.nn.Parameter) and given.grad is not None:
            memo[id(given)].grad = copy.deepcopy(given.grad, memo)


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _other_thread() -> str:
    """The name of another thread that may run code of the program; empty if there is none."""
    frames = sys._current_frames()
    for thread in threading.enumerate():
        if thread is threading.current_thread():
            continue
        modules = [*_modules(frames.get(thread.ident or 0))]
        target = [module for module in modules if module != "threading"][-1:]
        is_idle = target == [_POOL] and {*modules} <= {"threading", _POOL}
        if not (is_idle or (target and target[0].startswith(_SERVANTS))):
            return thread.name
    return ""


def _modules(frame: FrameType | None) -> Iterator[str]:
    """The modules of a frame and its callers."""
    while frame is not None:
        yield str(frame.f_globals.get("__name__", ""))
        frame = frame.f_back
