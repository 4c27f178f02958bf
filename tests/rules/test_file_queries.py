"""Whether a file is there is asked while tracing, and again before each call."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import graphmend_bc as gm
from tests.oracle import Change, Outcome, agrees

X = torch.tensor([1.0, -2.0, 3.0])
COMES, GOES = "open(P, 'w').close()", "os.remove(P)"


def run(folder: Path, body: str, *changes: str) -> Outcome:
    """Compare the arms on a function that is called twice, and twice after each change."""
    calls: list[object] = [X, X]
    for change in changes:
        calls += [Change(change), X, X]
    head = "import os, functools, pathlib\nfrom os.path import join\nos.chdir('/')\n"
    head += f"F = {str(folder)!r}\nP = F + '/file'\nif os.path.lexists(P): os.remove(P)\n"
    head += "PATH = pathlib.Path(P)\nreal = os.path.exists\n"
    head += "@functools.cache\ndef cached():\n    return os.path.exists(P)\n"
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    return agrees(f"{head}\ndef f(x):\n{lines}", calls, orders=1)


@pytest.fixture
def folder(tmp_path: Path) -> Any:
    before = os.getcwd()
    yield tmp_path
    os.chdir(before)


@pytest.mark.parametrize(
    ("body", "changes"),
    [
        ("return x * 2 if os.path.exists(P) else x + 1", (COMES, GOES)),
        ("return x * 2 if os.path.exists(join(F, 'file')) else x + 1", (COMES, GOES, COMES)),
        ("return x * (1 + os.path.isfile(P) + 3 * os.path.isdir(P))", (COMES, f"{GOES}; os.mkdir(P)", "os.rmdir(P)")),
        ("return x * (1 + os.path.lexists(P) + 3 * os.path.islink(P))", ("os.symlink('/nowhere', P)", GOES)),
        ("y = x * 2 if os.path.exists(P) else x + 1\nprint('seen', y.sum())\nreturn y", (COMES, GOES)),
        ("for p in (P, F, '/nowhere'):\n    x = x * 2 if os.path.exists(p) else x + 1\nreturn x", (COMES, GOES)),
        ("return x * 2 if os.path.exists('self') else x + 1", ("os.chdir('/proc')", "os.chdir('/')")),
        ("return x * 2 if os.path.exists('a\\0b') else x + 1", ()),
        ("if x.sum() > 0:\n    y = x * 2 if os.path.exists(P) else x + 1\nelse:\n    y = x - 1\nreturn y", (COMES, GOES)),
        ("return x * 2 if os.path.exists(P) else x + 1", ("os.path.exists = lambda p: True", "os.path.exists = real")),
    ],
)  # fmt: skip
def test_one_graph_for_each_answer(folder: Path, body: str, changes: tuple[str, ...]) -> None:
    outcome = run(folder, body, *changes)
    assert outcome.breaks == 0
    assert "probe@" in outcome.mends


@pytest.mark.parametrize(
    "body",
    [
        "print('seen')\nreturn x * 2 if os.path.exists(P) else x + 1",
        "return x * 2 if cached() else x + 1",
        "return x * 2 if os.path.exists(0) else x + 1",
        "return x * 2 if os.path.exists(PATH) else x + 1",
        "return x * 2 if os.path.getsize(F) < 0 else x + 1",
        "return x * 2 if os.access(F, os.R_OK) else x + 1",
    ],
)
def test_what_is_declined(folder: Path, body: str) -> None:
    outcome = run(folder, body, COMES, GOES)
    assert "probe-not-fixed@" in outcome.declines
    assert "probe@" not in outcome.mends


def test_files_of_the_function_itself(folder: Path) -> None:
    body = "y = x * 2 if os.path.exists(P) else x + 1\nif os.path.exists(P):\n    os.remove(P)\n"
    run(folder, f"{body}return y + os.path.exists(P)", COMES, COMES)
    run(
        folder,
        "with open(P, 'w') as f:\n    f.write('a')\nreturn x * (1 + os.path.exists(P))",
        GOES,
    )


def test_a_file_that_comes_while_the_frame_is_compiled(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = str(tmp_path / "file")

    def f(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if os.path.exists(path) else x + 1

    def backend(module: torch.fx.GraphModule, inputs: object) -> Callable[..., Any]:
        (tmp_path / "file").touch()
        return module.forward

    caplog.set_level(logging.CRITICAL, "torch._dynamo")
    with gm.enabled():
        compiled = torch.compile(f, backend=backend)
        compiled(X)
        for _ in range(3):
            assert torch.equal(compiled(X), X * 2)
        os.remove(path)
        assert torch.equal(torch.compile(f, backend="eager")(X), X + 1)
