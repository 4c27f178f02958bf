"""Deferred effects at run time: threads, re-entrancy, recompiles, async, export, lost effects."""

from __future__ import annotations

import asyncio
import logging
import threading
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import graphmend_bc as gm
from tests.oracle import check

UP, DOWN = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([-1.0, -2.0, -3.0])
BOTH = [UP, DOWN]


@pytest.fixture
def mending() -> Iterator[None]:
    torch._dynamo.reset()
    with gm.enabled():
        yield


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    return torch.compile(function, backend="eager", fullgraph=True)


@pytest.mark.usefixtures("mending")
def test_threads_do_not_mix_their_effects() -> None:
    seen: list[tuple[str, int | None]] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append((record.getMessage(), record.thread))

    logger = logging.getLogger("threads")
    logger.addHandler(Keep())
    logger.propagate = False

    def f(x: torch.Tensor) -> torch.Tensor:
        logger.warning("x %s", x.max().item())
        y = x * 2
        logger.warning("y %s", y.max().item())
        return y

    step = compiled(f)
    step(torch.zeros(3))
    seen.clear()
    idents: dict[int, int] = {}
    together = threading.Barrier(4)  # an ident is used again when its thread has ended

    def work(number: int) -> None:
        together.wait()
        idents[number] = threading.get_ident()
        for _ in range(20):
            step(torch.full((3,), float(number)))
        together.wait()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number in range(1, 5):
        mine = [text for text, ident in seen if ident == idents[number]]
        assert mine == [f"x {number}.0", f"y {2 * number}.0"] * 20


@pytest.mark.usefixtures("mending")
def test_effect_that_calls_compiled_code() -> None:
    seen: list[float] = []

    def inner(x: torch.Tensor) -> torch.Tensor:
        observe(x, 0)
        return x + 1

    def observe(x: torch.Tensor, depth: int) -> None:
        seen.append(float(x.sum()))
        if depth:
            inner_step(x * 10)

    def outer(x: torch.Tensor) -> torch.Tensor:
        observe(x, 1)
        observe(x + 1, 1)
        return x * 2

    inner_step = compiled(inner)
    with gm.config.patch(effects=[observe]):
        assert torch.equal(compiled(outer)(UP), UP * 2)
    assert seen == [6.0, 60.0, 9.0, 90.0]


@pytest.mark.usefixtures("mending")
def test_effect_in_a_coroutine(capsys: pytest.CaptureFixture[str]) -> None:
    def step(x: torch.Tensor) -> torch.Tensor:
        print("norm", x.sum().item())
        return x + 1

    run = compiled(step)

    async def main() -> list[torch.Tensor]:
        async def one(n: int) -> torch.Tensor:
            await asyncio.sleep(0)
            return run(UP * n)

        return list(await asyncio.gather(*(one(n) for n in range(3))))

    assert [r.tolist() for r in asyncio.run(main())] == [(UP * n + 1).tolist() for n in range(3)]
    assert capsys.readouterr().out == "norm 0.0\nnorm 6.0\nnorm 12.0\n"


def test_recompiled_for_other_shapes() -> None:
    check(
        """
        history = []

        def f(x):
            print(x.shape, len(x), f"{x.sum().item():.1f}")
            history.append(x.mean().item())
            return x + 1
        """,
        [torch.ones(2), torch.ones(3), torch.ones(4, 2), torch.ones(5)],
        mends="defer@4 accumulate@5 defer@5",
        orders=4,
    )


def test_changing_python_numbers() -> None:
    check(
        """
        logger = logging.getLogger("program")

        def f(x, step, rate):
            logger.warning("step %d at %.3f: %s", step, rate, x.sum().item() * rate)
            print(f"{step} {rate:.2f} {step * 2} {rate}")
            return x * rate
        """,
        [(UP, 1, 0.5), (UP, 2, 0.25), (DOWN, 3, 0.125), (UP, 4, 0.1)],
        mends="defer@4 defer@5",
    )


def test_export_keeps_what_stock_does(capsys: pytest.CaptureFixture[str]) -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            print("exporting")
            return x + 1

    torch._dynamo.reset()
    stock = torch.export.export(Model(), (UP,), strict=False)
    printed = capsys.readouterr().out
    with gm.enabled():
        mended = torch.export.export(Model(), (UP,), strict=False)
    assert capsys.readouterr().out == printed
    assert str(mended.graph) == str(stock.graph)


@pytest.mark.usefixtures("mending")
def test_one_transfer_for_all_values(monkeypatch: pytest.MonkeyPatch) -> None:
    from graphmend_bc.dynamo.host_values import readback

    calls: list[int] = []
    stock = readback.on_host

    def counted(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        calls.append(len(tensors))
        return stock(tensors)

    monkeypatch.setattr(readback, "on_host", counted)
    history: list[float] = []

    def f(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            print("positive", x.sum().item())
        history.append(x.max().item())
        print(x.tolist())
        return x + 1

    step = compiled(f)
    step(UP)
    assert calls == [4]
    step(DOWN)
    assert calls == [4, 4]
    assert history == [3.0, -1.0]


def test_values_of_several_types_in_one_buffer() -> None:
    from graphmend_bc.dynamo.host_values.readback import on_host

    tensors = [
        torch.tensor(True),
        torch.tensor(1.5, dtype=torch.float64),
        torch.tensor([1, 2, 3], dtype=torch.int16),
        torch.tensor(2 + 3j),
        torch.arange(6.0).reshape(2, 3).t(),
    ]
    meta = [tensor.to("meta") for tensor in tensors]
    assert [t.device.type for t in meta] == ["meta"] * 5
    for tensor, local in zip(tensors, on_host(tensors), strict=True):
        assert torch.equal(tensor, local)


@pytest.mark.usefixtures("mending")
def test_effect_that_raises_surfaces_with_the_users_line() -> None:
    class Strict(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            raise KeyError(record.msg)

    logger = logging.getLogger("strict")
    logger.addFilter(Strict())

    def inner(x: torch.Tensor) -> torch.Tensor:
        logger.warning("bad")
        return x + 1

    with pytest.raises(KeyError, match="bad") as caught:
        compiled(lambda x: inner(x) * 2)(UP)
    frames = [f for f in traceback.extract_tb(caught.tb) if f.filename == __file__]
    assert (frames[-2].name, frames[-2].line) == ("inner", 'logger.warning("bad")')
