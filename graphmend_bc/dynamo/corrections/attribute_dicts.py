"""`vars(o)` of an object that the frame makes: the dict goes on where the object does not.

Dynamo sets attributes of such objects after the graph, if it sees that they are needed. It does not
see it of an object of which only the dict is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._dynamo.variables.base import VariableTracker

from graphmend_bc.dynamo.trace.compilation import current


def keep_owner_of_dict(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`DunderDictVariable.__init__`: the dict of an object's attributes."""

    def __init__(self: Any, vt: VariableTracker, *args: Any, **kwargs: Any) -> None:
        stock(self, vt, *args, **kwargs)
        if current() is not None:
            self.owner = vt  # where Dynamo looks for what is needed

    return __init__
