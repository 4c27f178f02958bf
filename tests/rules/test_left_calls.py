"""What rules leave to stock: calls that look like those they know, and are others."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.dynamo import facts
from graphmend_bc.rewriting.plan import Outline, Rewrite
from graphmend_bc.rules import extremes, sorting, training_steps
from graphmend_bc.rules.registry import register_rule
from graphmend_bc.rules.rule import BreakSite, Rule
from tests.oracle import check
from tests.releases import since

T = TypeVar("T")
M = torch.tensor([[1.0, -2.0], [3.0, 4.0]])
V = torch.tensor([1.0, -2.0, 3.0])
ROWS = [torch.ones(1, 2, 3)] * 2

STATE = """
import copy, functools, os
import numpy as np
from typing import TypeVar

T = TypeVar("T")
w = nn.Parameter(torch.ones(3))
torch.manual_seed(0)
m = nn.Linear(3, 2)
opt = torch.optim.SGD(m.parameters(), 0.1, momentum=0.9)
zero = torch.tensor(0.0)

class Ranked:
    def __init__(self, t):
        self.t = t

    def __lt__(self, other):
        return self.t.sum() < other.t.sum()

"""

CALLS: dict[str, tuple[str, list[Any]]] = {
    "deep copy by keyword": ("y = x * 2\n    return y.__deepcopy__(memo={})", [M, -M]),
    "deep copy with a memo": (
        "memo = {}\n    y = copy.deepcopy(x * 2, memo)\n    return y, len(memo)",
        [M, -M],
    ),
    "deep copy without data": ("return copy.deepcopy(x.to('meta') * 2).shape, x", [M, -M]),
    "deep copy of what overlaps": (
        "y = x * 2\n    z = copy.deepcopy(y.as_strided((2, 2), (1, 1)))\n    z[0, 1] = 7\n    return z, y",
        [M, -M],
    ),
    "least by tensors": ("return min([Ranked(x), Ranked(x * 2)]).t", [V, -V]),
    "item of the caller's type": ("return x * 2, kind[int]", [(V, list[T])] * 2),
    "flag by keyword": ("zero.requires_grad_(requires_grad=True)\n    return x * zero", [V, V]),
    "name that is none": ("return x * len(type(w).__doc__.strip())", [V, -V]),
    "NumPy's unwrap under another name": (
        "interp = np.unwrap\n    return interp(x.numpy())",
        [V, -V],
    ),
    "flag that a tensor says": (
        "y = x * 2\n    y.requires_grad = x.sum() > 0\n    return (y * w).detach()",
        [V, -V],
    ),
    "flag in an arm": (
        "if x.sum() > 0:\n        y = x * 2\n        y.requires_grad = True\n"
        "        x = (y * w).detach()\n    return x + 1",
        [V, -V],
    ),
    "flag of a chosen tensor": (
        "y = x * 2 if x.sum() > 0 else x * 3\n    y.requires_grad = True\n    return (y * w).detach()",
        [V, -V],
    ),
    "another isinstance": ("isinstance = os.getpid\n    return x * (isinstance() > 0)", [V, -V]),
    "isinstance by keyword": (
        "return x * torch.jit.isinstance(obj=1, target_type=int)",
        [V, -V],
    ),
    "another dispatch": (
        "dispatch = torch._dynamo.disable(torch.neg)\n    return dispatch(x) + 1",
        [V, -V],
    ),
    "another step": ("step = os.getpid\n    return x * (step() > 0)", [V, -V]),
    "list that its keys change": (
        "y, done = [x[0], x[1]], []\n"
        "    def key(t):\n"
        "        if not done:\n"
        "            done.append(1)\n"
        "            y.append(t)\n"
        "        return t\n"
        "    try:\n"
        "        y.sort(key=key)\n"
        "    except ValueError as error:\n"
        "        return x, len(y), str(error)\n"
        "    return y",
        [V, -V],
    ),
    "sort of the class": ("y = [x[0], x[1]]\n    list.sort(y)\n    return y", [V, -V]),
}


@pytest.mark.slow
@pytest.mark.parametrize(("body", "calls"), CALLS.values(), ids=CALLS.keys())
def test_what_is_not_known_is_left(body: str, calls: list[Any]) -> None:
    source = f"{STATE}def f(x, kind=None):\n    {body}\n"
    outcome = check(source, calls, None, declines=None, breaks=None, orders=1)
    assert outcome.breaks
    assert not {"copy", "polyfill", "leaf"} & {m.partition("@")[0] for m in outcome.mends.split()}


def test_a_deep_copy_of_what_changes_its_size() -> None:
    """Whether it is all of its memory is then asked of symbols."""
    source = "import copy\n\ndef f(x):\n    return copy.deepcopy((x * 2).t())\n"
    calls = [M, -M, torch.ones(3, 4), torch.ones(4, 3)]
    outcome = check(source, calls, None, declines=None, breaks=None, orders=1, dynamic=True)
    assert "copy@" not in outcome.mends


TRAINING = f"""{STATE}
class Groups:
    seen = None

    @torch.compiler.disable
    def _init_group(self):
        self.seen = torch.compiler.is_compiling()

    @torch.compiler.disable
    def again(self):
        self.seen = not torch.compiler.is_compiling()

class Optimizer(torch.optim.SGD, Groups):
    _init_group = Groups._init_group

groups, mine = Groups(), Optimizer(m.parameters(), 0.1)
other = torch.optim.SGD(m.parameters(), 0.1)
other.step = os.getpid

def f(x):
    loss = m(x).sum()
    {{}}
    return loss.detach()
"""


@pytest.mark.skipif(not facts.TRACES_BACKWARD, reason="not on torch 2.11")
@pytest.mark.slow
@pytest.mark.parametrize(
    "body",
    [
        "loss.backward()\n    groups._init_group()\n    return x, groups.seen",
        "loss.backward()\n    mine._init_group()\n    return x, mine.seen",
        "zero_grad = opt.state_dict\n    zero_grad()",
        "backward = functools.partial(loss.backward)\n    backward()",
        "loss.backward()\n    other.step()",
        "loss.backward()\n    _init_group = groups.again\n    _init_group()\n    return x, groups.seen",
        "grad = functools.partial(torch.autograd.grad, allow_unused=True)\n    return grad(loss, w)",
        "try:\n        return torch.autograd.grad(loss)\n    except TypeError:\n        pass",
        "return torch.autograd.grad(loss, m.parameters())[0]",
    ],
)
def test_training_that_is_not_known_is_left(body: str) -> None:
    outcome = check(TRAINING.format(body), [V, -V], None, declines=None, breaks=None, orders=1)
    assert outcome.breaks


def test_the_last_rate() -> None:
    source = f"""{STATE}
schedule = torch.optim.lr_scheduler.StepLR(opt, 1, gamma=0.5)

def f(x):
    before = schedule.get_last_lr()
    return x * before[0], len(before)

def change(number):
    opt.step()
    schedule.step()
"""
    line = source.strip("\n").split("\n").index("    before = schedule.get_last_lr()") + 1
    check(source, [V, -V, V], f"train@{line}", orders=1)


def test_a_rate_that_is_asked_for_otherwise() -> None:
    source = f"""{STATE}
class Schedule(torch.optim.lr_scheduler.StepLR):
    def get_last_lr(self):
        return [7.0, torch.compiler.is_compiling()]

schedule = Schedule(opt, 1)
get_last_lr = torch.compiler.disable(schedule.get_last_lr)

def f(x):
    return x * get_last_lr()[0], get_last_lr()[1]
"""
    check(source, [V, -V], "", declines=None, breaks=None, orders=1)


RECURRENT = """
import torch.autograd.forward_ad as forward_ad

torch.manual_seed(0)
gru, lstm = nn.GRU(3, 4), nn.LSTM(3, 4)

def around():
    return {around}

def f(x):
    with torch.no_grad():
        return {module}(x)[0]
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "around"),
    [("lstm", "torch.backends.mkldnn.flags(enabled=False)"), ("gru", "forward_ad.dual_level()")],
)
def test_a_recurrent_module_elsewhere(module: str, around: str) -> None:
    source = RECURRENT.format(module=module, around=around)
    outcome = check(source, ROWS, "", declines=None, breaks=None, orders=1)
    assert "call-not-traced@" in outcome.declines


@pytest.mark.slow
@pytest.mark.skipif(not since(2, 13), reason="It breaks in another place.")
def test_a_handler_that_is_given_what_it_does_not_know() -> None:
    """A rule of the user's may have the handler of ours for functions of the standard library."""

    def matches(site: BreakSite) -> dict[int, Rewrite] | None:
        return {site.offset: Outline()} if site.code.co_name == "asks" else None

    handle = register_rule(Rule("mine", "polyfill", 1, matches, handler="library"))
    try:
        source = "import os\n\ndef asks(x):\n    return len(os.listdir('/')) > 0\n\ndef f(x):\n    return x * asks(x)\n"
        check(source, [V, -V], "", None, None, orders=1)
    finally:
        handle.remove()
    assert not [rule for rule in gm.report().mends if rule.strategy == "polyfill"]


def test_what_dynamo_traces_in_place_of_others_does_the_same_in_python() -> None:
    begun = extremes._begun([1, 2])
    assert [extremes._step(begun) for _ in range(3)] == [(1,), (2,), ()]
    items = [1, 2]
    listed = sorting._listed(items)
    assert listed == items
    assert listed is not items
    layer = torch.nn.Linear(2, 2)
    optimizer = torch.optim.SGD([{"params": [layer.weight]}, {"params": [layer.bias]}], 0.1)
    layer(torch.ones(2)).sum().backward()
    training_steps._forget_gradients(optimizer)
    assert layer.weight.grad is layer.bias.grad is None
    training_steps._note_called(optimizer)
    assert optimizer._opt_called
