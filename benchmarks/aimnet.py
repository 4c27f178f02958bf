"""AIMNet2, an interatomic potential that reads numbers from tensors: does compiling it pay?

    make bench-aimnet            # fetches both versions into build/, then runs what follows
    python benchmarks/aimnet.py --package build/aimnet-0.2.0 --fixed build/aimnet-0.2.5

Energy and forces of one molecule, on the CPU in one thread, with random weights: in eager Python,
compiled by stock torch, by stock with its options for numbers and shapes that come from data,
mended, and as its authors fixed it by hand (0.2.5; `twin`). The unfixed version, 0.2.0, asks
`.item()` in every layer. Each arm is a process of its own; the calls of all arms take turns.
Ten minutes, most of them compilers; `--backend eager` needs three.

    first call       processor seconds, kernels compiled anew
    second process   the same with the caches that the first one left
    call             processor seconds of a call that compiles nothing
    graphs, breaks   of all calls so far; compiled code for the second size comes on top
    error            distance of energy and forces to eager's, relative to their norm
    differs          with the backend "eager": how many of the two are not eager's, bit for bit

Packages: aimnet 0.2.0 with nvalchemi-toolkit-ops 0.3.1, aimnet 0.2.5 with nvalchemi-toolkit-ops
0.4.1, warp-lang 1.19.0, h5py, click, pyyaml. Nothing else is fetched.
"""

from __future__ import annotations

import argparse
import logging
import os
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from measuring import Sample, cpu_seconds, grouped, progress, write_json
from torch._dynamo.utils import counters
from worker import Worker

import graphmend_bc as gm

ATOMS = (20, 24)
"""Sizes of the molecules; the second is met when the first is compiled."""

WARM_UP = 5
ARMS = ("stock", "options", "mended", "twin")


@dataclass(frozen=True, slots=True)
class Place:
    """Where an arm finds what it needs.

    Attributes:
        package: folder with aimnet.
        weights: file of the weights that all arms share.
        caches: folder of this arm's caches.
    """

    package: str
    weights: str
    caches: str


class Potential:
    """The model in one arm: `energy_and_forces` and what it costs.

    Args:
        arm: "eager" or one of `ARMS`.
        backend: of torch.compile.
        place: folders.
    """

    def __init__(self, arm: str, backend: str, place: Place) -> None:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = place.caches
        os.environ["WARP_CACHE_PATH"] = place.caches
        warnings.simplefilter("ignore")
        logging.getLogger("torch._dynamo").setLevel(logging.ERROR)  # stock's breaks are no news
        torch.set_num_threads(1)
        gm.config.disk_cache, gm.config.cache_dir = True, place.caches
        self.model = _model(place)
        if arm == "mended":
            gm.enable()
        if arm == "options":
            torch._dynamo.config.capture_scalar_outputs = True
            torch._dynamo.config.capture_dynamic_output_shape_ops = True
        self.function: Callable[..., Any] = (
            self.model
            if arm == "eager"
            else torch.compile(self.model, backend=backend, fullgraph=arm == "twin")
        )

    def first_call(self, atoms: int) -> dict[str, float]:
        """Processor seconds of a first call, graphs and breaks so far."""
        start = cpu_seconds()
        self._call(atoms)
        return {
            "first call": cpu_seconds() - start,
            "graphs": counters["stats"]["unique_graphs"],
            "breaks": sum(counters["graph_break"].values()),
        }

    def calls(self, atoms: int, count: int) -> float:
        """Processor seconds of one of so many calls."""
        start = time.process_time()
        for _ in range(count):
            self._call(atoms)
        return (time.process_time() - start) / count

    def results(self, atoms: int) -> list[list[float]]:
        """Energy and forces."""
        return [part.flatten().tolist() for part in self._call(atoms)]

    def _call(self, atoms: int) -> tuple[torch.Tensor, torch.Tensor]:
        data = _molecule(atoms)
        energy = self.function(data)["energy"]
        (gradient,) = torch.autograd.grad(energy.sum(), data["coord"])
        return energy.detach(), -gradient


def _model(place: Place) -> torch.nn.Module:
    """The published architecture; the first arm draws the weights, the others read them."""
    sys.path.insert(0, place.package)
    import warp

    warp.config.quiet = True
    import aimnet.config

    torch.manual_seed(0)
    architecture = Path(place.package) / "aimnet" / "models" / "aimnet2.yaml"
    model: torch.nn.Module = aimnet.config.build_module(str(architecture)).eval()
    if not Path(place.weights).exists():
        torch.save(model.state_dict(), place.weights)
    model.load_state_dict(torch.load(place.weights))
    return model.requires_grad_(False)


def _molecule(atoms: int) -> dict[str, torch.Tensor]:
    """Atoms at random places, each of H to O, no charge; distances in angstrom."""
    drawn = torch.Generator().manual_seed(atoms)
    return {
        "coord": (torch.rand(1, atoms, 3, generator=drawn) * 6).requires_grad_(),
        "numbers": torch.randint(1, 9, (1, atoms), generator=drawn),
        "charge": torch.zeros(1),
    }


class Bench:
    """Measures all arms.

    Attributes:
        samples: all that was measured.
    """

    def __init__(self, package: Path, fixed: Path, folder: Path, backend: str) -> None:
        self.samples: list[Sample] = []
        self._packages, self._folder, self._backend = (package, fixed), folder, backend

    def run(self, rounds: int, count: int) -> None:
        """Compile every arm, then time its calls in turns with eager's."""
        eager = self._worker("eager")
        expected = {atoms: eager.ask("results", atoms) for atoms in ATOMS}
        live = {}
        for done, arm in enumerate(ARMS):
            progress(done, 2 * len(ARMS), f"{arm} compiles")
            worker = self._compiled(arm, expected)
            if worker is not None:
                live[arm] = worker
        for worker in (eager, *live.values()):
            for atoms in ATOMS:
                worker.ask("calls", atoms, WARM_UP)
        for _ in range(rounds):
            for atoms in ATOMS:
                for arm, worker in {"eager": eager, **live}.items():
                    self._note(atoms, arm, {"call": worker.ask("calls", atoms, count)})
        for worker in (eager, *live.values()):
            worker.close()
        for done, arm in enumerate(live, len(ARMS)):
            progress(done, 2 * len(ARMS), f"{arm}, second process")
            self._again(arm, expected)
        progress(1, 1, "")

    def _compiled(self, arm: str, expected: dict[int, list[list[float]]]) -> Worker | None:
        worker = self._worker(arm)
        for atoms in ATOMS:
            try:
                self._note(atoms, arm, worker.ask("first_call", atoms))
            except RuntimeError as error:
                print(f"\n{arm}, {atoms} atoms:\n{error}", file=sys.stderr)
                self._note(atoms, arm, {"failed": 1})
                worker.close()
                return None
            found = worker.ask("results", atoms)
            self._note(atoms, arm, {"error": _distance(found, expected[atoms])})
        return worker

    def _again(self, arm: str, expected: dict[int, list[list[float]]]) -> None:
        """A second process of the arm, and one with eager's kernels."""
        warm, plain = self._worker(arm), self._worker(arm, backend="eager")
        for atoms in ATOMS:
            seconds = warm.ask("first_call", atoms)["first call"]
            found = plain.ask("results", atoms)
            differing = sum(a != b for a, b in zip(found, expected[atoms], strict=True))
            self._note(atoms, arm, {"second process": seconds, "differs": differing})
        warm.close()
        plain.close()

    def _worker(self, arm: str, backend: str = "") -> Worker:
        package = self._packages[arm == "twin"]
        weights, caches = self._folder / "weights.pt", self._folder / f"{arm}{backend}"
        place = Place(str(package.resolve()), str(weights), str(caches))
        return Worker(Potential, arm, backend or self._backend, place)

    def _note(self, atoms: int, arm: str, figures: dict[str, float]) -> None:
        for measure, value in figures.items():
            self.samples.append(Sample(f"{atoms} atoms", measure, arm, value))


def _distance(found: list[list[float]], expected: list[list[float]]) -> float:
    """Norm of the difference over the norm."""
    both = [torch.tensor([*chain(*parts)], dtype=torch.float64) for parts in (found, expected)]
    return float((both[0] - both[1]).norm() / both[1].norm())


def markdown(samples: Sequence[Sample]) -> str:
    """What was measured, as a table: a row for each size and arm, losses included.

    Args:
        samples: as `main` writes them.
    """
    found = grouped(samples)
    lines = [
        "| atoms | | graphs | breaks | eager / this | first call, s | second process, s "
        "| off by | not bit for bit |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    names = {
        "stock": "0.2.0, stock",
        "options": "0.2.0, stock with its options",
        "mended": "0.2.0, mended",
        "twin": "0.2.5, fixed by hand",
    }
    for subject in dict.fromkeys(sample.subject for sample in samples):
        atoms = subject.split()[0]
        for arm, name in names.items():
            if (subject, "failed", arm) in found:
                lines.append(f"| {atoms} | {name} | an error | | | | | | |")
                continue
            one = {m: v[0] for (s, m, a), v in found.items() if (s, a) == (subject, arm)}
            pairs = zip(found[subject, "call", "eager"], found[subject, "call", arm], strict=True)
            ratios = sorted(eager / this for eager, this in pairs)
            cells = [
                f"{one['graphs']}",
                f"{one['breaks']}",
                f"{statistics.median(ratios):.2f} [{ratios[0]:.2f}, {ratios[-1]:.2f}]",
                f"{one['first call']:.1f}",
                f"{one['second process']:.1f}",
                f"{one['error']:.0e}",
                f"{one['differs']} of 2",
            ]
            lines.append(f"| {atoms} | {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--package", type=Path, required=True, help="folder with aimnet 0.2.0")
    parser.add_argument("--fixed", type=Path, required=True, help="folder with aimnet 0.2.5")
    parser.add_argument("--backend", default="inductor", help="of torch.compile (inductor)")
    parser.add_argument("--rounds", type=int, default=15, help="of calls in turns (15)")
    parser.add_argument("--calls", type=int, default=20, help="calls in a round (20)")
    parser.add_argument("--json", type=Path, metavar="PATH", help="write every sample here")
    args = parser.parse_args(argv)
    for folder in (args.package, args.fixed):
        if not (folder / "aimnet" / "models" / "aimnet2.yaml").exists():
            print(f"{folder} has no aimnet; `make bench-aimnet` fetches it.", file=sys.stderr)
            return 2
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(args.package, args.fixed, Path(folder), args.backend)
        bench.run(args.rounds, args.calls)
    print(markdown(bench.samples), end="")
    if args.json:
        write_json(args.json, bench.samples)
    return 0


if __name__ == "__main__":
    sys.exit(main())
