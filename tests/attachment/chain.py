"""Loading the extension without the package, and a second evaluator to share the chain with."""

from __future__ import annotations

import importlib.machinery
import importlib.util
import os
import shutil
from pathlib import Path
from types import ModuleType

import pytest

PACKAGE = Path(__file__).parents[2] / "graphmend_bc"


def binary() -> Path:
    """The extension built for this interpreter; the test is skipped where there is none.

    GRAPHMEND_BC_TEST_EXTENSION names a folder with another build of it, such as a sanitized one.
    """
    folder = Path(os.environ.get("GRAPHMEND_BC_TEST_EXTENSION", PACKAGE))
    for suffix in importlib.machinery.EXTENSION_SUFFIXES:
        path = folder / f"_frame_hooks{suffix}"
        if path.exists():
            return path
    if "GRAPHMEND_BC_TEST_EXTENSION" in os.environ:
        pytest.fail(f"There is no extension for this interpreter in {folder}.")
    pytest.skip("The C extension is not built: python setup.py build_ext --inplace.")


def load(path: Path) -> ModuleType:
    """The extension as a module of its own, which needs neither the package nor torch."""
    spec = importlib.util.spec_from_file_location("_frame_hooks", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def another_tool(directory: Path) -> ModuleType:
    """A second frame evaluator: a copy of the file is a library with statics of its own."""
    return load(Path(shutil.copy(binary(), directory / binary().name)))
