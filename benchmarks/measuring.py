"""What the benchmarks share: fresh starts, samples, JSON."""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import platform
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.utils import compilation_time_metrics, counters
from torch.profiler import ProfilerActivity, profile

import graphmend_bc as gm

gm.config.disk_cache = False  # an earlier run must not spare a later one attempts

ARMS = ("stock", "mended", "twin")


@dataclass(frozen=True, slots=True)
class Sample:
    """One measured number: seconds, bytes, a ratio, or a count.

    Attributes:
        subject: the program.
        measure: what was measured.
        arm: which version of the program.
        value: the number; seconds and ratios are floats, counts and bytes are ints.
    """

    subject: str
    measure: str
    arm: str
    value: float


def start_arm(arm: str) -> None:
    """Switches mending as the arm wants it, with nothing left of earlier compilations."""
    gm.disable()
    torch._dynamo.reset()
    compilation_time_metrics.clear()
    counters.clear()
    gc.collect()
    cached = getattr(logging.Logger, "warning_once", None)  # transformers adds it
    if cached is not None:
        cached.cache_clear()
    if arm == "mended":
        gm.enable()
        gm.reset()


def cpu_seconds() -> float:
    """Processor time of this process and of the compilers it ran.

    On a machine that others use too it says more than the clock; with one thread and nobody else
    they agree.
    """
    own = resource.getrusage(resource.RUSAGE_SELF)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def profiled(call: Callable[[], Any]) -> tuple[int, int]:
    """What a call does on the CPU.

    Returns:
        Most bytes that torch's allocator had handed out at one time, and how many graphs ran that
        Inductor had compiled.
    """
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
    return peak, sum("Call CompiledFxGraph" in e.name() for e in events)


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Lower quartile, median and upper quartile; one value is all three."""
    if len(values) < 2:
        return values[0], values[0], values[0]
    low, median, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, median, high


def progress(done: int, total: int, what: str) -> None:
    """Says on standard error how far the benchmark is."""
    end = "\n" if done == total else ""
    print(f"\r[{done}/{total}] {what:40}", end=end, file=sys.stderr, flush=True)


def environment() -> dict[str, str]:
    """What the figures were measured on; the commit is there if git knows it."""
    found = {
        "python": platform.python_version(),
        "torch": str(torch.__version__),
        "graphmend_bc": gm.__version__,
        "platform": f"{platform.system()}-{platform.release()}-{platform.machine()}",
        "threads": str(torch.get_num_threads()),
    }
    if torch.cuda.is_available():
        found["gpu"] = torch.cuda.get_device_name()
    git = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD"]
    with contextlib.suppress(OSError, subprocess.CalledProcessError):
        found["commit"] = subprocess.check_output(git, text=True, stderr=subprocess.DEVNULL).strip()
    return found


Key = tuple[str, str, str]
"""Program, measure, arm."""


def grouped(samples: Iterable[Sample]) -> dict[Key, list[float]]:
    """The values by what they were measured of, in the order of the samples."""
    found: dict[Key, list[float]] = {}
    for s in samples:
        found.setdefault((s.subject, s.measure, s.arm), []).append(s.value)
    return found


def read_json(path: Path) -> tuple[dict[str, str], list[Sample]]:
    """What `write_json` wrote: what was measured on, and the samples.

    Raises:
        ValueError: it is no such file.
    """
    try:
        known: Any = json.loads(path.read_text(encoding="utf-8"))
        return dict(known["environment"]), [Sample(**entry) for entry in known["samples"]]
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise ValueError(f"{path} is no file of results: {error}") from error


def write_json(path: Path, samples: Sequence[Any], name: str = "samples", **about: str) -> None:
    """Writes every sample, one a line, and what it was measured on.

    Args:
        path: of the file.
        samples: objects of a dataclass.
        name: of the list in the file.
        about: what else the environment says.
    """
    lines = ",\n".join(json.dumps(asdict(sample)) for sample in samples)
    head = json.dumps(environment() | about)
    text = f'{{"environment": {head},\n"{name}": [\n{lines}\n]}}\n'
    path.write_text(text, encoding="utf-8")
