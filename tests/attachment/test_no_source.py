"""attach where there is no source: the calling program is the same, attached or not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attachment import vendor_wheel
from tests.processes import forked, python

pytest.importorskip("torch")
pytest.importorskip("graphmend_bc._frame_hooks")

#: Knows of the package, and of nothing else. It prints all there is to compare.
PROGRAM = """
import sys
sys.path.insert(0, WHERE)
import torch
from acme_models.net import Net, predict

torch.manual_seed(0)
net = Net()
inputs = [[1.0, 2.0], [10.0, 20.0], [-1.0, 0.0], [float("nan"), 1.0], [0.1, 0.2]]
for values in inputs:
    x = torch.tensor(values, requires_grad=True)
    net.zero_grad()
    try:
        y = predict(net, x)
        y.sum().backward()
        print(y.tolist(), x.grad.tolist(), [p.grad for p in net.parameters()])
    except ValueError as error:
        print(type(error).__name__, error, [p.grad for p in net.parameters()])
"""

ATTACHED = """
import graphmend_bc as gm
from torch._dynamo.testing import CompileCounterWithBackend
gm.enable()
counter = CompileCounterWithBackend("aot_eager")
handle = gm.attach(TARGET, backend=counter, fullgraph=True)
"""

COUNTED = """
handle.remove()
import acme_models.gate, linecache, os
assert not os.path.exists(acme_models.gate.Gate.forward.__code__.co_filename)
assert linecache.getlines(acme_models.gate.Gate.forward.__code__.co_filename) == []
print("graphs", counter.frame_count > 0, {m.strategy for m in gm.report().mends}, file=sys.stderr)
"""


def run(program: str, *options: str) -> tuple[str, str]:
    if not options:
        return forked(program)
    done = python(*options, "-c", program)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout, done.stderr


def check(where: Path, *options: str, target: str = "acme_models.*") -> None:
    """Compare the program by itself with the program with one line before it."""
    program = f"WHERE = {str(where)!r}\n{PROGRAM}"
    eager, _ = run(program, *options)
    attached, said = run(f"TARGET = {target!r}\n{ATTACHED}{program}{COUNTED}", *options)
    assert attached == eager
    assert eager.count("ValueError not a number among (2,)") == 1
    assert "graphs True {" in said
    assert "defer" in said
    assert "where" in said or "speculate" in said


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the wheel was installed."""
    directory = tmp_path_factory.mktemp("wheel")
    wheel = vendor_wheel.build_wheel(directory)
    where = vendor_wheel.install(wheel, directory / "site")
    assert list(where.rglob("*.py")) == []
    return where


@pytest.mark.slow
@pytest.mark.parametrize("target", ["acme_models.*", "acme_models.net:*", "acme*:Net.forward"])
def test_a_wheel_that_holds_only_bytecode(installed: Path, target: str) -> None:
    check(installed, target=target)


def test_an_archive_on_the_path(tmp_path: Path) -> None:
    check(vendor_wheel.build_archive(tmp_path))


def test_without_line_numbers(tmp_path: Path) -> None:
    check(vendor_wheel.build_folder(tmp_path, lines=False))


@pytest.mark.slow
def test_optimized_bytecode(tmp_path: Path) -> None:
    check(vendor_wheel.build_folder(tmp_path, optimize=2), "-OO")
