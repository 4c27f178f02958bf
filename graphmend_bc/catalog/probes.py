"""Functions that ask the process something and change nothing, by identity.

A probe is answered while tracing, and asked again by a guard before each call of the compiled
code. So it must be cheap, and nobody may notice that it is asked once more.
"""

from __future__ import annotations

import datetime
import functools
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import BuiltinFunctionType, FunctionType, MappingProxyType, MethodType
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Probe:
    """What is known of a function that asks.

    Attributes:
        name: where the function is found.
        ask: the function.
        fixed: True if the process has one answer as long as it lives.
    """

    name: str
    ask: Callable[[], Any]
    fixed: bool


_FIXED = (
    "os.cpu_count",
    "torch.backends.cpu.get_cpu_capability",
    "torch.backends.cuda.is_built",
    "torch.backends.cudnn.is_available",
    "torch.backends.cudnn.version",
    "torch.backends.mkl.is_available",
    "torch.backends.mkldnn.is_available",
    "torch.backends.mps.is_available",
    "torch.backends.mps.is_built",
    "torch.backends.openmp.is_available",
    "torch.backends.opt_einsum.is_available",
    "torch.mps.device_count",
    "torch.mps.is_available",
)

_SETTINGS = (
    "os.getcwd",
    "os.getpid",
    "torch.get_deterministic_debug_mode",
    "torch.get_float32_matmul_precision",
    "torch.get_num_interop_threads",
    "torch.get_num_threads",
    "torch.is_deterministic_algorithms_warn_only_enabled",
    "torch.is_warn_always_enabled",
)

_PROBES: Final = MappingProxyType(dict.fromkeys(_SETTINGS, False) | dict.fromkeys(_FIXED, True))
"""From the path of a function to whether its answer is fixed."""

_CLOCK: Final = (
    "It reads the clock, and one graph has no moment between its computations. Read the clock"
    " before and after the compiled function."
)
_CLOCKS = (
    *(time.time, time.time_ns, time.monotonic, time.monotonic_ns),
    *(time.perf_counter, time.perf_counter_ns, time.process_time, time.process_time_ns),
    *(time.thread_time, time.thread_time_ns),
    *(datetime.datetime.now, datetime.datetime.utcnow, datetime.datetime.today),
)
_FILES = (os.stat, os.lstat, os.access, os.listdir, os.scandir)
_FLEETING: Final[Mapping[Any, str]] = MappingProxyType(
    dict.fromkeys(_CLOCKS, _CLOCK)
    | dict.fromkeys(_FILES, "It asks the file system.")
    | {os.urandom: "It draws random bytes from the system."}
)
"""Functions whose answer may be another one whenever they are asked, and what is said of that."""

NAMES: Final = frozenset(
    {path.rpartition(".")[2] for path in _PROBES}
    | {known.__name__ for known in (*_FLEETING, threading.get_ident)}
)
"""Names under which these functions are usually called."""


def probe_of(function: object) -> Probe | None:
    """What is known of a function, if it is a probe.

    Args:
        function: any callable, bound methods included.

    Example:
        >>> probe_of(os.getpid).fixed
        False
    """
    for path, fixed in _PROBES.items():
        found = _at(path)
        if found is not None and _is_same(function, found) and _is_genuine(found, path):
            return Probe(path, found, fixed)
    return None


def why_fleeting(function: object) -> str:
    """What is said of a function that asks the clock, the file system or the like; else empty.

    Example:
        >>> why_fleeting(os.stat), why_fleeting(os.getpid)
        ('It asks the file system.', '')
    """
    return _FLEETING.get(function, "") if isinstance(function, BuiltinFunctionType) else ""


def _is_same(function: object, known: Any) -> bool:
    """Identity; every bound method is another object, and Dynamo looks through caches."""
    if isinstance(function, MethodType):
        return bool(function == known)
    return function is known or function is getattr(known, "__wrapped__", known)


def _at(path: str) -> Any:
    """The object at a path, if its module is loaded."""
    module, _, name = path.rpartition(".")
    return getattr(sys.modules.get(module), name, None)


def _is_genuine(function: Any, path: str) -> bool:
    """False for what somebody put in a function's place, even if it has the function's names."""
    module, _, name = path.rpartition(".")
    if isinstance(function, functools._lru_cache_wrapper):
        function = function.__wrapped__
    if isinstance(function, MethodType):
        function = function.__func__
    if isinstance(function, FunctionType):
        written_in = function.__globals__.get("__name__")
        return written_in == module and function.__code__.co_name == name
    return isinstance(function, BuiltinFunctionType) and function.__name__ == name
