"""A third party's package, built as a wheel that holds bytecode only, and its other forms."""

from __future__ import annotations

import base64
import hashlib
import importlib._bootstrap_external as bootstrap
import subprocess
import sys
import zipfile
from pathlib import Path
from types import CodeType

#: The package's sources. They are compiled and then thrown away.
SOURCES = {
    "acme_models/__init__.py": "",
    "acme_models/gate.py": '''
import torch


class Gate(torch.nn.Module):
    """Clamps what is too large, refuses what is not finite."""

    def __init__(self, limit):
        super().__init__()
        self.limit = limit
        self.scale = torch.nn.Parameter(torch.tensor([0.5, 2.0]))

    def forward(self, x):
        y = x * self.scale
        if torch.isnan(y).any():
            raise ValueError(f"not a number among {tuple(y.shape)}")
        if (y.abs() > self.limit).any():
            y = torch.clamp(y, -self.limit, self.limit)
        return y
''',
    "acme_models/net.py": """
import torch

from .gate import Gate


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gates = torch.nn.ModuleList([Gate(3.0), Gate(4.0)])

    def forward(self, x):
        for gate in self.gates:
            x = gate(x) + 1
        print("largest", x.max().item() > 3)
        return x


def predict(net, x):
    assert x.ndim == 1, "one dimension"
    return torch.tanh(net(x))
""",
}


def compiled(name: str, where: str, *, optimize: int = 0, lines: bool = True) -> CodeType:
    """The code object of one source.

    Args:
        name: a key of `SOURCES`.
        where: the file it says it came from; there need not be one.
        optimize: as for `compile()`; 1 is `-O`.
        lines: False takes all line numbers and positions out.
    """
    code = compile(SOURCES[name], where, "exec", dont_inherit=True, optimize=optimize)
    return code if lines else without_lines(code)


def without_lines(code: CodeType) -> CodeType:
    """The code object, and all in it, with an empty line table."""
    consts = tuple(without_lines(c) if isinstance(c, CodeType) else c for c in code.co_consts)
    return code.replace(co_linetable=b"", co_consts=consts)


def bytecode_files(*, optimize: int = 0, lines: bool = True) -> dict[str, bytes]:
    """The package as `.pyc` files in the places of its sources; the build machine's paths are gone."""
    files = {}
    for name in SOURCES:
        code = compiled(name, f"/build/of/acme/{name}", optimize=optimize, lines=lines)
        files[f"{name}c"] = bytes(bootstrap._code_to_timestamp_pyc(code))  # type: ignore[attr-defined]
    return files


def build_wheel(directory: Path) -> Path:
    """Write the package's wheel for this interpreter, by the wheel format's own rules."""
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}-none-any"
    info = "acme_models-1.0.dist-info"
    files = bytecode_files() | {
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: acme-models\nVersion: 1.0\n",
        f"{info}/WHEEL": f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n".encode(),
    }
    record = "".join(f"{name},{_digest(data)},{len(data)}\n" for name, data in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n".encode()
    return _write_archive(directory / f"acme_models-1.0-{tag}.whl", files)


def build_archive(directory: Path) -> Path:
    """Write the package as an archive to import from."""
    return _write_archive(directory / "acme.zip", bytecode_files())


def build_folder(directory: Path, *, optimize: int = 0, lines: bool = True) -> Path:
    """Write the package's `.pyc` files to a folder."""
    for name, data in bytecode_files(optimize=optimize, lines=lines).items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return directory


def install(wheel: Path, directory: Path) -> Path:
    """Have pip install a wheel into a folder of its own."""
    options = ["--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check", "-q"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(directory)]
    subprocess.run([*command, str(wheel)], check=True, timeout=120)
    return directory


def _digest(data: bytes) -> str:
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"sha256={digest}"


def _write_archive(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return path
