"""Mended control flow beside stock and beside what one would write by hand, under Inductor.

    python benchmarks/control_flow.py [--quick] [--repeats 7] [--only FORM ...] [--json PATH]

Each form of `twins/forms.py` is compiled in three arms, interleaved: `stock`, `mended`, and `twin`,
the hand-written version with the same weights. Before anything is timed every arm must give what
eager Python gives. All times are processor time with one thread, so that other work on the machine
counts little. Measures, each as median and quartiles over the rounds:

    graphs, breaks   what one call compiles to
    compile          the first call, empty caches, the C++ compiler included
    trace            the first call with backend "eager": Dynamo and mending alone
    call             a later call; width 256, batch 128
    small call       a later call; width 8, batch 2: little but overhead
    peak             most memory that one call had allocated
    miss             a call that takes the unlikely arm (speculated forms only); as "twin": eager

The ratios in the first table are mended / twin within a round.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch._inductor.config
from growth import measure_growth
from measuring import (
    ARMS,
    Sample,
    cpu_seconds,
    print_table,
    progress,
    quartiles,
    start_arm,
    write_json,
)
from side_by_side import SUBJECTS, Build, Subject
from torch._inductor.utils import fresh_cache
from torch.profiler import ProfilerActivity, profile

import graphmend_bc as gm
from graphmend_bc import session
from graphmend_bc.reporting.report import FrameResult

WIDTH, BATCH = 256, 128
SMALL_WIDTH, SMALL_BATCH = 8, 2


def measure_compilation(subject: Subject) -> list[Sample]:
    """One round: every arm compiled anew, with Inductor and with the "eager" backend."""
    build = Build(subject, WIDTH, BATCH)
    samples = []
    for arm in ARMS:
        start_arm(arm)
        with fresh_cache():
            samples.append(Sample(subject.name, "compile", arm, _first_call(build, arm)))
        start_arm(arm)
        samples.append(Sample(subject.name, "trace", arm, _first_call(build, arm, "eager")))
    gm.disable()
    return samples


def count_graphs(subject: Subject) -> list[Sample]:
    """Graphs of one call and breaks between them, a skipped frame included."""
    build = Build(subject, WIDTH, BATCH)
    samples = []
    for arm in ARMS:
        start_arm("stock")
        frames: list[FrameResult] = []
        state = session.new_state(mends=arm == "mended")
        state.on_frame.append(frames.append)
        with session.mending_by(state):
            build.compile(arm, "eager")(build.x)
        breaks = sum(bool(frame.break_reason) or frame.skipped for frame in frames)
        samples += [
            Sample(subject.name, "graphs", arm, sum(frame.graphs for frame in frames)),
            Sample(subject.name, "breaks", arm, breaks),
        ]
    return samples


def _first_call(build: Build, arm: str, backend: str = "inductor") -> float:
    call = build.compile(arm, backend)
    start = cpu_seconds()
    call(build.x)
    return cpu_seconds() - start


def measure_calls(subject: Subject, rounds: int, is_quick: bool) -> list[Sample]:
    """Calls that compile nothing, at both sizes, and the memory they need."""
    samples = []
    for measure, width, batch in (
        ("call", WIDTH, BATCH),
        ("small call", SMALL_WIDTH, SMALL_BATCH),
    ):
        build = Build(subject, width, batch)
        calls = build.compiled
        count = (50 if is_quick else 200) * (1 if measure == "call" else 5)
        for number in range(rounds + 1):
            for arm, call in calls.items():
                seconds = _timed(partial(call, build.x), count)
                if number:
                    samples.append(Sample(subject.name, measure, arm, seconds))
        if measure == "call":
            samples += [
                Sample(subject.name, "peak", arm, _peak(partial(call, build.x)))
                for arm, call in calls.items()
            ]
            samples += measure_failed_checks(subject, build)
    return samples


def measure_failed_checks(subject: Subject, build: Build, misses: int = 7) -> list[Sample]:
    """Calls that take the unlikely arm, among enough others that the speculation stays as it is."""
    if subject.misses is None:
        return []
    samples = []
    x = build.x * subject.misses
    for _ in range(misses):
        for arm, call in (("mended", build.compiled["mended"]), ("twin", build.eager)):
            _timed(partial(call, build.x), 10)
            seconds = _timed(partial(_ignoring_errors, call, x), 1)
            samples.append(Sample(subject.name, "miss", arm, seconds))
    return samples


def _ignoring_errors(call: Callable[[torch.Tensor], Any], x: torch.Tensor) -> None:
    try:
        call(x)
    except (ValueError, AssertionError):
        return  # what the guard is there for


def _timed(call: Callable[[], Any], count: int) -> float:
    start = cpu_seconds()
    for _ in range(count):
        call()
    return (cpu_seconds() - start) / count


def _peak(call: Callable[[], Any]) -> int:
    """Most bytes that torch's CPU allocator had handed out at one time during a call."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        call()
    assert profiler.profiler is not None
    assert profiler.profiler.kineto_results is not None
    events = profiler.profiler.kineto_results.events()
    changes = [(e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"]
    now = peak = 0
    for _, change in sorted(changes, key=lambda entry: entry[0]):
        now += change
        peak = max(peak, now)
    return peak


def print_summary(samples: Sequence[Sample]) -> None:
    """Prints a line for each form: counts, and mended / twin, round by round."""
    values: dict[str, dict[tuple[str, str], list[float]]] = {}
    for s in samples:
        values.setdefault(s.subject, {}).setdefault((s.measure, s.arm), []).append(s.value)
    print(
        f"{'mended / twin':16} {'graphs':8}{'breaks':8}{'compile':>20}{'trace':>20}{'call':>20}"
        f"{'overhead us':>20}{'miss / eager':>20}{'peak':>7}"
    )
    for name, found in values.items():
        if ("compile", "mended") not in found:
            continue
        counts = ("/".join(f"{found[m, a][0]:.0f}" for a in ARMS) for m in ("graphs", "breaks"))
        ratios = [_ratio(found, measure) for measure in ("compile", "trace", "call")]
        print(
            f"{name:16}",
            *(f"{count:7}" for count in counts),
            *(f"{cell:>19}" for cell in (*ratios, _overhead(found), _ratio(found, "miss"))),
            f"{found['peak', 'mended'][0] / max(found['peak', 'twin'][0], 1):6.2f}",
        )


def _ratio(found: dict[tuple[str, str], list[float]], measure: str) -> str:
    if (measure, "mended") not in found:
        return ""
    pairs = zip(found[measure, "mended"], found[measure, "twin"], strict=True)
    low, median, high = quartiles([ours / theirs for ours, theirs in pairs])
    return f"{median:.2f} [{low:.2f}, {high:.2f}]"


def _overhead(found: dict[tuple[str, str], list[float]]) -> str:
    pairs = zip(found["small call", "mended"], found["small call", "twin"], strict=True)
    low, median, high = quartiles([(ours - theirs) * 1e6 for ours, theirs in pairs])
    return f"{median:.1f} [{low:.1f}, {high:.1f}]"


def parse(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--repeats", type=int, default=7, help="rounds to keep (default 7)")
    parser.add_argument("--quick", action="store_true", help="few rounds, short ones, small sizes")
    names = [subject.name for subject in SUBJECTS]
    parser.add_argument("--only", nargs="+", choices=[*names, "growth"], help="forms")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write every sample here")
    args = parser.parse_args(argv)
    if args.quick:
        args.repeats = 1
    elif args.repeats < 2:
        parser.error("--repeats must be at least 2: quartiles need two rounds.")
    return args


def main(argv: list[str] | None = None) -> None:
    args = parse(argv)
    torch.set_num_threads(1)
    torch._inductor.config.compile_threads = 1  # in this process, where its time is counted
    logging.getLogger("torch._dynamo").setLevel(logging.ERROR)  # stock's breaks are no news
    chosen = [s for s in SUBJECTS if args.only is None or s.name in args.only]
    samples: list[Sample] = []
    for done, subject in enumerate(chosen, 1):
        progress(done, len(chosen), subject.name)
        with torch.no_grad():
            samples += count_graphs(subject)
            samples += measure_calls(subject, max(8, 3 * args.repeats), args.quick)
            # No round is discarded: the calls above have warmed everything up.
            for _ in range(args.repeats):
                samples += measure_compilation(subject)
    if chosen:
        print_summary(samples)
        print()
    if args.only is None or "growth" in args.only:
        samples += measure_growth(args.repeats, 2 if args.quick else 4)
    print_table(samples)
    if args.json:
        write_json(args.json, samples)


if __name__ == "__main__":
    main()
