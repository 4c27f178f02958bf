from __future__ import annotations

import dis
import sys

import pytest

from graphmend_bc.code import facts


def test_a_misspelt_name_is_noticed() -> None:
    assert facts.op_set("LOAD_FAST", "LOAD_FAST_CHECK") >= {"LOAD_FAST"}
    with pytest.raises(AssertionError, match="is among LOAD_FSAT, LOAD_FASTER"):
        facts.op_set("LOAD_FSAT", "LOAD_FASTER")


def test_this_interpreter_is_supported() -> None:
    assert sys.version_info[:2] in facts.SUPPORTED


@pytest.mark.parametrize(
    ("fact", "opcode"),
    [
        (facts.CALL_NEEDS_PRECALL, "PRECALL"),
        (facts.KEYWORDS_BY_KW_NAMES, "KW_NAMES"),
        (not facts.LOAD_ATTR_TAKES_FLAG, "LOAD_METHOD"),
        (not facts.MAKE_FUNCTION_TAKES_FLAGS, "SET_FUNCTION_ATTRIBUTE"),
        (facts.HAS_JUMP_IF_OR_POP, "JUMP_IF_TRUE_OR_POP"),
        (facts.CONDITIONAL_JUMPS_GO_BACKWARD, "POP_JUMP_BACKWARD_IF_TRUE"),
        (facts.TO_BOOL_BEFORE_JUMP, "TO_BOOL"),
        (facts.HAS_RETURN_CONST, "RETURN_CONST"),
        (bool(facts.FOR_ITER_SKIPS), "END_FOR"),
        (not facts.LOAD_FAST_CHECKS, "LOAD_FAST_CHECK"),
        (facts.COMPREHENSIONS_INLINED, "LOAD_FAST_AND_CLEAR"),
        (facts.HAS_PAIRED_OPS, "LOAD_FAST_LOAD_FAST"),
        (facts.HAS_NOT_TAKEN, "NOT_TAKEN"),
        (facts.EXIT_SLOTS == 2, "LOAD_SPECIAL"),
        ("POP_ITER" in facts.FOR_ITER_SKIPS, "POP_ITER"),
    ],
)
def test_facts_agree_with_the_opcodes_there_are(fact: bool, opcode: str) -> None:
    assert fact == (dis.opmap.get(opcode, 256) < 256)


def test_calls_are_laid_out_as_the_facts_say() -> None:
    names = [op.opname for op in dis.get_instructions(compile("(lambda: 0)()", "", "eval"))]
    made, null = names.index("MAKE_FUNCTION"), names.index("PUSH_NULL")
    assert (null < made) == facts.NULL_BEFORE_CALLABLE


def test_while_loops_are_laid_out_as_the_facts_say() -> None:
    ops = list(dis.get_instructions(compile("while a: b", "", "exec")))
    assert sum(op.opname.startswith("POP_JUMP") for op in ops) == 1 + facts.WHILE_TESTS_TWICE
    assert any(op.opname == "NOT_TAKEN" for op in ops) == facts.HAS_NOT_TAKEN


def test_arguments_are_taken_by_the_ops_that_dis_shows_one_for() -> None:
    assert facts.takes_argument(dis.opmap["LOAD_FAST"])
    assert not facts.takes_argument(dis.opmap["POP_TOP"])


def test_every_jump_is_in_one_group() -> None:
    jumps = {dis.opname[number] for number in (*dis.hasjrel, *dis.hasjabs)}
    real = {name for name in jumps if dis.opmap[name] < 256 and "INSTRUMENTED" not in name}
    assert real == facts.JUMPS | facts.TESTS | facts.ITERATIONS | facts.NEVER_FOLLOWED
    assert not facts.JUMPS & facts.TESTS
