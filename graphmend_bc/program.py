"""Executing a user's program as ``python`` would, from within a running interpreter.

The program keeps what it can observe of its own start: ``sys.argv``, ``sys.path[0]``, the
``__main__`` namespace, its exit status and the text of an uncaught exception.
"""

from __future__ import annotations

import os
import pkgutil
import runpy
import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader, SourcelessFileLoader
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Program:
    """What the user asked to execute.

    Args:
        name: a path as ``python PATH`` takes it, or a module name as ``python -m NAME`` does.
        arguments: the program's own arguments.
        is_module: whether ``name`` is a module name.
    """

    name: str
    arguments: Sequence[str]
    is_module: bool

    def prepare(self) -> None:
        """Sets ``sys.argv``, ``sys.path[0]`` and a fresh ``__main__`` as Python does at start."""
        sys.argv[:] = ["-m" if self.is_module else self.name, *self.arguments]
        if not self.is_module and not sys.flags.safe_path:
            is_container = pkgutil.get_importer(self.name) is not None
            where = Path(self.name) if is_container else Path(self.name).resolve().parent
            sys.path[0] = str(where.absolute())
        sys.modules["__main__"] = types.ModuleType("__main__")

    def execute(self) -> None:
        """Executes the program as ``__main__``.

        Raises:
            SystemExit: as the program raised it, with Python's own message and status when it
                cannot be opened, and with status 1 after an uncaught exception was printed.
        """
        try:
            self._execute()
        except SystemExit:
            raise
        except BaseException as error:
            sys.excepthook(type(error), error, _without_own_frames(error.__traceback__))
            if isinstance(error, KeyboardInterrupt):
                # Python ends itself by the signal, which a shell tells apart from a status.
                sys.excepthook = _print_nothing
                raise
            raise SystemExit(1) from None

    def _execute(self) -> None:
        # `python -m` and `python DIRECTORY` are this very function, down to the frames it leaves
        # in a traceback; the public run_module() puts another __main__ back in the end.
        run_as_main = runpy._run_module_as_main  # type: ignore[attr-defined]
        if self.is_module:
            run_as_main(self.name)
        elif pkgutil.get_importer(self.name) is not None:
            run_as_main("__main__", False)
        else:
            self._execute_file()

    def _execute_file(self) -> None:
        path = os.path.abspath(self.name)
        try:
            with open(path, "rb") as file:
                code = pkgutil.read_code(file)
            source = b"" if code else Path(path).read_bytes()
        except OSError as error:
            reason = f"[Errno {error.errno}] {error.strerror}"
            print(f"{sys.executable}: can't open file {path!r}: {reason}", file=sys.stderr)
            raise SystemExit(2) from None
        loader = SourcelessFileLoader if code else SourceFileLoader
        namespace = sys.modules["__main__"].__dict__
        namespace.update(
            __file__=path,
            __cached__=None,
            __annotations__={},
            __builtins__=sys.modules["builtins"],
            __loader__=loader("__main__", path),
        )
        exec(code or compile(source, path, "exec", dont_inherit=True), namespace)


def _without_own_frames(traceback: types.TracebackType | None) -> types.TracebackType | None:
    while traceback is not None and traceback.tb_frame.f_code.co_filename == __file__:
        traceback = traceback.tb_next
    return traceback


def _print_nothing(*_: object) -> None:
    """An excepthook for an exception that has been printed already."""
