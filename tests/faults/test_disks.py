"""A disk that fails under the decision cache: results as without it, and one warning at most."""

from __future__ import annotations

import errno
import io
import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc import session
from graphmend_bc.engine.decisions.decision_cache import DecisionCache
from tests.faults.planted import warnings_of_ours
from tests.processes import python

UP, DOWN = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0])

LINES = """
def f(x):
    n = []
    if x.sum() > 0:
        n.append(1)
    return x * (len(n) + 1)
"""


def f(x: torch.Tensor) -> torch.Tensor:
    n = []
    if x.sum() > 0:
        n.append(1)
    return x * (len(n) + 1)


@pytest.fixture(autouse=True)
def on_disk(tmp_path: Path) -> Iterator[Path]:
    where = tmp_path / "cache"
    with gm.config.patch(disk_cache=True, cache_dir=str(where)):
        yield where


def warnings_of(rounds: int = 1) -> list[str]:
    """The warnings of some compilations as in a new process each; what they give is checked."""
    with warnings_of_ours() as warned:
        state = session.new_state(mends=True)
        state.decisions = DecisionCache()
        for _ in range(rounds):
            torch._dynamo.reset()
            with session.mending_by(state):
                compiled = torch.compile(f, backend="eager")
                for x in (UP, DOWN, UP):
                    assert torch.equal(compiled(x), f(x))
            assert state.report.mends
            state.forget()
    return warned


class Full(io.BytesIO):
    """A file on a disk that is full; `buffered` if that shows only when the file is closed."""

    buffered = False

    def write(self, content: Any) -> int:
        if not self.buffered:
            raise OSError(errno.ENOSPC, "No space left on device")
        return len(content)

    def close(self) -> None:
        is_open, self.buffered = self.buffered, False
        super().close()
        if is_open:
            raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("buffered", [False, True])
def test_disk_that_is_full(buffered: bool, on_disk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from graphmend_bc.engine.decisions import entry_files

    def opened(file: int, mode: str) -> Full:
        os.close(file)
        full = Full()
        full.buffered = buffered
        return full

    monkeypatch.setattr(entry_files, "open", opened, raising=False)
    (text,) = warnings_of(rounds=3)
    assert "No space left on device" in text
    assert list(on_disk.iterdir()) == []


@pytest.mark.skipif(
    os.getuid() != 0 or not shutil.which("mount"), reason="It mounts a file system."
)
@pytest.mark.parametrize("options", ["size=4k,nr_inodes=2", "ro"])
def test_file_system_without_room(options: str, on_disk: Path) -> None:
    on_disk.mkdir(mode=0o700)
    mount = ["mount", "-t", "tmpfs", "-o", f"{options},mode=700", "tmpfs", str(on_disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("No file system can be mounted here.")
    try:
        if options != "ro":
            (on_disk / "taken").write_bytes(b"0" * 4096)
        assert len(warnings_of(rounds=3)) == 1
    finally:
        subprocess.run(["umount", str(on_disk)], check=True)


@pytest.mark.parametrize("above", ["/proc", __file__])
def test_directory_that_cannot_be_made(above: str) -> None:
    with gm.config.patch(cache_dir=f"{above}/entries"):
        assert len(warnings_of(rounds=3)) == 1


def test_directory_in_place_of_an_entry(on_disk: Path) -> None:
    assert warnings_of() == []
    for entry in on_disk.iterdir():
        entry.unlink()
        entry.mkdir()
    assert len(warnings_of(rounds=3)) == 1


def cut(content: bytes, draw: random.Random) -> bytes:
    return content[: draw.randrange(len(content))]


def flipped(content: bytes, draw: random.Random) -> bytes:
    spoilt = bytearray(content)
    for _ in range(draw.randint(1, 4)):
        spoilt[draw.randrange(len(spoilt))] ^= 1 << draw.randrange(8)
    return bytes(spoilt)


def noise(content: bytes, draw: random.Random) -> bytes:
    return draw.randbytes(draw.randrange(2 * len(content)))


def shuffled(content: bytes, draw: random.Random) -> bytes:
    """Numbers and words of the entry in other places."""
    words = content.split(b" ")
    draw.shuffle(words)
    return b" ".join(words)


@pytest.mark.slow
@pytest.mark.parametrize("spoil", [cut, flipped, noise, shuffled])
def test_spoilt_entries(spoil: Callable[[bytes, random.Random], bytes], on_disk: Path) -> None:
    spoil_and_call(spoil, on_disk, seeds=range(12))


@pytest.mark.nightly
@pytest.mark.parametrize("spoil", [cut, flipped, noise, shuffled])
def test_many_spoilt_entries(spoil: Callable[[bytes, random.Random], bytes], on_disk: Path) -> None:
    spoil_and_call(spoil, on_disk, seeds=range(1000))


def spoil_and_call(
    spoil: Callable[[bytes, random.Random], bytes], where: Path, seeds: range
) -> None:
    assert warnings_of() == []
    entries = {entry: entry.read_bytes() for entry in where.iterdir()}
    assert entries
    for seed in seeds:
        draw = random.Random(seed)
        for entry, content in entries.items():
            entry.write_bytes(spoil(content, draw))
        assert len(warnings_of()) <= 1


@pytest.mark.slow
def test_processes_that_write_at_once(on_disk: Path) -> None:
    program = f"""
import pathlib, sys, torch, graphmend_bc as gm
{LINES}
gm.config.disk_cache, gm.config.cache_dir = True, {str(on_disk)!r}
gm.enable()
for i in range(20):
    for x in (torch.ones(2), -torch.ones(2)):
        assert torch.equal(torch.compile(f, backend="eager")(x), f(x))
    torch._dynamo.reset()
    for entry in pathlib.Path({str(on_disk)!r}).glob("*.json"):
        if i % 3 == int(sys.argv[1]):
            entry.unlink(missing_ok=True)
"""
    with ThreadPoolExecutor(2) as pool:
        done = list(pool.map(lambda number: python("-c", program, str(number)), range(2)))
    assert [(each.returncode, each.stderr) for each in done] == [(0, "")] * 2
    assert all(entry.suffix == ".json" for entry in on_disk.iterdir())
    assert warnings_of() == []
