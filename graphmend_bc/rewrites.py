"""Rewritten code objects, and where each of their instructions came from."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import CodeType

from graphmend_bc.code.blocks import graph_of
from graphmend_bc.reasons import Refused
from graphmend_bc.rewriting import Plan, Rewritten, rewrite
from graphmend_bc.rewriting.calls import site_of_op
from graphmend_bc.rewriting.defer import likely_effects
from graphmend_bc.rewriting.plan import MarkCallee
from graphmend_bc.runtime import Site


@dataclass(frozen=True, slots=True)
class Key:
    """A code object by value and file: code objects of copied files compare equal."""

    code: CodeType
    filename: str

    @classmethod
    def of(cls, code: CodeType) -> Key:
        return cls(code, code.co_filename)

    def holds(self, site: Site) -> bool:
        """True if the site is in this code object."""
        return (self.filename, self.code.co_qualname) == (site.filename, site.qualname)


@dataclass(slots=True)
class Rewrites:
    """Every rewrite made so far. The same code and plan give the same object, so that Dynamo's
    caches hit.

    Attributes:
        made: by original code and plan; a refusal is kept too.
        sources: for each code object written by us, the original and the map of offsets.
        effects: calls that are likely effects, by original code and names looked for.
    """

    made: dict[tuple[Key, Plan], Rewritten | Refused] = field(default_factory=dict)
    sources: dict[Key, tuple[CodeType, dict[int, int]]] = field(default_factory=dict)
    effects: dict[tuple[Key, frozenset[str]], frozenset[int]] = field(default_factory=dict)

    def rewritten(self, code: CodeType, plan: Plan) -> CodeType:
        """The code object for a plan.

        Raises:
            Refused: the plan cannot be carried out.
        """
        if not plan.changes_code:
            return code
        key = (Key.of(code), plan)
        if key not in self.made:
            try:
                self.made[key] = result = rewrite(code, plan)
                for part, origins in result.origins:
                    self.sources[Key.of(part)] = (code, dict(origins))
            except Refused as refused:
                self.made[key] = refused
        found = self.made[key]
        if isinstance(found, Refused):
            raise found
        return found.code

    def is_rewritten(self, code: CodeType) -> bool:
        """True for code written by us, arms included."""
        return Key.of(code) in self.sources

    def original(self, code: CodeType, offset: int) -> tuple[CodeType, int]:
        """The user's code object and offset behind an instruction of any code object."""
        source = self.sources.get(Key.of(code))
        if source is None:
            return code, offset
        original, origins = source
        return original, origins.get(offset, -1)

    def likely_effects(self, code: CodeType, names: frozenset[str]) -> frozenset[int]:
        """Offsets of calls of something with one of the names, where the callee can be marked."""
        key = (Key.of(code), names)
        if key not in self.effects:
            marked: frozenset[int] = frozenset()
            for offset in likely_effects(code, names):
                try:
                    self.rewritten(code, Plan({offset: MarkCallee("defer")}))
                except Refused:
                    continue
                marked |= {offset}
            self.effects[key] = marked
        return self.effects[key]


def site_of(code: CodeType, offset: int) -> Site:
    """The site of an instruction of an original code object."""
    return site_of_op(code, graph_of(code).listing.at_offset(offset))
