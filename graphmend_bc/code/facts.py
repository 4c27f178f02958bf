"""What differs between the CPython versions we read and write, as named facts.

No other Python file of the project asks for the interpreter's version. Each fact shows the
difference in a line; `op_set` names groups of opcodes, of which every version has some.
"""

from __future__ import annotations

import dis
import sys
import sysconfig
from typing import Final

SUPPORTED: Final = ((3, 11), (3, 12), (3, 13), (3, 14))
"""The versions whose bytecode is understood, oldest first."""

VERSION: Final = sys.version_info[:2]


def is_free_threaded() -> bool:
    """True for a build of CPython without the GIL, also where PYTHON_GIL switched one on."""
    return bool(sysconfig.get_config_var("Py_GIL_DISABLED"))


def op_set(*names: str) -> frozenset[str]:
    """A group of opcode names, without those that this interpreter lacks.

    Args:
        *names: opcode names of any supported version.

    Returns:
        Those that the running interpreter has.

    Raises:
        AssertionError: none is left, so a name is surely misspelt.

    Example:
        >>> sorted(op_set("LOAD_FAST", "LOAD_FAST_CHECK"))  # on 3.11
        ['LOAD_FAST']
    """
    # From 256 on are the compiler's own ops, which never get into a code object.
    known = frozenset(name for name in names if dis.opmap.get(name, 256) < 256)
    assert known, f"No opcode of Python {VERSION[0]}.{VERSION[1]} is among {', '.join(names)}."
    return known


def takes_argument(number: int) -> bool:
    """True if an opcode uses its argument (3.12 lists them, 3.11 has a first one)."""
    if sys.version_info >= (3, 12):
        return number in dis.hasarg
    return number >= dis.HAVE_ARGUMENT


# Calls

# 3.11:   PUSH_NULL, LOAD f, args, PRECALL n, CALL n
# 3.12:   PUSH_NULL, LOAD f, args, CALL n
# 3.13:   LOAD f, PUSH_NULL, args, CALL n
CALL_NEEDS_PRECALL: Final = VERSION == (3, 11)
NULL_BEFORE_CALLABLE: Final = VERSION <= (3, 12)

# 3.11, 3.12: KW_NAMES tells the next CALL its keywords; 3.13: their tuple is on the stack for
# CALL_KW.
KEYWORDS_BY_KW_NAMES: Final = VERSION <= (3, 12)

# 3.11: LOAD_METHOD pushes a method and self; later: LOAD_ATTR does if the lowest bit of its
# argument is set.
LOAD_ATTR_TAKES_FLAG: Final = VERSION >= (3, 12)

# 3.11, 3.12: bits of MAKE_FUNCTION's argument say what is on the stack below the code object;
# 3.13: the function is made bare, and SET_FUNCTION_ATTRIBUTE adds one thing at a time.
MAKE_FUNCTION_TAKES_FLAGS: Final = VERSION <= (3, 12)

# The op that pushes a cell itself, to be put in a closure tuple.
LOAD_CLOSURE: Final = "LOAD_CLOSURE" if VERSION <= (3, 12) else "LOAD_FAST"

# 3.11 to 3.13: `x[key]` has an op of its own; 3.14: it is one of the binary operators.
SUBSCRIPT: Final = "BINARY_SUBSCR" if VERSION <= (3, 13) else "BINARY_OP"

# 3.11 to 3.13: a flag says whether a dict of keywords lies on top; 3.14: one or NULL always does.
CALL_FUNCTION_EX_TAKES_FLAGS: Final = VERSION <= (3, 13)

# 3.11 to 3.13: a bound `__exit__` waits below a `with` block; 3.14: LOAD_SPECIAL leaves the method
# and self, or NULL, in a slot each.
EXIT_SLOTS: Final = 1 if VERSION <= (3, 13) else 2

# Jumps and tests

# 3.11: a conditional jump's name has its direction (POP_JUMP_FORWARD_IF_TRUE) and may go backward.
# Later: POP_JUMP_IF_TRUE, forward only; a backward test jumps over a JUMP_BACKWARD.
CONDITIONAL_JUMPS_GO_BACKWARD: Final = VERSION == (3, 11)
POP_JUMP_IF_FALSE: Final = (
    "POP_JUMP_FORWARD_IF_FALSE" if CONDITIONAL_JUMPS_GO_BACKWARD else "POP_JUMP_IF_FALSE"
)
POP_JUMP_IF_TRUE: Final = POP_JUMP_IF_FALSE.replace("FALSE", "TRUE")

# 3.11: `a or b` as a value is JUMP_IF_TRUE_OR_POP; later: COPY, a test, POP_TOP.
HAS_JUMP_IF_OR_POP: Final = VERSION == (3, 11)

# 3.13: POP_JUMP_IF_TRUE and its like want an exact bool, made by TO_BOOL or by COMPARE_OP with a
# flag.
TO_BOOL_BEFORE_JUMP: Final = VERSION >= (3, 13)

# The comparison's number starts at this bit of COMPARE_OP's argument. Below it, later versions keep
# a mask for specialisation, and 3.13 the flag "make it a bool" at bit 4.
COMPARE_SHIFT: Final = {(3, 11): 0, (3, 12): 4}.get(VERSION, 5)

# 3.12, 3.13: `return 1` is RETURN_CONST; before and after: LOAD_CONST, RETURN_VALUE.
HAS_RETURN_CONST: Final = VERSION in ((3, 12), (3, 13))

# Since 3.12 a comprehension is a loop in the code around it, and no function of its own.
COMPREHENSIONS_ARE_CALLED: Final = VERSION < (3, 12)

# An exhausted FOR_ITER pops the iterator as it jumps. From 3.12 on, the jump leads to ops that pop
# it in the compiler's counting only: what runs next is the op behind them, whatever they are. From
# 3.14 on POP_ITER does run, and pops it.
FOR_ITER_SKIPS: Final[tuple[str, ...]] = {
    (3, 11): (),
    (3, 12): ("END_FOR",),
    (3, 13): ("END_FOR", "POP_TOP"),
}.get(VERSION, ("END_FOR", "POP_ITER"))

# 3.11 to 3.13: `while c` has its test before the loop and again at the end of a round; 3.14: only
# at the beginning of each round.
WHILE_TESTS_TWICE: Final = VERSION <= (3, 13)

# 3.14: NOT_TAKEN stands where a test falls through. Only monitoring tools see it, and the exception
# table leaves it out, though the test and what follows may be covered.
HAS_NOT_TAKEN: Final = VERSION >= (3, 14)

# 3.14: END_ASYNC_FOR names the op at which its loop is left. That is for monitoring tools, too:
# control never goes there.
NEVER_FOLLOWED: Final = frozenset({"END_ASYNC_FOR"} if VERSION >= (3, 14) else ())

# Variables

# 3.11: LOAD_FAST raises UnboundLocalError; later: only LOAD_FAST_CHECK does, LOAD_FAST trusts the
# compiler.
LOAD_FAST_CHECKS: Final = VERSION == (3, 11)

# 3.12: list, set and dict comprehensions run in their function's own frame.
COMPREHENSIONS_INLINED: Final = VERSION >= (3, 12)

# 3.14: the tables of `dis` count LOAD_DEREF among the ops on fast locals only.
CELL_OPS: Final = frozenset(dis.hasfree) | {dis.opmap["LOAD_DEREF"]}

# 3.14: LOAD_FAST_BORROW takes no reference. The compiler has shown that the local keeps the object
# alive until the value is used up, in this code as it stands. Code that is moved, or gets a store
# or a call in between, has no such proof, so a borrow is read as the load that takes a reference.
# LOAD_SMALL_INT has the number itself where LOAD_CONST has its place among the constants.
READ_AS: Final = {"LOAD_FAST_BORROW": "LOAD_FAST", "LOAD_SMALL_INT": "LOAD_CONST"}

# 3.13: two ops on fast locals in one, two four-bit indices in the argument.
PAIRED_OPS: Final = {
    pair: halves
    for pair, halves in {
        "LOAD_FAST_LOAD_FAST": ("LOAD_FAST", "LOAD_FAST"),
        "STORE_FAST_LOAD_FAST": ("STORE_FAST", "LOAD_FAST"),
        "STORE_FAST_STORE_FAST": ("STORE_FAST", "STORE_FAST"),
        "LOAD_FAST_BORROW_LOAD_FAST_BORROW": ("LOAD_FAST", "LOAD_FAST"),
    }.items()
    if pair in dis.opmap
}
HAS_PAIRED_OPS: Final = VERSION >= (3, 13)

# Groups of opcodes

RETURNS: Final = op_set("RETURN_VALUE", "RETURN_CONST")
RAISES: Final = op_set("RAISE_VARARGS", "RERAISE")
ENDINGS: Final = RETURNS | RAISES
"""Ops after which the frame is left, or a handler entered."""

JUMPS: Final = op_set("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
"""Unconditional jumps."""

TESTS: Final = op_set(
    *(
        f"POP_JUMP_{direction}IF_{test}"
        for direction in ("", "FORWARD_", "BACKWARD_")
        for test in ("TRUE", "FALSE", "NONE", "NOT_NONE")
    ),
    "JUMP_IF_TRUE_OR_POP",
    "JUMP_IF_FALSE_OR_POP",
)
"""Conditional jumps that look at a value: what `if`, `while`, `and` and `assert` compile to."""

JUMPS_IF_TRUE: Final = frozenset(name for name in TESTS if "IF_TRUE" in name)
JUMPS_IF_FALSE: Final = frozenset(name for name in TESTS if "IF_FALSE" in name)

ITERATIONS: Final = op_set("FOR_ITER", "SEND")
"""Conditional jumps that ask an iterator or generator for its next value."""
