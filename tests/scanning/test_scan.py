"""`scan` finds likely breaks in what it reads, and a file that it cannot read costs one sentence."""

from __future__ import annotations

import base64
import json
import struct
import zipfile
from pathlib import Path

import pytest

from graphmend_bc.rewriting.conditions import tensor_conditions
from graphmend_bc.scanning import files, suspects
from graphmend_bc.scanning.files import ScannedFile, scan
from tests.processes import python

HERE = Path(__file__).parent
MODEL = (HERE / "model.txt").read_bytes()
BYTECODE: dict[str, str] = json.loads((HERE / "bytecode.json").read_text())
"""`model.txt`, compiled by each Python."""

EXPECTED = [
    (10, "if", "sum"),
    (12, "print", "print"),
    (13, "while", "any"),
    (15, "assert", "all"),
    (16, "log", "info"),
    (20, "if", "max"),
    (22, "if", "item"),
    (24, "read", "tolist"),
    (24, "size", "nonzero"),
]


def test_the_engine_takes_the_same_names_for_conditions_on_tensors() -> None:
    assert suspects._ASKED == tensor_conditions._REDUCTIONS


def only(path: Path) -> ScannedFile:
    (one,) = scan(path)
    return one


def lines(one: ScannedFile) -> list[tuple[int, str, str]]:
    assert not one.trouble
    assert {suspect.function for suspect in one.suspects} <= {"Net.forward"}
    return [(suspect.line, suspect.kind, suspect.what) for suspect in one.suspects]


def test_source(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_bytes(MODEL)
    assert lines(only(tmp_path / "model.py")) == EXPECTED


@pytest.mark.parametrize("version", BYTECODE)
def test_bytecode(version: str, tmp_path: Path) -> None:
    pytest.importorskip("xdis")
    (tmp_path / "model.pyc").write_bytes(base64.b64decode(BYTECODE[version]))
    assert lines(only(tmp_path / "model.pyc")) == EXPECTED


def test_nothing_is_suspected_without_torch(tmp_path: Path) -> None:
    (tmp_path / "other.py").write_bytes(MODEL.replace(b"import torch\n", b"\n"))
    assert only(tmp_path / "other.py") == ScannedFile(str(tmp_path / "other.py"))


def test_what_is_no_break_is_not_suspected(tmp_path: Path) -> None:
    (tmp_path / "calm.py").write_text(
        "import torch\n"
        "print(torch.ones(2).sum().item())\n"
        "class A:\n"
        "    print('body')\n"
        "def f(x, d, table):\n"
        "    for k, v in d.items():\n"
        "        x = x + v if x.shape[0] > 1 else x\n"
        "    if x.max is None or table.info:\n"
        "        return any(d)\n"
        "    while len(d):\n"
        "        x = x.sum()\n"
        "    return x\n"
    )
    assert lines(only(tmp_path / "calm.py")) == []


def test_directory_and_archives(tmp_path: Path) -> None:
    for name in ("pkg/model.py", "pkg/__pycache__/model.py", ".git/model.py", "pkg/notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(MODEL)
    with zipfile.ZipFile(tmp_path / "lib.whl", "w") as wheel:
        wheel.writestr("lib/model.py", MODEL)
        wheel.writestr("lib/data.bin", b"data")
    found = {one.name: lines(one) for one in scan(tmp_path)}
    assert found == {
        f"{tmp_path}/lib.whl!lib/model.py": EXPECTED,
        f"{tmp_path}/pkg/model.py": EXPECTED,
    }


@pytest.mark.parametrize(
    ("name", "data", "why"),
    [
        ("a.py", b"import torch\ndef f(:\n", "(line 2)"),
        ("a.py", b"x = '\0'", "null bytes"),
        ("a.py", b"x = " + b"(" * 5000, "nested"),
        ("a.py", b"#" * (files.LARGEST_FILE + 1), "it is larger than 8 MiB"),
        ("a.txt", b"", "it is no .py, .pyc, .whl, .zip, .egg, .pyz or directory"),
        ("a.whl", b"PK\3\4", "it is no intact archive"),
    ],
)
def test_bad_file(name: str, data: bytes, why: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    one = only(tmp_path / name)
    assert (one.suspects, one.trouble.startswith(f"{tmp_path / name} cannot be read: ")) == (
        (),
        True,
    )
    assert why in one.trouble


def test_missing_file(tmp_path: Path) -> None:
    assert "there is no such file" in only(tmp_path / "missing.py").trouble


NEWEST = base64.b64decode(BYTECODE["3.13"])


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (NEWEST[:10], "it is truncated"),
        (NEWEST[:-20], "it is truncated or damaged"),
        (b"ABCD" + NEWEST[4:], "it is no bytecode file"),
        # A tuple that says it has two thousand million elements, each of them such a tuple.
        (NEWEST[:16] + b"(\xff\xff\xff\x7f" * 5000, "it is truncated or damaged"),
        # A string that says it has as many bytes.
        (NEWEST[:16] + b"s" + struct.pack("<I", 2**31 - 1), "it is truncated or damaged"),
        (NEWEST[:16] + b"N", "it is truncated or damaged"),
    ],
)
def test_bad_bytecode(data: bytes, why: str, tmp_path: Path) -> None:
    pytest.importorskip("xdis")
    (tmp_path / "a.pyc").write_bytes(data)
    assert why in only(tmp_path / "a.pyc").trouble


def test_a_broken_member_does_not_hide_the_others(tmp_path: Path) -> None:
    path = tmp_path / "lib.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.py", b"broken = 'here'")
        archive.writestr("b.py", MODEL)
    path.write_bytes(path.read_bytes().replace(b"broken", b"br0ken"))
    broken, intact = scan(path)
    assert "the archive is broken there (Bad CRC-32" in broken.trouble
    assert lines(intact) == EXPECTED


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, 99])
def test_a_member_that_is_packed_otherwise_than_it_says(tmp_path: Path, method: int) -> None:
    """Each method of packing has errors of its own."""
    path = tmp_path / "a.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.py", b"\x09\x04\x05\0" + b"\xff" * 20)  # LZMA's settings are wrong
    packed = bytearray(path.read_bytes())
    for signature, field in ((b"PK\3\4", 8), (b"PK\1\2", 10)):
        at = packed.index(signature) + field
        packed[at : at + 2] = method.to_bytes(2, "little")
    path.write_bytes(packed)
    (found,) = scan(path)
    assert found.trouble.startswith(f"{path}!a.py cannot be read: the archive is broken there (")


def test_an_archive_is_unpacked_up_to_a_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lib.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("a.py", "b.py", "c.py"):
            archive.writestr(name, b"#" * (1 << 20))
    monkeypatch.setattr(files, "LARGEST_ARCHIVE", 2 << 20)
    assert [one.trouble for one in scan(path)] == [
        "",
        "",
        f"{path} cannot be read: it has more than 2 MiB unpacked.",
    ]
    monkeypatch.setattr(files, "MOST_MEMBERS", 1)
    assert [one.trouble for one in scan(path)] == [
        "",
        f"{path} cannot be read: it has more than 1 programs.",
    ]


def test_command_line_without_torch(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_bytes(MODEL)
    (tmp_path / "xdis.py").write_text("raise SystemExit('the scanned directory was imported from')")
    (tmp_path / "a.pyc").write_bytes(base64.b64decode(BYTECODE["3.8"]))
    program = (
        "import sys\n"
        "from graphmend_bc.cli.main import main\n"
        "try:\n"
        "    main(sys.argv[1:])\n"
        "finally:\n"
        "    assert 'torch' not in sys.modules and 'xdis' not in sys.modules\n"
    )
    run = ("-c", program, "scan")
    done = python(
        *run, "model.py", "a.pyc", "none.py", "--json", "--fail-on-break=17", cwd=tmp_path
    )
    report = json.loads(done.stdout)
    assert (report["schema"], report["heuristic"]) == (2, True)
    assert report["read"] == ["model.py", "a.pyc"]
    assert [row["file"] for row in report["unread"]] == ["none.py"]
    assert report["findings"][0] == {
        "file": "model.py",
        "line": 10,
        "function": "Net.forward",
        "kind": "if",
        "what": "sum",
        "strategies": ["where", "cond", "speculate"],
    }
    assert done.returncode == 3
    assert done.stderr.splitlines() == [
        "graphmend_bc: none.py cannot be read: there is no such file.",
        "graphmend_bc: 18 likely graph breaks; --fail-on-break=17.",
    ]
    done = python(*run, "model.py", "--fail-on-break=9", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "model.py:10  Net.forward  if: sum" in done.stdout
    assert python(*run, "--json", "--fail-on-break", "model.py", cwd=tmp_path).returncode == 3
    assert python(*run, "none.py", cwd=tmp_path).returncode == 2


def test_example_of_the_docs(tmp_path: Path) -> None:
    page = (HERE.parents[1] / "docs" / "scan.md").read_text(encoding="utf-8")
    model = page.partition("```python\n")[2].partition("```")[0]
    printed = page.partition("it prints\n\n```\n")[2].partition("```")[0]
    (tmp_path / "model.py").write_text(model)
    done = python("-m", "graphmend_bc", "scan", "model.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, printed)
