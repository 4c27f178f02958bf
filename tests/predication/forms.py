"""Every form of data-dependent control flow, with what it comes to.

A row is a program, and what the report must say about it: strategies and declines by line, and
whether a break is left. Programs take `x`, a vector of three floats, unless they say otherwise.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphmend_bc.code import facts
from tests.orders import Wanted


@dataclass(frozen=True)
class Form:
    """One form.

    Attributes:
        name: what a test is called.
        body: the program.
        mends, declines, breaks: as for `tests.oracle.check`.
    """

    name: str
    body: str
    mends: Wanted[str] = ""
    declines: Wanted[str] = ""
    breaks: Wanted[int] = 0


FORMS = (
    Form(
        "if",
        """
        def f(x):
            y = x + 1
            if x.sum() > 0:
                y = y * 2
            return y
        """,
        "where@3",
    ),
    Form(
        "elif",
        """
        def f(x):
            if x.sum() > 3:
                y = x * 2
            elif x.sum() > 0:
                y = x * 3
            else:
                y = -x
            return y
        """,
        "where@2 where@4",
    ),
    Form(
        "ternary",
        """
        def f(x):
            return (x + 1 if x.sum() > 0 else x - 1) * 2
        """,
        "where@2",
    ),
    Form(
        "short circuits with Python conditions",
        """
        def f(x, flag=True):
            if flag and (x.sum() > 3 or not (x > -1).all()) and x.ndim == 1:
                return x * 2
            return x + 1
        """,
        "where@2",
    ),
    Form(
        "short circuit as a value",
        """
        def f(x):
            y = x.sum() > 0 and x.max() * 2
            return x + 1, y
        """,
        "speculate@2",
    ),
    Form(
        "chained comparison",
        """
        def f(x):
            if 0 < x.sum() < 4:
                return x * 2
            return x + 1
        """,
        "where@2",
    ),
    Form(
        "match",
        """
        def f(x):
            match bool(x.sum() > 0), x.ndim:
                case True, 1:
                    return x * 2
                case _:
                    return x + 1
        """,
        "speculate@2",
    ),
    Form(
        "early return from a nested loop",
        """
        def f(x):
            for i in range(2):
                for j in range(2):
                    x = x + j
                    if x.sum() > 5:
                        return x, i, j
            return x * 2, None, None
        """,
        {"forward": "speculate@5", "twice": None, "both ways": None},
        # Its rounds flip one by one: with more calls they are given up.
        {"forward": "", "twice": None, "both ways": None},
        {"forward": 0, "twice": None, "both ways": None},
    ),
    Form(
        "break with else",
        """
        def f(x):
            for i in range(3):
                if x.sum() > 10:
                    break
                x = x * 2
            else:
                return x, "went through"
            return x, i
        """,
        "speculate@3",
    ),
    Form(
        "continue",
        """
        def f(x):
            for i in range(3):
                if x[i] < 0:
                    continue
                x = x + i
            return x * 2
        """,
        "where@3",
    ),
    Form(
        "while",
        """
        def f(x):
            y = x.abs() + 1
            while y.sum() < 100:
                y = y * 2
            return y + 1
        """,
        "while_loop@3",
    ),
    Form(
        "while with a counter and a short circuit",
        """
        def f(x):
            y, n = x.abs() + 1, 0
            while y.sum() < 100 and (y < 50).all():
                y = y * 2
                n += 1
            return y, n
        """,
        facts.WHILE_TESTS_TWICE * "where@3 " + "while_loop@3",
    ),
    Form(
        "while that may leave its input as it is",
        """
        def f(x):
            while x.abs().sum() < 9:
                x = x * 2 + 1
            return x
        """,
        "while_loop@2",
    ),
    Form(
        "while with a break",
        """
        def f(x):
            y = x.abs() + 1
            while True:
                y = y * 2
                if not y.sum() <= 100:
                    break
            return y
        """,
        "while_loop@5",
    ),
    Form(
        "while on a flag",
        """
        def f(x):
            y, done, n = x.abs() + 1, False, 0
            while not done:
                y = y * 2
                n = n + 1
                done = (y.sum() > 40) | torch.isnan(y).any()
            return y, n
        """,
        "while_loop@3",
    ),
    Form(
        "with no_grad around and inside",
        """
        def f(x):
            with torch.no_grad():
                if x.sum() > 0:
                    x = x + 1
            if x.max() > 2:
                with torch.no_grad():
                    x = x * 2
            return x + 1
        """,
        "where@3 speculate@5",
    ),
    Form(
        "own context manager",
        """
        from contextlib import contextmanager

        @contextmanager
        def noting(into):
            into.append("in")
            try:
                yield
            finally:
                into.append("out")

        def f(x):
            seen = []
            with noting(seen):
                if x.sum() > 0:
                    x = x + 1
                    seen.append("positive")
            return x * 2, seen
        """,
        "speculate@14",
    ),
    Form(
        "try, except and finally",
        """
        def f(x):
            seen = []
            try:
                if x.sum() < 0:
                    raise ValueError(f"sum {x.sum()}")
                y = x + 1
            except ValueError as error:
                seen.append(str(error))
                y = x - 1
            finally:
                seen.append("done")
            return y, seen
        """,
        "speculate@4",
    ),
    Form(
        "try inside an arm",
        """
        def f(x):
            if x.sum() > 0:
                try:
                    y = {}["missing"]
                except KeyError:
                    y = x * 3
            else:
                y = x - 1
            return y * 2
        """,
        "speculate@2",
    ),
    Form(
        "callee, method and closure",
        """
        class Scale:
            def __init__(self, factor):
                self.factor = factor

            def __call__(self, x):
                if x.sum() > 0:
                    return x * self.factor
                return x + self.factor

        def make(limit):
            def clip(x):
                if x.max() > limit:
                    x = x.clamp(max=limit)
                return x * 1
            return clip

        scale, clip = Scale(3), make(2)

        def f(x):
            return clip(scale(x + 1))
        """,
        "where@6 where@12",
    ),
    Form(
        "nonlocal",
        """
        def f(x):
            n = 0
            def count(x):
                nonlocal n
                if x.sum() > 0:
                    n += 1
                return x * 2
            return count(count(x)), n
        """,
        "speculate@5",
    ),
    Form(
        "comprehension",
        """
        def f(x):
            return [t * 2 if t > 0 else t - 1 for t in x.unbind()]
        """,
        "where@2",
    ),
    Form(
        "comprehension that filters",
        """
        def f(x):
            return [i for i, t in enumerate(x.unbind()) if t > 0], x + 1
        """,
        {"forward": "speculate@2", "twice": "", "both ways": ""},
        # There are more conditions in it than are guarded.
        {"forward": "", "twice": "speculation-missed@2", "both ways": "speculation-missed@2"},
        {"forward": 0, "twice": 1, "both ways": 1},
    ),
    Form(
        "generator",
        """
        def parts(x):
            for t in x.unbind():
                if t > 0:
                    yield t * 2
                else:
                    yield t

        def f(x):
            return torch.stack(list(parts(x + 1)))
        """,
        "speculate@3",
    ),
    Form(
        "bool, not, item",
        """
        def f(x):
            flag = bool(x.sum() > 0)
            y = x + 1 if not x.any() else x - 1
            if x.max().item() > 2.5:
                y = y * 2
            return y * 2, flag, not (x > 0).all()
        """,
        "speculate@2 where@3 capture@4 where@4 speculate@6",
    ),
    Form(
        "equal and allclose",
        """
        def f(x):
            y = x + 1
            if torch.equal(x > 0, x < 5):
                y = y * 2
            if torch.allclose(x, x.abs()):
                y = y + 1
            return y
        """,
        "capture@3 where@3 capture@5 where@5",
    ),
    Form(
        "NaN and integers as truth values",
        """
        def f(x):
            y = x + 1
            if x.sum():
                y = y * 2
            if (x > 0).sum():
                y = y + 1
            return y
        """,
        "where@3 where@5",
    ),
    Form(
        "more than one element",
        """
        def f(x):
            if x > 0:
                return x * 2
            return x + 1
        """,
        declines="predicate-not-scalar@2",
        breaks=1,
    ),
    Form(
        "Python numbers from arms",
        """
        def f(x):
            k = 0.1 if x.sum() > 0 else 3
            return x * k, k
        """,
        "speculate@2",
    ),
    Form(
        "None from an arm",
        """
        def f(x):
            mask = x > 1
            if not mask.any():
                mask = None
            return x + 1 if mask is None else x * mask
        """,
        "speculate@3",
    ),
    Form(
        "string from an arm, containers of other sizes",
        """
        def f(x):
            if x.sum() > 0:
                return "up", (x + 1,)
            return "down", (x, x + 1)
        """,
        "speculate@2",
    ),
    Form(
        "arms of other shapes",
        """
        def f(x):
            if x.sum() > 0:
                x = torch.cat([x, x])
            return x + 1
        """,
        "speculate@2",
    ),
    Form(
        "arm that may raise",
        """
        def f(x):
            i = x.abs().to(torch.int64).max() - 1
            y = x + 1
            if i < 3:
                y = y + torch.index_select(x, 0, i)
            return y * 2
        """,
        "cond@4",
    ),
    Form(
        "arm in place, through a view",
        """
        def f(x):
            if x.sum() > 0:
                x[1:].mul_(2)
            return x + 1
        """,
        "speculate@2",
    ),
    Form(
        "attribute, buffer, dict and list written in an arm",
        """
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("total", torch.zeros(3))
                self.calls, self.seen, self.log = 0, {}, []

            def forward(self, x):
                if x.sum() > 0:
                    self.total += x
                    self.calls += 1
                    self.seen["last"] = 1
                    self.log.append("up")
                else:
                    self.total = self.total - 1
                return x + self.total

        model = Model()

        def f(x):
            return model(x), model.calls, dict(model.seen), list(model.log)
        """,
        "speculate@8",
    ),
    Form(
        "buffers that share memory, one replaced in an arm",
        """
        class Rope(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("freq", torch.ones(3), persistent=False)
                self.original = self.freq

            def forward(self, x):
                if x.max() > 2:
                    self.register_buffer("freq", x * 2, persistent=False)
                else:
                    self.register_buffer("freq", self.original, persistent=False)
                return x * self.freq

        rope = Rope()

        def f(x):
            return rope(x)
        """,
        "speculate@8",
    ),
    Form(
        "random numbers in an arm",
        """
        def f(x):
            if x.sum() > 0:
                x = x + torch.rand(3)
            return x * 2 + torch.rand(3)
        """,
        "speculate@2",
    ),
    Form(
        "log in an arm",
        """
        logger = logging.getLogger("program")

        def f(x):
            y = x + 1
            if torch.isnan(y).any():
                logger.warning("NaN in %s", tuple(y.shape))
            return y * 2
        """,
        "where@5 defer@6",
    ),
    Form(
        "raise in a callee, from another exception, with arguments",
        """
        class Bad(Exception):
            pass

        def validate(x):
            if (x < -2).any():
                raise Bad("low", x.min().item()) from KeyError(3)
            assert x.sum() != 0, f"zero: {x}"
            return x

        def f(x):
            print("before")
            return validate(x) * 2
        """,
        "speculate@5 speculate@7 defer@11",
    ),
    Form(
        "stochastic skip of rate zero",
        """
        def f(x, rate=0.0):
            for _ in range(3):
                if torch.rand([]) < rate:
                    continue
                x = x + 1
            return x
        """,
        "fold@3",
    ),
    Form(
        "flag of a tensor that steers all layers",
        """
        def layer(x, is_global):
            return x * 2 if is_global else x + 1

        def f(x):
            is_global = (x > 2.5).flatten().any().item()
            for _ in range(3):
                x = layer(x, is_global=is_global)
            return x, is_global
        """,
        "speculate@5",
    ),
)
