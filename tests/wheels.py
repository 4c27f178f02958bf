"""Build the distributions of a release into a folder, and try each: `make wheels`.

    python tests/wheels.py [--out dist] [--python INTERPRETER ...]

The source distribution is built from this tree, and each wheel from the source distribution: one with the
C extension for each supported CPython that is found, and the pure one. The steps are those of `cibuildwheel`
on one platform, with its settings in pyproject.toml: build, repair by auditwheel, install into an environment
that has nothing else, test the extension there. The tools are those of constraints/release.txt. Interpreters
are looked for as `tests/bytecode_matrix.py` does, and named ones besides. The exit status is 0 if nothing is
wrong and each supported CPython was there.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.bytecode_matrix import VERSIONS, candidates, is_version  # noqa: E402

_EXTENSION = re.compile(r"graphmend_bc/_frame_hooks\.[\w-]+\.(so|pyd)")
_OUR_LAYERS = ("code", "rewriting", "catalog", "reporting", "scanning")
"""Packages of which pyproject.toml says that they import no torch."""
_WITHOUT_TORCH = f"""
import importlib, pkgutil, sys
for layer in {_OUR_LAYERS}:
    package = importlib.import_module("graphmend_bc." + layer)
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
assert "torch" not in sys.modules
print(sum(name.startswith("graphmend_bc") for name in sys.modules), "modules without torch")
"""


def run(*command: str | Path, cwd: Path = ROOT, **variables: str) -> str:
    """What a command prints; it must succeed.

    Raises:
        subprocess.CalledProcessError: it did not; what it said has been printed.
    """
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    # The tools call each other by name.
    path = f"{Path(sys.executable).parent}{os.pathsep}{kept['PATH']}"
    done = subprocess.run(
        [str(part) for part in command],
        cwd=cwd,
        env=kept | {"PATH": path, "PIP_DISABLE_PIP_VERSION_CHECK": "1"} | variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        print(done.stdout, file=sys.stderr)
    done.check_returncode()
    return done.stdout


def interpreters(named: list[str]) -> Iterator[tuple[str, str | None]]:
    """Each supported version, with the interpreter that was found for it."""
    for version in VERSIONS:
        found = [*named, *candidates(version)]
        yield (
            "{}.{}".format(*version),
            next((path for path in found if is_version(path, version)), None),
        )


def faults_of(wheel: Path) -> list[str]:
    """What is wrong with what a wheel has in it, in sentences."""
    with zipfile.ZipFile(wheel) as opened:
        files = (entry.filename for entry in opened.infolist() if not entry.is_dir())
        names = {name for name in files if ".dist-info/" not in name}
    package = ROOT / "graphmend_bc"
    kept = (path for path in package.rglob("*.*") if path.suffix not in (".so", ".pyd", ".pyc"))
    expected = {path.relative_to(ROOT).as_posix() for path in kept if path.is_file()}
    built = {name for name in names if _EXTENSION.fullmatch(name)}
    wanted = 0 if wheel.stem.endswith("-none-any") else 1
    faults = [f"{name} is missing." for name in sorted(expected - names)]
    faults += [f"{name} is not a file of the package." for name in sorted(names - expected - built)]
    if len(built) != wanted:
        faults.append(f"It has {len(built)} builds of the extension in place of {wanted}.")
    return faults


def source_distribution(out: Path, folder: Path) -> Path:
    """Build it, and unpack it; the tree that is in it."""
    run(sys.executable, "-m", "build", "--sdist", "--outdir", out, ROOT)
    (archive,) = out.glob("graphmend_bc-*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def environment(interpreter: str, folder: Path) -> Path:
    """An environment of an interpreter with pip alone; its Python."""
    run(sys.executable, "-m", "virtualenv", "-q", "-p", interpreter, folder)
    return folder / "bin" / "python"


def build_wheel(interpreter: str, tree: Path, folder: Path, **variables: str) -> Path:
    """Build a wheel from the unpacked source distribution, and let auditwheel name its platform."""
    python = environment(interpreter, folder / "build")
    run(python, "-m", "pip", "install", "-q", "build")
    run(python, "-m", "build", "--wheel", "--outdir", folder / "raw", tree, **variables)
    (wheel,) = (folder / "raw").glob("*.whl")
    if sys.platform != "linux" or wheel.stem.endswith("-none-any"):
        return wheel
    run(sys.executable, "-m", "auditwheel", "repair", "-w", folder / "repaired", wheel)
    (wheel,) = (folder / "repaired").glob("*.whl")
    return wheel


def try_wheel(wheel: Path, interpreter: str, folder: Path, settings: dict[str, str]) -> str:
    """Install a wheel, and test what needs no torch; what that came to.

    Args:
        wheel: the wheel.
        interpreter: of which its environment is made.
        folder: for that.
        settings: those of cibuildwheel.
    """
    python = environment(interpreter, folder / "env")
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    run(python, "-m", "pip", "install", "-q", "--no-deps", wheel, cwd=folder)
    version = wheel.name.split("-")[1]
    said = run(python.parent / "graphmend-bc", "--version", cwd=folder)
    assert f"graphmend_bc {version}" in said, said
    run(python, "-m", "pip", "install", "-q", "bytecode", "networkx", "xdis")
    came_to = run(python, "-c", _WITHOUT_TORCH, cwd=folder).strip()
    if not wheel.stem.endswith("-none-any"):
        run("sh", "-c", settings["before-test"], cwd=folder, PATH=path)
        command = settings["test-command"].replace("{project}", str(ROOT))
        came_to += f", {run('sh', '-c', command, cwd=folder, PATH=path).splitlines()[-1]}"
    return came_to


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make wheels", description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="an empty folder")
    parser.add_argument("--python", nargs="+", default=[], help="more interpreters")
    return parser.parse_args()


def main() -> int:
    options = _options()
    options.out.mkdir(parents=True, exist_ok=True)
    if any(options.out.iterdir()):
        sys.exit(f"{options.out} is not empty: distributions of several versions would be mixed.")
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]
    wrong = []
    with tempfile.TemporaryDirectory() as name:
        tree = source_distribution(options.out, Path(name))
        found = dict(interpreters(options.python))
        pure = next(path for path in found.values() if path)
        kinds = [*found.items(), ("pure", pure)]
        for kind, interpreter in kinds:
            if interpreter is None:
                wrong.append(f"There is no CPython {kind} here, so there is no wheel for it.")
                continue
            folder = Path(name) / kind
            without = {"GRAPHMEND_BC_NO_EXTENSION": "1"} if kind == "pure" else {}
            built = build_wheel(interpreter, tree, folder, **without)
            wheel = built.rename(options.out / built.name)
            wrong += [f"{wheel.name}: {fault}" for fault in faults_of(wheel)]
            told = try_wheel(wheel, interpreter, folder, settings)
            print(f"{wheel.name}, {wheel.stat().st_size // 1024} KiB: {told}", flush=True)
    built = sorted(options.out.iterdir())
    run(sys.executable, "-m", "twine", "check", "--strict", *built)
    run("check-wheel-contents", *(path for path in built if path.suffix == ".whl"))
    print("\n".join(wrong or ["twine, check-wheel-contents and this script find nothing wrong."]))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
