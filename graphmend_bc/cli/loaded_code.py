"""Compiled functions that a program reads from files: they are not traced, so nothing is seen."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch


@dataclass(slots=True)
class LoadedCode:
    """What was loaded with `torch.compiler.load_compiled_function`, from `watch()` on.

    Attributes:
        files: the name of each file, as the program has it; "a stream" for what has none.
    """

    files: list[str] = field(default_factory=list)

    def watch(self) -> None:
        """Count from now on, until the process ends."""
        stock: Callable[..., Any] | None = getattr(torch.compiler, "load_compiled_function", None)
        if stock is None:
            return

        @functools.wraps(stock)
        def load_compiled_function(file: Any, *args: Any, **kwargs: Any) -> Any:
            loaded = stock(file, *args, **kwargs)
            name = getattr(file, "name", None)
            self.files.append(
                os.fspath(name) if isinstance(name, (str, os.PathLike)) else "a stream"
            )
            return loaded

        torch.compiler.load_compiled_function = load_compiled_function

    def __str__(self) -> str:
        """A sentence; empty if nothing was loaded."""
        if not self.files:
            return ""
        return (
            f"The program loaded compiled code from {', '.join(dict.fromkeys(self.files))}. Graph "
            "breaks in it are not seen; mend the function where it is compiled and saved."
        )
