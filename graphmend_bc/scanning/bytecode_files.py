"""Bytecode files of Python 3.8 and later, read by xdis in a process of its own with limits.

`marshal` and `dis` of the running Python trust their input; these files need not be trustworthy.
xdis reads them in pure Python, so what a hostile file can do is take memory and time.
"""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from graphmend_bc.scanning.instructions import CO_OPTIMIZED, Code, Instruction, instruction

HEADER = 16
"""Bytes before the code (PEP 552)."""
OLDEST = (3, 8)
SECONDS = 20
MEMORY = 1 << 30
MOST_INSTRUCTIONS = 1_000_000


class UnreadableError(Exception):
    """A file that cannot be scanned; the message is the end of a sentence about it."""


def of_bytecode(data: bytes) -> list[Code]:
    """The code objects of a `.pyc` file.

    Args:
        data: what is in the file.

    Raises:
        UnreadableError: it is truncated, damaged or of another Python, or xdis is not installed.
    """
    # Not the working directory, where the scanned files may be.
    own = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", __name__],
            input=data,
            capture_output=True,
            timeout=3 * SECONDS,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(own)},
        )
    except subprocess.TimeoutExpired:
        raise UnreadableError("it takes too long to read") from None
    if done.returncode:
        raise UnreadableError("it takes too much time or memory to read")
    answer = json.loads(done.stdout)
    if isinstance(answer, str):
        raise UnreadableError(answer)
    return [
        Code(name, is_function, tuple(Instruction(*fields) for fields in instructions))
        for name, is_function, instructions in answer
    ]


def _answer(data: bytes) -> list[Any] | str:
    """What the process prints: the code objects as JSON has them, or why there are none."""
    try:
        from xdis.bytecode import Bytecode
        from xdis.magics import magic2int, magic_int2tuple
        from xdis.op_imports import get_opcode_module
        from xdis.unmarshal import load_code
        from xdis.version_info import PythonImplementation
    except ImportError:
        return "reading bytecode needs xdis; pip install 'graphmend_bc[scan]'"
    if len(data) <= HEADER:
        return "it is truncated"
    try:
        magic = magic2int(data[:4])
        version = magic_int2tuple(magic)
    except Exception:  # xdis raises what its tables do
        return "it is no bytecode file"
    if version < OLDEST:
        return f"it is of Python {version[0]}.{version[1]}; 3.8 is the oldest that is read"
    try:
        module = load_code(io.BytesIO(data[HEADER:]), magic)
        opcodes = get_opcode_module(version, PythonImplementation.CPython)
        left = MOST_INSTRUCTIONS
        codes: list[Any] = []
        for name, code in _nested(module, ""):
            found = [_fields(op) for op in _lined(Bytecode(code, opcodes))]
            left -= len(found)
            if left < 0:
                return f"it has more than {MOST_INSTRUCTIONS} instructions"
            codes.append((name, bool(code.co_flags & CO_OPTIMIZED), found))
    except Exception as error:  # xdis raises what a damaged file leads it to
        return f"it is truncated or damaged ({type(error).__name__})"
    return codes


def _nested(code: Any, around: str) -> Iterator[tuple[str, Any]]:
    name = "" if code.co_name == "<module>" else f"{around}{code.co_name}"
    yield name, code
    for constant in code.co_consts:
        if hasattr(constant, "co_code"):
            yield from _nested(constant, f"{name}." if name else "")


def _lined(ops: Any) -> Iterator[Instruction]:
    line = 0
    for op in ops:
        line = op.starts_line if type(op.starts_line) is int else line
        if op.opname != "CACHE":
            yield instruction(op.opname, op.offset, line, op.argval)


def _fields(op: Instruction) -> tuple[str, int, int, str, int]:
    return op.opname, op.offset, op.line, op.name, op.target


def _limit_process() -> None:
    try:
        import resource
    except ImportError:  # Windows has none; the time limit of the caller holds there
        return
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


if __name__ == "__main__":
    _limit_process()
    answered = _answer(sys.stdin.buffer.read())
    sys.stdout.write(json.dumps(answered))
