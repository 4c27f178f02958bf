from __future__ import annotations

import dis
import inspect
from collections.abc import Sequence
from dataclasses import replace
from types import CodeType, FunctionType
from typing import Any

import pytest
from bytecode.instr import UNSET

from graphmend_bc.code import facts
from graphmend_bc.code.analysis.stack import depths
from graphmend_bc.code.assemble import Emit, Label, assemble, relist
from graphmend_bc.code.header import Header
from graphmend_bc.code.listing import decode
from tests.code.kit import function

HEADER = Header.of((lambda a, b: 0).__code__)
RETURN = (Emit("LOAD_CONST", None), Emit("RETURN_VALUE"))
YIELD = Emit("YIELD_VALUE", 0 if facts.takes_argument(dis.opmap["YIELD_VALUE"]) else UNSET)


def made(items: Sequence[Emit | Label], header: Header = HEADER) -> FunctionType:
    return FunctionType(assemble(header, [Emit("RESUME", 0), *items]).code, {})


def again(code: CodeType) -> CodeType:
    return assemble(Header.of(code), relist(decode(code))).code


def conditional(condition: str) -> str:
    """A conditional jump's name, forward where names have a direction."""
    names = [name for name in facts.TESTS if name.endswith(condition) and "POP_JUMP" in name]
    return next(name for name in names if "BACKWARD" not in name)


def test_ops_and_labels_make_a_function() -> None:
    other = Label("other")
    function = made(
        [
            Emit("LOAD_FAST", "a"),
            Emit(conditional("IF_NONE"), label=other),
            Emit("LOAD_FAST", "a"),
            Emit("RETURN_VALUE"),
            other,
            Emit("LOAD_FAST", "b"),
            Emit("RETURN_VALUE"),
        ]
    )
    assert (function(1, 2), function(None, 2)) == (1, 2)


@pytest.mark.parametrize("name", sorted(facts.JUMPS))
def test_jumps_take_the_direction_of_their_label(name: str) -> None:
    out, back = Label("out"), Label("back")
    function = made(
        [
            Emit(name, label=out),
            back,
            Emit("LOAD_FAST", "a"),
            Emit("RETURN_VALUE"),
            out,
            Emit(name, label=back),
        ]
    )
    assert function(5, 6) == 5
    names = [op.name for op in decode(function.__code__).ops if op.target is not None]
    assert names[0] == "JUMP_FORWARD"
    assert names[1].startswith("JUMP_BACKWARD")


def test_tests_may_jump_backward_where_the_interpreter_has_such() -> None:
    back = Label("back")
    items: list[Emit | Label] = [
        back,
        Emit("LOAD_FAST", "a"),
        Emit(conditional("IF_NONE"), label=back),
        Emit("LOAD_FAST", "a"),
        Emit("RETURN_VALUE"),
    ]
    if facts.CONDITIONAL_JUMPS_GO_BACKWARD:
        assert made(items)(3, 4) == 3
        return
    with pytest.raises(ValueError, match=r"POP_JUMP_IF_NONE jumps backward, which this Python"):
        made(items)


def protected(handler: Label, depth: int | None) -> list[Emit | Label]:
    """`[1, <raise>]` guarded: a list waits on the stack below the protected ops."""
    handler.depth = depth
    return [
        Emit("BUILD_LIST", 0),
        Emit("LOAD_FAST", "a", handler=(handler, False)),
        Emit("LOAD_FAST", "b", handler=(handler, False)),
        Emit("BINARY_OP", 11, handler=(handler, False)),
        Emit("LIST_APPEND", 1, handler=(handler, False)),
        Emit("RETURN_VALUE"),
        handler,
        Emit("PUSH_EXC_INFO"),
        Emit("POP_TOP"),
        Emit("POP_EXCEPT"),
        Emit("LOAD_CONST", "caught"),
        Emit("LIST_APPEND", 1),
        Emit("RETURN_VALUE"),
    ]


@pytest.mark.parametrize("depth", [1, 2, None])
def test_handlers_find_what_waited_below(depth: int | None) -> None:
    """Of a depth that is more than there is, what there is is taken."""
    function = made(protected(Label("handler"), depth))
    assert function(6, 2) == [3.0]
    assert function(6, 0) == ["caught"]


def test_the_offset_of_the_raise_is_pushed_if_asked_for() -> None:
    """RERAISE 1 gives the exception back its place, below which a handler has pushed other things."""
    handler = Label("handler")
    code = assemble(
        HEADER,
        [
            Emit("RESUME", 0),
            Emit("LOAD_CONST", 1, handler=(handler, True)),
            Emit("LOAD_CONST", 0, handler=(handler, True), origin=77),
            Emit("BINARY_OP", 11, handler=(handler, True), origin=88),
            Emit("RETURN_VALUE"),
            handler,
            Emit("RERAISE", 1),
        ],
    )
    with pytest.raises(ZeroDivisionError) as caught:
        FunctionType(code.code, {})(0, 0)
    last = caught.traceback[-1]._rawentry
    assert code.origins[last.tb_lasti] == 88


@pytest.mark.parametrize("count", [1, 40, 300, 35_000])
def test_far_jumps_and_protected_runs(count: int) -> None:
    """EXTENDED_ARG, in front of the first protected op too, and read back as it was."""
    handler, out = Label("handler"), Label("out")
    names = [f"v{number}" for number in range(300)]
    filler: list[Emit | Label] = [Emit("NOP")] * count
    function = _far(names, filler, handler, out)
    assert function(None, 5) == 5
    assert function(1, 5) == "caught"
    listing = decode(function.__code__)
    assert decode(again(function.__code__)).ops == listing.ops
    covered = [op.name for op in listing.ops if op.handler is not None]
    assert covered == ["LOAD_FAST", "LOAD_FAST", "BINARY_OP", "POP_TOP"]


def _far(names: list[str], filler: list[Emit | Label], handler: Label, out: Label) -> FunctionType:
    guarded = (handler, False)
    return made(
        [
            *(op for name in names for op in (Emit("LOAD_CONST", name), Emit("STORE_FAST", name))),
            Emit("LOAD_FAST", "a"),
            Emit(conditional("IF_NONE"), label=out),
            *filler,
            Emit("LOAD_FAST", "v299", handler=guarded),
            Emit("LOAD_FAST", "a", handler=guarded),
            Emit("BINARY_OP", 10, handler=guarded),
            Emit("POP_TOP", handler=guarded),
            *filler,
            out,
            Emit("LOAD_FAST", "b"),
            Emit("RETURN_VALUE"),
            handler,
            Emit("PUSH_EXC_INFO"),
            Emit("POP_TOP"),
            Emit("POP_EXCEPT"),
            Emit("LOAD_CONST", "caught"),
            Emit("RETURN_VALUE"),
        ]
    )


def test_more_locals_than_paired_ops_can_name() -> None:
    names = [f"v{number}" for number in range(40)]
    source = "def f():\n" + "".join(f"    {name} = {i}\n" for i, name in enumerate(names))
    program = function(source + f"    return {' + '.join(names)}\n")
    program.__code__ = again(program.__code__)
    assert program() == sum(range(40))


def test_origins_name_the_ops_stood_for() -> None:
    listing = decode(function("def f(a):\n    b = a.x\n    return b, a\n").__code__)
    shifted = [Emit("NOP"), *relist(listing)]
    result = assemble(Header.of(listing.code), shifted)
    by_offset = {op.offset: op for op in decode(result.code).ops if op.name != "NOP"}
    assert set(result.origins) == set(by_offset)
    for offset, origin in result.origins.items():
        names = [op.name for op in listing.ops if op.offset == origin]
        assert by_offset[offset].name in names


def test_signature_docstring_and_locals_stay() -> None:
    program = function(
        """
        def f(p, /, a, *rest, k=1, **more):
            "What it does."
            z = y = 1
            if not p:
                del z
            return sorted(locals()), list(locals())
        """
    )
    rebuilt = FunctionType(again(program.__code__), {}, "f", None, None)
    rebuilt.__kwdefaults__ = program.__kwdefaults__
    assert inspect.signature(rebuilt) == inspect.signature(program)
    assert rebuilt.__doc__ == "What it does."
    assert rebuilt.__code__.co_varnames == program.__code__.co_varnames
    assert rebuilt(0, 1, 2, q=3) == program(0, 1, 2, q=3)
    assert rebuilt(1, 1) == program(1, 1)


def test_a_string_constant_does_not_become_the_docstring() -> None:
    program = function("def f(a):\n    return a + 'text'\n")
    items = relist(decode(program.__code__))
    assert FunctionType(assemble(Header.of(program.__code__), items).code, {}).__doc__ is None


def test_new_locals_come_after_the_old() -> None:
    header = Header.of(function("def f(a):\n    b = c = a\n    return b, c\n").__code__)
    items = [Emit("RESUME", 0), Emit("LOAD_FAST", "a"), Emit("STORE_FAST", "new"), *RETURN]
    assert assemble(header, items).code.co_varnames == ("a", "b", "c", "new")


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ([Emit("JUMP_FORWARD", label=Label("lost")), *RETURN], r"Cannot assemble <lambda>\. JUMP_FORWARD refers to Label\('lost'\), which marks no op"),
        ([label := Label("two"), Emit("NOP"), label, *RETURN], r"Label\('two'\) is there twice: before op 1 and op 2"),
        ([Emit("JUMP_FORWARD", label=(end := Label("end"))), end], "which marks no op"),
        ([Emit("LOAD_FSAT", "a"), *RETURN], "Op 1 is LOAD_FSAT, which this Python does not have"),
        ([Emit("LOAD_FAST", 3), *RETURN], r"Op 1 \(LOAD_FAST with argument 3\): operation LOAD_FAST argument must be a str"),
        ([Emit("POP_TOP"), *RETURN], "Op 1|before op 2"),
        ([Emit("LOAD_CONST", 1)], "runs off the end"),
        ([Emit("LOAD_CONST", 1), YIELD, *RETURN], "YIELD_VALUE at op 2 must lead straight to RESUME"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(items: list[Emit | Label], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        made(items)


def test_ops_that_the_interpreter_counts_on_stay_together() -> None:
    code = function("def f(a):\n    for x in a: x()\n").__code__
    listing = decode(code)
    loop = next(op for op in listing.ops if op.name == "FOR_ITER")
    items: list[Emit | Label] = []
    for item in relist(listing):
        parted = isinstance(item, Emit) and item.name in ("END_FOR", "CALL")
        items += [Emit("NOP"), item] if parted else [item]
    assert loop.target is not None
    expected = "CALL" if facts.CALL_NEEDS_PRECALL else "END_FOR"
    with pytest.raises(ValueError, match=rf"must lead straight to {expected}.*: the interpreter"):
        assemble(Header.of(code), items)


def test_depths_of_both_ways_must_agree() -> None:
    join = Label("join")
    items: list[Emit | Label] = [
        Emit("LOAD_FAST", "a"),
        Emit(conditional("IF_NONE"), label=join),
        Emit("LOAD_FAST", "a"),
        join,
        *RETURN,
    ]
    with pytest.raises(ValueError, match=r"before op 4 \(LOAD_CONST\) is \d deep on one way and"):
        made(items)


def test_constants_keep_their_type_and_identity() -> None:
    unmarshalable: Any = object()
    values = [1, 1.0, True, 0.0, -0.0, (1,), (1.0,), unmarshalable, "1", b"1"]
    function = made(
        [
            *(Emit("LOAD_CONST", value) for value in values),
            Emit("BUILD_TUPLE", len(values)),
            Emit("RETURN_VALUE"),
        ]
    )
    got = function(0, 0)
    assert [(type(v), repr(v)) for v in got] == [(type(v), repr(v)) for v in values]
    assert got[7] is unmarshalable


def test_the_same_items_make_the_same_bytes() -> None:
    code = test_constants_keep_their_type_and_identity.__code__
    first, second = again(code), again(code)
    assert first.co_code == second.co_code
    assert first.co_consts == second.co_consts
    assert first.co_exceptiontable == second.co_exceptiontable
    assert first.co_linetable == second.co_linetable


def test_dead_ops_are_kept() -> None:
    items = [*RETURN, Emit("LOAD_CONST", "dead"), Emit("RETURN_VALUE")]
    listing = decode(made(items).__code__)
    assert [op.arg for op in listing.ops if op.name == "LOAD_CONST"] == [None, "dead"]
    assert depths(listing.ops).before[-1] is None


def test_places_are_those_given_or_those_before() -> None:
    location = decode((lambda: 0).__code__).ops[-1].location
    assert location is not None
    items = [replace(RETURN[0], location=location), RETURN[1]]
    listing = decode(made(items).__code__)
    assert [op.location for op in listing.ops[1:]] == [location, location]
