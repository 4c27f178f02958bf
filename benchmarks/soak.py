"""Memory of a process that serves mended functions for hours.

    python benchmarks/soak.py [--minutes 120] [--arm mended] [--steady] [--json PATH]

A few functions stay compiled. They are called with values that go either way, with lengths that
vary, in training, and so that they raise. In each fiftieth round one more function is generated,
compiled, called and dropped, and each two thousand rounds `torch._dynamo.reset()` is called, so
that all are compiled again; torch keeps part of each compilation even then. Each result is compared
with eager Python's, bit by bit; the first one that differs ends the run. `--steady` leaves out new
functions and resets. About every half minute, after a reset, a sample is taken:

    calls         compiled calls so far
    compilations  graphs compiled so far
    failed        calls whose speculation was wrong, since the last reset
    resident      bytes that the process has in memory
    objects       objects that the garbage collector knows
    ours          those of the library's classes
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import gc
import logging
import random
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from growth import objects_alive, resident
from measuring import start_arm, write_json
from site_programs import defined
from torch._dynamo.utils import counters

import graphmend_bc as gm

EVERY = 30.0
"""Seconds between samples, at least."""

ROUNDS = 2000
"""Rounds between resets."""

NEW_EVERY = 50
"""Rounds between functions that are generated."""

SERVED = {
    "branch": "def f(x):\n    return x * 2 if x.sum() > 0 else torch.sin(x)\n",
    "number": "def f(x):\n    k = 3 if x[0] > 0 else 0.5\n    return x * k + x.max().item()\n",
    "message": "def f(x):\n    y = x + 1\n    print('mean', y.mean().item())\n    return y * 2\n",
    "list": """
        def f(x):
            seen = []
            if x.min() < -1:
                seen.append('low')
            if x.max() > 1:
                seen.append('high')
            return x / (1 + len(seen)), seen
        """,
    "loop": """
        def f(x):
            rounds = 0
            while x.abs().max() > 0.5 and rounds < 6:
                x = x * 0.7
                rounds += 1
            return x, rounds
        """,
    "error": """
        def f(x):
            y = torch.exp(x)
            if not torch.isfinite(x).all():
                raise ValueError('not finite')
            return y - 1
        """,
    "mask": "def f(x):\n    kept = x[x > 0]\n    return kept.sum() / max(1, kept.numel())\n",
}

GENERATED = "def f(x):\n    return x * 2 + {0} if x.sum() > {0} % 5 else x - 1\n"
"""A function of a number."""


class Network(torch.nn.Module):
    """A network that is trained, with a branch, a counter and a generator's draw."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = torch.nn.Linear(8, 16), torch.nn.Linear(16, 1)
        self.large = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.first(x))
        if hidden.norm() > 6:
            self.large += 1
            hidden = hidden / hidden.norm()
        return self.last(torch.nn.functional.dropout(hidden, 0.1)).square().mean()


@dataclass(frozen=True, slots=True)
class Moment:
    """A sample; the module's docstring has what each number is."""

    seconds: float
    calls: int
    compilations: int
    failed: int
    resident: int
    objects: int
    ours: int


Seen = tuple[Any, str, str]
"""What a call gave, what it printed, and what it raised."""


def seen(function: Callable[..., Any], *arguments: Any) -> Seen:
    """What can be noticed of a call."""
    printed = StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            return function(*arguments), printed.getvalue(), ""
        except ValueError as error:
            return None, printed.getvalue(), repr(error)


def compare(name: str, found: Seen, expected: Seen) -> None:
    """End the run if a call differs.

    Raises:
        SystemExit: it does.
    """
    if any(not _same(one, other) for one, other in zip(found, expected, strict=True)):
        raise SystemExit(f"{name}: {found}, eager Python: {expected}")


def _same(found: Any, expected: Any) -> bool:
    if isinstance(found, torch.Tensor):
        return found.detach().numpy().tobytes() == expected.detach().numpy().tobytes()
    if isinstance(found, list | tuple):
        return len(found) == len(expected) and all(map(_same, found, expected))
    return bool(found == expected)


class Service:
    """The functions that stay compiled, and the network in training beside its twin."""

    def __init__(self) -> None:
        self.drawn = random.Random(0)
        self.functions = {name: defined(text)["f"] for name, text in SERVED.items()}
        self.compiled = {n: torch.compile(f, backend="eager") for n, f in self.functions.items()}
        self.network = Network()
        self.twin = copy.deepcopy(self.network)
        self.step = torch.compile(self.network, backend="eager")
        self.module: dict[str, Any] = {"torch": torch}
        self.calls = 0

    def round(self, makes_new: bool) -> None:
        """Call everything once, and perhaps a new function."""
        for name, function in self.functions.items():
            x = self._input()
            compare(name, seen(self.compiled[name], x), seen(function, x))
        self._train()
        self.calls += len(self.functions) + 1
        if makes_new:
            exec(GENERATED.format(self.calls), self.module)
            new, x = self.module["f"], self._input()
            compare("new", seen(torch.compile(new, backend="eager"), x), seen(new, x))
            self.calls += 1

    def _input(self) -> torch.Tensor:
        x = torch.randn(self.drawn.choice((3, 4, 5, 8))) * self.drawn.choice((0.3, 1.0, 3.0))
        if self.drawn.random() < 0.02:
            x[0] = torch.inf
        return x

    def _train(self) -> None:
        x, state = torch.randn(4, 8), torch.get_rng_state()
        for network, run in ((self.network, self.step), (self.twin, self.twin)):
            torch.set_rng_state(state)
            run(x).backward()
            with torch.no_grad():
                for parameter in network.parameters():
                    assert parameter.grad is not None
                    parameter -= 0.01 * parameter.grad
                    parameter.grad = None
        found = [self.network.large, *self.network.parameters()]
        expected = [self.twin.large, *self.twin.parameters()]
        compare("training", (found, "", ""), (expected, "", ""))


def soak(minutes: float, arm: str, *, steady: bool = False) -> Iterator[Moment]:
    """Serve for so long.

    Args:
        minutes: how long.
        arm: "stock" or "mended".
        steady: whether nothing is compiled anew.

    Yields:
        A sample after each half minute.
    """
    torch.manual_seed(0)
    start_arm(arm)
    service, start, samples = Service(), time.monotonic(), 0
    while (past := time.monotonic() - start) < minutes * 60:
        for number in range(ROUNDS):
            service.round(number % NEW_EVERY == 0 and not steady)
        if not steady:
            torch._dynamo.reset()
        if past < samples * EVERY:
            continue
        samples += 1
        failed = gm.report().speculated.failed if arm == "mended" else 0
        graphs = counters["stats"]["unique_graphs"]
        ours, _ = objects_alive()
        objects = len(gc.get_objects())
        yield Moment(round(past, 1), service.calls, graphs, failed, resident(), objects, ours)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--minutes", type=float, default=120, help="how long (120)")
    parser.add_argument("--arm", choices=("stock", "mended"), default="mended")
    parser.add_argument("--steady", action="store_true", help="compile nothing anew")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write the samples here")
    args = parser.parse_args(argv)
    warnings.simplefilter("ignore")
    logging.getLogger("torch._dynamo").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    found = []
    for moment in soak(args.minutes, args.arm, steady=args.steady):
        found.append(moment)
        print(*asdict(moment).values(), flush=True)
        if args.json:
            write_json(args.json, found, "moments", arm=args.arm, steady=str(args.steady))


if __name__ == "__main__":
    main()
