"""Progress bars of tqdm: their methods only observe; bars of the function's own are made later."""

from __future__ import annotations

from typing import Final

from graphmend_bc.contrib.tqdm.catalog import OBSERVERS, makes_bar
from graphmend_bc.contrib.tqdm.variables import MarkedBarVariable
from graphmend_bc.dynamo.deferral.deferred_calls import KnownCallee
from graphmend_bc.extension import Extension

EXTENSION: Final = Extension(
    "tqdm",
    observers=OBSERVERS,
    names=frozenset({"tqdm", "trange"}),
    callees=(KnownCallee(makes_bar, MarkedBarVariable),),
)
