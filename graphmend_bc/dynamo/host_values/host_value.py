"""Python values read from tensors that nothing in the graph needs: `history.append(loss.item())`.

Stock Dynamo breaks the graph at `.item()`, because the value is not known while tracing. If it only
goes where values go after the graph (arguments of deferred calls, containers, attributes, results),
it is enough that the host has it then. What asks for the value earlier refuses the site, and the
frame is traced again with the break that stock has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn, cast

from torch._dynamo.bytecode_transformation import create_call_function
from torch._dynamo.codegen import PyCodegen
from torch._dynamo.variables.base import (
    AsPythonConstantNotImplementedError,
    VariableTracker,
)
from torch._dynamo.variables.tensor import TensorVariable
from torch.fx import Node

from graphmend_bc.dynamo.host_values.opaque_variable import refuse_questions
from graphmend_bc.dynamo.host_values.readback import reading
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused, Trace
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site


@dataclass(slots=True, eq=False)
class Reads(Feature):
    """Which outputs of the graph are to be read, as they become Python values.

    Attributes:
        methods: by the position of the output, "item" or "tolist".
        predicates: the values read from predicates, by their nodes.
        copies: what is read, by the node it is a copy of and the number of writes before.
    """

    order: ClassVar[int] = 80

    methods: dict[int, str] = field(default_factory=dict)
    predicates: dict[Node, VariableTracker] = field(default_factory=dict)
    copies: dict[tuple[Node, int], TensorVariable] = field(default_factory=dict)
    _codegen: object = None

    def note(self, codegen: object, index: int, method: str) -> None:
        """Output `index` is to be read; only what the last code generator says counts."""
        if codegen is not self._codegen:
            self._codegen = codegen
            self.methods = {}
        self.methods[index] = method

    def wrapped(self, compilation: Compilation, graph: Callable[..., Any]) -> Callable[..., Any]:
        return reading(graph, self.with_question(compilation.trace))

    def with_question(self, trace: Trace) -> dict[int, str]:
        """The methods; the question whether a speculation was wrong joins the others' transfer."""
        if not self.methods or not trace.questions:
            return self.methods
        asked = trace.questions[-1].as_proxy().node.meta["example_value"]
        return self.methods if asked.is_cpu else {**self.methods, -1: "item"}


class HostVariable(VariableTracker):
    """A Python value that the host has once the graph has run.

    Args:
        site: the call that asked for it.
        kind: its Python type.
    """

    _nonvar_fields: ClassVar[set[str]] = {"site", "kind", *VariableTracker._nonvar_fields}  # type: ignore[misc]

    def __init__(self, site: Site, kind: type, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.site = site
        self.kind = kind

    def python_type(self) -> type:
        return self.kind

    def sample(self) -> Any:
        """Some value of the type, to see whether an operation exists for it."""
        return self.kind() if self.kind is list else self.kind(1)

    def refuse(self, use: str) -> NoReturn:
        """Give the site up: something needs the value while the graph is traced."""
        raise SiteRefused(Refused("host-value-used", f"It is used in '{use}'."), self.site)


def refused_constant(error: Exception) -> Exception:
    """What gives a site up whose value Dynamo has taken for a constant; other errors as they are.

    Much of Dynamo asks for a constant and goes on without; what does not ends the trace with this.
    """
    if not isinstance(error, AsPythonConstantNotImplementedError):
        return error
    value = error.vt
    if not isinstance(value, HostVariable):
        return error
    refused = Refused("host-value-used", "It must be a constant.")
    found = SiteRefused(refused, value.site)
    found.__cause__ = error
    return found


def constant_slice(stock: Callable[[Any], slice]) -> Callable[[Any], slice]:
    """`SliceVariable.as_python_constant`: a bound that is no number is none of a constant slice.

    Stock puts its variable there, and Python raises a TypeError when it takes such a slice.
    """

    def as_python_constant(self: Any) -> slice:
        if (bound := host_among(self.items)) is not None:
            raise AsPythonConstantNotImplementedError(bound)
        return stock(self)

    return as_python_constant


class ReadVariable(HostVariable):
    """What `tensor.item()` or `tensor.tolist()` gives.

    Args:
        tensor: an output of the graph that nothing else uses.
        method: "item" or "tolist".
        trace: the running attempt.
    """

    _nonvar_fields: ClassVar[set[str]] = {"method", "trace", *HostVariable._nonvar_fields}  # type: ignore[misc]

    def __init__(
        self,
        site: Site,
        kind: type,
        tensor: VariableTracker,
        method: str,
        trace: Trace,
        **kwargs: Any,
    ) -> None:
        super().__init__(site, kind, **kwargs)
        self.tensor = tensor
        self.method = method
        self.trace = trace

    def reconstruct(self, codegen: PyCodegen) -> None:
        key = codegen.add_graph_output(self.tensor)
        index = codegen.graph_outputs[key].index
        self.trace.of(Reads).note(codegen, index, self.method)
        codegen.load_graph_output(index)


class ComputedVariable(HostVariable):
    """A function of host values and constants that cannot raise.

    Args:
        function: a plain Python function.
        operands: its arguments.
    """

    _nonvar_fields: ClassVar[set[str]] = {"function", *HostVariable._nonvar_fields}  # type: ignore[misc]

    def __init__(
        self,
        site: Site,
        kind: type,
        function: Callable[..., Any],
        operands: list[VariableTracker],
        **kwargs: Any,
    ) -> None:
        super().__init__(site, kind, **kwargs)
        self.function = function
        self.operands = operands

    def reconstruct(self, codegen: PyCodegen) -> None:
        module, name = self.function.__module__, self.function.__name__
        codegen.add_push_null(lambda: codegen.load_import_from(module.lstrip("_"), name))
        codegen.foreach(self.operands)
        codegen.extend_output(create_call_function(len(self.operands), False))


refuse_questions(HostVariable)


def host_among(values: Iterable[VariableTracker]) -> HostVariable | None:
    """The first value that only the host knows; nothing is realized."""
    for value in values:
        if issubclass(type(value), HostVariable):  # isinstance() realizes lazy variables
            return cast(HostVariable, value)
    return None
