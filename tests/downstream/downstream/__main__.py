"""Runs what the package has, on an installed graphmend_bc."""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch

import graphmend_bc
from downstream import looking, rules, serving, settings


def main() -> None:
    x = torch.ones(2)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with serving.Server(folder / "cache") as server:
            print(float(server.answer(x).sum()), float(server.answer(-x).sum()))
            print(serving.within(x), looking.attached(x))
            print("no graph breaks" in looking.measured(x, folder / "trace.json"))
        told = looking.told(serving.switch_off())
        print(next(line[:5] for line in told if " by " in line))
        print(looking.compared(x).after.graph_count, looking.checked(x)[1].after.graph_count)
    print(rules.register_both_ways(), settings.changed())
    print(graphmend_bc.__version__, graphmend_bc.__file__)


if __name__ == "__main__":
    main()
