"""Code that is known to keep to what it holds and is given, and what leads past that."""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType
from typing import Any, Final

_MODULES = """
    _abc _asyncio _collections _collections_abc _datetime _functools _io _json _operator
    _py_warnings _queue _socket _sre _string _struct _thread _weakref _weakrefset abc bisect
    builtins codecs collections configparser contextlib copy csv dataclasses datetime decimal
    encodings enum errno fractions functools genericpath heapq html io itertools json locale logging
    math numbers operator os pathlib platform posix posixpath pprint queue re reprlib shutil socket
    stat string struct sys tempfile textwrap threading time traceback types typing unicodedata uuid
    warnings weakref
"""
_STANDARD: Final = frozenset(_MODULES.split())
_WRITERS: Final = (
    *("_pytest", "absl", "click", "colorama", "coloredlogs", "colorlog", "graphmend_bc"),
    *("IPython", "ipykernel", "loguru", "rich", "sentry_sdk", "structlog", "tensorboard"),
    *("tensorboardX", "torch._logging", "torch.utils.tensorboard", "tqdm"),
)
"""Packages that show or write what they are given, and change nothing else but their own."""

_ATTRIBUTES = """
    __closure__ __code__ __delattr__ __dict__ __globals__ __setattr__ __setstate__ __subclasses__
    _current_frames _getframe addFilter addHandler catch_warnings cell_contents chdir cr_frame
    disable f_back f_builtins f_globals f_locals filterwarnings gi_frame loggerDict manager modules
    removeFilter removeHandler resetwarnings setLevel setLogRecordFactory setprofile settrace
    simplefilter tb_frame
"""
LOOKS_FURTHER: Final = frozenset(_ATTRIBUTES.split())
"""Attributes that lead to anything, or change how later calls are made."""

CHANGES_ANYTHING: Final[tuple[Any, ...]] = (
    *(eval, exec, compile, globals, locals, vars, setattr, delattr, __import__, breakpoint, input),
)
"""Builtins that do so."""


def is_known(module: object) -> bool:
    """True for a module whose code keeps to what it holds and is given.

    Args:
        module: its name.

    Example:
        >>> is_known("logging.handlers"), is_known("random")
        (True, False)
    """
    if not isinstance(module, str):
        return False
    return module.partition(".")[0] in _STANDARD or any(
        module == known or module.startswith(f"{known}.") for known in _WRITERS
    )


def replaced_in(kind: type) -> Iterator[FunctionType]:
    """The methods of a known class that somebody else has put there."""
    for member in vars(kind).values():
        if type(member) is FunctionType and not is_known(member.__globals__.get("__name__")):
            yield member
