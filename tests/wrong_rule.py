"""A rule that is wrong on purpose: it takes `struct.calcsize("ii")` for 9."""

import struct

from torch._dynamo.variables.constant import ConstantVariable

import graphmend_bc as gm
from graphmend_bc.dynamo.calls.known_calls import known_call


def _matches(site):
    return {site.offset: gm.MarkCallee()} if site.callee == "calcsize" else None


def _one_more(callee, tx, function, args, kwargs):
    if function is not struct.calcsize:
        return None
    return ConstantVariable.create(struct.calcsize(args[0].as_python_constant()) + 1)


def register() -> gm.Registration:
    """Let the rule mend in this process, until the handle is removed."""
    handler = known_call("polyfill", _one_more)
    return gm.register_rule(gm.Rule("wrong", "polyfill", 4, _matches, handler=handler))
