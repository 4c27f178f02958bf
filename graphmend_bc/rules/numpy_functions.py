"""Functions of NumPy that torch's stand-in for it lacks: `numpy.interp`, Gauss's quadratures."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builder import wrap_fx_proxy, wrap_fx_proxy_cls
from torch._dynamo.variables.lists import TupleVariable
from torch._dynamo.variables.tensor import NumpyNdarrayVariable

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.before_graph.hoist import Hoists
from graphmend_bc.dynamo.calls.known_calls import KnownCalleeVariable, known_call
from graphmend_bc.dynamo.graph.numpy_operators import (
    FUNCTIONS,
    QUADRATURES,
    numpy_operator,
    quadrature_operator,
)
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


def _quadrature(
    callee: KnownCalleeVariable, tx: Translator, function: object, args: Args, kwargs: Keywords
) -> VariableTracker | None:
    """Points and weights, as new arrays."""
    name = next((name for name, known in QUADRATURES.items() if known is function), None)
    if name is None:
        return None
    count = args[0].realize() if len(args) == 1 and not kwargs else None
    if count is None or not count.is_python_constant():
        raise Refused("call-not-traced", "It is given something else than a constant.")
    number = count.as_python_constant()
    _check_quiet(QUADRATURES[name], number)
    check_no_function_mode(tx)
    proxy = tx.output.create_proxy("call_function", quadrature_operator(name), (number,), {})
    tensors = wrap_fx_proxy(tx, proxy).unpack_var_sequence(tx)
    arrays = [each.call_method(tx, "numpy", [], {}) for each in tensors]
    # Programs make numbers of them: then the graph needs none.
    callee.compilation.trace.of(Hoists).nodes += [array.as_proxy().node for array in arrays]
    return TupleVariable(arrays)


def _check_quiet(function: Callable[..., Any], number: object) -> None:
    """Refuse a number of which NumPy says that it is none, or too large for exact points."""
    if type(number) is not int or not 0 < number <= _MOST_POINTS:
        raise Refused("call-not-traced", "It is given no number of points, or a large one.")
    with numpy.errstate(all="raise"), warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            function(number)
        except (ArithmeticError, Warning) as error:
            raise Refused("call-not-traced", "NumPy warns of what it computes.") from error


_MOST_POINTS = 4096


def _matches(site: BreakSite) -> Rewrites | None:
    return {site.offset: MarkCallee()} if site.gb_type and site.callee in _NAMES else None


def _matches_quadrature(site: BreakSite) -> Rewrites | None:
    known = site.gb_type and site.callee in QUADRATURES
    return {site.offset: MarkCallee()} if known else None


NUMPY = Rule(
    "numpy-function",
    "polyfill",
    9,
    _matches,
    frozenset({"attempted to trace numpy function unsupported by PyTorch"}),
    handler=known_call("polyfill", _computed),
)
"""`numpy.interp`, `digitize` and `isin` of arrays are operators of the graph that call NumPy."""

QUADRATURE = Rule(
    "quadrature",
    "polyfill",
    9,
    _matches_quadrature,
    frozenset({"Attempted to call function marked as skipped"}),
    handler=known_call("polyfill", _quadrature),
)
"""`numpy.polynomial.legendre.leggauss` of a constant is an operator that calls NumPy."""

RULES = (NUMPY, QUADRATURE)
