"""A digest is the same for the same text, wherever it stands, and another for any other content."""

from __future__ import annotations

from types import CodeType

import pytest

from graphmend_bc.engine.decisions.code_digest import digest_of


def code_of(source: str, name: str = "<file>") -> CodeType:
    module: dict[str, object] = {}
    exec(compile(source, name, "exec"), module)
    code: CodeType = module["f"].__code__  # type: ignore[attr-defined]
    return code


ONE = "def f(x, *, k=2):\n    return [x + i for i in (1, 2.0, 'a', b'b', None, ...)]\n"


def test_file_and_lines_are_no_part_of_it() -> None:
    assert digest_of(code_of(ONE), ()) == digest_of(code_of("\n\n" + ONE, "other"), ())


@pytest.mark.parametrize(
    "other",
    [
        ONE.replace("2.0", "2"),
        ONE.replace("1,", "True,"),
        ONE.replace("'a'", "b'a'"),
        ONE.replace("x + i", "x - i"),
        ONE.replace("*, ", ""),
        ONE.replace("(x", "(y").replace("[x", "[y"),
    ],
)
def test_any_other_content_is_another(other: str) -> None:
    assert digest_of(code_of(ONE), ()) != digest_of(code_of(other), ())


def test_what_is_beside_it_counts() -> None:
    code = code_of(ONE)
    assert len({digest_of(code, beside) for beside in ((), (1,), (1.0,), ("1",), ((1,),))}) == 5


def test_lengths_keep_values_apart() -> None:
    code = code_of(ONE)
    assert digest_of(code, ("a", "bc")) != digest_of(code, ("ab", "c"))


def test_sets_have_no_order() -> None:
    code, names = code_of(ONE), [str(n) for n in range(50)]
    assert digest_of(code, (frozenset(names),)) == digest_of(code, (frozenset(names[::-1]),))


def test_no_digest_of_what_no_program_has() -> None:
    code = code_of(ONE)
    assert digest_of(code, (object(),)) is None
    assert digest_of(code.replace(co_consts=(*code.co_consts, object())), ()) is None
