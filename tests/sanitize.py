"""Run the C extension's own tests under AddressSanitizer and UndefinedBehaviorSanitizer.

    python tests/sanitize.py [pytest arguments]

The extension is built once more, into build/sanitize, and loaded into this interpreter with the
sanitizers' libraries before it. Python's own allocator is switched off, so that each object is a
block that AddressSanitizer knows. torch is not loaded: these tests need none. The exit status is
that of pytest; a report of a sanitizer ends it with one that is not 0.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NAMES = ("evaluator", "choosing", "measuring", "hygiene")
TESTS = [f"tests/attachment/test_{name}.py" for name in NAMES]
#: greenlet copies stacks, red zones included, which AddressSanitizer takes for an overrun.
LEFT_OUT = [
    f"--deselect=tests/attachment/test_hygiene.py::test_greenlets_{what}"
    for what in ("may_end_watched_calls_in_any_order", "inside_a_profile")
]
FLAGS = "-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all"


def build(folder: Path, python: str, settings: dict[str, str]) -> Path:
    """Build the extension once more.

    Args:
        folder: where to.
        python: the interpreter that it is for.
        settings: environment variables of the build.

    Returns:
        The folder it is in.
    """
    where = [f"--build-lib={folder / 'lib'}", f"--build-temp={folder / 'temp'}", "--force"]
    command = [python, "setup.py", "build_ext", *where]
    environ = os.environ | settings
    subprocess.run(command, cwd=ROOT, env=environ, check=True, stdout=subprocess.DEVNULL)
    built = folder / "lib" / "graphmend_bc"
    if not list(built.glob("_frame_hooks*")):
        sys.exit(f"{folder.name}: the extension was not built; the reason is above.")
    return built


def library(name: str) -> str:
    """The path of one of the compiler's libraries."""
    compiler = os.environ.get("CC", "gcc")
    answer = subprocess.run(
        [compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True
    )
    path = answer.stdout.strip()
    if not os.path.isabs(path):
        sys.exit(f"sanitize: {compiler} has no {name}. Install its sanitizer libraries.")
    return path


def main(arguments: list[str]) -> int:
    flags = {"CFLAGS": FLAGS, "LDFLAGS": FLAGS}
    built = build(ROOT / "build" / "sanitize", sys.executable, flags)
    environ = os.environ | {
        "GRAPHMEND_BC_TEST_EXTENSION": str(built),
        "LD_PRELOAD": " ".join(library(name) for name in ("libasan.so", "libubsan.so")),
        # CPython itself keeps memory to its end, so leaks are looked for by reference counts.
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=0:exitcode=66",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "PYTHONMALLOC": "malloc",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS]
    command += [*LEFT_OUT, *arguments]
    return subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
