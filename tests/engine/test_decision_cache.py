"""What worked in one process is tried first in the next one, and can do no harm there."""

from __future__ import annotations

import json
import logging
import os
import stat
import textwrap
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc import session
from graphmend_bc.code.analysis.blocks import graph_of
from graphmend_bc.engine.decisions import decision_cache
from graphmend_bc.engine.decisions.decision_cache import DecisionCache
from graphmend_bc.engine.decisions.entry_files import LARGEST, EntryFiles
from graphmend_bc.reporting.report import FrameResult
from graphmend_bc.rules.registry import all_rules
from graphmend_bc.rules.rule import BreakSite
from tests.oracle import load
from tests.processes import forked

BRANCH = (
    "def f(x):\n    n = []\n    if x.sum() > 0:\n        n.append(1)\n    return x * (len(n) + 1)\n"
)
"""An arm changes a list, which takes an attempt to find out."""

PROGRAMS = {
    "speculate": BRANCH,
    "several": """
def f(x):
    k = 2 if x[0] > 0 else 3
    seen = []
    if x.sum() > 1:
        seen.append(1)
    return x * k + len(seen)
""",
    "defer": """
def f(x):
    if x.sum() > 0:
        print("positive", x.sum().item() > 0)
    y = x * 2
    print("largest", y.max().item())
    return y
""",
    "hoist": """
def f(x):
    n = (x > 0).sum()
    for i in range(n):
        x = x + i
    return x
""",
    "sites": "def f(x):\n    n = 0\n"
    + "".join(f"    if x[{i}] > 0:\n        n = n + 1\n" for i in range(8))
    + "    return x * n\n",
    "callees": """
def check(x):
    if torch.isnan(x).any():
        raise ValueError("nan")

def scale(x):
    k = 2 if x[0] > 0 else 3
    return x * k

def clamp(x):
    if x.max() > 1:
        x = x / x.max()
    return x

def f(x):
    check(x)
    return clamp(scale(x))
""",
}

PROCESS = """
import json, sys
import torch
import graphmend_bc as gm
from graphmend_bc import session
from tests.oracle import load

gm.config.disk_cache, gm.config.cache_dir = True, {where!r}
x = torch.sin(torch.arange(8.0) + 1)
gm.enable()
answers = {{}}
for name, source in {programs!r}.items():
    frames = []
    session._session.state.on_frame[:] = [frames.append]
    f = load(source).f
    found = torch.compile(f, backend="eager")(x)
    mends = sorted((m.strategy, m.site.lineno, m.passed_over != ()) for m in gm.report().mends)
    gm.reset()
    attempts = [len(frame.attempts) + 1 for frame in frames]
    answers[name] = [attempts, found.tolist() == f(x).tolist(), mends]
print("ANSWERS", json.dumps(answers))
"""


@pytest.fixture(autouse=True)
def on_disk(tmp_path: Path) -> Iterator[Path]:
    where = tmp_path / "cache"
    with gm.config.patch(disk_cache=True, cache_dir=str(where)):
        yield where


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The warnings of the library."""
    texts: list[str] = []

    def warning(text: str, *args: object) -> None:
        texts.append(text % args)

    monkeypatch.setattr(logging.getLogger("graphmend_bc"), "warning", warning)
    return texts


def in_process(where: Path) -> dict[str, Any]:
    programs = {name: source.strip() + "\n" for name, source in PROGRAMS.items()}
    out, _ = forked(PROCESS.format(where=str(where), programs=programs))
    answers: dict[str, Any] = json.loads(out.split("ANSWERS")[1])
    return answers


def attempts_of(f: Any, *args: Any, expected: Any = None) -> list[int]:
    """The attempts at each frame of `f`, by a state that knows only what is on disk."""
    torch._dynamo.reset()
    frames: list[FrameResult] = []
    state = session.new_state(mends=True)
    state.decisions = DecisionCache()
    state.on_frame.append(frames.append)
    with session.mending_by(state):
        found = torch.compile(f, backend="eager")(*args)
    assert torch.equal(found, f(*args) if expected is None else expected)
    return [len(frame.attempts) + 1 for frame in frames]


def entry_of(where: Path) -> Path:
    (entry,) = where.glob("*.json")
    return entry


X = torch.sin(torch.arange(8.0) + 1)


@pytest.mark.slow
def test_second_process_takes_one_attempt_for_each_frame(on_disk: Path) -> None:
    first, second = in_process(on_disk), in_process(on_disk)
    for name in PROGRAMS:
        assert first[name][1] is second[name][1] is True, name
        assert first[name][2] == second[name][2] != [], name
        assert set(second[name][0]) == {1}, name
    alike = {name for name in PROGRAMS if set(first[name][0]) == {1}}
    assert alike == {"callees", "defer", "sites"}  # their rules are tried where they are met


def test_entries_are_decisions_and_nobody_elses_to_read(on_disk: Path) -> None:
    assert attempts_of(load(BRANCH).f, X) == [2]
    entry = entry_of(on_disk)
    known = json.loads(entry.read_text())
    assert known == {
        "format": 1,
        "decisions": [
            {
                "offset": known["decisions"][0]["offset"],
                "rule": "speculate",
                "gb_type": "Data-dependent branching",
                "refused": ["arm-changes-state"],
            }
        ],
    }
    assert stat.S_IMODE(on_disk.stat().st_mode) == 0o700
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600


def test_entry_is_of_the_code_and_not_of_its_file(on_disk: Path) -> None:
    assert attempts_of(load(BRANCH).f, X) == [2]
    assert attempts_of(load("\n\n" + BRANCH).f, X) == [1]
    assert attempts_of(load(BRANCH.replace("+ 1", "+ 3")).f, X) == [2]
    with gm.config.patch(where_op_limit=7):
        assert attempts_of(load(BRANCH).f, X) == [2]


def changed(**changes: Any) -> str:
    decision = {"offset": 0, "rule": "where", "gb_type": "", "refused": [], **changes}
    return json.dumps({"format": 1, "decisions": [decision]})


@pytest.mark.slow
@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[" * 50_000,
        '{"format": 1, "decisions": ' + "9" * 5000 + "}",
        '{"format": 2, "decisions": []}',
        '{"format": 1, "decisions": [], "code": ""}',
        '{"format": 1, "decisions": [[]]}',
        changed(rule="no-such-rule"),
        changed(rule=["where"]),
        changed(offset=-2),
        changed(offset=1),
        changed(offset=10**9),
        changed(offset=True),
        changed(offset=None),
        changed(gb_type="x" * 300),
        changed(gb_type="\n"),
        changed(refused=["no-such-reason"]),
        changed(refused="arm-too-dear"),
        changed(),  # no branch is there
        "\udcff",
        " " * (LARGEST + 1),
    ],
    ids=lambda content: content[:60].strip() or f"{len(content)} spaces",
)
def test_what_is_no_entry_is_ignored_and_replaced(
    content: str, on_disk: Path, told: list[str]
) -> None:
    f = load(BRANCH).f
    assert attempts_of(f, X) == [2]
    entry = entry_of(on_disk)
    good = entry.read_text()
    entry.write_bytes(content.encode(errors="surrogateescape"))
    assert attempts_of(f, X) == [2]
    (text,) = told
    assert "GRAPHMEND_BC_DISK_CACHE=0" in text
    if len(content) <= LARGEST:
        assert entry.read_text() == good
        assert attempts_of(f, X) == [1]


SMALL = """
def f(x):
    kept = []
    if x[0] > 0:
        kept.append(x)
    return x * len(kept)
"""

LARGE = """
def f(x):
    n = 0
    kept = []
    if x[0] > 0:
        kept.append(x * 2)
    while n < 2 and x.sum() > 0:
        x = x - x[n:n + 1].abs()
        n += 1
    if x.max() > 10:
        raise ValueError("large")
    y = sorted([x[1], x[0]])[0]
    return x + y + len(kept) * len(str(n))
"""


def legal_somewhere(f: Any) -> list[dict[str, Any]]:
    """Each decision that a rule would make if Dynamo broke there, whatever it called the break."""
    found = []
    for rule in all_rules():
        for op in graph_of(f.__code__).listing.ops:
            for gb_type in sorted(rule.gb_types)[:1] or ["UserError"]:
                break_site = BreakSite(f.__code__, op.offset, gb_type)
                if rule.at(break_site) is not None:
                    made = {"offset": op.offset, "rule": rule.name, "gb_type": gb_type}
                    found.append({**made, "refused": []})
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [
        pytest.param(SMALL, id="small"),
        pytest.param(LARGE, id="large", marks=pytest.mark.nightly),
    ],
)
def test_no_entry_can_make_a_result_wrong(program: str, on_disk: Path) -> None:
    f = load(textwrap.dedent(program)).f
    attempts_of(f, X)
    entry = entry_of(on_disk)
    decisions = legal_somewhere(f)
    assert {"where", "cond", "speculate", "defer", "hoist", "capture"} <= {
        decision["rule"] for decision in decisions
    }
    for decision in decisions:
        entry.write_text(json.dumps({"format": 1, "decisions": [decision]}))
        for x in (X, -X):
            attempts_of(f, x)


def test_rule_that_does_not_hold_is_dropped(on_disk: Path) -> None:
    f = load("def f(x):\n    k = 1\n    if x[0] > 0:\n        k = 2\n    return x * k\n").f
    (usual,) = attempts_of(f, X)
    entry = entry_of(on_disk)
    good = entry.read_text()
    entry.write_text(good.replace('"speculate"', '"cond"').replace('"where"', '"cond"'))
    assert entry.read_text() != good
    assert attempts_of(f, X) == [usual + 1]
    assert entry.read_text() == good
    assert attempts_of(f, X) == [1]


def test_break_that_is_left_does_not_cost_the_entry(on_disk: Path) -> None:
    arm = "    n = []\n    if x.sum() > 0:\n        n.append(1)\n"
    f = load(f"def f(x):\n{arm}    open('/dev/null').close()\n    return x + len(n)\n").f
    first = attempts_of(f, X)
    kept = {entry: entry.stat().st_ino for entry in on_disk.glob("*.json")}
    assert kept
    assert sum(attempts_of(f, X)) < sum(first)
    assert {entry: entry.stat().st_ino for entry in on_disk.glob("*.json")} == kept


def foreign(where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)


def loop(where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where.symlink_to(where)


def file(where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where.write_text("")


def everyones(where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where.mkdir()
    where.chmod(0o777)


def the_groups(where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where.mkdir()
    where.chmod(0o770)


def full(where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", refuse)


def read_only(where: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = os.open

    def opened(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
        if flags & os.O_CREAT:
            raise OSError(30, "Read-only file system")
        return known(path, flags, *args, **kwargs)

    monkeypatch.setattr(os, "open", opened)


@pytest.mark.parametrize("trouble", [foreign, loop, file, everyones, the_groups, full, read_only])
def test_directory_that_cannot_be_used_is_told_once(
    trouble: Any, on_disk: Path, monkeypatch: pytest.MonkeyPatch, told: list[str]
) -> None:
    where = on_disk
    if trouble is foreign:
        where.mkdir()
    f = load(BRANCH).f
    with monkeypatch.context() as patch:
        trouble(where, patch)
        assert attempts_of(f, X) == [2]
    assert len(told) == 1
    assert not where.is_dir() or list(where.iterdir()) == []


def test_link_of_ones_own_is_followed_and_one_among_the_entries_is_not(
    on_disk: Path, tmp_path: Path
) -> None:
    real = tmp_path / "real"
    real.mkdir()
    on_disk.symlink_to(real)
    f = load(BRANCH).f
    assert attempts_of(f, X) == [2]
    assert attempts_of(f, X) == [1]
    entry = entry_of(real)
    moved = entry.rename(tmp_path / "moved.json")
    entry.symlink_to(moved)
    assert attempts_of(f, X) == [2]


@pytest.mark.parametrize("mode", [0o660, 0o602])
def test_entry_that_others_can_write_to_is_not_read(
    mode: int, on_disk: Path, told: list[str]
) -> None:
    f = load(BRANCH).f
    assert attempts_of(f, X) == [2]
    entry_of(on_disk).chmod(mode)
    assert attempts_of(f, X) == [2]
    assert len(told) == 1
    assert "is not a file that only this user writes" in told[0]


def test_oldest_entries_are_removed_and_nothing_else(on_disk: Path) -> None:
    files = EntryFiles(on_disk, most=3, most_bytes=1000, every=1)
    files.write("a" * 64, b"1")
    (on_disk / "mine.txt").write_text("")
    os.utime(on_disk / f"{'a' * 64}.json", (0, 0))
    for number in range(3):
        files.write(f"{number:064x}", b"2")
    assert files.read("a" * 64) is None
    assert files.count() == 3
    files.write("b" * 64, b"3" * 990)
    os.utime(on_disk / f"{'b' * 64}.json")
    files.write("c" * 64, b"4" * 600)
    assert files.read("b" * 64) is None
    assert files.read("c" * 64) == b"4" * 600
    files.write("d" * 64, b"5" * (LARGEST + 1))
    assert files.read("d" * 64) is None
    assert (on_disk / "mine.txt").exists()


def test_many_at_once_read_whole_entries(on_disk: Path) -> None:
    contents = [bytes([65 + number]) * 5000 for number in range(4)]

    def write_and_read(content: bytes) -> list[bytes | None]:
        files = EntryFiles(on_disk, every=1)
        seen = []
        for _ in range(50):
            files.write("a" * 64, content)
            seen.append(files.read("a" * 64))
        return seen

    with ThreadPoolExecutor(4) as pool:
        seen = [found for some in pool.map(write_and_read, contents) for found in some]
    assert set(seen) <= set(contents)
    assert [entry.name for entry in on_disk.iterdir()] == ["a" * 64 + ".json"]


def test_switched_off_nothing_is_written(on_disk: Path) -> None:
    with gm.config.patch(disk_cache=False):
        assert attempts_of(load(BRANCH).f, X) == [2]
    with gm.enabled(cache=False):
        torch.compile(load(BRANCH).f, backend="eager")(X)
    assert not on_disk.exists()


def test_every_setting_on_which_plans_depend_is_part_of_the_key() -> None:
    """A new setting belongs into `_SETTINGS`, or among those that change no plan."""
    change_none = {"enabled", "strict_versions", "attach", "disk_cache", "cache_dir"}
    change_none |= {"verify", "verify_action"}
    elsewhere = {"effects"}  # by their code
    known = {name for name in gm.config.get_config_copy() if name.islower()}
    assert known == {*decision_cache._SETTINGS, *change_none, *elsewhere}
