"""Progress bars that are made inside the compiled function."""

from __future__ import annotations

import gc
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import graphmend_bc as gm
from tests.contrib.tqdm_declined import DECLINED, STOCK_DIFFERS
from tests.contrib.tqdm_mended import MENDED
from tests.contrib.tqdm_prelude import PRELUDE, at, program
from tests.oracle import Outcome, check, load
from tests.releases import since

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])
BOTH = [UP, DOWN]


def bars(
    body: str,
    declines: str | None = "",
    breaks: int | None = 0,
    calls: object = BOTH,
    **kwargs: object,
) -> Outcome:
    """Compare the arms on `def step(x)` with a body; `say` prints between what the bars show."""
    # Which notes a program's bars come to varies; the tests look for the line where a bar is made.
    return check(program(body), calls, mends=None, declines=declines, breaks=breaks, **kwargs)  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize("name", MENDED)
def test_mended(name: str) -> None:
    outcome = bars(MENDED[name])
    made = [text for text in ("tqdm(", "trange(") if text in MENDED[name]]
    assert outcome.mends
    assert not made or f"defer@{at(MENDED[name], made[0])}" in outcome.mends


@pytest.mark.parametrize("name", ["messages between the steps", "with", "return in a loop"])
def test_fullgraph(name: str) -> None:
    bars(MENDED[name], fullgraph=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(DECLINED.keys() - STOCK_DIFFERS))
def test_declined(name: str) -> None:
    body, reason = DECLINED[name]
    outcome = bars(body, declines=None, breaks=None, orders=1)
    line = at(body, "tqdm(")
    # Its own frame is mended; it is the one around it that is not.
    assert name == "left by the callee" or f"defer@{line}" not in outcome.mends
    # Since torch 2.14 Dynamo may skip the frame before it comes to what uses the bar.
    skipped = since(2, 14) and not outcome.graphs
    assert reason is None or skipped or f"{reason}@{line}" in outcome.declines, outcome


@pytest.mark.slow
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
    module = load(program(body))
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
    outcome = check(source, BOTH, mends="", declines=None, breaks=None)  # also in tqdm's own code
    assert outcome.breaks > 0
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


@pytest.mark.parametrize(
    ("name", "backend"),
    [
        ("with", "aot_eager"),
        pytest.param("with", "inductor", marks=pytest.mark.nightly),
        ("return in a loop", "aot_eager"),
        ("return in a loop", "inductor"),
    ],
)
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
    module = load(program(body))
    with gm.enabled():
        compiled = torch.compile(module.f, backend=slow, fullgraph=True)
        for number in range(1, 3):
            compiled(UP)
            last, elapsed = module.texts[-2].split()
            assert (last, module.texts.count("\r0 0.00")) == ("3", number)
            assert 0.3 <= float(elapsed) < 0.3 + 10


@pytest.mark.skipif(
    not since(2, 13), reason="Stock compiles nothing after threads that had `fullgraph=True`."
)
def test_threads() -> None:
    """A bar belongs to one call of the function, whoever makes the call."""
    body = """
    for i in (bar := tqdm(items, **Show.how)):
        bar.set_postfix(x=int(x[0]), i=i, refresh=False)
    return x * i"""
    torch._dynamo.reset()
    module = load(program(body))
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
    module = load(program(MENDED["left open"]))
    with gm.enabled():
        compiled = torch.compile(module.f, backend="eager", fullgraph=True)
        for x in BOTH:
            compiled(x)
            assert list(module.tqdm._instances) == [module.outer]
    plain = load(program(MENDED["left open"]))
    for x in BOTH:
        plain.f(x)
    assert module.texts == plain.texts


def test_fullgraph_tells_why_not() -> None:
    torch._dynamo.reset()
    module = load(program(DECLINED["read"][0]))
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
    outcome = bars(body, declines=None, breaks=None)  # tqdm's own code breaks as well
    assert outcome.breaks > 0
    assert f"effect-argument@{at(body, 'tqdm(')}" in outcome.declines
