"""Keep the arguments of a deferred call as they are when the call is traced."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from string import Formatter
from typing import Any, cast

import torch
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import ValueMutationNew, VariableTracker
from torch._dynamo.variables.builder import wrap_fx_proxy
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.dicts import ConstDictVariable
from torch._dynamo.variables.lists import ListVariable, SizeVariable, TupleVariable
from torch._dynamo.variables.misc import StringFormatVariable
from torch._dynamo.variables.tensor import SymNodeVariable, TensorVariable
from torch._dynamo.variables.user_defined import UserDefinedObjectVariable
from torch.fx import GraphModule, Node

from graphmend_bc.dynamo.graph.fx_nodes import input_storages, is_input
from graphmend_bc.dynamo.host_values.autograd_repr import (
    AutogradReprVariable,
    guard_on_leaf,
    node_of,
)
from graphmend_bc.dynamo.host_values.chosen_value import ChosenVariable
from graphmend_bc.dynamo.host_values.host_value import HostVariable
from graphmend_bc.dynamo.host_values.passed_objects import check_whole, is_fixed
from graphmend_bc.dynamo.host_values.text_settings import is_moved, note_shown
from graphmend_bc.dynamo.trace.compilation import Compilation, TextsMoved, Trace
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.legality.storage import storage_of
from graphmend_bc.reporting.reasons import Refused


@dataclass(slots=True, eq=False)
class Snapshots(Feature):
    """What is kept as it was.

    Attributes:
        copies: nodes that copy an effect's argument, with the number of writes before.
        read: the same of what is read as soon as the graph has run.
        formatted: copies of what texts were made of, as it was then.
        texts: those that are shown by an effect, which was shown to be exact.
        texts_of_objects: whether one of them is made of an object.
    """

    copies: list[tuple[Node, int]] = field(default_factory=list)
    read: list[tuple[Node, int]] = field(default_factory=list)
    formatted: list[VariableTracker] = field(default_factory=list)
    texts: list[VariableTracker] = field(default_factory=list)
    texts_of_objects: bool = False

    def on_proof(self, gm: GraphModule, written: list[int], opaque: list[Node]) -> None:
        """An effect's argument is copied only if something writes to it before the effect runs.

        Two inputs may be views of the same memory in another call, so a write to one may reach all.
        Of an input's memory what is read stays a copy: backends make views of outputs anew.
        """
        dropped = False
        alive = set(gm.graph.nodes)
        inputs = input_storages(gm.graph)
        noted = [*((*one, False) for one in self.copies), *((*one, True) for one in self.read)]
        for copy, since, is_read in noted:
            if copy not in alive or opaque:
                continue
            source = copy.args[0]
            assert isinstance(source, Node)
            storage, later = storage_of(source.meta["example_value"]), set(written[since:])
            reached = storage in later or (storage in inputs and later & inputs)
            if not (is_input(source) or reached or (is_read and storage in inputs)):
                copy.replace_all_uses_with(source)
                gm.graph.erase_node(copy)
                dropped = True
        if dropped:
            gm.recompile()


def formatted_in(trace: Trace) -> Sequence[VariableTracker]:
    """Copies of what texts were made of so far."""
    snapshots = trace.known(Snapshots)
    return () if snapshots is None else snapshots.formatted


class Snapshotter:
    """Makes values that will still be what they are now when the graph has run.

    Args:
        tx: translator of the frame in which the call stands.
        compilation: what is being compiled.
        gradients: what to do with a tensor that has a gradient: "show" its node, take its
            "numbers" alone, or "refuse" it.
        use: what the call does with an object of the user's; see `Observer.objects`.

    Attributes:
        objects: those that are passed as they are.
    """

    def __init__(
        self,
        tx: InstructionTranslatorBase,
        compilation: Compilation,
        gradients: str = "show",
        use: str = "",
    ) -> None:
        self.tx = tx
        self.gradients = gradients
        self.use = use
        self.objects: list[VariableTracker] = []
        self._open: list[VariableTracker] = []
        self.trace = compilation.trace
        self.snapshots = compilation.trace.of(Snapshots)
        self.exact_texts = compilation.exact_texts
        self.recorder = compilation.trace.listen(tx.output)

    def __call__(self, value: VariableTracker) -> VariableTracker:
        """The value to pass to the call later.

        Raises:
            Refused: it cannot be kept.
        """
        value = value.realize()
        if any(value is outer for outer in self._open):
            raise Refused("effect-argument", "It holds itself.")
        self._open.append(value)
        try:
            return self._kept(value)
        finally:
            self._open.pop()

    def _kept(self, value: VariableTracker) -> VariableTracker:
        if isinstance(value, TensorVariable):
            return self._tensor(value)
        if isinstance(value, StringFormatVariable):
            return self._text(value)
        if type(value) is ListVariable:
            items = [self(item) for item in value.items]
            return ListVariable(items, mutation_type=ValueMutationNew())
        if type(value) in (TupleVariable, SizeVariable):
            make, items = cast(Any, type(value)), cast(Any, value).items
            return cast(VariableTracker, make([self(item) for item in items]))
        if type(value) is ConstDictVariable and value.python_type() is dict:
            return self._dict(value)
        if lasts(value) or is_fixed(value):
            return value
        if isinstance(value, ChosenVariable):
            value.refuse("a call that is put off")
        return self._whole(value)

    def _whole(self, value: VariableTracker) -> VariableTracker:
        """An object that is passed as it is."""
        check_whole(self.tx, value, self.use)
        note_shown(self.tx, self.trace)
        self.objects.append(value)
        return value

    def _dict(self, value: ConstDictVariable) -> VariableTracker:
        keys = [key.vt.realize() for key in value.items]
        if not all(is_fixed(key) for key in keys):
            raise Refused("effect-argument", "A key of a dict is no constant.")
        items = {key: self(item) for key, item in zip(keys, value.items.values(), strict=True)}
        return ConstDictVariable(items, mutation_type=ValueMutationNew())

    def _text(self, value: StringFormatVariable) -> VariableTracker:
        if is_moved(self.trace, value):
            raise Refused("effect-settings")
        plain, before = "!" not in value.format_string, len(self.objects)

        def piece(arg: VariableTracker) -> VariableTracker:
            arg = arg.realize()
            if any(arg is made for made in self.snapshots.formatted):
                return arg
            if is_container(arg):
                raise Refused("effect-argument", "A text shows a container as it was before.")
            if plain and isinstance(arg, TensorVariable):
                return self._tensor(arg, as_number=True)
            try:
                return self(arg)
            except Refused as refused:
                if isinstance(arg, UserDefinedObjectVariable) and not self.exact_texts:
                    raise TextsMoved from refused
                raise

        args = [piece(arg) for arg in value.sym_args]
        kwargs = {name: piece(arg) for name, arg in value.sym_kwargs.items()}
        if len(self.objects) > before and not _is_bare(value.format_string):
            raise Refused("effect-argument", "An object is formatted by a specification.")
        text = StringFormatVariable(value.format_string, args, kwargs)
        self.snapshots.texts.append(text)
        self.snapshots.texts_of_objects |= len(self.objects) > before
        return text

    def _tensor(self, value: TensorVariable, as_number: bool = False) -> VariableTracker:
        note_shown(self.tx, self.trace)
        example = value.as_proxy().node.meta["example_value"]
        if value.python_type() is torch.nn.Parameter and self.use == "text":
            return self._whole(value)
        if value.python_type() is not torch.Tensor:
            raise Refused("effect-argument", "It is a parameter or another kind of tensor.")
        if not example.requires_grad:
            return self._copy(value)
        plain = self._call(value, "detach")
        if self.gradients == "numbers" or (as_number and example.dim() == 0):
            return self._copy(plain)
        if self.gradients == "refuse" or self.trace.choices:
            raise Refused("effect-shows-grad")
        node = node_of(example)
        if not node and value.source is not None:
            guard_on_leaf(value.source)  # Dynamo's guards do not tell
        return AutogradReprVariable(self._copy(plain), node)

    def _copy(self, value: VariableTracker) -> VariableTracker:
        copy = self._call(value, "clone")
        self.snapshots.copies.append((copy.as_proxy().node, len(self.recorder.written)))
        return copy

    def _call(self, value: VariableTracker, method: str) -> VariableTracker:
        proxy = self.tx.output.create_proxy("call_method", method, (value.as_proxy(),), {})
        return wrap_fx_proxy(self.tx, proxy)


def lasts(value: VariableTracker) -> bool:
    """True for a value that nothing changes until the graph has run."""
    if isinstance(value, ChosenVariable):
        return value.lasts()
    return isinstance(value, (SymNodeVariable, HostVariable, AutogradReprVariable))


def is_container(value: VariableTracker) -> bool:
    """True for containers that are copied."""
    is_dict = type(value) is ConstDictVariable and value.python_type() is dict
    return is_dict or type(value) in (ListVariable, TupleVariable)


def kept_stream(value: VariableTracker) -> VariableTracker:
    """The stream a call writes to: the object itself, not a copy.

    Raises:
        Refused: it was made inside the compiled function.
    """
    value = value.realize()
    if value.source is None and not value.is_constant_none():
        raise Refused("effect-argument", "The stream was made inside the compiled function.")
    return value


def as_dict(values: dict[str, VariableTracker]) -> VariableTracker:
    """A new dict with constant keys."""
    items = {ConstantVariable.create(name): value for name, value in values.items()}
    return ConstDictVariable(items, mutation_type=ValueMutationNew())


def _is_bare(text: str) -> bool:
    """True for a format of fields alone, `{}` or `{!r}`, none of which looks inside its value."""
    return all(not spec and not name for _, name, spec, _ in Formatter().parse(text))
