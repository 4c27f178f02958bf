"""The text of an exception that is caught."""

from __future__ import annotations

import pytest

from tests.oracle import agrees
from tests.surroundings import X

CLASSES = """
class Coded(Exception):
    def __init__(self, code): self.code = code
    def __str__(self): return f'code {self.code}'
class Missing(KeyError): pass
class Counted(ValueError):
    def __str__(self): return f'{self.args[0]} of {len(self.args)}'
class Longer(Counted):
    def __str__(self): return 'longer: ' + super().__str__()
"""
RAISED = {
    "key": "KeyError('k')",
    "key, two": "KeyError('k', 2)",
    "key, none": "KeyError",
    "key, number": "KeyError(x.shape[0])",
    "subclass of key": "Missing('k')",
    "own": "Coded(3)",
    "own, with arguments": "Counted('k', x.shape[0])",
    "own, of its base": "Longer('k')",
    "value": "ValueError('k')",
    "value, two": "ValueError('k', 2)",
    "system": "OSError(2, 'no', 'file')",
    "import": "ImportError('no', name='n')",
}


@pytest.mark.parametrize("raised", RAISED.values(), ids=RAISED)
def test_text(raised: str) -> None:
    source = (
        f"{CLASSES}\ndef f(x):\n    if x.sum() > 0: x = x * 2\n    try: raise {raised}\n"
        "    except Exception as e: return x, str(e), repr(e)\n"
    )
    outcome = agrees(source, [X, -X, X], orders=1)
    assert outcome.mends


def test_text_of_what_a_dict_raises() -> None:
    source = (
        "def f(x):\n    if x.sum() > 0: x = x * 2\n    try: return {}['k']\n"
        "    except KeyError as e: return x, str(e), e.args\n"
    )
    assert agrees(source, [X, -X, X], orders=1).mends
