"""What programs change in globals of standard modules: frames with a mend guard on it."""

from __future__ import annotations

import pytest
import torch

from tests.absence.test_absent_names import MENDED
from tests.oracle import load
from tests.settling import graphs_by_call
from tests.surroundings import changing

READS = {
    "getenv": "w = float(os.getenv('GRAPHMEND_BC_TEST', '1'))",
    "without a default": "w = float(os.getenv('GRAPHMEND_BC_TEST') or 1)",
    "helper": "w = fetch('GRAPHMEND_BC_TEST')",
    "arm": "w = 2 if os.getenv('GRAPHMEND_BC_TEST') is None else 3",
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
def test_environment_that_changes(read: str) -> None:
    changing(
        "import os\nos.environ.pop('GRAPHMEND_BC_TEST', None)\n"
        "def fetch(name): return float(os.getenv(name, '1'))",
        f"{read}\n{MENDED}\nreturn w * x",
        "os.environ['GRAPHMEND_BC_TEST'] = '4'",
        "os.environ['GRAPHMEND_BC_TEST'] = '3'",
        "del os.environ['GRAPHMEND_BC_TEST']",
    )


def test_level_names_that_change() -> None:
    changing(
        "import logging\nlogging.addLevelName(7, 'Level 7')",
        f"w = len(str(logging.getLevelName(7)))\n{MENDED}\nreturn w * x",
        "logging.addLevelName(7, 'seven')",
        "logging.addLevelName(7, 'VII')",
    )


TRACED = {
    "enum": "w = Colour(1).value",
    "environment": "w = float(os.getenv('GRAPHMEND_BC_TEST', '1'))",
    "fields": "w = dataclasses.asdict(Point(2))['a']",
    "found module": "w = 1 if importlib.util.find_spec('numpy') else 2",
    "logger": "w = 1 if logging.getLogger('absent').isEnabledFor(10) else 2",
    "path": "w = len(os.path.join('/a', 'b'))",
    "platform": "w = len(platform.system())",
    "signature": "w = len(inspect.signature(Point).parameters)",
}


@pytest.mark.parametrize("traced", TRACED.values(), ids=TRACED)
def test_nothing_is_compiled_again(traced: str) -> None:
    f = load(
        "import dataclasses, enum, importlib.util, inspect, logging, os, platform\n"
        "@dataclasses.dataclass\nclass Point:\n    a: int = 1\n"
        "class Colour(enum.Enum):\n    RED = 1\n"
        f"def f(x):\n    {traced}\n    if x.sum() > 0: x = x * 2\n    return w * x\n"
    ).f
    assert graphs_by_call(f, [torch.ones(2)] * 4) == [1] * 4
