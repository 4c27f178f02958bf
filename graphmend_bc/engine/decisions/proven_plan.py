"""A plan that worked, for later compilations of the same code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from graphmend_bc.engine.decisions.check_outcomes import CheckOutcomes
from graphmend_bc.rewriting import Plan
from graphmend_bc.runtime import Site


@dataclass(frozen=True, slots=True)
class Proven:
    """What worked for a code object.

    Attributes:
        plan: its plan.
        gb_types: what Dynamo calls the breaks at the sites of the plan, as far as it met them.
        refused: reason codes, why no cheaper rule mends a site; known of plans that are kept on
            disk, and told again.
        outcomes: what its failed checks have taught; likewise.
    """

    plan: Plan
    gb_types: Mapping[Site, str] = field(default_factory=dict)
    refused: Mapping[Site, tuple[str, ...]] = field(default_factory=dict)
    outcomes: CheckOutcomes = field(default_factory=CheckOutcomes)
