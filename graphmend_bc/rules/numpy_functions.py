"""Functions of NumPy that torch's stand-in for it lacks, such as `numpy.interp`."""

from __future__ import annotations

from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builder import wrap_fx_proxy_cls
from torch._dynamo.variables.tensor import NumpyNdarrayVariable

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.calls.known_calls import KnownCalleeVariable, known_call
from graphmend_bc.dynamo.graph.numpy_operators import FUNCTIONS, numpy_operator
from graphmend_bc.dynamo.trace.truth_overrides import check_no_function_mode
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule

_NAMES = frozenset(function.__name__ for function in FUNCTIONS)


def _computed(
    callee: KnownCalleeVariable, tx: Translator, function: object, args: Args, kwargs: Keywords
) -> VariableTracker | None:
    known = next((known for own, known in FUNCTIONS.items() if own is function), None)
    if known is None:
        return None
    given = dict(zip(known.parameters, args, strict=False)) | dict(kwargs)
    if len(args) + len(kwargs) != len(known.parameters) or given.keys() != {*known.parameters}:
        raise Refused("call-not-traced", "It is given other arguments than arrays.")
    arrays = [given[name].realize() for name in known.parameters]
    if not all(type(array) is NumpyNdarrayVariable for array in arrays):
        raise Refused("call-not-traced", "It is given something else than arrays.")
    check_no_function_mode(tx)
    proxies = [array.as_proxy() for array in arrays]
    forms = [proxy.node.meta["example_value"] for proxy in proxies]
    if any(form.device.type != "cpu" or form.is_complex() or form.ndim == 0 for form in forms):
        raise Refused("call-not-traced", "An array has no dimension, or is complex.")
    if known.is_of_points and not (forms[-1].ndim == 1 and forms[-1].numel() > 0):
        raise Refused("call-not-traced", "NumPy wants points in one dimension.")
    if len(forms) > 2 and forms[1].shape != forms[2].shape:
        raise Refused("call-not-traced", "There are not as many values as points.")
    proxy = tx.output.create_proxy("call_function", numpy_operator(known), tuple(proxies), {})
    value: VariableTracker = wrap_fx_proxy_cls(NumpyNdarrayVariable, tx, proxy)
    return value


def _matches(site: BreakSite) -> Rewrites | None:
    return {site.offset: MarkCallee()} if site.gb_type and site.callee in _NAMES else None


NUMPY = Rule(
    "numpy-function",
    "polyfill",
    9,
    _matches,
    frozenset({"attempted to trace numpy function unsupported by PyTorch"}),
    handler=known_call("polyfill", _computed),
)
"""`numpy.interp`, `digitize` and `isin` of arrays are operators of the graph that call NumPy."""

RULES = (NUMPY,)
