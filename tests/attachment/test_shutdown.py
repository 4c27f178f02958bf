"""How a process with attachments ends: as it would without them, and with a word if one was idle."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import pytest
import torch

import graphmend_bc as gm
from graphmend_bc.attachment.attach import attach_all, unmet_patterns
from tests.attachment import vendor
from tests.processes import ROOT, python

pytest.importorskip("graphmend_bc._frame_hooks")

X = torch.tensor([1.0, 2.0])
HINT = (
    " matched no function that this process called outside of compiled code. Check the spelling: a "
    "pattern is compared with 'module.qualified name', such as 'package.models.Net.forward'. "
    "Functions that Dynamo never compiles do not count.\n"
)

LIB = """
import torch

def double(x):
    if x.sum() > 0:
        x = x + 1
    return x * 2
"""

#: What is registered before and after graphmend_bc, and what ends with the interpreter itself.
START = """
import atexit, os, sys

def say(text, write=os.write):
    write(1, text.encode() + b" ")

atexit.register(say, "early")
import logging, torch

class Handler(logging.Handler):
    def emit(self, record):
        say(record.getMessage())
    def close(self, say=say):
        say("closed")
        super().close()

class Ends:
    def __call__(self, code):
        return True
    def __del__(self, say=say, double=None):
        say("ended")
"""


@pytest.fixture(autouse=True)
def nothing_told_before() -> Iterator[None]:
    unmet_patterns()
    yield
    unmet_patterns()


def run(
    folder: Path, script: str, *arguments: str, environment: dict[str, str] | None = None
) -> tuple[int, str, str]:
    """Run a program beside the library `lib`: exit status, output and what it said as an error."""
    (folder / "lib.py").write_text(LIB)
    (folder / "program.py").write_text(START + textwrap.dedent(script))
    environment = {"PYTHONPATH": str(ROOT)} | (environment or {})
    done = python(*arguments, "program.py", cwd=folder, env=environment)
    # Builds of torch for accelerators, and those without triton, say so by themselves.
    said = [line for line in done.stderr.splitlines(keepends=True) if not _TORCH_SAYS.search(line)]
    return done.returncode, done.stdout, "".join(said)


_TORCH_SAYS = re.compile(r"^W\d+ .*torch/utils/\w+\.py:\d+\]")


@pytest.mark.slow
def test_a_pattern_leaves_no_trace_at_the_end(tmp_path: Path) -> None:
    status, out, err = run(
        tmp_path,
        """
        logging.getLogger("mine").addHandler(Handler())
        import graphmend_bc, lib
        graphmend_bc.enable()
        graphmend_bc.attach("lib.*", backend="eager")
        atexit.register(lambda: say(str(lib.double(torch.ones(1)).item())))
        say(str(lib.double(torch.ones(1)).item()))
        say(str(len(graphmend_bc.report().mends)))
        held = sys.modules["held"] = type(sys)("held")
        held.ends = Ends()
        del held
        sys.exit(3)
        """,
    )
    assert err == ""
    assert (status, out) == (3, "4.0 1 4.0 closed early ended ")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("target", "fullgraph"),
    [
        ("lib.*", True),
        ("lib:double", False),
        pytest.param("lib.*", False, marks=pytest.mark.nightly),
        pytest.param("lib:double", True, marks=pytest.mark.nightly),
    ],
)
def test_nothing_is_compiled_once_the_thread_pools_are_closed(
    tmp_path: Path, target: str, fullgraph: bool
) -> None:
    status, out, err = run(
        tmp_path,
        f"""
        import threading
        from concurrent.futures import ThreadPoolExecutor
        import graphmend_bc, lib

        def backend(graph, inputs):
            def compiled(*args):
                say("compiled")
                return graph(*args)
            return ThreadPoolExecutor().submit(lambda: compiled).result()

        def call(size):
            say(str(lib.double(torch.ones(size)).tolist()))

        def last():
            threading.main_thread().join()
            call(1)

        graphmend_bc.enable()
        graphmend_bc.attach({target!r}, backend=backend, fullgraph={fullgraph}, dynamic=False)
        call(1)
        atexit.register(call, 3)
        atexit.register(call, 1)
        threading.Thread(target=last).start()
        """,
    )
    assert err == ""
    assert status == 0
    assert out == "compiled [4.0] " * 3 + "[4.0, 4.0, 4.0] early "


def test_what_a_pattern_holds_ends_with_the_process(tmp_path: Path) -> None:
    status, out, err = run(
        tmp_path,
        """
        import graphmend_bc, lib
        graphmend_bc.attach("lib.*", where=Ends(), backend="eager")
        say(str(lib.double(torch.ones(1)).item()))
        """,
    )
    assert (status, out, err) == (0, "4.0 early ended ", "")


def test_an_uncaught_exception_is_all_that_is_told(tmp_path: Path) -> None:
    status, out, err = run(
        tmp_path,
        """
        import graphmend_bc, lib
        graphmend_bc.attach("lib.*", backend="eager")
        lib.double(torch.ones(1))
        raise KeyError("mine")
        """,
    )
    assert (status, out) == (1, "early ")
    assert err.splitlines()[0].startswith("Traceback")
    assert err.splitlines()[-1] == "KeyError: 'mine'"
    assert "ignored" not in err


ENABLE = """
import graphmend_bc, lib
graphmend_bc.enable()
lib.double(torch.ones(1))
"""


@pytest.mark.slow
def test_the_patterns_of_the_environment_that_met_nothing_are_told_of_once(tmp_path: Path) -> None:
    wanted = {"GRAPHMEND_BC_ATTACH": "lib.*, none.*, lib:doubel*"}
    status, out, err = run(tmp_path, ENABLE, environment=wanted)
    assert (status, out) == (0, "early ")
    assert err == "attach('none.*'), attach('lib:doubel*')" + HINT


@pytest.mark.slow
def test_they_are_told_to_the_handlers_of_the_program(tmp_path: Path) -> None:
    script = 'logging.getLogger("graphmend_bc").addHandler(Handler())' + ENABLE
    wanted = {"GRAPHMEND_BC_ATTACH": "none.*"}
    status, out, err = run(tmp_path, script, environment=wanted)
    assert (status, err) == (0, "")
    assert out == told("'none.*'") + " closed early "


@pytest.mark.slow
def test_the_command_line_tells_of_them_after_its_summary(tmp_path: Path) -> None:
    mend = ("-m", "graphmend_bc", "run")
    script = "import lib; lib.double(torch.ones(1)); sys.exit(5)"
    status, out, err = run(
        tmp_path, script, *mend, "--attach", "lib.*", "--attach", "none.*:*.forward"
    )
    assert (status, out) == (5, "early ")
    assert err.startswith("graphmend_bc: 1 mended, 0 declined;")
    assert err.endswith("graphmend_bc: attach('none.*:*.forward')" + HINT)
    assert err.count("matched no function") == 1
    assert run(tmp_path, script, *mend, "--quiet", "--attach", "lib.*") == (5, "early ", "")


@pytest.mark.slow
def test_a_forked_child_repeats_nothing(tmp_path: Path) -> None:
    status, out, err = run(
        tmp_path,
        """
        import graphmend_bc, lib
        graphmend_bc.attach("none.*")
        if os.fork() == 0:
            graphmend_bc.attach("nobody.*")
            lib.double(torch.ones(1))
            sys.exit()
        sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
        """,
    )
    assert (status, out) == (0, "early early ")
    assert err == "attach('nobody.*')" + HINT + "attach('none.*')" + HINT


@pytest.mark.slow
def test_a_worker_that_multiprocessing_started_says_nothing(tmp_path: Path) -> None:
    script = """
    import graphmend_bc, lib, multiprocessing
    graphmend_bc.attach("nobody.*") if __name__ == "__main__" else graphmend_bc.enable()

    def work():
        say("worked")

    if __name__ == "__main__":
        worker = multiprocessing.get_context("spawn").Process(target=work)
        worker.start()
        worker.join()
        sys.exit(worker.exitcode)
    """
    wanted = {"GRAPHMEND_BC_ATTACH": "none.*"}
    status, out, err = run(tmp_path, script, environment=wanted)
    assert (status, out) == (0, "worked early early ")
    assert err == "attach('nobody.*')" + HINT


def told(text: str) -> str:
    return f"attach({text})" + HINT.rstrip("\n")


def test_a_pattern_is_told_of_once() -> None:
    for _ in range(2):
        gm.attach("none.*").remove()
    assert unmet_patterns() == told("'none.*'")
    assert unmet_patterns() == ""


def test_a_pattern_that_met_something_once_is_not_told_of() -> None:
    with gm.attach("tests.attachment.vendor:dou*", backend="eager"):
        vendor.double(X)
    gm.attach("tests.attachment.vendor:dou*").remove()
    assert unmet_patterns() == ""


def test_a_pattern_whose_functions_go_to_a_newer_one_is_not_told_of() -> None:
    with (
        gm.attach("tests.attachment.vendor:doub*", backend="eager"),
        gm.attach("none.*"),
        gm.attach("tests.attachment.vendor.*", backend="eager"),
    ):
        vendor.double(X)
    assert unmet_patterns() == told("'none.*'")


@pytest.mark.parametrize("exact_first", [True, False])
def test_a_pattern_whose_functions_are_attached_by_name_is_not_told_of(exact_first: bool) -> None:
    targets = ["tests.attachment.vendor:outer", "tests.attachment.vendor:out?r", "*:inner"]
    for handle in [gm.attach(target) for target in (targets if exact_first else targets[::-1])]:
        handle.remove()
    assert unmet_patterns() == told("'*:inner'")


def never(code: CodeType) -> bool:
    return False


def test_conditions_are_told_with_their_names() -> None:
    gm.attach(where=never).remove()
    gm.attach("lib.*", where=never).remove()
    sentence = unmet_patterns()
    assert sentence.startswith("attach('*', where=never), attach('lib.*', where=never) matched no")


def test_targets_that_are_refused_together_are_not_told_of() -> None:
    gm.attach("none.*").remove()
    with pytest.raises(ValueError, match="cannot find"):
        attach_all("nobody.*, no_such_package:f")
    assert unmet_patterns() == told("'none.*'")


def test_exact_targets_are_not_told_of() -> None:
    gm.attach(vendor.double).remove()
    gm.attach("tests.attachment.vendor:double").remove()
    gm.attach("lib.*", disable=True).remove()
    assert unmet_patterns() == ""
