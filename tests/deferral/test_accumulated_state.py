"""State that a function only adds to: one compilation for ever, and eager's state after each call."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import graphmend_bc as gm
from tests.oracle import check, load

CALLS = [torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, 2.0, -3.0]), torch.ones(3)] * 3

METER = """
from collections import Counter, OrderedDict, defaultdict, deque
import torch

class Meter:
    def __init__(self):
        self.values = []
        self.last = deque(maxlen=2)
        self.n = 0
        self.total = 0.0
        self.text = ""
        self.counts = {"calls": 0, "sum": 0.5}
        self.seen = Counter(calls=0)
        self.first = OrderedDict(calls=0)
        self.made = defaultdict(int, calls=0)

m = other = Meter()
state = vars(m)

"""


def metered(body: str) -> str:
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return f"{METER}def f(x):\n    y = x * 2\n{lines}"


ADDED = {
    "count": "m.n += 1",
    "count down": "m.n -= 2",
    "product": "m.total *= 0.5",
    "sum of what is read": "m.total += y.sum().item()",
    "history": "m.values.append(y.sum().item())",
    "tensors": "m.values.append(y)",
    "constants": "m.values.append(None)",
    "bounded history": "m.last.append(y.sum().item())",
    "on the left": "m.last.appendleft(1)",
    "text": "m.text += 'call;'",
    "written out": "own = m\nown.n = own.n + 1\nown.total = own.total - y.sum().item()",
    "item": "m.counts['calls'] += 1",
    "item of what is read": "m.counts['sum'] += y.sum().item()",
    "twice the same item": "m.counts['calls'] += 1\nm.counts['calls'] += 2",
    "items in a loop": "for key in ('calls', 'sum'):\n    m.counts[key] *= 2",
    "items of other mappings": "m.seen['calls'] += 1\nm.first['calls'] += 1\nm.made['calls'] += 1",
    "in a loop": "for i in range(3):\n    m.n += i\n    m.values.append(i)",
    "all": "m.n += 1\nm.total += y.sum().item()\nm.values.append(y.sum().item())",
}


@pytest.mark.parametrize("body", ADDED.values(), ids=ADDED)
def test_added(body: str) -> None:
    outcome = check(metered(f"{body}\nreturn y"), CALLS, mends=None)
    assert outcome.graphs == 1
    assert "accumulate@" in outcome.mends


def test_number_of_another_type() -> None:
    body = "m.n += y.sum().item()\nreturn y"
    assert check(metered(body), CALLS, mends="accumulate@21 defer@21").graphs == 2


SHARED = {
    "the history is asked for": "m.values.append(1)\nreturn y * len(m.values)",
    "asked for under another name": "m.values.append(1)\nreturn y * len(other.values)",
    "by a function": "m.values.append(1)\nreturn y * count()",
    "the count decides": "m.n += 1\nreturn y * many(m)",
    "the count is given on": "m.n += 1\nreturn y + get(m)",
    "it is read by name": "m.n += 1\nreturn y + getattr(other, 'n')",
    "it is read from the dict": "m.n += 1\nreturn y + vars(other)['n']",
    "a tensor is added": "m.total += y.sum()\nreturn y",
    "a list is added to": "m.values += [1]\nreturn y",
    "a list of the frame": "own = []\nown.append(y)\nreturn own[0]",
    "a new list": "m.values = []\nm.values.append(y.sum().item())\nreturn y",
    "a list of a list": "m.values.append([1])\nreturn y",
    "the history itself": "m.values.append(m)\nreturn y",
    "stored by another name": "m.n += 1\nother.n = 5\nreturn y",
    "an array": "a = y.numpy()\nm.values.append(a)\nreturn y, a",
    "a parameter": "m.values.append(weight)\nreturn y * weight",
    "stored in the dict": "m.n += 1\nvars(other)['n'] = 5\nreturn y",
    "stored in the dict before": "vars(other)['n'] = 5\nm.n += 1\nreturn y",
    "stored in the class": "Meter.n = 7\nm.n += 1\nreturn y",
    "stored by name": "m.n += 1\nsetattr(other, 'n', 5)\nreturn y",
    "deleted": "m.n += 1\ndel other.n\nreturn y",
    "added to by another function": "m.values.append(1)\nother.values.append([2])\nreturn y",
    "given to a function of Python": "m.values.append(1)\nlist.append(other.values, 2)\nreturn y",
    "returned": "m.values.append(y.sum().item())\nreturn y, whole()",
    "copied": "m.values.append(y.sum().item())\nreturn y, list(whole())",
    "an index of it": "m.values.append(y.sum().item())\nreturn y, whole()[-1]",
    "an iterator": "it = iter(whole())\nm.values.append(1)\nreturn y, list(it)",
    "a default": "keep(y)\nreturn y",
    "stored before": "other.n = 5\nm.n += 1\nreturn y",
    "printed": "m.values.append(y.sum().item())\nprint(other.values)\nreturn y",
    "the count is printed": "m.n += 1\nprint(other.n)\nreturn y",
    "an item that is asked for": "m.counts['calls'] += 1\nreturn y * other.counts['calls']",
    "another item that is asked for": "m.counts['calls'] += 1\nreturn y * other.counts['sum']",
    "the number of items": "m.counts['calls'] += 1\nreturn y * len(other.counts)",
    "an item of another type": "m.counts['calls'] += 0.5\nreturn y",
    "an item that is made": "m.made['new'] += 1\nreturn y",
    "an item that a tensor is added to": "m.counts['sum'] += y.sum()\nreturn y",
    "an item in a branch": "if y.sum() > 0:\n    m.counts['calls'] += 1\nreturn y",
    "a missing key": "m.counts['new'] += 1\nreturn y",
    "a key that is a text of the call": "m.counts[str(x.dim())] = 1\nreturn y",
    "a branch": "if y.sum() > 0:\n    m.n += 1\nreturn y",
    "a branch and a history": "if y.sum() > 0:\n    m.values.append(1)\nreturn y",
    "an exception later": "m.n += 1\nif y.sum() < 0:\n    raise ValueError('no')\nreturn y",
    "a break later": "m.n += 1\ntorch._dynamo.graph_break()\nm.values.append(1)\nreturn y",
    "a break in the argument": "m.values.append(told(y))\nreturn y",
}

FUNCTIONS = """
def count():
    return len(other.values)

def many(meter):
    return 2 if meter.n > 3 else 1

def get(meter):
    return meter.n

weight = torch.nn.Parameter(torch.ones(3))

def whole():
    return other.values

def keep(y, kept=other.values):
    kept.append(y.sum().item())

def told(y):
    torch._dynamo.graph_break()
    return 1
"""


@pytest.mark.slow
@pytest.mark.parametrize("body", SHARED.values(), ids=SHARED)
def test_state_that_is_used_as_well(body: str) -> None:
    source = metered(body).replace("def f(x)", f"{FUNCTIONS.strip()}\n\ndef f(x)")
    check(source, CALLS[:4], mends=None, declines=None, breaks=None)


PAIR = """
class Meter:
    def __init__(self):
        self.n = 0
        self.values = []

a, b = Meter(), Meter()
pairs = [(a, b), (a, b), (a, a), (b, a), (b, b)]
state = (a.__dict__, b.__dict__)
calls = []

def change(number):
    calls.append(number)

def step(x, one, two):
    one.n += 1
    two.n += 10
    one.values.append(one)
    one.values.append(1)
    two.values.append(2)
    return x * 2

def f(x):
    return step(x, *pairs[len(calls) % 5])
"""


def test_two_names_of_one_object() -> None:
    check(PAIR, [torch.ones(2)] * 6, mends=None, declines=None, breaks=None)


def test_types_that_change() -> None:
    source = METER + (
        "calls = []\n"
        "def change(number):\n"
        "    if number == 2:\n"
        "        m.n = 1.5\n"
        "    if number == 3:\n"
        "        m.values = other.values = (1,) if False else [7]\n"
        "    if number == 4:\n"
        "        m.n = 2**200\n"
        "    if number == 5:\n"
        "        m.counts['calls'] = True\n"
        "    if number == 6:\n"
        "        m.n = 0\n"
        "def f(x):\n"
        "    m.n += x.sum().item()\n"
        "    m.values.append(1)\n"
        "    m.counts['calls'] += 1\n"
        "    return x * 2\n"
    )
    check(source, CALLS, mends=None, declines=None, breaks=None)


@pytest.mark.parametrize("base", ["torch.nn.Module", "object"])
def test_one_compilation_for_ever(base: str) -> None:
    program = load(
        f"""
        import torch
        from collections import deque

        class Meter({base}):
            def __init__(self):
                super().__init__()
                self.values, self.n, self.total = [], 0, 0.0
                self.last, self.counts, self.text = deque(maxlen=3), dict(steps=0, sum=0.0), ""

            def step(self, x):
                loss = (x * x).mean()
                self.last.append(loss.item())
                self.counts["steps"] += 1
                self.counts["sum"] += loss.item()
                self.text += "step;"
                self.values.append(loss.item())
                self.n += 1
                self.total += loss.item()
                return x * 2

        m = Meter()

        def f(x):
            return m.step(x)
        """
    )
    frames: list[Any] = []
    state = gm.session.new_state(mends=True)
    state.on_frame.append(frames.append)
    torch._dynamo.reset()
    with gm.session.mending_by(state):
        compiled = torch.compile(program.f, backend="eager")
        for number in range(50):
            compiled(torch.full((3,), float(number)))
    assert len(frames) == 1
    assert frames[0].graphs == 1
    assert program.m.values == [float(n * n) for n in range(50)]
    assert (program.m.n, program.m.total) == (50, sum(program.m.values))
    assert program.m.counts == {"steps": 50, "sum": program.m.total}
    assert [*program.m.last] == program.m.values[-3:]
    assert program.m.text == 50 * "step;"


@pytest.mark.slow
def test_where_it_does_not_pay_one_more_attempt_at_most() -> None:
    for body in SHARED.values():
        source = metered(body).replace("def f(x)", f"{FUNCTIONS.strip()}\n\ndef f(x)")
        program = load(source)
        frames: list[Any] = []
        state = gm.session.new_state(mends=True)
        state.on_frame.append(frames.append)
        torch._dynamo.reset()
        with gm.session.mending_by(state), torch.no_grad():
            try:
                torch.compile(program.f, backend="eager")(torch.ones(3))
            except KeyError:
                continue
        assert sum("state-used" in a or "host-value" in a for f in frames for a in f.attempts) <= 2


RAISES_IF_EMPTY = {
    "a method": "m.values.append(x.sum())",
    "under another name": "m.values.append(x.sum())\n    m = other",
    "an item": "m.counts['steps'] += 1",
    "nothing": "m.values = [x.sum()]",
}


@pytest.mark.parametrize("caught", [False, True], ids=["raised", "caught"])
@pytest.mark.parametrize("add", RAISES_IF_EMPTY.values(), ids=RAISES_IF_EMPTY)
def test_what_raises_where_nothing_was_added(add: str, *, caught: bool) -> None:
    """The trace must not see the state of before the call, neither in what raises."""
    read = "total(m) * x"
    body = f"try:\n        return {read}\n    except ValueError:\n        return -x"
    source = f"""
class Meter:
    def __init__(self):
        self.values, self.counts = [], {{"steps": 0}}

meter = Meter()
other = Meter()
other.values = meter.values

def total(m):
    values = [value * 2 for value in m.values]
    if not values and not m.counts["steps"]:
        raise ValueError("there is nothing")
    return sum(values) + 1

def f(x):
    m = meter
    {add}
    {body if caught else f"return {read}"}
"""
    check(source, [torch.ones(3), torch.full((3,), 2.0)])
