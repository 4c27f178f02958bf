"""The readers: what each is given, and what it may do with bytes that it does not understand."""

from __future__ import annotations

import io
import json
import py_compile
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from types import CodeType
from typing import Any, Final

from graphmend_bc.code.analysis.blocks import graph_of
from graphmend_bc.engine.decisions.check_outcomes import CheckOutcomes
from graphmend_bc.engine.decisions.decisions import (
    BadDecisionsError,
    KeptDecision,
    Subject,
    decoded,
    encoded,
)
from graphmend_bc.engine.plans.rewrite_cache import site_of
from graphmend_bc.reporting.reasons import REASONS
from graphmend_bc.scanning import bytecode_files
from graphmend_bc.scanning.files import ScannedFile, scan
from graphmend_bc.scanning.instructions import Code, Instruction
from graphmend_bc.scanning.suspects import suspects

PROGRAM: Final = """
import torch

def f(x, k):
    if x.sum() > 0:
        x = x * 2
    print(x.sum().item())
    for n in range(int(x[1].abs())):
        if x.max() > k:
            break
        x = x + n
    return [x.item() for _ in range(k)]
"""


@dataclass(frozen=True, slots=True)
class Reader:
    """Something that reads bytes.

    Attributes:
        read: raises if the reader does what it must not.
        seeds: what it understands, to begin with.
        longest: bytes of an input at most.
    """

    read: Callable[[bytes], None]
    seeds: Sequence[bytes]
    longest: int


class WrongAnswerError(AssertionError):
    """A reader gave what it must not."""


def _function() -> CodeType:
    module = compile(PROGRAM, "program.py", "exec")
    return next(constant for constant in module.co_consts if isinstance(constant, CodeType))


SUBJECT: Final = Subject(_function(), {})


def read_decisions(data: bytes) -> None:
    """Decisions of the cache: refused, or a plan that is written as it was read."""
    try:
        proven = decoded(data, SUBJECT)
    except BadDecisionsError:
        return
    written = encoded(proven, SUBJECT)
    if written is not None and decoded(written, SUBJECT).plan != proven.plan:
        raise WrongAnswerError("What is written is another plan.")


def read_bytecode(data: bytes) -> None:
    """A `.pyc` file, read in this process as it is in one of its own: code, or a text."""
    answer = json.loads(json.dumps(bytecode_files._answer(data)))
    if isinstance(answer, str):
        if not answer:
            raise WrongAnswerError("There is no reason.")
        return
    codes = [Code(name, kind, tuple(Instruction(*op) for op in ops)) for name, kind, ops in answer]
    for suspect in suspects(codes):
        str(suspect)


def read_archive(data: bytes) -> None:
    """A wheel: programs, and sentences about what cannot be read."""
    with tempfile.NamedTemporaryFile(suffix=".whl") as file:
        file.write(data)
        file.flush()
        for found in scan(Path(file.name)):
            _check_sentence(found)


def _check_sentence(found: ScannedFile) -> None:
    if found.trouble and not found.trouble.endswith("."):
        raise WrongAnswerError(f"It is no sentence: {found.trouble!r}")


def _decisions() -> Iterator[bytes]:
    """What each rule decides on the program alone, and outcomes of each kind."""
    for rule in SUBJECT.rules():
        for at in (op.offset for op in graph_of(SUBJECT.code).listing.ops):
            for gb_type in ("", "Data-dependent branching", "Failed to trace builtin operator"):
                kept = KeptDecision(at, rule, gb_type)
                if SUBJECT.rewrites(kept, SUBJECT.rules()):
                    yield _written([asdict(kept)])
    site = site_of(SUBJECT.code, 0)
    code = next(iter(REASONS))
    known = CheckOutcomes(
        {site: ((0, True),)}, frozenset([site]), {site: code}, True, frozenset([site])
    )
    yield _written([], outcomes=known.to_json())


def _written(decisions: list[dict[str, Any]], **more: Any) -> bytes:
    return json.dumps({"format": 1, "decisions": decisions} | more).encode()


def _bytecode() -> bytes:
    with tempfile.TemporaryDirectory() as directory:
        source = Path(directory, "program.py")
        source.write_text(PROGRAM, encoding="utf-8")
        compiled = py_compile.compile(str(source), str(source) + "c", doraise=True)
        return Path(str(compiled)).read_bytes()


def _archive(compression: int) -> bytes:
    memory = io.BytesIO()
    with zipfile.ZipFile(memory, "w", compression) as archive:
        archive.writestr("program.py", PROGRAM)
    return memory.getvalue()


_COMPRESSIONS: Final = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2)

READERS: Final[Mapping[str, Reader]] = {
    "decisions": Reader(read_decisions, tuple(_decisions()), 4096),
    "bytecode": Reader(read_bytecode, (_bytecode(),), 4096),
    "archive": Reader(read_archive, tuple(map(_archive, _COMPRESSIONS)), 4096),
}
"""By the names that the command line has for them."""
