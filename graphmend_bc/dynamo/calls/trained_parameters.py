"""Parameters of a frame that sets gradients stay distinct objects.

Dynamo does not guard that two of a model's parameters are not one. What a frame assigns is stored
after its graph, for each of them: of two gradients one parameter would keep the last.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.tensor import TensorVariable
from torch.nn import Parameter

from graphmend_bc.dynamo.graph.lambda_guards import asking, guard_by
from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.dynamo.trace.features import Feature


@dataclass(slots=True, eq=False)
class TrainedParameters(Feature):
    """The parameters of a frame that sets gradients.

    Attributes:
        shared: names of those that a guard finds both in an optimizer and elsewhere.
    """

    order: ClassVar[int] = 96

    shared: set[str] = field(default_factory=set)

    def on_graph_end(
        self, compilation: Compilation, tx: InstructionTranslatorBase, is_break: bool
    ) -> None:
        """Guard that no two parameters are one, unless each has its place in an optimizer."""
        names = [
            source.name
            for source, value in tx.output.input_source_to_var.items()
            if isinstance(value, TensorVariable) and value.python_type() is Parameter
        ]
        if len(names) > 1 and not self.shared.issuperset(names):
            found = ", ".join(f"id({name})" for name in names)
            holds = asking(f"len({{{found}}}) == {len(names)}", {})
            guard_by(holds, "the parameters are distinct")
