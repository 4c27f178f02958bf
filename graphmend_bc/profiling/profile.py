"""profile: what each graph break that remains costs."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from types import CodeType, ModuleType
from typing import Any

import torch

from graphmend_bc.attachment import frame_hooks
from graphmend_bc.dynamo.frames.generated_code import (
    GRAPH_MARK,
    CodeKind,
    break_reasons,
    kind_of,
    line_of_break,
    user_name,
)
from graphmend_bc.dynamo.graph.cuda_graph_counts import cuda_graph_counts
from graphmend_bc.profiling.break_costs import costs_of
from graphmend_bc.profiling.costs import Costs, as_text
from graphmend_bc.profiling.records import COMPILER, EAGER, GENERATED, GRAPH, Measured, Record
from graphmend_bc.profiling.spans import chrome_trace
from graphmend_bc.reporting.provenance import Provenance
from graphmend_bc.session import report

SCHEMA = 1
"""Version of the JSON; it changes when a name in it does, or what a number counts."""


@contextmanager
def profile(*, trace: bool = False, call_limit: int = 1_000_000) -> Iterator[Profile]:
    """Measure what runs inside compiled regions: graphs, and what breaks leave to Python.

    All threads are measured. Each Python function that runs eagerly inside a compiled region, and
    each graph, costs a fraction of a microsecond more than without the profile; every other call of
    a Python function is slower by the frame evaluator that is installed meanwhile. The result says
    what the measuring took.

    Args:
        trace: True to run torch's profiler too. It tells of device kernels and of waits for the
            device, and its events are in the chrome trace; it slows the program down a good deal.
        call_limit: how many calls are kept one by one for the chrome trace, 32 bytes each. Later
            ones are still counted.

    Yields:
        The profile; it can be asked once the block has ended.

    Raises:
        ImportError: the C extension is missing.
        RuntimeError: a profile is running already.

    Example:
        >>> import graphmend_bc, torch
        >>> compiled = torch.compile(lambda x: x + 1, backend="eager")
        >>> with graphmend_bc.profile() as prof:
        ...     compiled(torch.zeros(2))
        tensor([1., 1.])
        >>> prof.table().splitlines()[0]
        'no graph breaks inside the compiled regions that ran'
    """
    hooks = frame_hooks.load("profile()")
    found = Profile()
    profiler = torch.profiler.profile() if trace else None
    with ExitStack() as ending:
        frame_hooks.require(hooks, found)
        ending.callback(frame_hooks.release, hooks, found)
        run = _Run(hooks, profiler, call_limit)
        ending.callback(lambda: setattr(found, "_measured", run.measured()))
        if profiler is not None:
            ending.enter_context(profiler)
        run.begin()
        ending.callback(run.end)
        yield found


class Profile:
    """What `profile()` found.

    Example:
        >>> import graphmend_bc, torch
        >>> with graphmend_bc.profile() as prof:
        ...     _ = torch.ones(2) + 1
        >>> prof.costs.breaks
        ()
    """

    def __init__(self) -> None:
        self._measured: Measured | None = None

    @property
    def costs(self) -> Costs:
        """The figures.

        Raises:
            RuntimeError: the profile's block has not ended yet.
        """
        return costs_of(self._ended())

    def table(self, limit: int = 20) -> str:
        """The costs of graph breaks, the dearest first, and of graphs and compilations.

        Args:
            limit: how many breaks, and how many functions of each, are listed.

        Returns:
            Text in lines.

        Raises:
            RuntimeError: the profile's block has not ended yet.
        """
        return as_text(self.costs, limit)

    def to_json(self) -> str:
        """All of `costs`, times in nanoseconds.

        Returns:
            A JSON object with the number `schema`, which changes when a name in it does, and in
            `provenance` the program, the versions and the time; the other names are those of
            `graphmend_bc.profiling.costs.Costs`.

        Raises:
            RuntimeError: the profile's block has not ended yet.
        """
        costs = self.costs
        breaks = [asdict(found) | {"total_ns": found.total_ns} for found in costs.breaks]
        checks = [asdict(found) | {"total_ns": found.total_ns} for found in costs.failed_checks]
        written = asdict(costs) | {"breaks": breaks, "failed_checks": checks}
        return json.dumps(_opening() | written, indent=2)

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the measured calls for chrome://tracing or Perfetto.

        With `profile(trace=True)` the events of torch's profiler are in the same file.

        Args:
            path: the file; one that exists is replaced.

        Raises:
            RuntimeError: the profile's block has not ended yet.
            OSError: the file cannot be written.
        """
        measured = self._ended()

        def name_of(index: int) -> tuple[str, str, dict[str, Any]]:
            record = measured.records[index]
            place = f"{record.code.co_filename}:{record.code.co_firstlineno}"
            cause = f"{record.cause.co_filename}:{line_of_break(record.cause) or ''}"
            name = f"{record.kind} {user_name(record.code)}"
            if record.kind in (GRAPH, COMPILER):
                name = f"{record.kind} {record.owner[0]}".rstrip()
            return name, f"graphmend_bc {record.kind}", {"code": place, "because of": cause}

        trace = chrome_trace(measured.spans, name_of, measured.torch_trace)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(trace | {"otherData": _opening()}, file)

    def _ended(self) -> Measured:
        if self._measured is None:
            raise RuntimeError(
                "The profile is not complete: its figures are there once the block of "
                "`with graphmend_bc.profile() as prof:` has ended."
            )
        return self._measured


def _opening() -> dict[str, Any]:
    """What each JSON begins with. Viewers of traces show what is in `otherData`."""
    return {"schema": SCHEMA, "provenance": asdict(Provenance.here())}


class _Run:
    """One profile while it runs.

    Args:
        hooks: the C extension, installed.
        profiler: torch's profiler, or None.
        call_limit: how many calls are kept.
    """

    def __init__(
        self, hooks: ModuleType, profiler: torch.profiler.profile | None, call_limit: int
    ) -> None:
        self._hooks, self._profiler, self._call_limit = hooks, profiler, call_limit
        self._epoch_ns = self._begun_ns = self._wall_ns = 0
        self._ledger: Mapping[str, Any] | None = None
        self._before, self._cuda_graphs = report(), cuda_graph_counts()

    def begin(self) -> None:
        """Start the clock."""
        self._epoch_ns = time.time_ns() - time.perf_counter_ns()
        self._hooks.profile_begin(_Classifier.of(self._hooks), GRAPH_MARK, self._call_limit)
        self._begun_ns = time.perf_counter_ns()

    def end(self) -> None:
        """Stop it."""
        self._wall_ns = time.perf_counter_ns() - self._begun_ns
        self._ledger = self._hooks.profile_end()

    def measured(self) -> Measured | None:
        """What was found, once torch's profiler has stopped too; None if it never began."""
        if self._ledger is None:
            return None
        return Measured(
            records=tuple(_record(self._hooks, *row) for row in self._ledger["records"]),
            calls=self._ledger["calls"],
            epoch_ns=self._epoch_ns,
            dropped=self._ledger["dropped"],
            wall_ns=self._wall_ns,
            cost_ns=self._hooks.profile_cost(kind_of.__code__),
            torch_trace=None if self._profiler is None else _exported(self._profiler),
            cuda_graphs=cuda_graph_counts().since(self._cuda_graphs),
            reasons=tuple(break_reasons()),
            before=self._before,
            report=report(),
        )


@dataclass(frozen=True, slots=True)
class _Classifier:
    """Answers the extension's question what a code object is."""

    constants: Mapping[CodeKind, int]

    @classmethod
    def of(cls, hooks: ModuleType) -> _Classifier:
        return cls({kind: getattr(hooks, f"KIND_{kind.name}") for kind in CodeKind})

    def __call__(self, code: CodeType) -> int:
        return self.constants[kind_of(code)]


def _record(
    hooks: ModuleType, kind: int, code: CodeType, cause: CodeType, calls: int, own: int, total: int
) -> Record:
    names = {
        hooks.KIND_EAGER: EAGER,
        hooks.KIND_GENERATED: GENERATED,
        hooks.KIND_GRAPH: GRAPH,
        hooks.KIND_COMPILER: COMPILER,
    }
    return Record(names[kind], code, cause, calls, own, total)


def _exported(profiler: torch.profiler.profile) -> Mapping[str, Any]:
    """The trace of torch's profiler, which it gives away as a file only."""
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "trace.json")
        profiler.export_chrome_trace(path)
        with open(path, encoding="utf-8") as file:
            trace: dict[str, Any] = json.load(file)
    return trace
