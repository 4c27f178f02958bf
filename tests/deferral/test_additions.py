"""State that is added to, in all sorts of objects: what eager Python leaves of it."""

from __future__ import annotations

import textwrap

import pytest
import torch

from tests.oracle import check
from tests.releases import since

CALLS = [torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, 2.0, -3.0]), torch.ones(3)] * 2

PROGRAMS = {
    "an attribute in a slot": """
        class M:
            __slots__ = ("n", "values")

            def __init__(s):
                s.n = 0
                s.values = []

        m = M()
        state = [m.values]

        def f(x):
            m.n += 1
            m.values.append(x.sum().item())
            return x * 2, m.values[0] * 0
        """,
    "a property": """
        class M:
            def __init__(s):
                s._n = 0

            @property
            def n(s):
                return s._n

            @n.setter
            def n(s, v):
                s._n = v * 2

        m = M()
        state = vars(m)

        def f(x):
            m.n += 1
            return x * 2
        """,
    "a list of another class": """
        class L(list):
            def append(s, v):
                super().append(v * 2)

        class M:
            def __init__(s):
                s.values = L()

        m = M()
        state = vars(m)

        def f(x):
            m.values.append(x.sum().item())
            return x * 2
        """,
    "an attribute of the class": """
        class M:
            n = 0
            values = []

        m = M()
        state = (vars(m), M.values)

        def f(x):
            m.n += 1
            m.values.append(x.sum().item())
            return x * 2
        """,
    "a class that sees what is stored": """
        log = []

        class M:
            def __init__(s):
                s.n = 0.0

            def __setattr__(s, k, v):
                log.append(k)
                object.__setattr__(s, k, v)

        m = M()
        state = (vars(m), log)

        def f(x):
            m.n += x.sum().item()
            return x * 2
        """,
    "a class that answers itself": """
        class M:
            def __init__(s):
                s.n = 0

            def __getattribute__(s, k):
                if k == "n":
                    return 7
                return object.__getattribute__(s, k)

        m = M()
        state = m.__dict__

        def f(x):
            m.n += 1
            return x * 2
        """,
    "a frozen object": """
        import dataclasses

        @dataclasses.dataclass(frozen=True)
        class M:
            n: int = 0

        m = M()
        state = m.__dict__

        def f(x):
            m.n += 1
            return x * 2
        """,
    "a variable of a closure": """
        H = []
        state = H

        def make():
            rows = H

            def f(x):
                rows.append(x.sum().item())
                return x * 2

            return f

        f = make()
        """,
    "an argument that is a global": """
        H = []
        state = H

        def step(x, rows):
            rows.append(x.sum().item())
            H.append(1)
            return x * 2

        def f(x):
            return step(x, H)
        """,
    "an argument whose length is asked for": """
        H = []
        state = H

        def step(x, rows):
            rows.append(x.sum().item())
            return x * len(H)

        def f(x):
            return step(x, H)
        """,
    "a speculation": """
        class M:
            def __init__(s):
                s.n = 0
                s.values = []

        m = M()
        state = vars(m)

        def f(x):
            m.n += 1
            m.values.append(x.sum().item())
            k = 2 if x.sum() > 0 else 3
            m.values.append(k)
            return x * k
        """,
    "a branch": """
        class M:
            def __init__(s):
                s.n = 0
                s.values = []

        m = M()
        state = vars(m)

        def f(x):
            m.n += 1
            if x.sum() > 0:
                x = x + 1
            else:
                x = x - 1
            m.values.append(x.sum().item())
            return x
        """,
    "exceptions": """
        class M:
            def __init__(s):
                s.n = 0
                s.values = []

        m = M()
        state = vars(m)

        def f(x):
            try:
                m.n += 1
                m.values.append(x.sum().item())
                {}["a"]
            except KeyError:
                m.values.append(0)
            finally:
                m.n += 1
            return x * 2
        """,
    "two objects": """
        class M:
            def __init__(s):
                s.n = 0
                s.values = []

            def add(s, v):
                s.n += 1
                s.values.append(v)

        a, b = M(), M()
        state = (vars(a), vars(b))

        def f(x):
            a.add(x.sum().item())
            b.add(x.max().item())
            return x * 2
        """,
    "one list, two attributes": """
        class M:
            def __init__(s):
                s.a = s.b = []

        m = M()
        state = vars(m)

        def f(x):
            m.a.append(x.sum().item())
            m.b.append(2)
            m.a.append(3)
            return x * 2
        """,
    "an input that is changed later": """
        class M:
            def __init__(s):
                s.values = []

        m = M()
        state = vars(m)

        def f(x):
            m.values.append(x)
            x.add_(1)
            return x * 2
        """,
    "a tensor that is changed later": """
        class M:
            def __init__(s):
                s.values = []

        m = M()
        state = vars(m)

        def f(x):
            y = x * 2
            m.values.append(y)
            y.mul_(2)
            return y
        """,
    "a key that goes and comes": """
        D = {"a": 1}
        state = D

        def change(n):
            if n == 2:
                D.pop("a")
            if n == 3:
                D["a"] = 1.5
            if n == 4:
                D["a"] = "t"

        def f(x):
            D["a"] += 1
            return x * 2
        """,
    "a text of a number": """
        class M:
            def __init__(s):
                s.text = ""

        m = M()
        state = vars(m)

        def f(x):
            m.text += str(x.sum().item())
            return x * 2
        """,
    "a text of the object": """
        class M:
            def __init__(s):
                s.n = 0

            def __repr__(s):
                return f"M({s.n})"

        m = M()
        state = vars(m)

        def f(x):
            m.n += 1
            print(m)
            return x * 2
        """,
    "a handler that looks": """
        import logging

        class M:
            def __init__(s):
                s.n = 0
                s.values = []

        m = M()
        seen = []

        class H(logging.Handler):
            def emit(s, r):
                seen.append((m.n, len(m.values)))

        log = logging.getLogger("attack.h")
        log.propagate = False
        log.handlers = [H()]
        state = (vars(m), seen)

        def f(x):
            m.n += 1
            m.values.append(1)
            log.warning("x")
            m.values.append(2)
            m.n += 1
            return x * 2
        """,
    "a handler that assigns": """
        import logging

        class M:
            def __init__(s):
                s.n = 0

        m = M()

        class H(logging.Handler):
            def emit(s, r):
                m.n = 5

        log = logging.getLogger("attack.assigns")
        log.propagate = False
        log.handlers = [H()]
        state = vars(m)

        def f(x):
            m.n += 1
            log.warning("x")
            return x * 2
        """,
    "a handler that clears": """
        import logging

        class M:
            def __init__(s):
                s.values, s.counts = [], {"a": 1}

        m = M()

        class H(logging.Handler):
            def emit(s, r):
                m.values.clear()
                m.counts["a"] = 7

        log = logging.getLogger("attack.clears")
        log.propagate = False
        log.handlers = [H()]
        state = vars(m)

        def f(x):
            m.values.append(1)
            m.counts["a"] += 2
            log.warning("x")
            m.values.append(2)
            return x * 2
        """,
    "an addition inside an addition to an item": """
        D = {"a": 0}
        state = D

        def g():
            D["a"] += 10
            return 1

        def f(x):
            D["a"] += g()
            return x * 2
        """,
    "a method that a list lacks": """
        H = []
        state = H

        def f(x):
            try:
                H.appendleft(1)
            except AttributeError:
                x = x + 1
            return x * 2
        """,
    "a dict of an object, whose attribute was read": """
        class M:
            pass

        m = M()
        m.n = 0
        state = D = vars(m)

        def f(x):
            v = m.n
            D["n"] += 1
            return x * 2, v
        """,
    "objects that share their dict": """
        class Borg:
            shared = {"n": 0}

            def __init__(s):
                s.__dict__ = s.shared

        a, b = Borg(), Borg()
        state = Borg.shared

        def step():
            Borg.shared["n"] += 1

        def f(x):
            old = a.n
            step()
            return x * 2, old
        """,
    "a dict that an object is given": """
        class M:
            pass

        raw = {"n": 0.5}
        m = M()
        m.__dict__ = raw
        state = raw

        def f(x):
            old = m.n
            raw["n"] += x.sum().item()
            return x * old, old, [old]
        """,
    "the dict of the module": """
        class H:
            __slots__ = ("G",)

        h = H()
        h.G = globals()
        n = 0
        state = [n]

        def count():
            G = h.G
            G["n"] += 1

        def f(x):
            v = n
            count()
            return x * 2, v
        """,
    "a proxy of a dict": """
        import types

        D = {"k": 1}
        P = types.MappingProxyType(D)
        state = D

        def f(x):
            D["k"] += 1
            return x * P["k"]
        """,
    "a tensor of an arm": """
        H = []
        state = H

        def f(x):
            if x.sum() > 0:
                y = x * 3
                H.append(y)
            else:
                y = x * 2
            y += 1
            return y
        """,
    "a function that stores before the sum": """
        class M:
            pass

        m = M()
        m.n = 1.0
        state = vars(m)

        def reset(m, x):
            m.n = 5.0
            return x.sum()

        def f(x):
            m.n += reset(m, x)
            return x * 2
        """,
    "the same with an item": """
        D = {"a": 1.0}
        state = D

        def h(x):
            D["a"] = 10.0
            return x.sum()

        def f(x):
            D["a"] += h(x)
            return x * 2
        """,
    "a text made before": """
        class M:
            def __init__(s):
                s.values = []

            def __repr__(s):
                return f"M({s.values})"

        m = M()
        state = vars(m)

        def f(x):
            s = f"{m}"
            m.values.append(1)
            return x * 2, s
        """,
    "a handler between reading and storing": """
        import logging

        class M:
            pass

        m = M()
        m.n = 0

        class Hd(logging.Handler):
            def emit(s, r):
                m.n = 5

        log = logging.getLogger("cand8")
        log.propagate = False
        log.handlers = [Hd()]
        state = vars(m)

        def noisy():
            log.warning("x")
            return 1

        def f(x):
            m.n += noisy()
            return x * 2
        """,
    "the same with an item, and a handler": """
        import logging

        D = {"a": 0}

        class Hd(logging.Handler):
            def emit(s, r):
                D["a"] = 5

        log = logging.getLogger("cand8b")
        log.propagate = False
        log.handlers = [Hd()]
        state = D

        def noisy():
            log.warning("x")
            return 1

        def f(x):
            D["a"] += noisy()
            return x * 2
        """,
    "a dict that is replaced": """
        class M:
            pass

        m = M()
        m.n = 0
        state = [m]

        def f(x):
            m.__dict__ = {"n": 5}
            m.n += 1
            return x * 2
        """,
    "an addition inside an addition": """
        class M:
            pass

        m = M()
        m.n = 0
        state = vars(m)

        def g(m):
            m.n += 10
            return 1

        def f(x):
            m.n += g(m)
            return x * 2
        """,
    "an int too large for a float": """
        class M:
            pass

        m = M()
        m.n = 1
        state = vars(m)

        def f(x):
            try:
                for _ in range(17):
                    m.n *= 4611686018427387904
                m.n *= 0.5
            except OverflowError:
                x = x + 1
            return x * 2

        """,
    "a message between": """
        class M:
            def __init__(s):
                s.values = []

        m = M()
        state = vars(m)

        def f(x):
            m.values.append(1)
            print("one", x.sum().item())
            m.values.append(2)
            return x * 2
        """,
    "a property that reads it": """
        class M:
            def __init__(s):
                s.n = 0

            @property
            def twice(s):
                return s.n * 2

        m = M()
        state = vars(m)

        def f(x):
            m.n += 1
            return x * m.twice
        """,
    "a module": """
        class Net(torch.nn.Module):
            def __init__(s):
                super().__init__()
                s.calls = 0
                s.losses = []
                s.lin = torch.nn.Linear(3, 3)

            def forward(s, x):
                s.calls += 1
                y = s.lin(x)
                s.losses.append(y.mean().item())
                return y

        torch.manual_seed(0)
        net = Net()
        state = (net.losses,)

        def f(x):
            return net(x)
        """,
    "a loop that is left": """
        class M:
            def __init__(s):
                s.n = 0
                s.values = []

        m = M()
        state = vars(m)

        def f(x):
            for i in range(4):
                m.n += 1
                m.values.append(i)
                x = x * 2
                if x.max() > 10:
                    break
            return x
        """,
    "a break in a callee": """
        class M:
            def __init__(s):
                s.n = 0
                s.values = []

        m = M()
        state = vars(m)

        def g(x):
            torch._dynamo.graph_break()
            return x + 1

        def f(x):
            m.n += 1
            m.values.append(1)
            y = g(x)
            m.n += 10
            return y * 2
        """,
}


@pytest.mark.parametrize("source", PROGRAMS.values(), ids=PROGRAMS)
def test_state_after_each_call(source: str) -> None:
    if "m.__dict__ = " in source and not since(2, 13):
        pytest.skip("stock 2.11 does not replace the dict of an object")
    check(f"import torch\n{textwrap.dedent(source)}", CALLS, mends=None, declines=None, breaks=None)


def test_the_dict_of_the_print_options() -> None:
    """A text that is made after the graph is made with the options that it had before."""
    source = """
        D = vars(torch._tensor_str.PRINT_OPTS)
        state = []

        def change(number):
            torch._tensor_str.PRINT_OPTS.precision = 2

        def f(x):
            s = str(x / 3)
            D["precision"] += 1
            return x * 2, s
        """
    before = torch._tensor_str.PRINT_OPTS.precision
    try:
        check(source, CALLS, mends=None, declines=None, breaks=None)
    finally:
        torch._tensor_str.PRINT_OPTS.precision = before
