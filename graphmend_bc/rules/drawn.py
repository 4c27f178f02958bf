"""A number from NumPy's generator or Python's is drawn before the graph and is a symbol in it."""

from graphmend_bc import config
from graphmend_bc.legality.host_code import DRAWS
from graphmend_bc.rewriting.plan import Capture
from graphmend_bc.rules.rule import BreakSite, Rewrites, Rule
from graphmend_bc.runtime.draws import PYTHON_DRAWS


def _matches(met: BreakSite) -> Rewrites | None:
    drawn = met.callee in DRAWS or met.callee in PYTHON_DRAWS
    known = met.gb_type and drawn and "capture" in config.strategies
    return {met.offset: Capture()} if known else None


RULE = Rule(
    "drawn",
    "draw",
    4,
    _matches,
    frozenset(
        {
            "Data dependent operator",
            "attempted to trace numpy function unsupported by PyTorch",
            "attempted to trace torch._numpy.random function"
            " with config.use_numpy_random_stream=True",
        }
    ),
)
