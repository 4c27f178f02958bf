"""``python -m graphmend_bc run`` executes a program as ``python`` does."""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path

import pytest

from tests import processes

MEND = ["-m", "graphmend_bc", "run"]

BRANCH = """
import torch

@torch.compile(backend="eager")
def halve(x):
    if x.sum() > 0:
        return x / 2
    return x * 2

print(halve(torch.ones(2)).tolist(), halve(-torch.ones(2)).tolist())
"""


def python(*args: str, cwd: Path) -> tuple[int, str, str]:
    """Runs Python; returns its exit status, standard output and standard error."""
    done = processes.python(*args, cwd=cwd)
    return done.returncode, done.stdout, done.stderr


PROGRAMS = {
    "exit status": "import sys; sys.exit(3)",
    "exit text": "import sys; print('out'); sys.exit('what was wrong')",
    "uncaught": """
def outer():
    try:
        inner()
    except KeyError as error:
        raise ValueError("bad value") from error

def inner():
    {}["missing"]

outer()
""",
    "interrupt": "def wait():\n    raise KeyboardInterrupt\nwait()",
    "syntax error": "x = (\n",
    "own excepthook": """
import sys, traceback
sys.excepthook = lambda t, e, tb: print(t.__name__, [f.name for f in traceback.extract_tb(tb)])
raise LookupError
""",
    "start": """
import sys
print(sys.argv, sys.path[0], __file__, __name__, __package__, __spec__, __cached__, __doc__)
print(sorted(globals()), type(__loader__).__name__, sys.modules["__main__"].__file__)
""",
    "pickle of main": """
import pickle

class Point:
    x = 1

print(pickle.loads(pickle.dumps(Point())).x)
""",
    "thread and atexit": """
import atexit, threading, time
atexit.register(print, "at exit")
threading.Thread(target=lambda: (time.sleep(0.1), print("thread"))).start()
print("main ends")
""",
}


@pytest.mark.slow
@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_script_behaves_as_under_python(program: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(program)
    command = ["program.py", "a", "--report", "--", "-m", "b"]
    assert python(*MEND, "--quiet", *command, cwd=tmp_path) == python(*command, cwd=tmp_path)


@pytest.mark.slow
def test_an_interrupted_program_ends_by_the_signal_after_its_report(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(BRANCH + "raise KeyboardInterrupt\n")
    plain, *_ = python("program.py", cwd=tmp_path)
    status, *_ = python(*MEND, "--report", "out.html", "program.py", cwd=tmp_path)
    assert status == plain < 0
    assert (tmp_path / "out.html").exists()


def test_module_behaves_as_under_python(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg" / "__init__.py").write_text("")
    (tmp_path / "pkg" / "tool.py").write_text(
        "import sys\nprint(sys.argv, sys.path[0], __name__, __spec__.name, __package__, __file__)\n"
        "raise RuntimeError(sorted(globals()))\n"
    )
    command = ["-m", "pkg.tool", "a", "--quiet", "-m"]
    assert python(*MEND, "--quiet", *command, cwd=tmp_path) == python(*command, cwd=tmp_path)


def test_archive_behaves_as_under_python(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "app.zip", "w") as archive:
        archive.writestr("__main__.py", "import helper, sys; sys.exit(helper.STATUS)")
        archive.writestr("helper.py", "STATUS = 5")
    path = str(tmp_path / "app.zip")
    assert python(*MEND, "--quiet", path, cwd=tmp_path) == python(path, cwd=tmp_path) == (5, "", "")


@pytest.mark.slow
def test_bytecode_file_needs_no_source(tmp_path: Path) -> None:
    source = tmp_path / "program.py"
    source.write_text(BRANCH)
    python("-m", "compileall", "-b", "-q", str(source), cwd=tmp_path)
    source.unlink()
    status, out, err = python(*MEND, "program.pyc", cwd=tmp_path)
    assert (status, out) == (0, "[0.5, 0.5] [-2.0, -2.0]\n")
    assert "graphmend_bc: 1 mended, 0 declined; 1 graph in 1 compilation, 0 breaks left" in err


@pytest.mark.slow
@pytest.mark.parametrize(
    "command", [["missing.py"], ["-m", "missing_module"], ["empty_directory"]], ids=" ".join
)
def test_missing_program_gives_pythons_message_and_status(
    command: list[str], tmp_path: Path
) -> None:
    (tmp_path / "empty_directory").mkdir()
    status, out, err = python(*command, cwd=tmp_path)
    assert status != 0
    for option in ([], ["--quiet"], ["--json", "out.json"]):
        assert python(*MEND, *option, *command, cwd=tmp_path) == (status, out, err)
    assert not (tmp_path / "out.json").exists()
    # What `explain` compares is printed on standard output.
    assert python("-m", "graphmend_bc", "explain", *command, cwd=tmp_path) == (status, out, err)


FAILS = {
    "it cannot be parsed": "x = (\n",
    "it cannot import": "import torch, no_such_module",
    "it ends with a status": "import sys; print('out'); sys.exit('wrong')",
}


@pytest.mark.slow
@pytest.mark.parametrize("program", FAILS.values(), ids=FAILS.keys())
def test_a_program_that_fails_before_it_compiles_has_its_own_error_alone(
    program: str, tmp_path: Path
) -> None:
    (tmp_path / "program.py").write_text(program)
    plain = python("program.py", cwd=tmp_path)
    assert plain[0] == 1
    assert python(*MEND, "program.py", cwd=tmp_path) == plain
    assert python("-m", "graphmend_bc", "explain", "program.py", cwd=tmp_path) == plain


@pytest.mark.slow
def test_a_program_that_compiles_nothing_and_ends_well_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text("import sys; sys.exit(0)")
    _, _, err = python(*MEND, "program.py", cwd=tmp_path)
    assert "The program compiled nothing. Call torch.compile in it, " in err
    _, out, _ = python("-m", "graphmend_bc", "explain", "program.py", cwd=tmp_path)
    assert out.startswith("The program called no function that torch.compile returned, ")


@pytest.mark.slow
def test_a_module_is_looked_for_where_python_looks(tmp_path: Path) -> None:
    """The console script is found in another directory, which Python puts first in its place."""
    (tmp_path / "tool.py").write_text("import sys; print(sys.path[0])")
    starts = "import sys; sys.path[0] = '/bin'; from graphmend_bc.cli.main import main; main()"
    done = python("-c", starts, "run", "--quiet", "-m", "tool", cwd=tmp_path)
    assert done == python("-m", "tool", cwd=tmp_path) == (0, f"{tmp_path}\n", "")


@pytest.mark.slow
def test_summary_and_reports_come_also_when_the_program_fails(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(BRANCH + "raise OSError('disk on fire')\n")
    options = ["--json", "out.json", "--report", "out.html"]
    status, out, err = python(*MEND, *options, "program.py", cwd=tmp_path)
    assert (status, out) == (1, "[0.5, 0.5] [-2.0, -2.0]\n")
    traceback, _, summary = err.partition("graphmend_bc: ")
    assert traceback.splitlines()[-1] == "OSError: disk on fire"
    assert (
        summary.splitlines()[0] == "1 mended, 0 declined; 1 graph in 1 compilation, 0 breaks left"
    )
    where = f"{tmp_path / 'program.py'}:6 in halve"
    assert re.fullmatch(r"compiling took [\d.]+ m?s", summary.splitlines()[1])
    assert summary.splitlines()[3].split(maxsplit=2) == ["where", "GB0170", where]
    [mend] = json.loads((tmp_path / "out.json").read_text())["mends"]
    assert (mend["strategy"], mend["site"]["lineno"]) == ("where", 6)
    assert "program.py" in (tmp_path / "out.html").read_text()


@pytest.mark.slow
def test_attach_compiles_a_function_that_the_program_only_calls(tmp_path: Path) -> None:
    pytest.importorskip("graphmend_bc.attachment.attach")
    (tmp_path / "program.py").write_text("import lib, torch; print(lib.f(torch.ones(2)).tolist())")
    (tmp_path / "lib.py").write_text(
        "def f(x):\n    x = x * 2\n    if x.sum() > 0:\n        x = x + 1\n    return x\n"
    )
    status, out, err = python(*MEND, "--attach", "lib:f", "program.py", cwd=tmp_path)
    assert (status, out) == (0, "[3.0, 3.0]\n")
    assert "graphmend_bc: 1 mended, 0 declined; 1 graph in 1 compilation, 0 breaks left" in err
    assert "lib.py:3 in f" in err


@pytest.mark.slow
def test_attach_to_what_does_not_exist_is_refused_before_the_program_runs(tmp_path: Path) -> None:
    pytest.importorskip("graphmend_bc.attachment.attach")
    (tmp_path / "program.py").write_text("print('it ran')")
    status, out, err = python(*MEND, "--attach", "missing_lib:f", "program.py", cwd=tmp_path)
    assert (status, out) == (2, "")
    assert "error: argument --attach: 'missing_lib:f': " in err


@pytest.mark.slow
def test_targets_in_the_environment_are_attached_as_by_the_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("graphmend_bc._frame_hooks")
    monkeypatch.setenv("GRAPHMEND_BC_ATTACH", "lib:Net, no_such_package.*")
    (tmp_path / "program.py").write_text(
        "import lib, torch; print(lib.Net()(torch.ones(2)).tolist())"
    )
    (tmp_path / "lib.py").write_text(
        "import torch\nclass Net(torch.nn.Module):\n  def forward(self, x):\n"
        "    x = x * 2\n    if x.sum() > 0:\n      x = x + 1\n    return x\n"
    )
    status, out, err = python(*MEND, "program.py", cwd=tmp_path)
    assert (status, out) == (0, "[3.0, 3.0]\n")
    assert "graphmend_bc: 1 mended, 0 declined; 1 graph in 1 compilation, 0 breaks left" in err


@pytest.mark.slow
def test_a_wrong_target_in_the_environment_is_refused_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("graphmend_bc._frame_hooks")
    monkeypatch.setenv("GRAPHMEND_BC_ATTACH", "missing_lib:f")
    (tmp_path / "program.py").write_text("print('it ran')")
    status, out, err = python(*MEND, "program.py", cwd=tmp_path)
    assert (status, out) == (2, "")
    assert "error: GRAPHMEND_BC_ATTACH: attach() cannot find 'missing_lib:f'" in err


@pytest.mark.slow
def test_switched_off_from_outside_the_program_runs_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRAPHMEND_BC", "0")
    (tmp_path / "program.py").write_text(BRANCH)
    status, out, err = python(*MEND, "program.py", cwd=tmp_path)
    assert (status, out) == (0, "[0.5, 0.5] [-2.0, -2.0]\n")
    assert err == "graphmend_bc: GRAPHMEND_BC=0, so the program ran as it is.\n"
    status, _, err = python(*MEND, "--quiet", "--fail-on-break", "program.py", cwd=tmp_path)
    assert status == 3
    said = "GRAPHMEND_BC=0, so there is nothing to count for --fail-on-break."
    assert err == f"graphmend_bc: {said}\n"


@pytest.mark.slow
def test_each_decline_is_explained_by_itself(tmp_path: Path) -> None:
    """Breaks of one reason may have different explanations."""
    program = tmp_path / "program.py"
    program.write_text(
        "import torch\n"
        "rnn = torch.nn.GRU(2, 2)\n"
        "def f(x):\n"
        "    open(__file__)\n"
        "    open(__file__)\n"
        "    return rnn(x)[0]\n"
        "torch.compile(f, backend='eager')(torch.ones(1, 1, 2))\n"
    )
    status, out, err = python(*MEND, "program.py", cwd=tmp_path)
    assert (status, out) == (0, "")
    opening, *others = (e for e in err.splitlines() if e.startswith("call-not-traced: "))
    (recurrent,) = others
    assert opening.endswith(f"({program}:4, {program}:5)")
    assert "recurrent" not in opening
    assert "recurrent module" in recurrent
    assert recurrent.endswith(f"torch._dynamo.config.allow_rnn is set. ({program}:6)")
