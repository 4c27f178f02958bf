import sys, opcode
SUPPORTED=((3,11),(3,12),(3,13))
V=sys.version_info[:2]
CALL_NEEDS_PRECALL = V==(3,11)
NULL_BEFORE_CALLABLE = V<(3,13)
LOAD_ATTR_TAKES_FLAG = V>=(3,12)
MAKE_FUNCTION_TAKES_FLAGS = V<(3,13)
LOAD_CLOSURE = "LOAD_CLOSURE" if V<(3,13) else "LOAD_FAST"
def op_set(*names):
    s=frozenset(n for n in names if n in opcode.opmap); assert s; return s
