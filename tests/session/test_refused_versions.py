"""A Python or torch that is refused: the program may go on without us."""

from __future__ import annotations

import json
import textwrap

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc import versions
from graphmend_bc.versions import MissingSeamError
from tests.patches.test_installer import NEEDED, removed
from tests.processes import python

OLD = """\
import sys, torch
torch.__version__ = "2.5.1"
import torch._dynamo
for name in ("convert_frame", "symbolic_convert", "side_effects"):
    sys.modules["torch._dynamo." + name] = None  # nothing of ours that needs them can be imported
import graphmend_bc
"""


def test_where_our_modules_cannot_be_imported() -> None:
    """One warning, nothing is on, and each of the functions can be called."""
    program = f"""
    {textwrap.indent(OLD, "    ").strip()}
    for _ in range(2):
        handle = graphmend_bc.enable(on_error="warn")
    with graphmend_bc.enabled(on_error="warn"):
        @graphmend_bc.leave_alone
        def f(x):
            return x + 1
    found = graphmend_bc.report()
    print(graphmend_bc.is_enabled(), f(1), found.refused == found.summary()[len("nothing was mended: "):])
    graphmend_bc.reset(), graphmend_bc.disable(), handle.remove()
    print(found.to_json())
    try:
        graphmend_bc.enable()
    except Exception as error:
        print(type(error).__name__, file=sys.stderr)
    """
    done = python("-c", textwrap.dedent(program))
    first, _, found = done.stdout.partition("\n")
    assert first == "False 2 True"
    assert json.loads(found)["refused"].startswith("graphmend_bc does not know torch 2.5;")
    assert done.stderr.count("Until then the program runs as it is") == 1
    assert done.stderr.splitlines()[-1] == "UnsupportedVersionError"


def test_the_program_runs_as_it_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x - 1

    monkeypatch.setattr("torch.__version__", "2.5.1")
    with gm.enabled(on_error="warn"), gm.enabled(on_error="warn"):
        assert not gm.is_enabled()
        compiled = torch.compile(f, backend="eager")
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
        report = gm.report()
    assert report.mends == []
    assert report.refused.startswith("graphmend_bc does not know torch 2.5;")
    assert [record.getMessage() for record in caplog.records if record.name == "graphmend_bc"] == [
        f"{report.refused} Until then the program runs as it is, without graphmend_bc."
    ]
    monkeypatch.undo()
    with gm.enabled():
        assert gm.report().refused == ""


def test_a_missing_seam_is_a_reason_too() -> None:
    gm.enable().remove()  # what is put in for the life of the process is in place
    with removed(NEEDED[0]):
        with pytest.raises(MissingSeamError) as caught:
            gm.enable()
        with gm.enabled(on_error="warn"):
            assert not gm.is_enabled()
            assert gm.report().refused == str(caught.value)
    with gm.enabled():
        assert gm.is_enabled()
        assert not gm.report().refused


def test_what_the_user_got_wrong_is_raised() -> None:
    with pytest.raises(ValueError, match="'raise' or 'warn'"):
        gm.enable(on_error="ignore")
    with gm.config.patch(attach="no.such.module:f"), pytest.raises(ValueError, match="cannot find"):
        gm.enable(on_error="warn")
    assert not gm.is_enabled()


def test_what_is_not_refused_has_no_refusal() -> None:
    assert versions.refusal() == ""
