from __future__ import annotations

import dis
from types import CodeType
from typing import Any

import pytest
from bytecode.instr import UNSET, CellVar, FreeVar, InstrLocation

from graphmend_bc.code import facts
from graphmend_bc.code.exception_table import table_entries
from graphmend_bc.code.listing import Listing, Op, decode
from tests.code.kit import codes_in, function, standard_library


def ops_named(listing: Listing, name: str) -> list[Op]:
    return [op for op in listing.ops if op.name == name]


def plain(value: Any) -> Any:
    """A symbolic argument as `dis` shows it."""
    if isinstance(value, tuple):
        value = value[-1]
    return value.name if isinstance(value, CellVar | FreeVar) else value


def check_against_dis(code: CodeType) -> None:
    """Names, offsets, lines, jump targets and named arguments are those that `dis` shows."""
    listing = decode(code)
    shown = [i for i in dis.get_instructions(code) if i.opname not in ("EXTENDED_ARG", "CACHE")]
    starts: dict[int, Op] = {}
    for op in listing.ops:
        starts.setdefault(op.offset, op)
    assert list(starts) == [i.offset for i in shown]
    numbers = {op.offset: op.index for op in starts.values()}
    for instruction in shown:
        op = starts[instruction.offset]
        halves = facts.PAIRED_OPS.get(instruction.opname)
        plain_name = facts.READ_AS.get(instruction.opname, instruction.opname)
        assert op.name == (halves[0] if halves else plain_name)
        positions = instruction.positions
        assert positions is not None
        assert op.location is not None
        assert op.location.lineno == positions.lineno
        if op.target is not None:
            target = instruction.argval
            while target not in numbers:  # the jump leads to an EXTENDED_ARG
                target += 2
            assert op.target == numbers[target]
            assert op.arg is UNSET
        elif halves:
            second = listing.ops[op.index + 1]
            assert (second.name, second.offset) == (halves[1], op.offset)
            assert tuple(instruction.argval) == (plain(op.arg), plain(second.arg))
        elif instruction.opname == "LOAD_SMALL_INT":
            assert (op.arg, type(op.arg)) == (instruction.argval, int)
        elif instruction.opcode in (*dis.haslocal, *dis.hasname, *dis.hasfree):
            assert plain(op.arg) == instruction.argval
        elif instruction.opcode in dis.hasconst:
            assert op.arg is code.co_consts[instruction.arg or 0]


def check_handlers(code: CodeType) -> None:
    """Each op has the handler of the table entry that covers it."""
    listing = decode(code)
    for op in listing.ops:
        entries = [e for e in table_entries(code) if 2 * e.start <= op.offset < 2 * e.stop]
        assert len(entries) == (op.handler is not None)
        for entry in entries:
            assert op.handler is not None
            assert (op.handler.depth, op.handler.push_lasti) == (entry.depth, entry.push_lasti)
            first = listing.ops[op.handler.target]
            before = listing.ops[op.handler.target - 1]
            assert before.offset < 2 * entry.target <= first.offset


def test_arguments_are_symbolic() -> None:
    program = function(
        """
        def outer(x, *, key=1):
            global out
            def inner(): return x
            out = key
            return inner, x.real, [1, 2] < [key]
        """
    )
    listing = decode(program.__code__)
    assert ops_named(listing, "STORE_GLOBAL")[0].arg == "out"
    assert ops_named(listing, "MAKE_CELL")[0].arg == CellVar("x")
    assert ops_named(listing, "LOAD_DEREF")[0].arg == CellVar("x")
    assert ops_named(listing, "COMPARE_OP")[0].arg.name == "LT"
    attribute = ops_named(listing, "LOAD_ATTR")[0].arg
    assert attribute == ((False, "real") if facts.LOAD_ATTR_TAKES_FLAG else "real")
    inner = decode(program(3)[0].__code__)
    assert ops_named(inner, "LOAD_DEREF")[0].arg == FreeVar("x")
    assert ops_named(inner, "COPY_FREE_VARS")[0].arg == 1


def test_a_local_and_a_free_variable_of_one_name_are_told_apart() -> None:
    program = function(
        """
        def outer(x, z):
            def inner(y):
                return [x for x in y], z, lambda: (x, z)
            return inner
        """
    )
    inner = program(1, 2)
    for code in codes_in(inner.__code__):
        check_against_dis(code)
    cells = [op.arg for op in decode(inner.__code__).ops if isinstance(op.arg, FreeVar)]
    assert FreeVar("z") in cells


@pytest.mark.parametrize("count", [1, 40, 300, 70_000])
def test_long_jumps_lead_to_the_op_after_their_extended_args(count: int) -> None:
    code = compile("for i in a:\n" + "    b\n" * count + "c\n", "", "exec")
    listing = decode(code)
    (loop,) = ops_named(listing, "FOR_ITER")
    (back,) = [op for op in listing.ops if op.name == "JUMP_BACKWARD"]
    assert back.target == loop.index
    assert loop.target is not None
    following = [op.arg for op in listing.ops[loop.target :] if op.name == "LOAD_NAME"]
    assert following == ["c"]


def test_offsets_are_those_of_dis_after_running() -> None:
    """Specialisation must not be seen."""
    program = function("def f(a):\n    t = 0\n    for x in a: t += x.real\n    return t")
    before = decode(program.__code__)
    for _ in range(100):
        program([1, 2, 3])
    assert decode(program.__code__) == before
    check_against_dis(program.__code__)


def test_at_offset_finds_ops_and_says_what_else_is_wrong() -> None:
    listing = decode((lambda x: x.real).__code__)
    (attribute,) = ops_named(listing, "LOAD_ATTR")
    assert listing.at_offset(attribute.offset) is attribute
    with pytest.raises(ValueError, match=rf"<lambda> starts at byte {attribute.offset + 2}\. Take"):
        listing.at_offset(attribute.offset + 2)
    with pytest.raises(ValueError, match="starts at byte 4000"):
        listing.at_offset(4000)


def test_places_that_end_before_they_start_keep_their_line() -> None:
    code = (lambda: 0).__code__
    # One entry of the long form: line + 0, end line + 0, column 5 to column 2.
    table = bytes([0x80 | 14 << 3 | len(code.co_code) // 2 - 1, 0, 0, 6, 3])
    locations = {op.location for op in decode(code.replace(co_linetable=table)).ops}
    assert locations == {InstrLocation(code.co_firstlineno, None, None, None)}


def test_a_stripped_line_table_leaves_operations_without_a_place() -> None:
    code = (lambda a: a + 1).__code__
    stripped = decode(code.replace(co_linetable=b""))
    assert {op.location for op in stripped.ops} == {InstrLocation(None, None, None, None)}
    assert [op.name for op in stripped.ops] == [op.name for op in decode(code).ops]


def test_damaged_bytes_are_named() -> None:
    code = compile("while a: pass", "", "exec")
    loop = next(i for i in dis.get_instructions(code) if i.opname.startswith("POP_JUMP"))
    damaged = bytearray(code.co_code)
    damaged[loop.offset + 1] = 200
    with pytest.raises(ValueError, match="where no instruction starts: its bytecode is damaged"):
        decode(code.replace(co_code=bytes(damaged)))


def test_the_standard_library_is_as_dis_shows_it() -> None:
    count = 0
    for code in standard_library(every=60):
        check_against_dis(code)
        check_handlers(code)
        count += 1
    assert count > 500


def test_xdis_sees_the_same_ops() -> None:
    std = pytest.importorskip("xdis.std")
    for code in codes_in(check_against_dis.__code__):
        shown = [
            (i.offset, i.opname)
            for i in std.Bytecode(code)
            if i.opname not in ("EXTENDED_ARG", "CACHE")
        ]
        listed = [(op.offset, op.name) for op in decode(code).ops]
        assert listed == shown or facts.HAS_PAIRED_OPS
