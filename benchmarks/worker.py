"""A process of its own for one arm of a benchmark, so that arms share no compiled code."""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any


class Worker:
    """Holds an object in another process and calls its methods there, one at a time.

    Example:
        worker = Worker(Arm, "stock")
        seconds = worker.ask("first_call", "early return")
        worker.close()
    """

    def __init__(self, kind: Callable[..., Any], *args: Any) -> None:
        """Start the process and build `kind(*args)` in it; both must be picklable.

        The process is a fresh interpreter: it imports what `kind` needs by itself.
        """
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=_serve, args=(other, kind, args), daemon=True)
        self._process.start()
        other.close()

    def ask(self, method: str, *args: Any) -> Any:
        """The result of a method of the object.

        Raises:
            RuntimeError: the method raised an exception, or the process has ended; its text says
                what happened there.
        """
        try:
            self._pipe.send((method, args))
            result, error = self._pipe.recv()
        except (EOFError, OSError) as gone:
            self._process.join(5)
            code = self._process.exitcode
            raise RuntimeError(f"The process of the arm has ended with status {code}.") from gone
        if error:
            raise RuntimeError(error)
        return result

    def close(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.join(10)
        if self._process.is_alive():
            self._process.kill()


def _serve(pipe: Connection, kind: Callable[..., Any], args: tuple[Any, ...]) -> None:
    target: Any = None
    while True:
        try:
            method, given = pipe.recv()
        except EOFError:
            return
        try:
            if target is None:
                target = kind(*args)
            answer = getattr(target, method)(*given), ""
        except Exception:
            answer = None, traceback.format_exc(limit=-3)
        pipe.send(answer)
