"""Run the whole suite on each supported pair of Python and torch.

    python tests/torch_matrix.py [--pair 3.12] [--python PATH] [pytest arguments]

For each pair an environment is kept in .venv-torch311 to .venv-torch314 at the root of the tree; PIP_INDEX_URL and the like say where torch comes from. `--python` names an interpreter
whose environment has torch and the test packages already: the C extension is built with it in the
tree, and the suite runs there and nowhere else. One line is printed for each pair; the exit status
is 0 if none has failed. A pair whose interpreter is not found, or whose torch has no build to
install, is named and does not count.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

from bytecode_matrix import ROOT, candidates, is_version

#: Python version to the torch that is tested with it.
PAIRS = {(3, 11): "2.13.0", (3, 12): "2.11.0", (3, 13): "2.13.0", (3, 14): "2.15.0"}


def environment(version: tuple[int, int], torch: str) -> Path | str:
    """The Python of an environment with torch and the test packages, or why there is none."""
    found = next((path for path in candidates(version) if is_version(path, version)), None)
    if found is None:
        return "not found on PATH or under ~/.pyenv/versions"
    folder = ROOT / ".venv-torch{}{}".format(*version)
    python = folder / "bin" / "python"
    if not is_version(str(python), version):
        subprocess.run([found, "-m", "venv", "--clear", str(folder)], check=True)
    install = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    done = subprocess.run(
        [*install, f"torch=={torch}", "setuptools", "-e", f"{ROOT}[cli,scan,test]"],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return f"not installed: {(done.stderr.strip().splitlines() or ['pip failed'])[-1]}"
    return python


def run_suite(python: Path, arguments: list[str]) -> tuple[bool, str]:
    """Build the extension in the tree and run the tests; whether they passed, and the last line."""
    build = [str(python), "setup.py", "build_ext", "--inplace"]
    subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run(
        [str(python), "-m", "pytest", "-q", *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
    return done.returncode == 0, (done.stdout.strip().splitlines() or ["no output"])[-1]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pair", metavar="3.12", help="only the pair of this Python version")
    parser.add_argument("--python", type=Path, help="an interpreter that has all packages already")
    args, arguments = parser.parse_known_args()
    if args.python:
        passed, line = run_suite(args.python, arguments)
        print(f"{args.python}: {'passed' if passed else 'FAILED'}: {line}")
        return 0 if passed else 1
    status = 0
    for version, torch in PAIRS.items():
        name = "{}.{}".format(*version)
        if args.pair not in (None, name):
            continue
        python = environment(version, torch)
        if isinstance(python, str):
            print(f"Python {name}, torch {torch}: {python}", flush=True)
            continue
        passed, line = run_suite(python, arguments)
        print(
            f"Python {name}, torch {torch}: {'passed' if passed else 'FAILED'}: {line}", flush=True
        )
        status = status if passed else 1
    return status


if __name__ == "__main__":
    sys.exit(main())
