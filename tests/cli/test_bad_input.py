"""A wrong command line ends with status 2 and a sentence, before the program has run."""

from __future__ import annotations

from pathlib import Path

import pytest

from graphmend_bc.cli.main import main


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that would leave a trace if it ran; the current directory is its own."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "program.py"
    path.write_text("open('it_ran', 'w').close()")
    return path


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("", "the following arguments are required: COMMAND"),
        ("fly program.py", "invalid choice: 'fly'"),
        ("run", "the following arguments are required: script.py"),
        ("run --bogus program.py", "unrecognized arguments: --bogus"),
        ("run --rep out.html program.py", "unrecognized arguments: --rep"),
        ("run --report", "argument --report: expected one argument"),
        ("run --report no/out.html program.py", "the directory of 'no/out.html' does not exist"),
        ("run --json no/out.json program.py", "the directory of 'no/out.json' does not exist"),
        ("run --json . program.py", "'.' is a directory; name a file in it."),
        ("explain", "the following arguments are required: script.py"),
        ("explain --report no/out.html program.py", "the directory of 'no/out.html' does not"),
        ("explain --quiet program.py", "unrecognized arguments: --quiet"),
        ("explain nowhere:f", "'nowhere:f' names no function: No module named 'nowhere'"),
        ("explain os.path:joint", "'os.path:joint' names no function: module 'posixpath' has no"),
        (
            "explain os.path:join",
            "must be a function that is called without arguments, but it takes",
        ),
        (
            "run --fail-on-break=few program.py",
            "'few' is no number of graph breaks, such as 0 or 2",
        ),
        ("run --fail-on-miss-rate 2 program.py", "'2' is no part of the calls, such as 0 or 0.05"),
        ("run --fail-on-miss-rate", "argument --fail-on-miss-rate: expected one argument"),
    ],
)
def test_wrong_command_line(
    command: str, message: str, program: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(command.split())
    assert end.value.code == 2
    assert message in capsys.readouterr().err
    assert not (program.parent / "it_ran").exists()


def test_report_path_that_may_not_be_written(
    program: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: False)  # root may write everywhere
    with pytest.raises(SystemExit) as end:
        main(["run", "--json", "out.json", "program.py"])
    assert end.value.code == 2
    assert "'out.json' cannot be written; choose another place." in capsys.readouterr().err
    assert not (program.parent / "it_ran").exists()
