"""Pieces of a graph that depend on the frame's inputs only, to be run before the graph."""

from __future__ import annotations

import hashlib
import operator
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch._dynamo.guards import _get_closure_vars, from_numpy
from torch._dynamo.source import AttrSource, GlobalSource, LocalSource, NumpyTensorSource
from torch._guards import Source
from torch._ops import HigherOrderOperator, OpOverload
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.fx.node import map_arg
from torch.utils._python_dispatch import (
    TorchDispatchMode,
    _disable_current_modes,
    _get_current_dispatch_mode_stack,
)

from graphmend_bc import config
from graphmend_bc.dynamo.before_graph.shared_steps import Memo, shared_steps
from graphmend_bc.dynamo.before_graph.subgraphs import Levels
from graphmend_bc.dynamo.calls.left_to_dynamo import is_opaque
from graphmend_bc.dynamo.graph.fx_nodes import (
    has_out,
    input_source,
    input_storages,
    is_input,
    is_writing,
    name_called,
    storages,
    tensors_of,
)
from graphmend_bc.dynamo.graph.modes import check_modes
from graphmend_bc.dynamo.graph.numpy_operators import is_numpys
from graphmend_bc.dynamo.trace.op_recorder import Recorder
from graphmend_bc.reporting.counts import many
from graphmend_bc.reporting.reasons import Refused

_DEAR = ("mm", "matmul", "linear", "conv", "attention", "einsum", "embedding", "lstm", "gru", "rnn")
"""Parts of names of functions that are not run twice."""


Reader = Callable[[dict[str, Any]], Any]
"""From a frame's locals as "L" and its globals as "G" to a value."""


def reader(source: Source) -> Reader:
    """What reads a value in a frame, without the `eval` that most sources do.

    Args:
        source: where it is found.
    """
    if type(source) is LocalSource:
        return lambda scope: scope["L"][source.local_name]
    if type(source) is GlobalSource:
        return lambda scope: scope["G"][source.global_name]
    if type(source) is AttrSource:
        base = reader(source.base)
        return lambda scope: getattr(base(scope), source.member)
    if type(source) is NumpyTensorSource:
        array = reader(source.base)
        return lambda scope: from_numpy(array(scope))
    functions = _get_closure_vars() if "___" in source.name else {}  # Dynamo's, which names call
    return lambda scope: source.get_value(scope, dict(functions), {})


@dataclass(frozen=True, eq=False)
class Slice:
    """Computes a value from the inputs of a frame, without a trace of having done so.

    Attributes:
        label: names the value; the same for the same computation.
        sources: where its arguments are found in a frame.
        function: from the arguments to the value.
        ops: how many operators that is, with those of the slices that its arguments are.
        kept: whether the frame asks for the value again that its guards have computed.
        written: inputs that the frame has changed in place before it asks for the value.
        shared: computes the same, with what the lookup of guards remembers of other slices.
    """

    label: str
    sources: tuple[Source, ...]
    function: Callable[..., Any]
    ops: int = 0
    kept: bool = False
    written: tuple[Source, ...] = ()
    shared: Callable[[Sequence[Any], Memo], Any] | None = None
    _recent: threading.local = field(init=False, default_factory=threading.local)
    _readers: list[Reader] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        """Make what reads the arguments, once: it runs before each call."""
        self._readers.extend(map(reader, self.sources))

    def arguments(self, scope: dict[str, Any]) -> list[Any]:
        """The arguments in a frame.

        Args:
            scope: the frame's locals as "L" and its globals as "G", as Dynamo names them.
        """
        return [read(scope) for read in self._readers]

    def fresh(self, scope: dict[str, Any]) -> Any:
        """The value in a frame that begins."""
        arguments = self.arguments(scope)
        value = self.run(arguments, scope.get(_MEMO))
        if self.kept:
            self._recent.last = [_Seen.of(argument) for argument in arguments], value
        return value

    def __call__(self, L: dict[str, Any], G: dict[str, Any]) -> Any:
        """The same, as the text of a guard asks for it."""
        return self.fresh({"L": L, "G": G})

    def in_lookup(self, f_locals: dict[str, Any], f_globals: dict[str, Any]) -> Any:
        """The value in a frame that looks for its compiled version; computed once for all versions.

        Args:
            f_locals: the frame's locals. Dynamo makes this dict for one lookup.
            f_globals: the frame's globals.
        """
        known = f_locals.setdefault(_LOOKUP, {})
        if self.label not in known:
            memo = known.setdefault(_MEMO, {})
            scope = {"L": f_locals, "G": f_globals, _MEMO: memo}
            if torch._C._len_torch_dispatch_stack() == 0:
                value = self.fresh(scope)
            elif any(map(_watches, _get_current_dispatch_mode_stack())):
                return NO_ANSWER
            else:
                with _disable_current_modes():
                    value = self.fresh(scope)
            known[self.label] = value, getattr(self._recent, "last", None)
        value, last = known[self.label]
        if self.kept:
            self._recent.last = last
        return value

    def recent(self, *arguments: Any) -> Any:
        """The value that was just computed for the guards of the frame that is running."""
        value = self.seen(*arguments)
        self._recent.last = None
        return value

    def seen(self, *arguments: Any) -> Any:
        """The same, to be asked again: a guard may still rest on the very object."""
        last = getattr(self._recent, "last", None)
        if last is not None and all(
            seen.is_still(given) for seen, given in zip(last[0], arguments, strict=True)
        ):
            return last[1]
        return self.run(arguments)

    def text(self) -> Slice:
        """The value's text, which tells 0.0 from -0.0."""
        label, function, shared = f"text of {self.label}", self.function, self.shared
        return Slice(
            label,
            self.sources,
            lambda *arguments: repr(function(*arguments)),
            shared=shared and (lambda arguments, memo: repr(shared(arguments, memo))),
        )

    def run(self, arguments: Sequence[Any], memo: Memo | None = None) -> Any:
        """The value for some arguments.

        Args:
            arguments: of the slice.
            memo: of the lookup in which it is asked for; None outside of one.
        """
        if not torch.is_grad_enabled():
            return self._computed(arguments, memo)
        torch._C._set_grad_enabled(False)  # as `no_grad`, which takes longer than an operator
        try:
            return self._computed(arguments, memo)
        finally:
            torch._C._set_grad_enabled(True)

    def _computed(self, arguments: Sequence[Any], memo: Memo | None) -> Any:
        if memo is None or self.shared is None:
            return self.function(*arguments)
        return self.shared(arguments, memo)


NO_ANSWER: Final = object()
"""What no compiled version rests on. Under a mode of the user's, Dynamo runs a frame eagerly: the
mode sees the operators of the frame, and none of ours."""


def _watches(mode: TorchDispatchMode) -> bool:
    """Whether a mode sees the operators of programs, and not only what compilers are about."""
    return not (mode.is_infra_mode() or mode.ignore_compile_internals())


_LOOKUP = "___graphmend_bc_lookup"
"""The key under which the locals of a lookup hold what was computed in it."""

_MEMO = "memo"
"""The key of what it remembers of parts of slices; no label is one word."""


def end_lookup(f_locals: dict[str, Any]) -> None:
    """Forget what was computed in a lookup that has found nothing.

    Args:
        f_locals: the frame's locals.
    """
    f_locals.pop(_LOOKUP, None)


@dataclass(frozen=True, slots=True)
class _Seen:
    """An argument as it was."""

    value: Callable[[], Any]
    version: int

    @classmethod
    def of(cls, argument: Any) -> _Seen | _SeenList:
        if type(argument) is list:
            return _SeenList(tuple(argument), _versions(argument))
        if isinstance(argument, torch.Tensor):
            return cls(weakref.ref(argument), _version(argument))
        return cls(lambda: argument, 0)

    def is_still(self, argument: Any) -> bool:
        """True if the argument is the same and nobody changed it."""
        if isinstance(argument, torch.Tensor):
            return self.value() is argument and self.version == _version(argument)
        known = self.value()
        return type(known) is type(argument) and bool(known == argument)


@dataclass(frozen=True, slots=True)
class _SeenList:
    """A list as it was."""

    items: tuple[Any, ...]
    versions: list[int]

    def is_still(self, argument: Any) -> bool:
        """True if the list holds the same and nobody changed it."""
        return (
            type(argument) is list
            and len(argument) == len(self.items)
            and all(map(operator.is_, argument, self.items))
            and _versions(argument) == self.versions
        )


def _versions(values: list[Any]) -> list[int]:
    try:
        return [value._version for value in values]
    except (AttributeError, RuntimeError):  # one is no tensor, or one of inference
        return [*map(_version, values)]


def _version(value: Any) -> int:
    if not isinstance(value, torch.Tensor) or value.is_inference():
        return 0
    return value._version


@dataclass(frozen=True, slots=True)
class Limits:
    """What a slice may cost.

    Attributes:
        ops: most operators.
        elements: most elements that they compute together; None for as many as there are.
        dear: whether matrix products and the like may be among them.
        draws: whether random numbers may be drawn.
    """

    ops: int
    elements: int | None = None
    dear: bool = False
    draws: bool = False

    @classmethod
    def of_hoists(cls) -> Limits:
        """What is set for values that are computed before the graph."""
        return cls(config.hoist_op_limit, config.hoist_size_limit)


def slice_of(
    operands: Sequence[Node],
    finish: Callable[..., Any],
    name: str,
    recorder: Recorder,
    limits: Limits,
    *,
    numbers: bool = False,
    levels: Levels | None = None,
) -> Slice:
    """The slice of a graph that computes some of its nodes.

    Args:
        operands: nodes of the graph that is being traced.
        finish: from their values to the slice's value.
        name: says where, and all that `finish` does: the same name, the same function.
        recorder: of the trace so far.
        limits: what it may cost.
        numbers: whether `finish` gives Python numbers, whatever the tensors are like otherwise.
        levels: the graphs that the nodes are of; None if all are of one.

    Raises:
        Refused: it depends on more than the inputs, draws, writes to what it did not make, or costs
            too much.
    """
    levels = levels or Levels(tuple({node.graph: None for node in operands}))
    nodes, writers = _needed(operands, levels, Counter(recorder.written))
    for graph in levels.graphs if nodes else ():
        check_modes(graph, set(nodes), numbers=numbers)
    graph, copies = Graph(), dict[Node, Node]()
    sources: list[Source] = []
    sizes: dict[Node, int] = {}
    for node in nodes:
        if (given := levels.around.get(node)) is not None:
            copies[node], sizes[node] = copies[given], 0
            continue
        sizes[node] = _numel(node, sizes) if limits.elements is not None else 0
        if node.op == "placeholder":
            sources.append(source_of(node))
        else:
            _check(node, limits, writes=node in writers)
            if node in recorder.drawing and not limits.draws:
                raise Refused("hoist-not-input", f"{node.name} draws random numbers.")
        copies[node] = _copied(graph, node, copies)
    inner = filter(None, dict.fromkeys(map(_slice_in, sources)))
    ops = len(set(nodes) - levels.around.keys()) + sum(piece.ops for piece in inner)
    size = sum(count for node, count in sizes.items() if node.op != "placeholder")
    if ops > limits.ops or (limits.elements is not None and size > limits.elements):
        raise Refused(
            "hoist-too-dear", f"It takes {many(ops, 'operator')} on {many(size, 'element')}."
        )
    graph.output(tuple(copies[node] for node in operands))
    module = GraphModule(torch.nn.Module(), graph)
    text = "\n".join([name, module.code, *(source.name for source in sources)])
    label = f"{name} {hashlib.sha1(text.encode()).hexdigest()[:12]}"
    run = module.forward  # a call of the module would print what is raised, and run hooks
    # What is written in place is another value before and after.
    alone = bool(writers) or levels.is_nested
    steps = None if alone else shared_steps(recorder.sliced, copies, operands)
    return Slice(
        label,
        tuple(sources),
        lambda *arguments: finish(*run(*arguments)),
        ops,
        written=written_inputs(nodes[0].graph, recorder) if nodes else (),
        shared=steps and (lambda arguments, memo: finish(*steps(arguments, memo))),
    )


def written_inputs(
    graph: Graph, recorder: Recorder, elements: int | None = None
) -> tuple[Source, ...]:
    """Inputs of a graph that were changed in place by now.

    Args:
        graph: so far.
        recorder: of the trace.
        elements: how many they have, if only those are wanted.

    Raises:
        Refused: one cannot be found again.
    """
    if not recorder.written:
        return ()
    written = set(recorder.written)
    inputs = [n for n in graph.nodes if is_input(n) and not written.isdisjoint(storages([n]))]
    if elements is not None:
        inputs = [n for n in inputs if n.meta["example_value"].numel() == elements]
    return tuple(map(source_of, inputs))


def _copied(graph: Graph, node: Node, copies: Mapping[Node, Node]) -> Node:
    """A node in another graph, under a name that says nothing of where it was: it is in labels."""
    args = map_arg(node.args, copies.__getitem__)
    kwargs = map_arg(node.kwargs, copies.__getitem__)
    return graph.create_node(node.op, node.target, args, kwargs, type_expr=node.type)


def _slice_in(source: Source) -> Slice | None:
    """The slice whose value, or a part of it, a source is."""
    inner: Any = source
    while inner is not None and not isinstance(piece := getattr(inner, "slice", None), Slice):
        inner = getattr(inner, "base", None)
    return None if inner is None else piece


def _needed(
    operands: Sequence[Node], levels: Levels, written: Counter[int]
) -> tuple[list[Node], set[Node]]:
    """The nodes with everything they are computed from, in the order of the graphs.

    Returns:
        The nodes, and those of them that write to memory which the graph made.

    Raises:
        Refused: what an input of the graph holds was changed, or it is not known by which nodes.
    """
    if not operands:
        return [], set()
    found = _with_ancestors(set(), operands, levels)
    if levels.is_nested:
        if storages(found) & written.keys():
            raise Refused("hoist-not-input", "Memory was changed in place before.")
        return [node for graph in levels.graphs for node in graph.nodes if node in found], set()
    (graph,) = levels.graphs
    inputs, writers, seen = input_storages(graph), set[Node](), set[int]()
    while changed := (storages(found) & written.keys()) - seen:
        seen |= changed
        for node in found:
            if not inputs.isdisjoint(changed & storages([node])):
                raise Refused("hoist-not-input", f"{node.name} was changed in place before.")
        for storage in changed:
            known = [node for node in graph.nodes if is_writing(node) and storage in _target(node)]
            if len(known) != written[storage]:
                raise Refused("hoist-not-input", "Memory was changed in place before.")
            writers.update(known)
            found = _with_ancestors(found, known, levels)
    return [node for node in graph.nodes if node in found], writers


def _with_ancestors(found: set[Node], operands: Iterable[Node], levels: Levels) -> set[Node]:
    work, found = list(operands), set(found)
    while work:
        node = work.pop()
        if node not in found:
            found.add(node)
            around = levels.around.get(node)
            work += node.all_input_nodes if around is None else [around]
    return found


def _target(node: Node) -> set[int]:
    """The memory that a node writes to: that of its first argument."""
    target = node.args[0] if node.args else None
    return storages([target]) if isinstance(target, Node) else set()


def source_of(node: Node) -> Source:
    """Where a frame finds an input of its graph.

    Args:
        node: the input.

    Raises:
        Refused: it cannot be found there.
    """
    source = input_source(node)
    if source is None or source.is_ephemeral():
        raise Refused("hoist-not-input", "An input of the graph has no name in the frame.")
    return source


def _check(node: Node, limits: Limits, *, writes: bool) -> None:
    if node.op not in ("call_function", "call_method"):
        raise Refused("hoist-not-input", f"The graph holds {node.name} itself.")
    target = node.target
    name = name_called(node) or str(target)
    foreign = (
        isinstance(target, HigherOrderOperator)
        or (isinstance(target, OpOverload) and not _only_computes(target))
        or is_opaque(target)
        or "functorch" in str(getattr(target, "__module__", ""))  # means nothing without its level
    )
    if foreign or has_out(node) or (is_writing(node) and not writes):
        raise Refused("hoist-not-input", f"{name} is not run twice.")
    if not limits.dear and any(part in name for part in _DEAR):
        raise Refused("hoist-too-dear", f"It needs the result of {name}.")


def _only_computes(operator: OpOverload) -> bool:
    return operator.namespace in ("aten", "prims") or is_numpys(operator)


def _numel(node: Node, sizes: Mapping[Node, int]) -> int:
    """How many elements a node computes: as its inputs have, if that is known only at run time."""
    total = 0
    for tensor in tensors_of(node):
        if free_unbacked_symbols(tensor):
            total += max((sizes[given] for given in node.all_input_nodes), default=0)
            continue
        numel = tensor.numel()
        total += numel if isinstance(numel, int) else numel.node.hint
    return total
