"""What mending costs: compile time, and time per call where there is nothing to mend.

    python benchmarks/compile_cost.py [--repeats 9] [--only NAME ...] [--json PATH]

Each subject is compiled in three arms, one after another and again, so that what slows the machine
slows all arms alike: `stock` torch.compile, `mended`, and `twin`, a hand-fixed version with the
same weights that has no graph breaks. Every compilation starts from a fresh Dynamo and an empty
library of rewrites. The first round is discarded.

Measures, each as median and quartiles:

    graphs      graphs compiled for one call
    dynamo      what Dynamo spent on all frames of one call, backend "eager"
    first call  wall time of the first call, backend "eager"
    inductor    the same with backend "inductor" and empty caches; small subjects only
    per call    wall time of a call that compiles nothing, with mending off and on
"""

from __future__ import annotations

import argparse
import logging
import time
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch
import transformers
from life_programs import PROGRAMS
from measuring import ARMS, Sample, print_table, start_arm, switch, write_json
from models import build
from torch._dynamo.utils import compilation_time_metrics, counters
from torch._inductor.utils import fresh_cache
from twins import small
from twins.hugging_face import BartTwin, T5Twin

import graphmend_bc as gm


@dataclass(frozen=True, slots=True)
class Subject:
    """A program, its hand-fixed twin, and the keyword arguments or tensors to call both with."""

    name: str
    program: Callable[..., Any]
    twin: Callable[..., Any]
    args: tuple[torch.Tensor, ...] = ()
    kwargs: dict[str, torch.Tensor] = field(default_factory=dict)
    is_small: bool = True

    def run(self, arm: str, backend: str) -> tuple[Callable[..., Any], float]:
        """Compiles afresh; returns the compiled callable and the seconds of its first call."""
        compiled = torch.compile(self.twin if arm == "twin" else self.program, backend=backend)
        start = time.perf_counter()
        compiled(*self.args, **self.kwargs)
        return compiled, time.perf_counter() - start


def clamp_mlp(layers: int) -> Subject:
    torch.manual_seed(0)
    program, twin = small.ClampMLP(layers), small.ClampMLPTwin(layers)
    twin.load_state_dict(program.state_dict())
    return Subject(f"clamp MLP, {layers} layers", program, twin, (torch.randn(8, small.WIDTH),))


def hugging_face(name: str, twin_class: type[torch.nn.Module]) -> Subject:
    case = build(name)
    twin = twin_class(case.model.config).to(case.model.dtype).eval()
    twin.load_state_dict(case.model.state_dict())
    return Subject(name, case.model, twin, kwargs=case.inputs, is_small=False)


def unbroken(name: str) -> Subject:
    """A model without breaks, which is its own twin."""
    program, calls = PROGRAMS[f"{name}, no break"].build(1)
    return Subject(f"{name}, no break", program, program, calls[0], is_small=False)


SUBJECTS: dict[str, Callable[[], Subject]] = {
    "mlp2": partial(clamp_mlp, 2),
    "mlp8": partial(clamp_mlp, 8),
    "early": lambda: Subject(
        "early return", small.early_return, small.early_return_twin, (torch.randn(64),)
    ),
    "chatty": lambda: Subject("4 log calls", small.chatty, small.chatty_twin, (torch.ones(8, 8),)),
    "t5": partial(hugging_face, "T5", T5Twin),
    "bart": partial(hugging_face, "BART", BartTwin),
    "bert": partial(unbroken, "BERT"),
    "llama": partial(unbroken, "LLaMA"),
}


def measure(subject: Subject) -> list[Sample]:
    """One round: every arm once, with both backends if the subject is small."""
    samples = []
    for arm in ARMS:
        start_arm(arm)
        _, seconds = subject.run(arm, "eager")
        values = {
            "graphs": counters["stats"]["unique_graphs"],
            "dynamo": sum(compilation_time_metrics["_compile.compile_inner"]),
            "first call": seconds,
        }
        if subject.is_small:
            start_arm(arm)
            with fresh_cache():
                _, values["inductor"] = subject.run(arm, "inductor")
        samples += [Sample(subject.name, name, arm, value) for name, value in values.items()]
    gm.disable()
    return samples


def whole(x: torch.Tensor) -> torch.Tensor:
    """A function with nothing to mend."""
    return torch.relu(x) * 2 + 1


def measure_calls(rounds: int, calls: int = 2000) -> list[Sample]:
    """Times calls of a break-free compiled function, compiled and called in either mode."""
    x = torch.ones(16)
    compiled = {}
    for arm in ("stock", "mended"):
        # A code object of its own: Dynamo keeps what it compiled on the code object.
        function = types.FunctionType(whole.__code__.replace(co_name=arm), globals())
        switch(arm)
        compiled[arm] = torch.compile(function, backend="eager")
        compiled[arm](x)
    samples = []
    for _ in range(rounds):
        for arm, call in compiled.items():
            switch(arm)
            start = time.perf_counter()
            for _ in range(calls):
                call(x)
            seconds = (time.perf_counter() - start) / calls
            samples.append(Sample("nothing to mend", "per call", arm, seconds))
    gm.disable()
    return samples


def check_arms(subject: Subject) -> None:
    """Makes sure that the three arms compute the same, or the comparison would mean nothing."""
    with torch.no_grad():
        expected = subject.program(*subject.args, **subject.kwargs)
        for arm in ARMS:
            start_arm(arm)
            compiled, _ = subject.run(arm, "eager")
            actual = compiled(*subject.args, **subject.kwargs)
            torch.testing.assert_close(dict_of(actual), dict_of(expected), rtol=0, atol=0)
    gm.disable()


def dict_of(output: Any) -> dict[str, Any]:
    return dict(output) if isinstance(output, dict) else {"output": output}


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=9, help="rounds to keep (default 9)")
    parser.add_argument("--only", nargs="+", choices=[*SUBJECTS, "calls"], help="subjects")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write every sample here")
    args = parser.parse_args(argv)
    if args.repeats < 2:
        parser.error("--repeats must be at least 2: quartiles need two rounds.")
    return args


def main(argv: list[str] | None = None) -> None:
    args = parse(argv)
    transformers.logging.disable_default_handler()
    transformers.logging.add_handler(logging.NullHandler())  # messages are made, but not shown
    chosen = args.only or [*SUBJECTS, "calls"]
    samples: list[Sample] = []
    for name in (name for name in chosen if name in SUBJECTS):
        subject = SUBJECTS[name]()
        check_arms(subject)
        with torch.no_grad():
            rounds = [measure(subject) for _ in range(args.repeats + 1)]
        samples += [sample for kept in rounds[1:] for sample in kept]
    if "calls" in chosen:
        samples += measure_calls(4 * args.repeats)
    print_table(samples)
    if args.json:
        write_json(args.json, samples)


if __name__ == "__main__":
    main()
