"""Inputs that atheris finds, for what reads files that need not be trustworthy.

    python -m tests.readers --reader bytecode --seconds 600

atheris (libFuzzer) changes inputs so that they come by new branches of the reader. A reader may refuse
an input; it may not raise anything else, hang, or take a lot of memory. What does is written to
`--out`, and the exit status is not 0. Coverage is that of our readers, of xdis and of zipfile.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import atheris

SLOWEST = 20
"""Seconds for one input."""
MEMORY = 4096
"""MiB."""
_INSTRUMENTED = ("graphmend_bc.engine.decisions", "graphmend_bc.scanning", "xdis", "zipfile")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.readers", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--reader", choices=("decisions", "bytecode", "archive"), required=True)
    parser.add_argument("--seconds", type=int, default=60, help="how long (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of libFuzzer (default: %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("fuzz_found"), help="folder for findings")
    options = parser.parse_args()
    with atheris.instrument_imports(include=[*_INSTRUMENTED]):
        import xdis.unmarshal  # noqa: F401

        from tests.readers.targets import READERS
    reader = READERS[options.reader]
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as corpus:
        for number, seed in enumerate(reader.seeds):
            Path(corpus, f"seed{number}").write_bytes(seed)
        settings = {
            "max_len": reader.longest,
            "max_total_time": options.seconds,
            "seed": options.seed,
            "timeout": SLOWEST,
            "rss_limit_mb": MEMORY,
            "artifact_prefix": f"{options.out}/{options.reader}-",
            "print_final_stats": 1,
        }
        flags = [f"-{name}={value}" for name, value in settings.items()]
        atheris.Setup([sys.argv[0], *flags, corpus], reader.read)
        atheris.Fuzz()  # ends the process
    return 0


if __name__ == "__main__":
    sys.exit(main())
