"""Run the tests that need no torch on every supported interpreter that can be found.

They are those of the bytecode layers, and of the C extension by itself, which is built in the tree
for each interpreter; where there is no compiler its tests are skipped.

    python tests/bytecode_matrix.py [pytest arguments]

Interpreters are looked for on PATH and under ~/.pyenv/versions. Each gets an environment of its own in
.venv-py311 to .venv-py314 at the root of the tree, without torch; the one that runs this script is
left out. One line is printed for each version; the exit status is 0 if none has failed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VERSIONS = ((3, 11), (3, 12), (3, 13), (3, 14))
TESTS = (
    "tests/code",
    "tests/rewriting",
    "tests/attachment/test_evaluator.py",
    "tests/attachment/test_choosing.py",
    "tests/attachment/test_measuring.py",
    "tests/attachment/test_hygiene.py",
)
PACKAGES = (
    "bytecode>=0.17",
    "networkx>=3.0",
    "pytest>=8",
    "hypothesis>=6.100",
    "setuptools>=77.0.3",
    "coverage>=7",
    "greenlet>=3",
)


def candidates(version: tuple[int, int]) -> list[str]:
    """Interpreters that may be of a version, those on PATH first."""
    name = "python{}.{}".format(*version)
    on_path = shutil.which(name)
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    kept = sorted(pyenv.glob("{}.{}.*/bin/python".format(*version)), reverse=True)
    return ([on_path] if on_path else []) + [str(path) for path in kept]


def is_version(interpreter: str, version: tuple[int, int]) -> bool:
    """True if an interpreter starts and is a CPython of that version; a pyenv shim may not be."""
    probe = "import sys; print(sys.implementation.name, *sys.version_info[:2])"
    try:
        told = subprocess.run(
            [interpreter, "-c", probe], capture_output=True, text=True, timeout=60, check=False
        )
    except OSError:
        return False
    return told.stdout.split() == ["cpython", *map(str, version)]


def environment(interpreter: str, version: tuple[int, int]) -> Path:
    """The Python of an environment with what the tests need; made if it is not there."""
    folder = ROOT / ".venv-py{}{}".format(*version)
    python = folder / "bin" / "python"
    if not is_version(str(python), version):
        subprocess.run([interpreter, "-m", "venv", "--clear", str(folder)], check=True)
    modules = [package.partition(">")[0] for package in PACKAGES]
    probe = [str(python), "-c", f"import {', '.join(modules)}"]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        install = [str(python), "-m", "pip", "install", "-qq", *PACKAGES]
        subprocess.run([*install, "--disable-pip-version-check"], check=True)
    build = [str(python), "setup.py", "build_ext", "--inplace"]
    subprocess.run(build, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return python


def run_tests(version: tuple[int, int], arguments: list[str]) -> str:
    """Run the tests on one version: "passed", "FAILED" or "not found", with the last line of pytest."""
    found = next((path for path in candidates(version) if is_version(path, version)), None)
    if found is None:
        return "not found on PATH or under ~/.pyenv/versions"
    try:
        python = environment(found, version)
    except subprocess.CalledProcessError as error:
        return f"FAILED: {' '.join(error.cmd)} exited with status {error.returncode}"
    command = [str(python), "-m", "pytest", "-q", "-m", "", *TESTS, *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    summary = (done.stdout.strip().splitlines() or ["no output"])[-1]
    if done.returncode:
        print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
        return f"FAILED: {summary} ({found})"
    return f"passed: {summary} ({found})"


def main(arguments: list[str]) -> int:
    results = []
    for version in VERSIONS:
        if version == sys.version_info[:2]:
            print("Python {}.{} runs this script; make test covers it.".format(*version))
            continue
        result = run_tests(version, arguments)
        print("Python {}.{}".format(*version), result, flush=True)
        results.append(result)
    failed = any(result.startswith("FAILED") for result in results)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
