"""Progress bars that are made inside the compiled function."""

from __future__ import annotations

import gc
import textwrap

import pytest
import torch

import graphmend_bc as gm
from tests.oracle import Outcome, check, load

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])
BOTH = [UP, DOWN]

PRELUDE = r"""
import re
import tqdm.auto, tqdm.asyncio
auto, aio, module = tqdm.auto, tqdm.asyncio, tqdm
from tqdm import tqdm, trange

tqdm._instances.clear()  # stock Dynamo keeps some alive
texts = []
TIMES = re.compile(r"[0-9:]+(<[0-9:?]+)?, [^ ]*/s\]? *")

class Out:
    def write(self, text):
        texts.append(TIMES.sub("TIMES", text))

out = Out()
items = [1, 2, 3]

class Show:
    how = dict(file=out, mininterval=0, bar_format="{desc}{n}/{total}{postfix}|")
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
    "unpacked": """
        a, b, c = tqdm(items, **Show.how)
        d = list(tqdm(items, **Show.how))
        print("made", file=out)
        return x + a + b + c + len(d)""",
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
    assert (
        f"defer@{at(MENDED[name], 'tqdm(' if 'tqdm(' in MENDED[name] else 'trange(')}"
        in outcome.mends
    )


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
    assert "effect-shows-time@25" in outcome.declines


def test_nothing_but_a_bar() -> None:
    bars("for i in tqdm(items, **Show.how): pass\nreturn x", fullgraph=True)


def test_without_tensors_and_a_graph() -> None:
    outcome = bars("for i in tqdm(items, **Show.how): pass\nreturn x", orders=1)
    assert outcome.mends == ""  # stock skips such frames
