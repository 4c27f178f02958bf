"""What messages and metrics cost in compiled code: stock, mended, and deleted by hand.

    python benchmarks/effects.py [--rounds 9] [--calls 50] [--backend inductor] [--json PATH]

Two programs that log a lot, a training step and an inference loop, each with the logger's level on
and off. Three arms: `stock` torch.compile, `mended`, and `deleted`, the same program without its
effects. Compiled once for each arm; then the arms take turns, so that what slows the machine slows
all alike. The first round is discarded. The output goes to a stream that drops it.

Measures:

    graphs      graphs compiled for one call
    transfers   how often a call reads values of the graph on the host, mended only
    wall        seconds of a call that compiles nothing, backward and optimizer included
    processor   the same in processor time, which says more on a machine that others use too
"""

from __future__ import annotations

import argparse
import logging
import time
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from measuring import Sample, progress, write_json
from torch._dynamo.utils import counters

import graphmend_bc as gm
from graphmend_bc.dynamo.host_values import readback

ARMS = ("stock", "mended", "deleted")
WIDTH, BATCH, LAYERS = 128, 32, 4
logger = logging.getLogger("benchmark")


class Net(torch.nn.Module):
    """A stack of linear layers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS))


def train_loss(net: Net, x: torch.Tensor, history: list[float]) -> torch.Tensor:
    """A forward pass that logs every layer, its loss, and keeps a history."""
    logger.info("batch of %d, mean %.4f", x.shape[0], x.mean().item())
    for i, layer in enumerate(net.layers):
        x = torch.relu(layer(x))
        logger.debug("layer %d: mean %.4f, max %.4f", i, x.mean().item(), x.max().item())
    loss = x.square().mean()
    logger.info("loss %.6f", loss.item())
    if logger.isEnabledFor(logging.INFO):
        history.append(loss.item())
    return loss


def train_loss_deleted(net: Net, x: torch.Tensor, history: list[float]) -> torch.Tensor:
    """The same without its effects."""
    for layer in net.layers:
        x = torch.relu(layer(x))
    return x.square().mean()


def infer(net: Net, x: torch.Tensor, history: list[float]) -> torch.Tensor:
    """An inference loop that logs every step."""
    for step in range(8):
        x = torch.tanh(net.layers[step % LAYERS](x)) + x
        logger.info("step %d: norm %.4f", step, x.norm().item())
        if torch.isnan(x).any():
            logger.error("nan at step %d", step)
    logger.debug("result %s", x)
    return x


def infer_deleted(net: Net, x: torch.Tensor, history: list[float]) -> torch.Tensor:
    """The same without its effects."""
    for step in range(8):
        x = torch.tanh(net.layers[step % LAYERS](x)) + x
    return x


@dataclass(frozen=True, slots=True)
class Subject:
    """A program and its twin without effects."""

    name: str
    program: Callable[..., Any]
    deleted: Callable[..., Any]
    trains: bool
    level: int


SUBJECTS = [
    Subject(f"{name}, level {'on' if level < logging.ERROR else 'off'}", *programs, trains, level)
    for name, programs, trains in (
        ("training step", (train_loss, train_loss_deleted), True),
        ("inference loop", (infer, infer_deleted), False),
    )
    for level in (logging.DEBUG, logging.CRITICAL + 1)
]


class Drop(logging.Handler):
    """Formats every record, as a handler that writes does, and drops the text."""

    def emit(self, record: logging.LogRecord) -> None:
        self.format(record)


@dataclass(slots=True)
class Arm:
    """A compiled program with a model of its own, ready to be called."""

    call: Callable[[], None]
    graphs: int = 0
    transfers: float = 0.0


def build(subject: Subject, arm: str, backend: str) -> Arm:
    """Compile one arm and call it until nothing is compiled any more."""
    gm.disable()
    counters.clear()
    if arm == "mended":
        gm.enable()
    plain = subject.deleted if arm == "deleted" else subject.program
    # A code object of its own: Dynamo keeps what it compiled on the code object.
    code = plain.__code__.replace(co_firstlineno=plain.__code__.co_firstlineno)
    compiled = torch.compile(types.FunctionType(code, globals()), backend=backend)
    net, history = Net(), []
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
    x = torch.randn(BATCH, WIDTH)

    def call() -> None:
        with torch.set_grad_enabled(subject.trains):
            result = compiled(net, x, history)
        if subject.trains:
            result.backward()
            optimizer.step()
            optimizer.zero_grad()
        history.clear()

    for _ in range(3):
        call()
    return Arm(call, counters["stats"]["unique_graphs"], transfers_of(call))


def transfers_of(call: Callable[[], None]) -> int:
    """How often one call reads values of its graphs on the host."""
    stock, count = readback.on_host, 0

    def counted(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        nonlocal count
        count += 1
        return stock(tensors)

    readback.on_host = counted
    try:
        call()
    finally:
        readback.on_host = stock
    return count


def measure(subject: Subject, rounds: int, calls: int, backend: str) -> list[Sample]:
    """All arms of one subject."""
    logger.setLevel(subject.level)
    torch._dynamo.reset()
    arms = {arm: build(subject, arm, backend) for arm in ARMS}
    gm.disable()
    samples = [Sample(subject.name, "graphs", name, arm.graphs) for name, arm in arms.items()]
    samples.append(Sample(subject.name, "transfers", "mended", arms["mended"].transfers))
    for number in range(rounds + 1):
        # Another arm first each time: the first after a pause is slower.
        for arm in ARMS[number % 3 :] + ARMS[: number % 3]:
            start, cpu_start = time.perf_counter(), time.process_time()
            for _ in range(calls):
                arms[arm].call()
            wall, cpu = time.perf_counter() - start, time.process_time() - cpu_start
            if number:
                samples.append(Sample(subject.name, "wall", arm, wall / calls))
                samples.append(Sample(subject.name, "processor", arm, cpu / calls))
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=9, help="rounds to keep")
    parser.add_argument("--calls", type=int, default=50, help="calls in a round of an arm")
    parser.add_argument("--backend", default="inductor")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write every sample here")
    options = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("torch._dynamo").setLevel(logging.ERROR)  # stock's breaks are no news
    logger.propagate = False
    logger.addHandler(Drop())
    samples: list[Sample] = []
    for done, subject in enumerate(SUBJECTS):
        progress(done, len(SUBJECTS), subject.name)
        samples += measure(subject, options.rounds, options.calls, options.backend)
    progress(len(SUBJECTS), len(SUBJECTS), "")
    if options.json:
        write_json(options.json, samples)


if __name__ == "__main__":
    main()
