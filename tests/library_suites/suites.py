"""The libraries whose own tests are run, and which of their source distributions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

CONSTRAINTS: Final = Path(__file__).parents[2] / "constraints/library_tests.txt"


@dataclass(frozen=True)
class Suite:
    """The tests of one library.

    Attributes:
        library: the name of its distribution.
        folder: where the tests are.
        packages: whose functions are compiled.
        leave: parts of names of tests that are not run, since they want a network or other programs.
    """

    library: str
    folder: str
    packages: tuple[str, ...]
    leave: tuple[str, ...] = ()


SUITES: Final = (
    Suite("e3nn", "tests", ("e3nn",)),
    Suite("einops", "einops/tests", ("einops",), ("test_notebook",)),
    Suite("gpytorch", "test", ("gpytorch", "linear_operator")),
    Suite("julius", "tests", ("julius",)),
    Suite("linear_operator", "test", ("linear_operator",)),
    Suite("neuraloperator", "neuralop", ("neuralop",)),
    Suite("opt_einsum", "opt_einsum/tests", ("opt_einsum",)),
    Suite("roma", "test", ("roma",)),
    Suite("timm", "tests", ("timm",), ("test_hub", "test_train_resume")),
    Suite("torchsde", "tests", ("torchsde",)),
    Suite("zuko", "tests", ("zuko",)),
)


def version_of(library: str) -> str:
    """The version that is pinned."""
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if "==" in line)[library]
