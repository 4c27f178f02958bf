"""A way to mend is one file: a rule and its handler, found in the folder and named nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import python

RULE_FILE = '''
"""`zlib.crc32` of constants is computed while tracing."""

import zlib

from torch._dynamo.variables.constant import ConstantVariable

from graphmend_bc.dynamo.calls.known_calls import known_call
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.rule import Rule


def _matches(site):
    return {site.offset: MarkCallee()} if site.callee == "crc32" else None


def _checksum(callee, tx, function, args, kwargs):
    if function is not zlib.crc32 or kwargs or not all(a.is_python_constant() for a in args):
        return None
    return ConstantVariable.create(zlib.crc32(*(a.as_python_constant() for a in args)))


CRC32 = Rule("crc32", "polyfill", 4, _matches, handler=known_call("polyfill", _checksum))
RULES = (CRC32,)
'''

PROGRAM = """
import sys, zlib
import torch
import graphmend_bc.rules
graphmend_bc.rules.__path__.append(sys.argv[1])
import graphmend_bc as gm

def salted(x):
    return x + zlib.crc32(b"salt")

with gm.enabled():
    compiled = torch.compile(salted, backend="eager", fullgraph=True)
    for x in (torch.zeros(2), torch.ones(3), torch.zeros(2)):
        assert torch.equal(compiled(x), salted(x))
    print([(mend.strategy, mend.site.name) for mend in gm.report().mends])
"""


@pytest.mark.slow
def test_a_new_file_mends(tmp_path: Path) -> None:
    (tmp_path / "checksums.py").write_text(RULE_FILE, encoding="utf-8")
    done = python("-c", PROGRAM, str(tmp_path))
    assert done.stdout.strip() == "[('polyfill', 'salted')]", done.stderr[-3000:]
