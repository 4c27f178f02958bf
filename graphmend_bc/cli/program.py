"""Executing a user's program as ``python`` would, from within a running interpreter.

The program keeps what it can observe of its own start: ``sys.argv``, ``sys.path[0]``, the
``__main__`` namespace, its exit status and the text of an uncaught exception.
"""

from __future__ import annotations

import builtins
import os
import pkgutil
import runpy
import sys
import types
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.machinery import SourceFileLoader, SourcelessFileLoader
from pathlib import Path

# `python -m` and `python DIRECTORY` are this very function, down to the frames it leaves in a
# traceback; the public run_module() puts another __main__ back in the end.
run_as_main = runpy._run_module_as_main  # type: ignore[attr-defined]


class NotStarted(SystemExit):
    """There is no program to execute under the name; the status, or text, says why."""


def has_failed(end: BaseException | None) -> bool:
    """Whether a program that ended with an exception, or with none, did not end well."""
    return end is not None and not (isinstance(end, SystemExit) and end.code in (None, 0))


@dataclass(frozen=True, slots=True)
class UserProgram:
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
        """Sets ``sys.argv``, ``sys.path[0]`` and a fresh ``__main__`` as Python does at start.

        Raises:
            SystemExit: with status 2, once Python's message has been printed, when the program is
                a file that cannot be opened.
        """
        self.check()
        sys.argv[:] = ["-m" if self.is_module else self.name, *self.arguments]
        if not sys.flags.safe_path:
            path = Path(self.name).resolve()
            folder = path if self._is_container() else path.parent
            sys.path[0] = os.getcwd() if self.is_module else str(folder)
        main = types.ModuleType("__main__")
        main.__dict__.update(__annotations__={}, __builtins__=builtins)
        sys.modules["__main__"] = main

    def execute(self) -> None:
        """Executes the program as ``__main__``, once :meth:`prepare` was called.

        Raises:
            NotStarted: Python finds no such module, or nothing to execute in the directory.
            SystemExit: as the program raised it, or with status 1 after an uncaught exception was
                printed as Python prints it.
            KeyboardInterrupt: likewise printed, so that Python ends by the signal and no status.
        """
        try:
            self._execute()
        except SystemExit as end:
            if _is_raised_by(run_as_main, end):
                raise NotStarted(end.code) from None
            raise
        except BaseException as error:
            error.__traceback__ = _without_own_frames(error.__traceback__)
            sys.excepthook(type(error), error, error.__traceback__)
            if isinstance(error, KeyboardInterrupt):
                sys.excepthook = _print_nothing
                raise
            raise SystemExit(1) from None

    def _is_container(self) -> bool:
        """Whether the path is a directory or archive, in which Python looks for ``__main__``."""
        return pkgutil.get_importer(self.name) is not None

    def check(self) -> None:
        """Looks whether the file can be opened, if the program is one.

        Raises:
            SystemExit: as `prepare` does.
        """
        if self.is_module or self._is_container():
            return
        path = os.path.abspath(self.name)
        try:
            open(path, "rb").close()
        except OSError as error:
            reason = f"[Errno {error.errno}] {error.strerror}"
            print(f"{sys.executable}: can't open file {path!r}: {reason}", file=sys.stderr)
            raise SystemExit(2) from None

    def _execute(self) -> None:
        if self.is_module:
            run_as_main(self.name)
        elif self._is_container():
            run_as_main("__main__", False)
        else:
            self._execute_file()

    def _execute_file(self) -> None:
        path = os.path.abspath(self.name)
        with open(path, "rb") as file:
            compiled = pkgutil.read_code(file)
        loader = SourcelessFileLoader if compiled else SourceFileLoader
        namespace = sys.modules["__main__"].__dict__
        namespace.update(__file__=path, __cached__=None, __loader__=loader("__main__", path))
        code = compiled or compile(Path(path).read_bytes(), path, "exec", dont_inherit=True)
        exec(code, namespace)


def _is_raised_by(function: types.FunctionType, error: BaseException) -> bool:
    """Whether a function itself raised an error, and nothing that it called."""
    raised = error.__traceback__
    while raised is not None and raised.tb_next is not None:
        raised = raised.tb_next
    return raised is not None and raised.tb_frame.f_code is function.__code__


def _without_own_frames(traceback: types.TracebackType | None) -> types.TracebackType | None:
    while traceback is not None and traceback.tb_frame.f_code.co_filename == __file__:
        traceback = traceback.tb_next
    return traceback


def _print_nothing(*_: object) -> None:
    """An excepthook for an exception that has been printed already."""
