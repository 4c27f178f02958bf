"""Calls whose result Dynamo cannot know: it is computed before the graph and enters as an input."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

import torch
from torch._dynamo import variables as vts
from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.source import GetItemSource
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import ValueMutationNew, VariableTracker
from torch._dynamo.variables.builder import VariableBuilder
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.tensor import SymNodeVariable
from torch._guards import Source
from torch.fx import GraphModule, Node

from graphmend_bc.dynamo.arguments import Args, Keywords, Translator
from graphmend_bc.dynamo.before_graph.apart_guards import guard_apart
from graphmend_bc.dynamo.before_graph.call_template import filled_template, template_of
from graphmend_bc.dynamo.before_graph.computed_source import HoistedSource, hoisted_source
from graphmend_bc.dynamo.before_graph.graph_slice import Limits, Slice, slice_of
from graphmend_bc.dynamo.before_graph.integer_arguments import takes_integer
from graphmend_bc.dynamo.before_graph.mutation_check import check_unchanged, copies_of
from graphmend_bc.dynamo.before_graph.subgraphs import CheckpointedSites, Levels, levels_of
from graphmend_bc.dynamo.before_graph.unused_nodes import drop_unused
from graphmend_bc.dynamo.calls.callees import MarkedCalleeVariable
from graphmend_bc.dynamo.graph.cuda_graphs import is_rerecorded
from graphmend_bc.dynamo.host_values.host_reads import is_plain
from graphmend_bc.dynamo.symbols.array_numbers import has_array, is_no_number
from graphmend_bc.dynamo.symbols.known_integers import is_index
from graphmend_bc.dynamo.symbols.tensor_slices import TensorSliceVariable
from graphmend_bc.dynamo.trace import tracing
from graphmend_bc.dynamo.trace.compilation import Compilation, SiteRefused
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import CalledOperation, Marker, Site, set_item
from graphmend_bc.runtime.signal_handlers import pass_on


@dataclass(slots=True, eq=False)
class Hoists(Feature):
    """What is computed before the graph.

    Attributes:
        sites: of the values, once for each.
        lists: hashes of those that are lists of numbers, which have more values than a number has.
        numbers: those that are numbers, by what computes them. They are read once.
        nodes: of the graph that they are computed from.
    """

    order: ClassVar[int] = 55

    sites: list[Site] = field(default_factory=list)
    lists: dict[Site, int] = field(default_factory=dict)
    numbers: dict[str, VariableTracker] = field(default_factory=dict)
    nodes: list[Node] = field(default_factory=list)

    def on_proof(self, gm: GraphModule, written: list[int], opaque: list[Node]) -> None:
        """What only these values used has run in the guards of the call, and need not again."""
        drop_unused(gm, self.nodes)

    def note(self, site: Site, value: object) -> None:
        """A value is an input of the graph."""
        self.sites.append(site)
        numbers = list(filter(_is_number, torch.utils._pytree.tree_leaves(value)))
        if len(numbers) > 1:
            self.lists[site] = hash((self.lists.get(site), *numbers))

    def give_up_numbers(self, detail: str) -> None:
        if self.sites:
            raise SiteRefused(Refused("hoist-varies", detail), *dict.fromkeys(self.sites))


def hoisted(
    tx: InstructionTranslatorBase,
    compilation: Compilation,
    marker: Marker,
    args: list[VariableTracker],
) -> VariableTracker:
    """Handler: a callee whose call is to run before the graph, such an item, or one that is set."""
    if not isinstance(marker, CalledOperation):
        return HoistedCalleeVariable(marker.site, args[0], compilation)
    operands = args[0].unpack_var_sequence(tx)
    item = HoistedCalleeVariable(marker.site, vts.BuiltinVariable(marker.function), compilation)
    if marker.function is not set_item:
        return item.call_function(tx, operands, {})
    value, owner, key = operands
    try:
        key = item.key_of(tx, owner, key)
    except Refused as refused:
        compilation.trace.refused[marker.site] = refused
    return tracing.inline(tx, set_item, value, owner, key)


class HoistedCalleeVariable(MarkedCalleeVariable):
    """The callee of a call that is to run before the graph."""

    def value(self, tx: Translator, args: Args, kwargs: Keywords) -> VariableTracker:
        """The call's value as an input of the graph."""
        levels = self.check(tx)
        if isinstance(callee := self.callee.realize(), vts.BuiltinVariable) and callee.fn is range:
            return callee.call_function(tx, [self.number(tx, arg) for arg in args], kwargs)
        if (called := self._with_numbers(tx, callee, args, kwargs)) is not None:
            return called
        if isinstance(callee, vts.BuiltinVariable) and callee.fn is operator.getitem:
            if is_no_number(args[1].realize()) and not is_plain(args[0]):
                raise Refused("hoist-not-input", "NumPy makes no index of an array, even of one.")
            if not _is_mask(key := self._selecting(tx, args[1])):
                return callee.call_function(tx, [args[0], key], kwargs)
            args = [args[0], key]
        elif any(map(has_array, (*args, *kwargs.values()))):
            raise Refused("hoist-not-input", "torch asks NumPy's arrays for no numbers.")
        trace = self.compilation.trace
        hoists = trace.of(Hoists)
        function, operands = _called(self.callee.realize(), [arg.realize() for arg in args])
        nodes, finish, what = _bound(function, operands, kwargs)
        if not nodes:
            raise Refused("hoist-not-input", "It asks no tensor.")
        assert trace.recorder is not None
        name = f"{self.site.name}:{self.site.lineno} {what}"
        numbers = function in _READS
        piece = slice_of(
            nodes, finish, name, trace.recorder, self.limits(), numbers=numbers, levels=levels
        )
        guard_apart(piece)
        # Dynamo drops a node that nothing uses by itself, and with it what it was computed from.
        hoists.nodes += [given for node in nodes for given in (*node.all_input_nodes, node)]
        if piece.label not in hoists.numbers:
            value = self._as_input(tx, piece, nodes, levels)
            if not isinstance(value, (ConstantVariable, SymNodeVariable)):
                return value
            hoists.numbers[piece.label] = value
        trace.used[self.site] = "hoist"
        return hoists.numbers[piece.label]

    def _as_input(
        self, tx: InstructionTranslatorBase, piece: Slice, nodes: list[Node], levels: Levels
    ) -> VariableTracker:
        """What a slice computes from nodes of the graph, as an input of the graph."""
        trace = self.compilation.trace
        hoists = trace.of(Hoists)
        value = evaluated(tx, piece)
        if levels.is_nested and type(value) is not bool:
            raise Refused("inside-function", "Only a truth value is computed before it.")
        if not piece.sources and (known := _constant(value)) is not None:
            trace.used[self.site] = "hoist"
            return known
        if not _is_number(value):  # eager Python gets another tensor, or list, each time
            piece = replace(piece, label=f"{piece.label} {len(hoists.sites)}")
        _check_gradient(nodes, value)
        if any(type(v) is float and v == 0 for v in torch.utils._pytree.tree_leaves(value)):
            # A guard on the number does not tell 0.0 from -0.0; one on its text does.
            text = piece.text()
            install_guard(HoistedSource(text.label, text).make_guard(GuardBuilder.CONSTANT_MATCH))
        hoists.note(self.site, value)
        if levels.is_nested:
            trace.of(CheckpointedSites).note(tx, self.site)
        wrapped = _wrap(tx, value, hoisted_source(tx, piece))
        if _varies(wrapped) and is_rerecorded(tx):
            raise SiteRefused(Refused("hoist-and-cuda-graphs"), self.site)
        trace.used[self.site] = "hoist"
        return wrapped

    def key_of(
        self, tx: InstructionTranslatorBase, owner: VariableTracker, key: VariableTracker
    ) -> VariableTracker:
        """The key of an assignment to an item of a tensor, with numbers for tensors in it.

        Raises:
            Refused: one of them cannot be computed before the graph.
        """
        self.check(tx)
        return self._selecting(tx, key) if is_plain(owner) else key

    def check(self, tx: InstructionTranslatorBase) -> Levels:
        """The graphs that the call is traced into.

        Raises:
            Refused: nothing can be computed before them.
        """
        if tx.export or self.compilation.is_saved:
            raise Refused("under-export", "It would be computed outside of the graph.")
        return levels_of(tx)

    def limits(self) -> Limits:
        """What the slice may cost."""
        return Limits.of_hoists()

    def _with_numbers(
        self, tx: Translator, callee: VariableTracker, args: Args, kwargs: Keywords
    ) -> VariableTracker | None:
        """The call with numbers for tensors of whole numbers; None if there are none."""
        first, function = _operator(callee)
        numbers = [
            self._numbers(tx, arg) if takes_integer(function, first + place) else arg
            for place, arg in enumerate(args)
        ]
        named = {
            name: self._numbers(tx, arg) if takes_integer(function, name) else arg
            for name, arg in kwargs.items()
        }
        if all(map(operator.is_, (*numbers, *named.values()), (*args, *kwargs.values()))):
            return None
        return callee.call_function(tx, numbers, named)

    def _numbers(self, tx: InstructionTranslatorBase, operand: VariableTracker) -> VariableTracker:
        """An operand with numbers for what it is or holds; itself if there are no tensors."""
        known = operand.realize()
        if isinstance(known, (vts.TupleVariable, vts.ListVariable)):
            if any(is_plain(item) for item in known.items):
                return vts.TupleVariable([self.number(tx, item) for item in known.items])
            return operand
        return self.number(tx, known) if is_plain(known) else operand

    def _selecting(self, tx: InstructionTranslatorBase, key: VariableTracker) -> VariableTracker:
        """A key with numbers for the tensors in it that select by their number."""
        key = key.realize()
        if type(key) is vts.TupleVariable:
            return vts.TupleVariable([self._selecting(tx, item) for item in key.items])
        if isinstance(key, TensorSliceVariable):
            return vts.SliceVariable([self.number(tx, bound) for bound in key.bounds])
        return self.number(tx, key) if is_index(key) else key

    def number(self, tx: InstructionTranslatorBase, operand: VariableTracker) -> VariableTracker:
        """An operand, or the number that it is if it is a tensor of whole numbers.

        Raises:
            Refused: it cannot be computed before the graph.
        """
        operand = operand.realize()
        if not is_plain(operand):
            return operand
        tensor = operand.as_proxy().node.meta["example_value"]
        if tensor.dtype not in _INTEGERS:
            raise Refused("hoist-not-input", f"It is a tensor of {tensor.dtype}.")
        if is_no_number(operand):
            raise Refused("hoist-not-input", "NumPy makes no index of an array, even of one.")
        index = HoistedCalleeVariable(self.site, vts.BuiltinVariable(int), self.compilation)
        return index.value(tx, [operand], {})


def _operator(callee: VariableTracker) -> tuple[int, Any]:
    """What is called as `takes_integer` wants it, and the position of its first argument."""
    if isinstance(callee, vts.GetAttrVariable) and is_plain(callee.obj):
        return 1, callee.name
    return 0, callee.value if isinstance(callee, vts.TorchInGraphFunctionVariable) else None


def _is_mask(key: VariableTracker) -> bool:
    """True for a key by which a tensor of unknown size may be chosen."""
    items = key.items if type(key) is vts.TupleVariable else [key]
    return any(is_plain(item) or isinstance(item, vts.ListVariable) for item in items)


_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


@dataclass(frozen=True)
class _Method:
    """A method of tensors, by name."""

    __name__: str

    def __call__(self, tensor: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return getattr(tensor, self.__name__)(*args, **kwargs)


_READS = frozenset((int, float, bool, _Method("item"), _Method("tolist")))
"""What gives numbers."""


def _called(
    callee: VariableTracker, args: list[VariableTracker]
) -> tuple[Callable[..., Any], list[VariableTracker]]:
    """A Python function that does what the callee does, and its operands."""
    if isinstance(callee, vts.GetAttrVariable) and is_plain(callee.obj):
        return _Method(callee.name), [callee.obj, *args]
    if isinstance(callee, vts.BuiltinVariable) and callee.fn in (
        int,
        float,
        bool,
        operator.getitem,
    ):
        return callee.fn, args
    if isinstance(callee, vts.TorchInGraphFunctionVariable):
        return callee.value, args
    raise Refused("call-not-traced")


def _bound(
    function: Callable[..., Any],
    operands: list[VariableTracker],
    kwargs: dict[str, VariableTracker],
) -> tuple[list[Node], Callable[..., Any], str]:
    """The nodes of the operands that are tensors, the function of those alone, and its name."""
    nodes: list[Node] = []
    fixed = [template_of(operand, nodes) for operand in operands]
    named = {name: template_of(value, nodes) for name, value in kwargs.items()}

    def finish(*tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        args = [filled_template(form, given) for form in fixed]
        value = function(
            *args, **{name: filled_template(form, given) for name, form in named.items()}
        )
        _check_own(value, tensors)
        return value

    home = getattr(function, "__module__", None)
    return nodes, finish, f"{home}.{getattr(function, '__name__', function)} {fixed} {named}"


def _check_own(value: Any, tensors: Sequence[torch.Tensor]) -> None:
    """Refuse a view: writes to it would not be seen in the tensor, nor the other way."""
    known = {tensor.untyped_storage().data_ptr() for tensor in tensors} - {0}
    for leaf in torch.utils._pytree.tree_leaves(value):
        if isinstance(leaf, torch.Tensor) and leaf.untyped_storage().data_ptr() in known:
            raise Refused("hoist-not-input", "It is a view of another tensor.")


def _check_gradient(nodes: list[Node], value: Any) -> None:
    """Refuse a value that eager Python could send a gradient back from."""
    wanted = torch.is_grad_enabled() and any(
        node.meta["example_value"].requires_grad for node in nodes
    )
    leaves = torch.utils._pytree.tree_leaves(value)
    if wanted and any(isinstance(t, torch.Tensor) and t.is_floating_point() for t in leaves):
        raise Refused("hoist-not-input", "Its gradient may be asked for.")


def evaluated(tx: InstructionTranslatorBase, piece: Slice) -> Any:
    """The value in this call.

    Raises:
        Refused: it cannot be computed, draws, changes an input, or is of a type that cannot enter
            the graph.
    """
    root = tx.output.root_tx
    scope = {"L": root.f_locals, "G": root.f_globals}
    if not piece.sources:
        return _checked(lambda: piece.fresh(scope))

    def on_copies() -> None:
        arguments = piece.arguments(scope)
        copies = copies_of(arguments)
        piece.run(copies)
        check_unchanged(copies, arguments)

    _checked(on_copies)
    return _checked(lambda: piece.fresh(scope))


def _checked(compute: Callable[[], Any]) -> Any:
    """What a computation gives that neither raises nor draws."""
    before = torch.get_rng_state()
    try:
        value = compute()
    except Refused:
        raise
    except Exception as error:
        pass_on(error)
        raise Refused("hoist-not-input", f"It raises {type(error).__name__}.") from error
    if not torch.equal(before, torch.get_rng_state()):
        torch.set_rng_state(before)
        raise Refused("hoist-not-input", "It draws random numbers.")
    return value


def _constant(value: Any) -> VariableTracker | None:
    """Numbers that rest on no input: the same in every call, so that no guard need ask for them."""
    if _is_number(value):
        return cast(VariableTracker, ConstantVariable.create(value))
    if type(value) not in (list, tuple):
        return None
    items = [known for item in value if (known := _constant(item)) is not None]
    if len(items) != len(value):
        return None
    if type(value) is tuple:
        return vts.TupleVariable(items)
    return vts.ListVariable(items, mutation_type=ValueMutationNew())


def _wrap(tx: InstructionTranslatorBase, value: Any, source: Source) -> VariableTracker:
    """The value as an input with guards; containers are new in every call."""
    if type(value) in (list, tuple):
        install_guard(source.make_guard(GuardBuilder.SEQUENCE_LENGTH))
        items = [_wrap(tx, item, GetItemSource(source, i)) for i, item in enumerate(value)]
        if type(value) is tuple:
            return vts.TupleVariable(items)
        return vts.ListVariable(items, mutation_type=ValueMutationNew())
    if not _is_number(value) and not _is_index(value):
        raise Refused("hoist-not-input", f"It gives a value of type {type(value).__name__}.")
    if type(value) is float:  # Dynamo would make an unknown of the second value
        install_guard(source.make_guard(GuardBuilder.CONSTANT_MATCH))
        return ConstantVariable.create(value)
    return VariableBuilder(tx, source)(value)


def _varies(wrapped: VariableTracker) -> bool:
    """Whether a number, or a size of a tensor, is a symbol: it was another one before."""
    if isinstance(wrapped, (vts.TupleVariable, vts.ListVariable)):
        return any(map(_varies, wrapped.items))
    if isinstance(wrapped, vts.TensorVariable):
        shape = wrapped.as_proxy().node.meta["example_value"].shape
        return any(isinstance(size, torch.SymInt) for size in shape)
    return isinstance(wrapped, SymNodeVariable)


def _is_number(value: object) -> bool:
    """True for an int, a bool or a float of Python's."""
    return type(value) in (int, bool, float)


def _is_index(value: Any) -> bool:
    """True for a tensor without a gradient."""
    return type(value) is torch.Tensor and not value.requires_grad
