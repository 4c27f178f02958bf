"""Draws from generators of NumPy, of Python and of torch."""

from __future__ import annotations

from graphmend_bc import config
from graphmend_bc.dynamo.patches import capabilities
from graphmend_bc.dynamo.random_draws.drawn_numbers import READS, drawn_number
from graphmend_bc.dynamo.random_draws.guarded_draws import chosen
from graphmend_bc.dynamo.random_draws.host_code import DRAWS, draws_on_host
from graphmend_bc.dynamo.random_draws.numpy_random import drawn
from graphmend_bc.dynamo.random_draws.torch_generators import (
    FUNCTIONS,
    SEEDS,
    drawn_from_generator,
)
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.rewriting.plan import Capture, MarkCallee, Outline
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule
from graphmend_bc.runtime.draws import PYTHON_DRAWS


def _matches_draw(site: BreakSite) -> Rewrites | None:
    known = site.gb_type and draws_on_host(site.code)
    return {site.offset: Outline()} if known else None


DRAW = Rule(
    "draw",
    "draw",
    3,
    _matches_draw,
    handler=drawn,
    needs=frozenset(
        {
            capabilities.COMPUTED_GUARDS,
            capabilities.NUMPY_DRAWS,
            capabilities.SYMBOLS,
            capabilities.UNCACHED_CALLS,
        }
    ),
)
"""A function that draws from NumPy's generator on the host runs before the graph."""


def _matches_drawn(site: BreakSite) -> Rewrites | None:
    drawn = site.callee in DRAWS or site.callee in PYTHON_DRAWS
    known = site.gb_type and drawn and "capture" in config.strategies
    return {site.offset: Capture()} if known else None


DRAWN = Rule(
    "drawn",
    "draw",
    4,
    _matches_drawn,
    frozenset(
        {
            "Data dependent operator",
            "attempted to trace numpy function unsupported by PyTorch",
            "attempted to trace torch._numpy.random function"
            " with config.use_numpy_random_stream=True",
        }
    ),
    needs=frozenset(
        {
            capabilities.COMPUTED_GUARDS,
            capabilities.NUMPY_DRAWS,
            capabilities.PYTHON_DRAWS,
            capabilities.SYMBOLS,
            capabilities.UNCACHED_CALLS,
        }
    ),
)
"""A number from NumPy's generator or Python's is drawn before the graph and is a symbol in it."""


def _matches_chosen(site: BreakSite) -> Rewrites | None:
    known = site.gb_type and site.callee in PYTHON_DRAWS
    return {site.offset: MarkCallee(in_order=False)} if known else None


CHOSEN = Rule(
    "chosen",
    "draw",
    46,
    _matches_chosen,
    frozenset({"Data dependent operator"}),
    handler=chosen,
    needs=frozenset(
        {capabilities.COMPUTED_GUARDS, capabilities.PYTHON_DRAWS, capabilities.UNCACHED_CALLS}
    ),
)
"""A draw that chooses one of a few is made before the graph; each outcome is compiled by itself."""


def _matches_generator(site: BreakSite) -> Rewrites | None:
    known = site.gb_type and site.callee in (*FUNCTIONS, SEEDS)
    return {site.offset: MarkCallee(in_order=False)} if known else None


OF_GENERATOR = Rule(
    "generator",
    "draw",
    5,
    _matches_generator,
    frozenset({"Failed to convert args/kwargs to proxy", "torch.Generator method"}),
    handler=drawn_from_generator,
    needs=frozenset({capabilities.UNCACHED_CALLS}),
)
"""What is drawn from a generator of torch's that the program has is drawn before the graph."""


def _matches_number(site: BreakSite) -> Rewrites | None:
    known = site.gb_type and site.callee in READS
    return {site.offset: MarkCallee()} if known else None


def _rests_on_draws(refused: Refused) -> bool:
    return refused.reason.code == "hoist-not-input"


NUMBER = Rule(
    "drawn-number",
    "draw",
    61,
    _matches_number,
    frozenset(
        {
            "Data dependent operator",
            "Tensor.tolist() with non-integer tensor",
            "Unsupported Tensor.item() call with capture_scalar_outputs=False",
        }
    ),
    helps=_rests_on_draws,
    handler=drawn_number,
    needs=frozenset({capabilities.COMPUTED_GUARDS, capabilities.UNCACHED_CALLS}),
)
"""A number that torch draws, one of a few, is drawn before the graph; each is compiled alone."""

RULES = (DRAW, DRAWN, CHOSEN, OF_GENERATOR, NUMBER)
