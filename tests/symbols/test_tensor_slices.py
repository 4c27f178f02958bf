"""Slices that are made of tensors with `slice()`."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import check
from tests.releases import since

VALUES = [torch.tensor(values) for values in ([1.0, 2.0, 0.0], [0.0, 1.0, 1.0], [1.0, 2.0, 2.0])]

WHOLE = {
    "is returned": ("slice(n, 5), x + 1", ""),
    "is returned in a container": ("{'k': [slice(None, n), slice(n)]}", ""),
    "its bounds are read": ("slice(n, 5).start, slice(1, n, 2).stop, slice(n).step", ""),
    "is an index": ("x[slice(n)], slice(n)", "capture@3"),
    "is an index among others": ("torch.stack([x, x])[:, slice(0, n)]", "capture@3"),
    "is written after it was made": ("(s := slice(n, 3), n.add_(1))[0]", ""),
}

BROKEN = {
    "of a list": ("[1, 2, 3][slice(n)]", "unhandled-instruction@5"),
    "of a tuple": ("(1, 2, 3)[slice(1, n)]", "unhandled-instruction@5"),
    "of a text": ("'abc'[slice(n)]", "unhandled-instruction@5"),
    "of a shape": ("x.shape[slice(n)]", "unhandled-instruction@5"),
    "of modules": ("len(LAYERS[slice(n)])", "unhandled-instruction@container.py"),
    "of a list, by its method": ("[1, 2, 3].__getitem__(slice(n))", "call-not-traced@5"),
    "is compared": (
        "slice(n) == slice(n, 2)",
        "unhandled-instruction@5" if since(2, 13) else "call-not-traced@__init__.py",
    ),
    "its indices": ("slice(n).indices(3)", "call-not-traced@5"),
    "as text": ("str(slice(n))", "call-not-traced@5"),
}


@pytest.mark.parametrize(("result", "mends"), WHOLE.values(), ids=WHOLE.keys())
def test_slice_that(result: str, mends: str) -> None:
    program = f"""
        def f(x):
            n = x.max().to(torch.int32)
            return {result}
        """
    check(program, VALUES, mends=mends, declines="", breaks=0)


@pytest.mark.parametrize(("result", "declines"), BROKEN.values(), ids=BROKEN.keys())
def test_slice_that_needs_its_numbers(result: str, declines: str) -> None:
    program = f"""
        LAYERS = torch.nn.ModuleList([torch.nn.ReLU(), torch.nn.ReLU()])

        def f(x):
            n = x.max().to(torch.int32)
            return {result}, x + 1
        """
    check(program, VALUES, mends="", declines=declines, breaks=1)


def test_detection_masks_are_one_graph() -> None:
    check(
        """
        def f(x):
            low, high = x.min().floor().to(torch.int32), x.max().ceil().to(torch.int32)
            grid = torch.arange(low, high, dtype=torch.float32) + 0.5
            return grid * 2, (slice(low, high),)
        """,
        VALUES,
        mends="capture@3",
        declines="",
        breaks=0,
    )
