"""Functions that prepare a module the first time it is used, as transformers 5 installs its hooks."""

from __future__ import annotations

import sys
import types

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.catalog.first_use import preparation_by

PLACE = "transformers.utils.output_capturing"
PREPARATION = """
import threading

lock = threading.Lock()

def hook(module, args, output):
    return output * 2

def install(model):
    for layer in model.children():
        layer.register_forward_hook(hook)
    model._output_capturing_hooks_installed = True

def maybe_install_capturing_hooks(model):
    if getattr(model, "_output_capturing_hooks_installed", False):
        return
    with lock:
        if getattr(model, "_output_capturing_hooks_installed", False):
            return
        install(model)
"""
PROGRAM = """
import transformers.utils.output_capturing as capturing

class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x):
        capturing.maybe_install_capturing_hooks(self)
        return self.layer(x)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Inner(), Inner()
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        x = self.second(self.first(x * 2))
        self.seen.add_(1)
        return x, len(self.first.layer._forward_hooks)

torch.manual_seed(0)
net = Net()

def f(x):
    {body}
    return net(x)
"""
UP, DOWN = torch.ones(3), -torch.ones(3)


def made(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType(PLACE)
    exec(compile(PREPARATION, "capturing.py", "exec"), module.__dict__)
    for name in ("transformers", "transformers.utils"):
        monkeypatch.setitem(sys.modules, name, types.ModuleType(name))
    monkeypatch.setitem(sys.modules, PLACE, module)
    sys.modules["transformers"].utils = sys.modules["transformers.utils"]  # type: ignore[attr-defined]
    sys.modules["transformers.utils"].output_capturing = module  # type: ignore[attr-defined]
    return module


def calls(body: str = "pass", **options: object) -> tuple[list[object], gm.Report]:
    """What two calls of the compiled program give, and the report."""
    scope: dict[str, object] = {"torch": torch, "nn": torch.nn}
    exec(PROGRAM.format(body=body), scope)
    with gm.enabled():
        compiled = torch.compile(scope["f"], backend="eager", **options)  # type: ignore[call-overload]
        seen = [compiled(UP), compiled(DOWN)]
        return seen, gm.report()


def eager(body: str = "pass") -> list[object]:
    scope: dict[str, object] = {"torch": torch, "nn": torch.nn}
    exec(PROGRAM.format(body=body), scope)
    return [scope["f"](UP), scope["f"](DOWN)]  # type: ignore[operator]


def same(one: list[object], other: list[object]) -> bool:
    return str(one) == str(other)


def test_hooks_are_installed_before_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    made(monkeypatch)
    expected = eager()
    made(monkeypatch)
    seen, report = calls(fullgraph=True)
    assert same(seen, expected)
    assert "once" in {mend.strategy for mend in report.mends}


@pytest.mark.parametrize(
    "condition",
    ["x.sum() > 0", "x.sum() + torch.rand(3).sum() > 0"],
    ids=["known in this call", "not known before the graph"],
)
def test_what_depends_on_a_speculation(monkeypatch: pytest.MonkeyPatch, condition: str) -> None:
    body = f"k = 2 if {condition} else 3; x = x * k; str(k)"
    made(monkeypatch)
    torch.manual_seed(1)
    expected = eager(body)
    made(monkeypatch)
    torch.manual_seed(1)
    seen, report = calls(body)
    assert same(seen, expected)
    declined = {decline.reason for decline in report.declines}
    assert ("once-not-sure" in declined) == ("rand" in condition)


def test_what_is_no_module_is_not_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call raises, as in eager Python, and not while compiling."""
    made(monkeypatch)
    body = "capturing.maybe_install_capturing_hooks('net')"
    for run in (eager, calls):
        with pytest.raises(AttributeError, match="'str' object has no attribute 'children'"):
            run(body)


def test_export_prepares_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    made(monkeypatch)
    scope: dict[str, object] = {"torch": torch, "nn": torch.nn}
    exec(PROGRAM.format(body="pass"), scope)
    net = scope["net"]
    assert isinstance(net, torch.nn.Module)
    with gm.enabled(), pytest.raises(Exception, match="context manager"):
        torch.export.export(net, (UP,), strict=True)
    assert not hasattr(net.first, "_output_capturing_hooks_installed")


def test_other_functions_of_that_name_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    module = made(monkeypatch)
    gm.enable()  # registers what is known of transformers
    monkeypatch.setattr(module, "maybe_install_capturing_hooks", module.install)
    assert preparation_by(module.install.__code__) is not None
    monkeypatch.delitem(sys.modules, PLACE)
    assert preparation_by(module.install.__code__) is None
