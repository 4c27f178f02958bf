"""What is traced before anything is mended: whether it would be traced otherwise after that."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from graphmend_bc.dynamo.trace.features import Feature


@dataclass(slots=True, eq=False)
class EarlierPart(Feature):
    """The part of an attempt in which nothing was mended so far.

    Attributes:
        marks: whether code was met that may make calls that only observe.
        as_stock: whether something was traced as stock does and not as eager Python.
    """

    stays: ClassVar[bool] = True

    marks: bool = False
    as_stock: bool = False
