"""Lists that a function adds to and joins: a few compilations for ever, and eager's results."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import Change, agrees, check
from tests.settling import both

HEAD = """
import torch

def joined(values):
    if isinstance(values, torch.Tensor):
        return values
    values = [v.unsqueeze(0) if v.numel() == 1 and v.ndim == 0 else v for v in values]
    if not values:
        raise ValueError("no samples")
    return torch.cat(values, dim=0)

class Metric:
    def __init__(self):
        self.values, self.others, self.rows, self.scalars = [], [], [], []
        self.kept = None
        self.n = 0

    def update(self, y):
        self.values.append(y)

    def both(self, y, x):
        self.values.append(y)
        self.others.append(x)

    def compute(self):
        return joined(self.values)

m = other = Metric()
state = vars(m)
weight = torch.ones(3)
"""

CALLS = [torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, 2.0, -3.0]), torch.ones(3)] * 3


def program(body: str) -> str:
    lines = "".join(f"    {line}\n" for line in body.split("\n"))
    return f"{HEAD}\ndef f(x):\n    y = x * 2\n{lines}"


JOINED = {
    "a metric": "m.update(y)\nreturn m.compute()",
    "of a sum": "m.update(y)\nreturn m.compute().sum()",
    "directly": "m.update(y)\nreturn torch.cat(other.values)",
    "with a dimension": "m.update(y)\nreturn torch.concat(other.values, 0)",
    "by a keyword": "m.update(y)\nreturn torch.concatenate(other.values, dim=0)",
    "of rows": "m.update(y[None])\nreturn torch.cat(other.values, 0)",
    "of columns": "m.update(y[:, None])\nreturn torch.cat(other.values, 1)",
    "of scalars": "m.update(y.sum())\nreturn m.compute()",
    "twice added": "m.update(y)\nm.update(x)\nreturn m.compute()",
    "twice joined": "m.update(y)\nreturn m.compute(), m.compute() + 1",
    "in between": "m.update(y)\na = m.compute()\nm.update(x)\nreturn a.sum() + m.compute()",
    "two lists": "m.both(y, x)\nreturn joined(other.values) * joined(other.others)",
    "in one function": "m.values.append(y)\nreturn torch.cat(m.values)",
    "in one comprehension": "m.values.append(y)\nreturn torch.cat([v for v in m.values])",
    "of whole numbers": "m.update(x.long())\nreturn m.compute()",
    "of the argument": "m.update(x)\nreturn m.compute()",
    "a comprehension": "m.update(y)\nreturn torch.cat([v.float() for v in other.values])",
    "a filter": "m.update(y)\nreturn torch.cat([v for v in other.values if v.ndim == 1])",
    "with a gradient after it": "m.update(y.detach())\nreturn m.compute() * weight.sum()",
    "changed after it was added": "m.update(y)\ny.add_(1)\nreturn m.compute()",
    "a loop": "for i in range(3):\n    m.update(y + i)\nreturn m.compute()",
    "without gradients": "with torch.no_grad():\n    m.update(y)\nreturn m.compute()",
    "a branch after it": "m.update(y)\nz = m.compute()\nreturn z * 2 if z.sum() > 0 else z",
    "kept": "m.update(y)\nm.kept = m.compute()\nreturn m.kept + 1",
}


@pytest.mark.parametrize("body", JOINED.values(), ids=JOINED)
def test_joined(body: str) -> None:
    with torch.no_grad():
        outcome = check(program(body), CALLS, mends=None)
    assert "accumulate@" in outcome.mends
    assert outcome.graphs <= 3  # for none, for one row, and for any other number of them


@pytest.mark.parametrize("dynamic", [None, True, False])
def test_sizes_that_change(dynamic: bool | None) -> None:
    calls = [torch.arange(n).float() for n in (3, 4, 2, 5, 1, 7, 0, 3, 6)]
    outcome = agrees(program(JOINED["a metric"]), calls, dynamic=dynamic)
    assert outcome.graphs <= (8 if dynamic is False else 5)


def test_guards_that_are_not_asked() -> None:
    """What was joined for an earlier lookup is not what is in the list by now."""
    body = JOINED["a metric"]
    change = "torch.compiler.set_stance(skip_guard_eval_unsafe=True)"
    calls = [*CALLS[:4], Change("m.values = m.values[:2]"), CALLS[0], Change(change), *CALLS[:4]]
    with torch.no_grad():
        agrees(program(body), calls, orders=1)


def test_fewer_compilations_than_stock() -> None:
    stock, mended = both(program(JOINED["a metric"]), [(torch.randn(4),) for _ in range(40)])
    assert mended.total.compilations == 2 < stock.total.compilations
    assert mended.total.attempts <= stock.total.attempts
    assert mended.rest.launches == 20 > stock.rest.launches


USED = {
    "its length": "m.update(y)\nreturn m.compute() * len(other.values)",
    "an item": "m.update(y)\nreturn m.compute().sum() + other.values[-1]",
    "the first item": "m.update(y)\nreturn m.compute() + other.values[0].sum()",
    "all items": "m.update(y)\nreturn m.compute(), sum(other.values)",
    "a loop": "m.update(y)\nz = m.compute().sum()\nfor v in other.values:\n    z = z + v\nreturn z",
    "a loop alone": "m.update(y)\nz = y\nfor v in other.values:\n    z = z + v\nreturn z",
    "returned": "m.update(y)\nreturn m.compute(), other.values",
    "a copy": "m.update(y)\nreturn m.compute(), list(other.values)",
    "a slice": "m.update(y)\nreturn torch.cat(other.values[1:] + [y])",
    "a sum of lists": "m.update(y)\nreturn torch.cat(other.values + [y])",
    "unpacked": "m.update(y)\nreturn torch.cat([*other.values, y])",
    "the comprehension's length": "m.update(y)\nreturn y * len([v for v in other.values])",
    "the comprehension returned": "m.update(y)\nreturn [v for v in other.values]",
    "the comprehension indexed": "m.update(y)\nreturn [v for v in other.values][0]",
    "the comprehension kept": "m.update(y)\nm.kept = [v for v in other.values]\nreturn y",
    "the comprehension of a closure": "m.update(y)\nreturn torch.cat([v * y for v in other.values])",
    "the comprehension computes": "m.update(y)\nreturn torch.cat([v * 2 for v in other.values])",
    "the comprehension writes": "m.update(y)\nreturn torch.cat([v.add_(1) for v in other.values])",
    "pairs": "m.update(y)\nreturn torch.cat([v for v, w in zip(other.values, other.values)])",
    "numbers": "m.update(y)\nreturn [v.numel() for v in other.values]",
    "a generator": "m.update(y)\nreturn torch.cat(list(v for v in other.values))",
    "a map": "m.update(y)\nreturn torch.cat(list(map(torch.clone, other.values)))",
    "stacked": "m.update(y)\nreturn torch.stack(other.values)",
    "into a tensor": "m.update(y)\nreturn torch.cat(other.values, out=torch.empty(0))",
    "from the end": "m.update(y)\nreturn torch.cat(other.values, dim=-1)",
    "a wrong dimension": "m.update(y)\nreturn torch.cat(other.values, dim=1)",
    "sought in": "m.update(y)\nreturn m.compute() * (5 in m.others)",
    "compared": "m.update(y)\nreturn m.compute() * (other.values == [])",
    "asked whether it is another": "m.update(y)\nreturn m.compute() * (other.values is m.others)",
    "asked whether it is None": "m.update(y)\nreturn m.compute() * (other.values is None)",
    "not": "m.update(y)\nreturn m.compute() * (not other.values)",
    "and": "m.update(y)\nreturn m.compute() * len(other.values and [1])",
    "emptied": "m.update(y)\nz = m.compute()\nother.values.clear()\nreturn z",
    "emptied before": "m.update(y)\nother.values.clear()\nm.update(x)\nreturn m.compute()",
    "a new list": "m.update(y)\nz = m.compute()\nother.values = []\nreturn z",
    "extended": "m.update(y)\nother.values.extend([x])\nreturn m.compute()",
    "taken from": "m.update(y)\nother.values.pop(0)\nm.update(x)\nreturn m.compute()",
    "set": "m.update(y)\nother.values[0] = x\nreturn m.compute()",
    "under two names": "m.update(y)\nreturn torch.cat(vars(other)['values'])",
    "an iterator that is used": "m.update(y)\nit = iter(other.values)\nreturn next(it) + m.compute().sum()",
    "an iterator before": "it = iter(other.values)\nm.update(y)\nreturn torch.cat([v for v in it])",
    "printed": "m.update(y)\nprint(other.values)\nreturn m.compute()",
    "printed after": "m.update(y)\nprint(m.compute())\nreturn y",
    "a break between": "m.update(y)\ntorch._dynamo.graph_break()\nreturn m.compute()",
    "a break after": "m.update(y)\nz = m.compute()\ntorch._dynamo.graph_break()\nreturn z + 1",
    "a break with the list": "m.update(y)\nv = other.values\nz = torch.cat(v)\n"
    "torch._dynamo.graph_break()\nreturn z + len(v)",
    "nothing is left of it": "m.update(y)\nreturn torch.cat([v for v in other.values if v.ndim > 5])",
    "something else is added": "m.update([y])\nreturn torch.cat(other.values[-1])",
    "a number is added": "m.update(1)\nreturn y * len(other.values)",
    "another type": "m.update(y.double() if len(m.others) == 2 else y)\nm.others = m.others + [1]\n"
    "return m.compute()",
    "another size": "m.update(y[None, :2] if len(m.others) == 2 else y[None])\n"
    "m.others = m.others + [1]\nreturn m.compute()",
    "another number of dimensions": "m.update(y[None] if len(m.others) == 2 else y)\n"
    "m.others = m.others + [1]\nreturn m.compute()",
    "images": "m.update(y.expand(1, 2, 2, 3).contiguous(memory_format=torch.channels_last))\n"
    "return m.compute()",
    "complex numbers": "m.update(torch.complex(x, y).conj())\nreturn m.compute()",
    "an exception later": "m.update(y)\nz = m.compute()\nif z.sum() > 20:\n"
    "    raise ValueError('much')\nreturn z",
    "an exception before": "m.update(y)\nif y.sum() < 0:\n    raise ValueError('no')\n"
    "return m.compute()",
    "an exception that is caught": "try:\n    m.update(y)\n    z = torch.cat(other.values, dim=3)\n"
    "except IndexError:\n    z = y\nreturn z",
    "a branch": "if y.sum() > 0:\n    m.update(y)\nreturn m.compute() if m.n else y",
    "joined in a branch": "m.update(y)\nreturn m.compute() if y.sum() > 0 else y",
    "random numbers": "m.update(torch.rand(3))\nreturn m.compute()",
    "a weight in the list": "m.update(weight)\nweight.add_(1)\nreturn m.compute()",
    "a weight in the list, changed after": "m.update(weight)\nz = m.compute()\nweight.add_(1)\n"
    "return z",
    "a view of a weight": "m.update(weight[:2])\nweight.mul_(2)\nreturn m.compute()",
    "the result is changed": "m.update(y)\nz = m.compute()\nz.add_(1)\nreturn z, m.compute()",
    "inference": "m.update(y)\nwith torch.inference_mode():\n    return m.compute() + 1",
    "other precision": "m.update(y)\nwith torch.autocast('cpu', dtype=torch.bfloat16):\n"
    "    return m.compute()",
    "reduced numbers": "m.update(y.bfloat16())\nwith torch.autocast('cpu', dtype=torch.bfloat16):\n"
    "    return m.compute()",
    "changed between two": "m.update(weight)\na = m.compute()\nweight.add_(1)\n"
    "return a, m.compute()",
    "another data": "m.update(weight)\nweight.data = weight + 1\nreturn m.compute()",
    "another storage": "m.update(weight)\nweight.set_(weight + 1)\nreturn m.compute()",
    "a gradient from now on": "m.update(weight)\nweight.requires_grad_()\nreturn m.compute()",
    "no gradient from now on": "m.update(weight)\nweight.requires_grad_(False)\nreturn m.compute()",
    "a weight set at once": "m.update(weight)\nweight[0] = y[0]\nreturn m.compute()",
    "a buffer of statistics": "m.update(weight)\ntorch.nn.functional.batch_norm(\n"
    "    y[:, None] + x, weight, torch.ones(3), training=True)\nreturn m.compute()",
    "a closure's list": "kept = m.values\n(lambda v: kept.append(v))(y)\nreturn torch.cat(kept)",
}


@pytest.mark.slow
@pytest.mark.parametrize("body", USED.values(), ids=USED)
def test_used_in_another_way(body: str) -> None:
    with torch.no_grad():
        agrees(program(body), CALLS[:6])
    agrees(program(body), CALLS[:4])


BETWEEN = {
    "reset": "m.values = []",
    "cleared": "m.values.clear()",
    "shortened": "m.values.pop()",
    "another type": "m.values.append(torch.ones(2, dtype=torch.float64))",
    "whole numbers": "m.values[0] = torch.ones(2, dtype=torch.int64)",
    "another number of dimensions": "m.values.append(torch.ones(2, 3))",
    "a scalar": "m.values.append(torch.tensor(3.0))",
    "an empty one": "m.values.append(torch.ones(0))",
    "a gradient": "m.values.append(torch.ones(2, requires_grad=True))",
    "a result with a gradient": "m.values.append(torch.ones(2, requires_grad=True) * 2)",
    "a parameter": "m.values.append(torch.nn.Parameter(torch.ones(2)))",
    "a subclass": "class T(torch.Tensor): pass\nm.values.append(torch.ones(2).as_subclass(T))",
    "a number": "m.values.append(1)",
    "nothing": "m.values.append(None)",
    "a tuple": "m.values = tuple(m.values)",
    "a class of lists": "class L(list): pass\nm.values = L(m.values)",
    "one list for both": "m.others = m.values",
    "changed elements": "[v.add_(1) for v in m.values]",
    "the same one twice": "m.values.append(m.values[0])",
    "a sparse one": "m.values.append(torch.ones(2).to_sparse())",
    "complex numbers": "m.values.append(torch.ones(2, dtype=torch.complex64))",
    "the weight": "m.values.append(weight)",
    "replaced": "torch.Tensor.own = property(lambda t: t)\nm.values.insert(0, torch.zeros(1))",
}
FORMS = {
    "a metric": "m.both(y, x)\nreturn m.compute(), joined(m.others)",
    "a list": "m.both(y, x)\nreturn torch.cat(m.values), torch.cat(other.others)",
    "a weight that is changed": "m.both(y, x)\nweight.add_(1)\nreturn m.compute()",
}


@pytest.mark.slow
@pytest.mark.parametrize("body", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("step", BETWEEN.values(), ids=BETWEEN)
def test_changes_between_calls(step: str, body: str) -> None:
    calls = [*CALLS[:3], Change(step), *CALLS[:2], Change("m.values = []"), *CALLS[:3]]
    with torch.no_grad():
        agrees(program(body), calls, orders=1)
