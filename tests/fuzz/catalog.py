"""All surroundings of programs, by family."""

from __future__ import annotations

from typing import Final

from tests.fuzz import callables, process, questions, training
from tests.fuzz.host_numbers import ARRAYS, CONSTANTS, INFERENCE, SLICES
from tests.fuzz.objects import ACCUMULATIONS, CLASS_WRITES, OPERATORS, TEXT_MEMBERS
from tests.fuzz.surroundings import Surrounding

FAMILIES: Final[dict[str, dict[str, Surrounding]]] = {
    "surroundings": callables.SURROUNDINGS,
    "process": process.SURROUNDINGS | questions.SURROUNDINGS,
    "values": {
        "text members": TEXT_MEMBERS,
        "operators": OPERATORS,
        "class writes": CLASS_WRITES,
        "accumulations": ACCUMULATIONS,
        "arrays": ARRAYS,
        "slices": SLICES,
        "inference": INFERENCE,
        "constants": CONSTANTS,
    },
    "training": training.SURROUNDINGS,
}
"""By what `--kind` calls them. A program has one of a family, and may have two more of any."""

SURROUNDINGS: Final[dict[str, Surrounding]] = {
    name: one for family in FAMILIES.values() for name, one in family.items()
}
"""By the name of their group of forms."""
