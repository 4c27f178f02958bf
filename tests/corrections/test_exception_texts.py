"""The text of an exception that is caught."""

from __future__ import annotations

import pytest

from tests.surroundings import after_branch

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
    caught = f"try: raise {raised}\nexcept Exception as e: return x, str(e), repr(e)"
    assert after_branch(CLASSES, caught).mends


def test_text_of_what_a_dict_raises() -> None:
    caught = "try: return {}['k']\nexcept KeyError as e: return x, str(e), e.args"
    assert after_branch("", caught).mends
