"""Progress bars that are made inside the compiled function."""

from __future__ import annotations

import gc
import textwrap
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import graphmend_bc as gm
from tests.oracle import Outcome, check, load

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])
BOTH = [UP, DOWN]

PRELUDE = r"""
import re, threading
import tqdm.auto, tqdm.asyncio
auto, aio, module = tqdm.auto, tqdm.asyncio, tqdm
from tqdm import tqdm, trange

tqdm._instances.clear()  # stock Dynamo keeps some alive
tqdm.set_lock(threading.RLock())  # tqdm keeps it when a text cannot be made
texts = []
TIMES = re.compile(r"[0-9:]+(<[0-9:?]+)?, [^ ]*/s\]? *")

class Out:
    def write(self, text):
        texts.append(TIMES.sub("TIMES", text))

out = Out()
items = [1, 2, 3]

class Show:
    how = dict(file=out, mininterval=0, bar_format="{desc}{n}/{total}{postfix}|")

outer = tqdm(total=9, **Show.how)

class Meter:
    def __init__(self, n):
        self.bar = tqdm(total=n, **Show.how)
    def __call__(self, i):
        self.bar.update(i)

@torch._dynamo.disable
def disabled(bar):
    bar.update(2)

class Items:
    def __init__(self, n):
        self.n = n
    def __len__(self):
        print("length", file=out)
        return 3
    def __iter__(self):
        print("iterator", file=out)
        return self
    def __next__(self):
        self.n -= 1
        if self.n < 0:
            raise StopIteration
        print("next", file=out)
        return self.n
"""
LINES = PRELUDE.strip("\n").count("\n") + 3
"""The line on which a program begins."""


def bars(
    body: str,
    declines: str | None = "",
    breaks: int | None = 0,
    calls: object = BOTH,
    **kwargs: object,
) -> Outcome:
    """Compare the arms on `def step(x)` with a body; `say` prints between what the bars show."""
    return check(_program(body), calls, mends=None, declines=declines, breaks=breaks, **kwargs)  # type: ignore[arg-type]


def _program(body: str) -> str:
    body = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    return f"{PRELUDE}\ndef f(x):\n{body}\n"


def at(body: str, wanted: str) -> int:
    """The line of a program's body that has a text."""
    lines = textwrap.dedent(body).strip("\n").split("\n")
    return LINES + 1 + next(i for i, line in enumerate(lines) if wanted in line)


MENDED = {
    "for": """
        for i in tqdm(items, **Show.how):
            x = x * i
        return x""",
    "keywords": """
        for i in tqdm(items, file=out, mininterval=0, bar_format="{n}/{total}|", desc="work"):
            x = x * i
        return x""",
    "trange": """
        for i in trange(4, file=out, mininterval=0, bar_format="{desc}{n}/{total}|", desc="a"):
            x = x * i
        return x""",
    "messages between the steps": """
        for i in tqdm(items, **Show.how):
            x = x * i
            print("step", i, x.sum(), file=out)
        print("done", file=out)
        return x""",
    "tqdm.write": """
        for i in tqdm(items, **Show.how):
            x = x * i
            tqdm.write(f"norm {x.sum():.2f}", file=out)
        return x""",
    "postfix": """
        bar = tqdm(items, desc="loss", **Show.how)
        for i in bar:
            x = x * i
            bar.set_postfix(loss=x.sum().item(), i=i)
        bar.set_description("late")
        return x""",
    "with": """
        with tqdm(total=len(items), **Show.how) as bar:
            for i in items:
                x = x * i
                bar.set_postfix(loss=x.sum())
                bar.update(1)
        print("closed", file=out)
        return x""",
    "with and without a name": """
        with tqdm(items, **Show.how):
            x = x + 1
        return x""",
    "close": """
        bar = tqdm(total=6, initial=2, unit="B", **Show.how)
        for i in items:
            x = x + i
            bar.update(i)
        bar.close()
        bar.update()
        bar.set_postfix_str("after")
        return x""",
    "left open": """
        bar = tqdm(total=6, **Show.how)
        for i in items:
            bar.update(i)
            x = x + i
        print("last", file=out)
        return x""",
    "enumerate": """
        for i, y in enumerate(tqdm([x, x + 1], **Show.how), 3):
            x = x + y * i
            print(i, file=out)
        return x""",
    "zip": """
        for i, y in zip(tqdm(items, **Show.how), items):
            x = x + y * i
        for i, y in zip(items, tqdm(items, **Show.how)):
            x = x + y * i
            print(i, file=out)
        print("end", file=out)
        return x""",
    "no length": """
        for i, j in tqdm(zip(items, items), **Show.how):
            x = x * i + j
        for i, j in tqdm(enumerate(items), **Show.how):
            x = x * i + j
        for i in tqdm(map(lambda i: i * 2, items), total=3, **Show.how):
            x = x * i
        for i in tqdm(iter(items), **Show.how):
            x = x * i
        for i in tqdm((i for i in items), **Show.how):
            x = x * i
        return x""",
    "lengths": """
        for y in tqdm(x, **Show.how):
            x = x * y
        for i in tqdm({1: 2, 3: 4}, **Show.how):
            x = x * i
        for i in tqdm({1: 2, 3: 4}.items(), **Show.how):
            x = x * i[1]
        for i in tqdm((1, 2), total=None, **Show.how):
            x = x * i
        for i in tqdm("ab", **Show.how):
            x = x + len(i)
        for i in tqdm([], **Show.how):
            x = x + 7
        for i in tqdm(items, total=7, **Show.how):
            x = x + i
        for i in tqdm(range(2, 5), total=float("inf"), **Show.how):
            x = x + i
        return x""",
    "break": """
        for i in tqdm(items, **Show.how):
            if i == 2:
                break
            x = x + i
        print("left", file=out)
        return x""",
    "break from enumerate and zip": """
        for i, y in enumerate(tqdm(items, **Show.how)):
            print(i, file=out)
            if i == 1:
                break
        print("left", file=out)
        for i, y in zip(tqdm(items, **Show.how), items):
            if i == 2:
                break
        print("left", file=out)
        for i in iter(tqdm(items, **Show.how)):
            if i == 2:
                break
        print("left", file=out)
        return x + i""",
    "continue and else": """
        for i in tqdm(items, **Show.how):
            if i == 2:
                continue
            x = x + i
        else:
            print("else", file=out)
        for i in tqdm(items, **Show.how):
            break
        else:
            print("never", file=out)
        return x + i""",
    "return in a loop": """
        for i in tqdm(items, **Show.how):
            for j in tqdm(items, leave=False, **Show.how):
                x = x + j
                print(i, j, file=out)
                if i + j == 4:
                    return x
        return x""",
    "nested": """
        for i in trange(2, desc="outer", **Show.how):
            for j in trange(3, desc="inner", leave=False, **Show.how):
                x = x * (i + j)
            for j in trange(3, desc="other", leave=None, position=2, **Show.how):
                if j == 1:
                    break
        return x""",
    "nested, inner left without a word": """
        for i in tqdm(items, **Show.how):
            for j in tqdm(items, **Show.how):
                break
        return x + i + j""",
    "disabled": """
        bar = tqdm(items, disable=True, **Show.how)
        for i in bar:
            x = x * i
            bar.set_postfix(a=i)
            bar.update()
        for i in tqdm(items, disable=None, **Show.how):
            x = x * i
        return x""",
    "default format": """
        for i in tqdm(items, file=out, mininterval=0, ascii=True, desc="work", unit="B"):
            x = x * i
        for i in tqdm(iter(items), file=out, mininterval=0):
            x = x * i
        return x""",
    "twice over a bar": """
        bar = tqdm(items, **Show.how)
        for i in bar:
            x = x * i
        for i in bar:
            x = x * i
        return x""",
    "classes": """
        for i in auto.tqdm(items, **Show.how):
            x = x * i
        for i in auto.trange(3, **Show.how):
            x = x + i
        for i in aio.tqdm(items, **Show.how):
            x = x * i
        for i in module.tqdm(iterable=items, **Show.how):
            x = x + i
        for i in aio.trange(1, 7, 2, **Show.how):
            x = x + i
        return x""",
    "arguments of all kinds": """
        for i in tqdm(items, f"norm {x.sum():.1f}", 5, postfix={"max": x.max()}, colour="green", **Show.how):
            x = x + i
        return x""",
    "comprehension": """
        ys = [x * i for i in tqdm(items, **Show.how)]
        print("made", file=out)
        return sum(ys)""",
    "exception": """
        try:
            for i in tqdm(items, **Show.how):
                print(i, file=out)
                if i == 2:
                    raise ValueError("two")
        except ValueError:
            print("caught", file=out)
        try:
            with tqdm(items, **Show.how) as bar:
                for i in bar:
                    if i == 2:
                        raise KeyError(i)
        except KeyError:
            print("caught", file=out)
        finally:
            print("finally", file=out)
        return x + i""",
    "None test": """
        bar = tqdm(total=3, **Show.how) if x.dim() else None
        for i in items:
            x = x * i
            if bar is not None:
                bar.update()
        if bar is not None:
            bar.close()
        return x""",
    "given to a function": """
        def work(x, bar, again=None):
            for i in bar:
                x = x * i
                bar.set_postfix(i=i)
            return x
        x = work(x, tqdm(items, **Show.how))
        bars = [tqdm(items, **Show.how)]
        bars.append(tqdm(items, desc="b", **Show.how))
        for bar in bars:
            x = work(x, bar)
        return x""",
    "a branch on a tensor in the loop": """
        for i in tqdm(items, **Show.how):
            if x.sum() > 0:
                x = x * i
            else:
                x = x - i
                print("negative", file=out)
        return x""",
    "left where a tensor says so": """
        for i in tqdm(items, **Show.how):
            x = x * i
            if x.sum() > 8:
                break
        print("left", file=out)
        return x""",
    "a loop in an arm": """
        if x.sum() > 0:
            for i in tqdm(items, **Show.how):
                x = x * i
        return x""",
    "calls in an arm": """
        bar = tqdm(total=3, **Show.how)
        for i in items:
            x = x + i
            if x.sum() > 3:
                bar.set_postfix(big=x.sum())
                bar.update()
        if x.sum() > 10:
            bar.close()
        print("end", file=out)
        return x""",
    "raises where a tensor says so": """
        for i in tqdm(items, **Show.how):
            x = x * i
            print(i, file=out)
            if x.sum() < -10:
                raise ValueError(f"too small in step {i}")
        return x""",
    "exception in a callee": """
        def work(x):
            with tqdm(total=2, **Show.how) as bar:
                for i in tqdm(items, desc="in", **Show.how):
                    bar.update()
                    if i == 2:
                        raise ValueError(i)
            return x
        for k in trange(2, desc="out", **Show.how):
            try:
                work(x)
            except ValueError:
                print("caught", file=out)
                continue
            finally:
                print("finally", file=out)
        return x + k""",
    "the value that is returned": """
        def say(x):
            print("said", file=out)
            return x
        for k in tqdm(items, **Show.how):
            try:
                if k == 2:
                    return say(x + k)
            finally:
                print("finally", k, file=out)
        return x""",
    "next": """
        steps = iter(tqdm(items, **Show.how))
        a = next(steps) + next(steps) + next(steps)
        print(a, file=out)
        b = next(steps, 7)
        print("end", file=out)
        return x + a + b""",
    "a list that grows": """
        rows = [1, 2, 3]
        for i in tqdm(rows, **Show.how):
            if i == 2:
                rows.append(9)
            x = x * i
        return x""",
    "items of the user's class": """
        for i in tqdm(Items(3), **Show.how):
            x = x * i
        return x""",
    "modules": """
        for layer in auto.tqdm(nn.ModuleList([nn.Identity(), nn.Tanh()]), **Show.how):
            x = layer(x) + 1
        return x""",
    "a bar of an object's": """
        meter = Meter(3)
        for i in items:
            meter(i)
            x = x * i
        meter.bar.close()
        print("end", file=out)
        return x""",
    "positions": """
        a = tqdm(total=1, desc="a", **Show.how)
        b = tqdm(total=1, desc="b", **Show.how)
        a.update()
        a.close()
        c = tqdm(total=1, desc="c", **Show.how)
        b.update()
        c.update()
        c.close()
        b.close()
        return x + 1""",
    "inputs changed in place": """
        bar = tqdm(items, **Show.how)
        for i in bar:
            x.add_(i)
            bar.set_postfix(x=x)
            print(x, file=out)
        return x""",
    "random": """
        for i in tqdm(items, **Show.how):
            x = x + torch.rand(3)
            if x.sum() > 5:
                print("big", file=out)
                break
        return x""",
    "arms with bars of their own": """
        if x.sum() > 0:
            with tqdm(total=2, **Show.how) as bar:
                bar.update(2)
                x = x * 2
        else:
            with tqdm(total=3, desc="b", **Show.how) as bar:
                bar.update(1)
        return x""",
    "next in an arm": """
        steps = iter(tqdm(items, **Show.how))
        y = next(steps)
        if x.sum() > 0:
            y = next(steps)
        for i in steps:
            x = x + i
        print("end", file=out)
        return x + y""",
    "two loops over one bar": """
        bar = tqdm(items, **Show.how)
        for i in bar:
            for j in bar:
                x = x + i * j
        steps = iter(tqdm([1, 2, 3, 4], **Show.how))
        for i, j in zip(steps, steps):
            x = x + i * j
        print("end", file=out)
        return x""",
    "used after a loop was left": """
        bar = tqdm(items, **Show.how)
        for i in bar:
            if i == 2:
                break
        bar.update(5)
        bar.set_postfix(a=1)
        for i in bar:
            x = x + i
            if i == 2:
                bar.close()
            print(i, file=out)
        return x""",
    "below a bar from outside": """
        for i in tqdm(items, leave=False, **Show.how):
            outer.set_description("outer")
            outer.update(1)
            x = x + i
        return x""",
    "fewer texts": """
        for i in trange(10, miniters=4, **Show.how):
            x = x + i
        with tqdm(total=10, miniters=3, maxinterval=100, **Show.how) as bar:
            for i in range(10):
                bar.set_description(f"d{i}", refresh=False)
                bar.update()
        return x""",
    "deleted when closed": """
        bar = tqdm(items, **Show.how)
        for i in bar:
            x = x + i
        del bar
        print("deleted", file=out)
        return x""",
}


@pytest.mark.parametrize("name", MENDED)
def test_mended(name: str) -> None:
    outcome = bars(MENDED[name])
    made = [text for text in ("tqdm(", "trange(") if text in MENDED[name]]
    assert outcome.mends
    assert not made or f"defer@{at(MENDED[name], made[0])}" in outcome.mends


@pytest.mark.parametrize("name", ["messages between the steps", "with", "return in a loop"])
def test_fullgraph(name: str) -> None:
    bars(MENDED[name], fullgraph=True)


DECLINED = {
    "read": (
        """
        bar = tqdm(items, **Show.how)
        for i in bar:
            x = x * i + bar.n
        return x""",
        "bar-escapes",
    ),
    "length": (
        """
        bar = tqdm(items, **Show.how)
        x = x + len(bar)
        for i in bar:
            x = x * i
        return x""",
        "bar-escapes",
    ),
    "text": (
        """
        bar = tqdm(items, **Show.how)
        for i in bar:
            x = x * i
        texts.append(str(bar))
        return x""",
        "bar-escapes",
    ),
    "printed": (
        """
        bar = tqdm(items, **Show.how)
        for i in bar:
            x = x * i
        print(bar, file=out)
        return x""",
        "bar-escapes",
    ),
    "formatted": (
        """
        bar = tqdm(items, **Show.how)
        for i in bar:
            x = x * i
        print(f"{bar}", file=out)
        return x""",
        "bar-escapes",
    ),
    "truth": (
        """
        bar = tqdm(items, **Show.how)
        if bar:
            x = x + 1
        for i in bar:
            x = x * i
        return x""",
        "bar-escapes",
    ),
    "compared": (
        """
        bar = tqdm(items, **Show.how)
        x = x + int(bar == 3)
        for i in bar:
            x = x * i
        return x""",
        "bar-escapes",
    ),
    "contains": (
        """
        if 2 in tqdm(items, **Show.how):
            x = x + 1
        return x""",
        "bar-escapes",
    ),
    "attribute set": (
        """
        bar = tqdm(total=3, **Show.how)
        x = x + 1
        bar.n = 2
        bar.refresh()
        bar.close()
        return x""",
        "bar-escapes",
    ),
    "result of update": (
        """
        with tqdm(items, **Show.how) as bar:
            shown = bar.update()
        return x + 1 if shown else x""",
        "effect-result-used",
    ),
    "another method": (
        """
        with tqdm(items, **Show.how) as bar:
            bar.reset(5)
        return x + 1""",
        "bar-escapes",
    ),
    "kept in a global list": (
        """
        bar = tqdm(items, **Show.how)
        Show.bar = bar
        for i in bar:
            x = x * i
        return x""",
        "bar-escapes",
    ),
    "returned": (
        """
        bar = tqdm(items, **Show.how)
        for i in bar:
            x = x * i
        return x, bar""",
        "bar-escapes",
    ),
    "iterator returned": (
        """
        steps = iter(tqdm(items, **Show.how))
        x = x + next(steps)
        return x, steps""",
        "bar-escapes",
    ),
    "iterator left in a variable": (
        """
        steps = iter(tqdm(items, **Show.how))
        for i in steps:
            x = x + i
            break
        print("after", file=out)
        return x""",
        "bar-escapes",
    ),
    "enumerate left in a variable": (
        """
        steps = enumerate(tqdm(items, **Show.how))
        for i, j in steps:
            x = x + i
            break
        print("after", file=out)
        return x""",
        "bar-escapes",
    ),
    "zip left in a variable": (
        """
        steps = zip(tqdm(items, **Show.how), items)
        for i, j in enumerate(steps):
            break
        print("after", file=out)
        return x + i""",
        "bar-escapes",
    ),
    "two left together": (
        """
        for i, j in zip(tqdm(items, **Show.how), tqdm(items, desc="b", **Show.how)):
            break
        print("after", file=out)
        return x + i""",
        "bar-escapes",
    ),
    "left by the callee": (
        """
        def work(x):
            bar = tqdm(total=3, **Show.how)
            bar.update()
            return x + 1
        x = work(x)
        print("after", file=out)
        return x""",
        "bar-escapes",
    ),
    "overwritten": (
        """
        bar = tqdm(total=3, **Show.how)
        bar.update()
        bar = None
        print("after", file=out)
        return x + 1""",
        "bar-escapes",
    ),
    "two left open": (
        """
        b = tqdm(total=3, desc="b", **Show.how)
        a = tqdm(total=3, desc="a", **Show.how)
        a.update()
        return x + 1""",
        "bar-escapes",
    ),
    "comprehension that raises": (
        """
        def work(i):
            if i == 2:
                raise ValueError(i)
            return i
        try:
            y = [work(i) for i in tqdm(items, **Show.how)]
        except ValueError as error:
            print("caught", file=out)
        print("after", file=out)
        return x + 1""",
        "bar-escapes",
    ),
    "items that raise": (
        """
        class Items:
            def __iter__(self):
                return self
            def __next__(self):
                raise KeyError(3)
        try:
            for i in tqdm(Items(), **Show.how):
                x = x + i
        except KeyError:
            print("caught", file=out)
        return x + 1""",
        "bar-escapes",
    ),
    "in a generator": (
        """
        def work():
            for i in tqdm(items, **Show.how):
                yield i
        for i in work():
            x = x * i
            print(i, file=out)
        return x""",
        "effect-in-generator",
    ),
    "gone over by a generator": (
        """
        for i in (i + 1 for i in tqdm(items, **Show.how)):
            x = x * i
            break
        print("after", file=out)
        return x""",
        "effect-in-generator",
    ),
    "over a bar": (
        """
        for i in tqdm(tqdm(items, **Show.how), **Show.how):
            x = x * i
        return x""",
        "effect-argument",
    ),
    "unknown argument": (
        """
        try:
            for i in tqdm(items, nested=True, **Show.how):
                x = x * i
        except Exception as error:
            print(type(error), file=out)
        return x + 1""",
        "effect-argument",
    ),
    "bad argument": (
        """
        try:
            for i in tqdm(items, file=out, bar_format="{nothing}"):
                x = x * i
        except KeyError as error:
            print(error, file=out)
        return x + 1""",
        "effect-argument",
    ),
    "shown later": (
        """
        for i in tqdm(items, delay=1000, **Show.how):
            x = x * i
        return x""",
        "effect-argument",
    ),
    "an object of the user's": (
        """
        for i in tqdm(items, desc=Show(), file=out):
            x = x * i
        return x""",
        "effect-argument",
    ),
    "a method's argument": (
        """
        for i in (bar := tqdm(items, **Show.how)):
            x = x * i
            bar.set_postfix(o={i})
        return x""",
        "effect-argument",
    ),
    "items that print when they end": (
        """
        class Items:
            def __iter__(self):
                return self
            def __next__(self):
                print("end", file=out)
                raise StopIteration
        for i in tqdm(Items(), **Show.how):
            x = x * i
        return x + 1""",
        "bar-escapes",
    ),
    "rows that a bar would keep": (
        """
        rows = ["a"]
        bar = tqdm(items, desc=rows, **Show.how)
        rows.append("b")
        for i in bar:
            x = x * i
        return x""",
        "effect-argument",
    ),
    "inside a transform": (
        """
        def work(v):
            for i in tqdm(items, **Show.how):
                v = v * i
            return v
        return torch.func.vmap(work)(x)""",
        "inside-transform",
    ),
    "given to a function that is not compiled": (
        """
        bar = tqdm(items, **Show.how)
        x = x + 1
        disabled(bar)
        bar.close()
        return x""",
        "bar-escapes",
    ),
    "a graph break in a with block": (
        """
        with tqdm(items, **Show.how) as bar:
            x = x + 1
            torch._dynamo.graph_break()
            print("in", file=out)
        return x""",
        "bar-escapes",
    ),
    "a graph break in the loop": (
        """
        for i in tqdm(items, **Show.how):
            x = x * i
            torch._dynamo.graph_break()
        return x""",
        None,
    ),
    "a graph break before the end": (
        """
        bar = tqdm(total=3, **Show.how)
        bar.update()
        x = x * 2
        torch._dynamo.graph_break()
        print("after", file=out)
        return x""",
        "bar-escapes",
    ),
}


STOCK_DIFFERS = {
    "contains",
    "iterator left in a variable",
    "zip left in a variable",
    "two left together",
    "overwritten",
    "two left open",
}
"""Programs in which stock Dynamo may close a bar later than eager Python."""


@pytest.mark.parametrize("name", sorted(DECLINED.keys() - STOCK_DIFFERS))
def test_declined(name: str) -> None:
    body, reason = DECLINED[name]
    outcome = bars(body, declines=None, breaks=None, orders=1)
    line = at(body, "tqdm(")
    assert f"defer@{line}" not in outcome.mends
    assert reason is None or f"{reason}@{line}" in outcome.declines, outcome


@pytest.mark.parametrize("name", sorted(STOCK_DIFFERS))
def test_declined_and_left_to_stock(name: str) -> None:
    body, reason = DECLINED[name]
    stock = _texts(body)
    with gm.enabled():
        gm.reset()
        assert sorted(_texts(body)) == sorted(stock)
        line = at(body, "tqdm(")
        assert (reason, line) in {(d.reason, d.site.lineno) for d in gm.report().declines}
        assert all(m.site.lineno != line for m in gm.report().mends)


def _texts(body: str) -> list[str]:
    """What a compiled program writes."""
    torch._dynamo.reset()
    module = load(_program(body))
    compiled = torch.compile(module.f, backend="eager")
    compiled(UP)
    gc.collect()  # what was compiled may hold bars
    return list(module.texts)


SUBCLASS = """
class tqdm(tqdm):
    def update(self, n=1):
        texts.append("mine")
        return super().update(n)

def f(x):
    for i in tqdm(items, **Show.how):
        x = x * i
    return x
"""


def test_bar_of_a_class_of_the_users() -> None:
    source = PRELUDE + SUBCLASS.lstrip("\n")
    outcome = check(source, BOTH, mends="", declines=None, breaks=1)
    lines = source.strip("\n").split("\n")
    line = lines.index("    for i in tqdm(items, **Show.how):") + 1
    assert f"effect-shows-time@{line}" in outcome.declines


def test_nothing_but_a_bar() -> None:
    bars("for i in tqdm(items, **Show.how): pass\nreturn x", fullgraph=True)


def test_without_tensors_and_a_graph() -> None:
    outcome = bars("for i in tqdm(items, **Show.how): pass\nreturn x", orders=1)
    assert outcome.mends == ""  # stock skips such frames


UNPACKED = """
a, b, c = tqdm(items, **Show.how)
d = list(tqdm(items, **Show.how))
print("made", file=out)
return x + sum(tqdm(d, **Show.how)) + a + b + c
"""


def test_unpacked() -> None:
    bars(UNPACKED, declines=None, breaks=None)  # not all versions of Dynamo go step by step


@pytest.mark.parametrize("name", ["with", "return in a loop"])
@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_backends(name: str, backend: str) -> None:
    bars(MENDED[name], backend=backend, orders=1)


def test_gradients() -> None:
    bars(MENDED["for"], calls=[UP.clone().requires_grad_()], grad=True)


def test_sizes_that_vary() -> None:
    body = """
    for i in trange(x.shape[0], **Show.how):
        x = x + i
    with tqdm(total=x.shape[0], **Show.how) as bar:
        bar.update(x.shape[0])
    return x"""
    bars(body, calls=[torch.ones(n) for n in (3, 4, 5, 1)], dynamic=True)


def test_elapsed_time_is_that_of_the_graph() -> None:
    def slow(graph: torch.fx.GraphModule, inputs: object) -> object:
        def run(*args: object) -> object:
            time.sleep(0.3)
            return graph(*args)

        return run

    body = """
    for i in tqdm(items, file=out, bar_format="{n} {elapsed_s:.2f}"):
        x = x + i
    return x"""
    torch._dynamo.reset()
    module = load(_program(body))
    with gm.enabled():
        compiled = torch.compile(module.f, backend=slow, fullgraph=True)
        for number in range(1, 3):
            compiled(UP)
            last, elapsed = module.texts[-2].split()
            assert (last, module.texts.count("\r0 0.00")) == ("3", number)
            assert 0.3 <= float(elapsed) < 0.3 + 10


def test_threads() -> None:
    """A bar belongs to one call of the function, whoever makes the call."""
    body = """
    for i in (bar := tqdm(items, **Show.how)):
        bar.set_postfix(x=int(x[0]), i=i, refresh=False)
    return x * i"""
    torch._dynamo.reset()
    module = load(_program(body))
    with gm.enabled():
        compiled = torch.compile(module.f, backend="eager", fullgraph=True)
        compiled(UP)
        module.texts.clear()
        calls = [torch.full((3,), float(n)) for n in range(40)]
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(compiled, calls))
    ends = [text for text in module.texts if "3/3, i=3" in text]
    assert {int(text.split("x=")[1].split("|")[0]) for text in ends} == set(range(40))


def test_stands_for_nothing_that_stays() -> None:
    """No bar is left among those of tqdm once the call is over."""
    torch._dynamo.reset()
    module = load(_program(MENDED["left open"]))
    with gm.enabled():
        compiled = torch.compile(module.f, backend="eager", fullgraph=True)
        for x in BOTH:
            compiled(x)
            assert list(module.tqdm._instances) == [module.outer]
    plain = load(_program(MENDED["left open"]))
    for x in BOTH:
        plain.f(x)
    assert module.texts == plain.texts


def test_fullgraph_tells_why_not() -> None:
    torch._dynamo.reset()
    module = load(_program(DECLINED["read"][0]))
    with gm.enabled(), pytest.raises(torch._dynamo.exc.Unsupported) as caught:
        torch.compile(module.f, backend="eager", fullgraph=True)(UP)
    assert any("bar-escapes" in note and "'n'" in note for note in caught.value.__notes__)


def test_a_bar_that_counts_in_a_tensor() -> None:
    body = """
    x = x + 1
    count = torch.tensor(3)
    bar = tqdm(items, initial=count, **Show.how)
    bar.update()
    bar.close()
    return x + count"""
    outcome = bars(body, declines=None, breaks=1)
    assert f"effect-argument@{at(body, 'tqdm(')}" in outcome.declines
