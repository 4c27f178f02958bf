"""How many attempts the frames of a program take under mending, and what each attempt failed at."""

from __future__ import annotations

import argparse
import re
import statistics
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from measuring import start_arm
from site_programs import PROGRAMS, Calls

from graphmend_bc import session
from graphmend_bc.reporting.report import FrameResult


@contextmanager
def frames_seen() -> Iterator[list[FrameResult]]:
    """The results of the frames that are compiled in the block, with a fresh mending state."""
    start_arm("stock")
    state, found = session.new_state(mends=True), []
    state.on_frame.append(found.append)
    with session.mending_by(state):
        yield found


def run(build: Callable[[], tuple[Any, Calls]]) -> tuple[list[FrameResult], float]:
    """Compiles a program with backend "eager" and makes its calls; frames, processor seconds."""
    function, calls = build()
    with frames_seen() as frames:
        compiled = torch.compile(function, backend="eager")
        start = time.process_time()
        for call in calls:
            try:
                compiled(*call)
            except Exception as error:
                print(f"raises {error!r}")
        return frames, time.process_time() - start


def transformers_programs(names: list[str]) -> dict[str, Callable[[], tuple[Any, Calls]]]:
    """Small models with random weights; names of `models.MODELS` or architectures of `zoo`."""
    import models
    import zoo

    def build(name: str) -> tuple[Any, Calls]:
        if name in models.MODELS:
            case = models.build(name)
            model, inputs = case.model, case.inputs
        else:
            for way in zoo.attempts():
                try:
                    model, made = zoo.build(name, way)
                    inputs = made.make(0)
                    model.eval()
                    model(**inputs)
                    break
                except Exception as error:
                    failure = error
            else:
                raise failure
        return (lambda kwargs: model(**kwargs)), [(inputs,)]

    return {name: (lambda name=name: build(name)) for name in names}


def generated_programs(count: int, seed: int) -> dict[str, Callable[[], tuple[Any, Calls]]]:
    """Programs of the fuzzer's."""
    from hypothesis import given, settings
    from hypothesis import seed as seeded

    from tests.fuzz import programs as fuzz
    from tests.oracle import load

    found: list[Any] = []

    @seeded(seed)
    @settings(max_examples=count, database=None, deadline=None)
    @given(fuzz.programs())
    def collect(program: Any) -> None:
        found.append(program)

    collect()

    def build(program: Any) -> tuple[Any, Calls]:
        return load(program.source).f, program.arguments()

    return {f"generated {n}": (lambda p=p: build(p)) for n, p in enumerate(found)}


def cause(text: str) -> str:
    """What an attempt failed at, without the place."""
    return re.sub(r" at .*", "", text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="programs; all of site_programs if none")
    parser.add_argument("--models", nargs="*", default=[], help="small transformers models")
    parser.add_argument("--generated", type=int, default=0, help="so many of the fuzzer's programs")
    parser.add_argument("--causes", action="store_true", help="print what each attempt failed at")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    chosen = {n: p for n, p in PROGRAMS.items() if n in options.names or not options.names}
    if (options.models or options.generated) and not options.names:
        chosen = {}
    chosen |= transformers_programs(options.models)
    if options.generated:
        chosen |= generated_programs(options.generated, 7)
    counts: list[int] = []
    causes: Counter[str] = Counter()
    print(f"{'program':28} frames attempts most  seconds  graphs")
    for name, build in chosen.items():
        frames, seconds = run(build)
        own = [len(frame.attempts) + 1 for frame in frames]
        counts += own
        causes.update(cause(text) for frame in frames for text in frame.attempts)
        graphs = sum(frame.graphs for frame in frames)
        row = f"{len(own):6} {sum(own):8} {max(own, default=0):4} {seconds:8.2f} {graphs:7}"
        print(f"{name:28} {row}", flush=True)
        if options.causes:
            for number, frame in enumerate(frames):
                for text in frame.attempts:
                    print(f"    {number}: {text}")
    print(f"median {statistics.median(counts)}, most {max(counts)}")
    for text, count in causes.most_common():
        print(f"{count:6} {text}")


if __name__ == "__main__":
    main()
