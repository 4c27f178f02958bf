"""The ways in which a program's `f` is called: in turn, by several threads at a time, or saved and loaded."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import torch

from graphmend_bc.testing.observation import Observed
from graphmend_bc.testing.values import raised, sharing, shown
from tests import oracle
from tests.fuzz.programs import Program

Wrap = Callable[..., Any]
Way = Callable[[Program, Wrap, Callable[[], object]], list[Observed]]

THREADS: Final = 3

_PATIENCE = 100
"""Seconds that threads are waited for."""


def in_turn(program: Program, wrap: Wrap, before_call: Callable[[], object]) -> list[Observed]:
    """One call after another, by one thread."""
    return oracle._run(program.source, program.arguments(), program.grad, wrap, before_call)


def in_threads(program: Program, wrap: Wrap, before_call: Callable[[], object]) -> list[Observed]:
    """All calls by each of some threads at the same time, each in an order of its own.

    Such programs have nothing that threads share, so that each call is what it is alone.
    """
    before_call()
    function, calls = wrap(oracle.load(program.source).f), program.arguments()
    seen: list[list[Observed]] = [[] for _ in range(THREADS)]
    gate = threading.Barrier(THREADS)

    def run(number: int) -> None:
        gate.wait()
        own = copy.deepcopy(calls)
        seen[number] += [_seen(function, own[(n + number) % len(own)]) for n in range(len(own))]

    threads = [threading.Thread(target=run, args=(n,), daemon=True) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(_PATIENCE)
    return [each for of_thread in seen for each in of_thread]


def saved(program: Program, wrap: Wrap, before_call: Callable[[], object]) -> list[Observed]:
    """All calls of a function that was compiled for the first one, saved and loaded.

    Raises:
        Unsaved: it cannot be compiled whole, or not be saved.
    """
    before_call()
    module, calls = oracle.load(program.source), program.arguments()
    function = wrap(module.f)
    if not hasattr(function, "aot_compile"):  # it is not compiled
        return [_seen(function, args) for args in copy.deepcopy(calls)]
    with torch._dynamo.config.patch(enable_aot_compile=True), TemporaryDirectory() as folder:
        path = str(Path(folder, "saved"))
        try:
            function.aot_compile((copy.deepcopy(calls[0]), {})).save_compiled_function(path)
            with open(path, "rb") as file:
                loaded = torch.compiler.load_compiled_function(file, f_globals=vars(module))
        except Exception as error:
            raise Unsaved(f"{type(error).__name__}: {error}") from error
    return [_seen(loaded, args) for args in copy.deepcopy(calls)]


class Unsaved(Exception):
    """A function cannot be saved, which is no fault."""


UNGUARDED: Final = "GuardManager check failed"
"""What a loaded function says to a call that it was not compiled for."""


def _seen(function: Callable[..., Any], args: tuple[Any, ...]) -> Observed:
    """What a call gives, raises and does to its arguments."""
    seen = Observed()
    try:
        value = function(*args)
        seen.result = shown(value)
        tensors = [t for t in torch.utils._pytree.tree_leaves((value, args)) if torch.is_tensor(t)]
        seen.shared_memory = sharing(tensors)
    except Exception as error:
        seen.exception = raised(error)
    seen.arguments = shown(args)
    seen.modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled()
    return seen


WAYS: Final[dict[str, Way]] = {"in turn": in_turn, "threads": in_threads, "saved": saved}
"""By name."""

SHARED: Final = frozenset({"effects", "net", "objects", "random"})
"""Groups of the grammar's whose programs do what threads would see of one another."""
