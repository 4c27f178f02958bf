"""Which tests come by a line: what `coverage` noted, with a context for each test function."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from coverage import CoverageData


def tests_by_line(data: Path, module: Path) -> Mapping[int, list[str]]:
    """The tests that run each line of a module, by their names.

    Args:
        data: written by `coverage run` with `dynamic_context = test_function`.
        module: path of its source, as it was measured.

    Returns:
        Names as pytest takes them, such as `tests/legality/test_choose.py::test_strides`. Lines
        that run while the module is imported have none.

    Raises:
        LookupError: the module was not measured.
    """
    read = CoverageData(str(data))
    read.read()
    if str(module) not in read.measured_files():
        raise LookupError(f"It is not known which tests run {module}: give --reach as well.")
    return {
        line: sorted({_named(context) for context in contexts if context.startswith("tests.")})
        for line, contexts in read.contexts_by_lineno(str(module)).items()
    }


def _named(context: str) -> str:
    """`tests.a.test_b.test_c` as pytest writes it."""
    module, _, function = context.rpartition(".")
    return f"{module.replace('.', '/')}.py::{function}"
