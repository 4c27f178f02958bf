"""What is around a frame with a mend changes between calls: classes, functions, modules, hooks."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import graphmend_bc as gm
from tests.surroundings import X, changing

MENDED = "print('sum', x.sum())"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("made", "used", "steps"),
    [
        (
            "class A:\n    def w(self): return 1\nclass O(A): pass",
            "o.w()",
            ["O.w = lambda s: 3", "del O.w", "A.w = lambda s: 4"],
        ),
        ("class A:\n    w = 1\nclass O(A): pass", "o.w", ["O.w = 3", "del O.w", "o.w = 4"]),
        ("class O:\n    def w(self): return 1", "o.w()", ["O.w.__code__ = (lambda s: 3).__code__"]),
        ("class O:\n    def w(self, a=1): return a", "o.w()", ["O.w.__defaults__ = (7,)"]),
        (
            "class O:\n    @classmethod\n    def w(cls): return 1",
            "o.w()",
            ["O.w = classmethod(lambda c: 3)"],
        ),
        (
            "class O:\n    @staticmethod\n    def w(): return 1",
            "O.w()",
            ["O.w = staticmethod(lambda: 3)"],
        ),
        (
            "class A:\n    w = property(lambda s: 1)\nclass O(A): pass",
            "o.w",
            ["O.w = property(lambda s: 3)", "del O.w", "O.w = 5"],
        ),
        (
            "class O: pass\nO.w = 1",
            "o.w",
            ["O.w = property(lambda s: 3)", "o.__class__ = type('P', (), {'w': 8})"],
        ),
        (
            "class A:\n    def w(self): return 1\nclass B(A): pass\nclass O(B):\n    def w(self): return super().w()",
            "o.w()",
            ["B.w = lambda s: 3", "del B.w"],
        ),
        (
            "class O:\n    def __iter__(self): return iter([1])",
            "sum(o)",
            ["O.__iter__ = lambda s: iter([1, 2])"],
        ),
        (
            "class O:\n    def __getitem__(self, k): return 1",
            "o[0]",
            ["O.__getitem__ = lambda s, k: 3"],
        ),
        (
            "class O:\n    def __init__(self): self.w = 1",
            "O().w",
            [
                "O.__init__ = lambda s: setattr(s, 'w', 5)",
                "O.__init__ = lambda s: setattr(s, 'w', 6)",
            ],
        ),
        (
            "class O:\n    def __getattribute__(self, n): return 1 if n == 'w' else object.__getattribute__(self, n)",
            "o.w",
            ["O.__getattribute__ = lambda s, n: 5 if n == 'w' else object.__getattribute__(s, n)"],
        ),
    ],
)
def test_class(made: str, used: str, steps: list[str]) -> None:
    changing(f"{made}\no = O()", f"w = {used}\n{MENDED}\nreturn w * x", *steps)


@pytest.mark.parametrize(
    "step",
    [
        "g.__defaults__ = (5,)",
        "g.__kwdefaults__ = {'b': 7}",
        "g.__kwdefaults__['b'] = 7",
        "g.__code__ = other.__code__",
        "g = other",
        "N = 2.5",
        "N = torch.ones(3)",
        "set_cell(4)",
        "torch.set_default_dtype(torch.float64)",
    ],
)
def test_function(step: str) -> None:
    try:
        changing(
            "torch.set_default_dtype(torch.float32)\nN = 1\n"
            "def make():\n    a = 2\n    def get(): return a\n"
            "    def put(v):\n        nonlocal a\n        a = v\n    return get, put\n"
            "get_cell, set_cell = make()\n"
            "def g(x, a=1, *, b=2): return x * a + b\n"
            "def other(x, a=1, *, b=2): return x * a - b",
            f"w = g(x) * N + get_cell() + torch.zeros(3)\n{MENDED}\nreturn w",
            step,
        )
    finally:
        torch.set_default_dtype(torch.float32)


MODULE = """
class M(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        nn.init.constant_(self.lin.weight, 1.0)
        nn.init.constant_(self.lin.bias, 0.5)
        self.flag = 1
    def forward(self, x):
        y = self.lin(x) * self.flag
        if self.training: y = y + 1
        print("sum", x.sum())
        return y
m = M()
def after(module, args, out):
    return out * 3 if out.sum() > 3 else out
def after_kw(module, args, kwargs, out): return out + 100
def before(module, args): return (args[0] * 7,)
def before_kw(module, args, kwargs): return (args[0] * 5,), kwargs
"""

HOOKS = [
    "{}.register_forward_hook(after)",
    "{}.register_forward_pre_hook(before)",
    "{}.register_forward_hook(after_kw, with_kwargs=True)",
    "{}.register_forward_pre_hook(before_kw, with_kwargs=True)",
    "{}.register_forward_hook(after, always_call=True)",
    "nn.modules.module.register_module_forward_hook(after)",
    "nn.modules.module.register_module_forward_pre_hook(before)",
]


@pytest.mark.slow
@pytest.mark.parametrize("where", ["m", "m.lin"])
@pytest.mark.parametrize("second", HOOKS)
@pytest.mark.parametrize("first", HOOKS[:2])
def test_hooks_that_come_and_go(first: str, second: str, where: str) -> None:
    steps = [
        "h.remove()",
        f"h = {second.format(where)}",
        "h.remove()",
        f"h = {first.format(where)}",
    ]
    changing(f"{MODULE}\nh = {first.format(where)}", "return m(x)", *steps, "h.remove()")


@pytest.mark.parametrize("second", HOOKS[:5])
def test_hooks_that_come_to_a_module_without(second: str) -> None:
    first = "h = " + HOOKS[0].format("m")
    changing(
        MODULE, "return m(x)", f"h = {second.format('m.lin')}", "h.remove()", first, "h.remove()"
    )


def test_flags_and_methods_of_modules() -> None:
    changing(
        MODULE,
        "return m(x)",
        "m.eval()",
        "m.lin.train()",
        "m.flag = 2.5",
        "m.lin.forward = lambda x: x * 5",
        "del m.lin.forward",
        "class Lin(nn.Linear):\n    def forward(self, x): return x * 9\nm.lin.__class__ = Lin",
        "Lin.forward = lambda self, x: x * 11",
    )


def test_branch_in_a_hook_that_goes() -> None:
    """The call without the hook has no break, but the frame once had."""
    changing(
        MODULE.replace('        print("sum", x.sum())\n', "")
        + "h = m.register_forward_hook(after)",
        "return m(x)",
        "h.remove()",
        "h = m.register_forward_pre_hook(before)",
    )


@pytest.mark.parametrize("kind", [classmethod, staticmethod])
def test_a_method_that_is_made_anew_may_have_the_address_of_the_old_one(kind: Any) -> None:
    class Owner:
        w: Any

    def f(x: torch.Tensor) -> torch.Tensor:
        print("sum", x.sum())
        result: torch.Tensor = x * Owner.w()
        return result

    def returning(number: int) -> Any:
        return eval(f"lambda *cls: {number}")

    for number in range(0, 80, 2):
        torch._dynamo.reset()
        function, other = returning(number), returning(number + 1)
        with gm.enabled():
            compiled = torch.compile(f, backend="eager")
            Owner.w = kind(function)
            seen = [compiled(X).tolist()]
            Owner.w = None
            Owner.w = kind(other)
            seen.append(compiled(X).tolist())
        assert seen == [(X * number).tolist(), (X * (number + 1)).tolist()]
