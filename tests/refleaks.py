"""Run the C extension's own tests under a debug build of CPython, which counts all references.

    python tests/refleaks.py [--python python3.11-dbg] [pytest arguments]

The extension is built once more, for that interpreter, into build/refleaks. The interpreter takes the
pure Python packages of the one that runs this script, so it must be of the same version (Debian and
Ubuntu have one in `python3.11-dbg`). torch is not loaded: these tests need none. The exit status is
that of pytest, or 0 with a line that says so if there is no such interpreter.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import sysconfig

from sanitize import ROOT, TESTS, build

VERSION = "{}.{}".format(*sys.version_info)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--python", default=f"python{VERSION}-dbg", help="default: %(default)s")
    args, rest = parser.parse_known_args()
    python = shutil.which(args.python)
    if python is None:
        print(f"refleaks: there is no {args.python}, so nothing was run.")
        return 0
    question = (
        "import sys; print('{}.{}'.format(*sys.version_info), hasattr(sys, 'gettotalrefcount'))"
    )
    answer = subprocess.run([python, "-c", question], capture_output=True, text=True, check=True)
    if answer.stdout.split() != [VERSION, "True"]:
        sys.exit(f"refleaks: {python} is no debug build of CPython {VERSION}.")
    packages = sysconfig.get_path("purelib")
    built = build(ROOT / "build" / "refleaks", python, {"PYTHONPATH": packages})
    environ = os.environ | {
        "GRAPHMEND_BC_TEST_EXTENSION": str(built),
        "PYTHONPATH": os.pathsep.join([packages, str(ROOT)]),
    }
    command = [python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS, *rest]
    return subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
