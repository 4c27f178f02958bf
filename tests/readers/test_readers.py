"""What the fuzzers of readers begin with is understood, and what is none is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from graphmend_bc.engine.decisions.decisions import BadDecisionsError, decoded
from graphmend_bc.scanning.bytecode_files import _answer
from graphmend_bc.scanning.files import scan
from tests.readers.targets import READERS, SUBJECT, WrongAnswerError


@pytest.mark.parametrize("name", READERS)
def test_readers_take_seeds_and_parts_of_them(name: str) -> None:
    reader = READERS[name]
    assert reader.seeds
    for seed in reader.seeds:
        assert len(seed) <= reader.longest
        for end in range(0, len(seed) + 1, 29):
            reader.read(seed[:end])


def test_seeds_of_decisions_decide_something() -> None:
    plans = [decoded(seed, SUBJECT) for seed in READERS["decisions"].seeds]
    assert sum(bool(proven.plan) for proven in plans) > 5
    assert any(proven.outcomes for proven in plans)
    with pytest.raises(BadDecisionsError):
        decoded(b"{}", SUBJECT)


def test_seed_of_bytecode_has_code() -> None:
    pytest.importorskip("xdis")
    (seed,) = READERS["bytecode"].seeds
    names = [name for name, *_ in _answer(seed)]
    assert names[:2] == ["", "f"]


def test_seeds_of_archives_have_suspects(tmp_path: Path) -> None:
    for seed in READERS["archive"].seeds:
        (tmp_path / "p.whl").write_bytes(seed)
        (found,) = scan(tmp_path / "p.whl")
        assert (found.trouble, len(found.suspects) > 1) == ("", True)


def test_a_reader_that_gives_nothing_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("graphmend_bc.scanning.bytecode_files._answer", lambda data: "")
    with pytest.raises(WrongAnswerError):
        READERS["bytecode"].read(json.dumps("").encode())
