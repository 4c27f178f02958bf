"""What happens at the seams: each function makes one of Dynamo's own into ours, which calls it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from contextlib import ExitStack
from types import CodeType
from typing import Any, cast

import torch
from torch._dynamo.variables.base import VariableTracker

from graphmend_bc import config
from graphmend_bc.dynamo.arguments import Args, Keywords
from graphmend_bc.dynamo.corrections import same_tensors
from graphmend_bc.dynamo.corrections.delegating_generators import listen_to_generators
from graphmend_bc.dynamo.deferral.called_effects import listen_for_effects
from graphmend_bc.dynamo.deferral.final_calls import check_nothing_is_last
from graphmend_bc.dynamo.frames.generated_code import OURS
from graphmend_bc.dynamo.frames.inlined_frames import is_in_coroutine
from graphmend_bc.dynamo.frames.profiler_labels import graph_with_label, without_torchs_marks
from graphmend_bc.dynamo.frames.stack_room import launched_by
from graphmend_bc.dynamo.graph.fx_nodes import keep_unused_indexing
from graphmend_bc.dynamo.host_values import host_arithmetic
from graphmend_bc.dynamo.host_values.host_value import host_among
from graphmend_bc.dynamo.predication.arm import Arms
from graphmend_bc.dynamo.predication.tensor_predicates import HostNumberVariable
from graphmend_bc.dynamo.rollback import graph_proof
from graphmend_bc.dynamo.rollback.deopt_wrapper import keeping_modes, watched
from graphmend_bc.dynamo.rollback.rollback_analysis import (
    Rollback,
    modes_of,
    note_frame,
    note_inlined,
)
from graphmend_bc.dynamo.speculation.survey import listen_to_jumps
from graphmend_bc.dynamo.symbols import captures
from graphmend_bc.dynamo.symbols.stored_integers import StoredIntegers
from graphmend_bc.dynamo.trace.asked_inputs import AskedInputs
from graphmend_bc.dynamo.trace.compilation import current
from graphmend_bc.dynamo.trace.features import Feature
from graphmend_bc.dynamo.verification.isolation import Isolation
from graphmend_bc.rewriting.origin import origin_of
from graphmend_bc.runtime.deferral.effects import naming_lost_effects


def trace_frame(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`trace_frame`: an attempt begins."""

    def trace_frame(code: CodeType, *args: Any, **kwargs: Any) -> Any:
        if (compilation := current()) is not None:
            compilation.start_trace()
            note_frame(compilation.trace, code)
        return stock(code, *args, **kwargs)

    return trace_frame


def output_graph(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`OutputGraph.__init__`: listen to the operators."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        stock(self, *args, **kwargs)
        compilation = current()
        if compilation is not None and compilation.may_mend:
            # From the start: the first rewritten code may be met late, in a callee.
            compilation.trace.listen_ahead(self)
            compilation.trace.of(StoredIntegers)
            listen_to_jumps(self.root_tx, compilation)
            listen_for_effects(self.root_tx, compilation, compilation.code)
        if compilation is not None and compilation.captures:
            compilation.trace.listen(self)  # what is known of masks makes symbols equal
            captures.listen_to_captures(self, compilation)

    return __init__


def inline(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`InliningInstructionTranslator.__init__`: trace the callee's rewritten code."""

    def __init__(self: Any, parent: Any, code: CodeType, *args: Any, **kwargs: Any) -> None:
        compilation, own = current(), code
        if compilation is None:
            stock(self, parent, code, *args, **kwargs)
            return
        if compilation.trace.arms:
            compilation.trace.of(Arms).check_budget(parent)
        in_coroutine = is_in_coroutine(parent, code)
        if not in_coroutine:
            code = compilation.traced_code(code)
        stock(self, parent, code, *args, **kwargs)
        if not in_coroutine:
            check_nothing_is_last(compilation.trace, own)
            note_inlined(compilation.trace, self, own)
        listen_to_jumps(self, compilation)
        listen_to_generators(self, compilation)
        if not in_coroutine:
            listen_for_effects(self, compilation, code)

    return __init__


def ends_graph(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`should_compile_partial_graph` of a callee, which is False but for `nested_graph_breaks`.

    Python cannot go on inside an arm or a function of this library: the program calls neither.
    """

    def should_compile_partial_graph(self: Any) -> bool:
        return stock(self) and not _is_inserted(self.f_code)

    return should_compile_partial_graph


def _is_inserted(code: CodeType) -> bool:
    """True for code that the program does not call itself."""
    origin = origin_of(code)
    return code.co_filename.startswith(OURS) or (origin is not None and origin.is_arm)


def call_user_compiler(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`OutputGraph.call_user_compiler`: prove the whole graph, then watch it."""

    def call_user_compiler(self: Any, gm: Any, *args: Any, **kwargs: Any) -> Any:
        compilation = current()
        if compilation is None:
            return stock(self, gm, *args, **kwargs)
        if config.verify:
            compilation.trace.of(Isolation)
        graph_proof.prove_graph(compilation, gm, self)
        launched = launched_by(gm.graph)
        kinds = [node.op for node in gm.graph.nodes]
        called = sum(map(kinds.count, ("call_function", "call_method", "call_module")))
        with ExitStack() as around:
            for feature in compilation.trace.obliged(Feature.while_compiled):
                around.enter_context(feature.while_compiled())
            compiled = stock(self, gm, *args, **kwargs)
        compiled = graph_with_label(compiled, self, launched)
        for feature in compilation.trace.obliged(Feature.wrapped):
            compiled = feature.wrapped(compilation, compiled)
        compiled = watched(compiled, compilation)
        compilation.graphs += 1
        compilation.operators.append(called)
        if compilation.trace.of(Rollback).undo is not None:
            return compiled
        modes = modes_of(gm, self) if compilation.trace.mended else None
        compiled = compiled if modes is None else keeping_modes(compiled, modes)
        return naming_lost_effects(compiled, compilation.trace.effects)

    return call_user_compiler


def compile_subgraph(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`OutputGraph.compile_subgraph`: a graph ends, maybe inside a callee."""

    def compile_subgraph(self: Any, tx: Any, reason: Any, *args: Any, **kwargs: Any) -> Any:
        root, compilation = self.root_tx, current()
        if compilation is not None:
            is_break = tx is not root or reason.graph_break
            for feature in compilation.trace.features.all_obliged(Feature.on_graph_end):
                feature.on_graph_end(compilation, tx, is_break)
        if tx is not root and root.debug_locals:
            tx.debug_locals, root.debug_locals = root.debug_locals + tx.debug_locals, []
        with without_torchs_marks(compilation is not None and compilation.is_mended):
            return stock(self, tx, reason, *args, **kwargs)

    return compile_subgraph


def compile_and_call(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`OutputGraph.compile_and_call_fx_graph`: the outputs, with those that are for us."""

    def compile_and_call_fx_graph(
        self: Any, tx: Any, rv: list[VariableTracker], *args: Any, **kwargs: Any
    ) -> Any:
        if (compilation := current()) is not None:
            for feature in compilation.trace.obliged(Feature.on_outputs):
                rv = list(feature.on_outputs(tx, rv))
            rv = [*rv, *compilation.trace.our_outputs()]
        return stock(self, tx, rv, *args, **kwargs)

    return compile_and_call_fx_graph


def remove_unused(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`OutputGraph.remove_unused_graphargs`: what may raise stays."""

    def remove_unused_graphargs(self: Any) -> None:
        if (compilation := current()) is not None and compilation.takes_part:
            keep_unused_indexing(self.graph)
        stock(self)

    return remove_unused_graphargs


def ask_tensor(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Questions to a tensor."""
    return _asking(stock, reads=False)


def ask_attribute(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Attributes of a tensor."""
    return _asking(stock, reads=True)


def _asking(stock: Callable[..., Any], *, reads: bool) -> Callable[..., Any]:
    def ask(self: Any, tx: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        if (compilation := current()) is not None:
            if compilation.trace.choices:
                graph_proof.check_question(compilation, self, name)
            for feature in compilation.trace.obliged(Feature.on_question):
                feature.on_question(compilation, self, name)
            compilation.trace.of(AskedInputs).note(self, name)
            if name in _OF_AUTOGRAD and compilation.trace.mended:
                _notice_writes(tx, self)
            if reads and name not in same_tensors.OF_ALL_TENSORS:
                if (written := same_tensors.written_value(tx, self, name)) is not None:
                    return written
                self = same_tensors.with_source(tx, self)
        answer = stock(self, tx, name, *args, **kwargs)
        if name == "requires_grad" and compilation is not None and reads and answer is not None:
            answer.source = None  # read once more after the graph, it may be another one
        return answer

    return ask


def set_item(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`t[k] = v`, where that is no call of the method."""

    def mp_ass_subscript_impl(self: Any, tx: Any, *args: Any, **kwargs: Any) -> Any:
        asked = ask_tensor(lambda self, tx, name: stock(self, tx, *args, **kwargs))
        return asked(self, tx, "__setitem__")

    return mp_ass_subscript_impl


_OF_AUTOGRAD = frozenset(("requires_grad", "grad_fn", "is_leaf"))
"""What a write in place may change; Dynamo notices that only under the name that was written to."""


def _notice_writes(tx: Any, tensor: Any) -> None:
    """Stock would have looked anew after the break."""
    value = tensor.as_proxy().node.meta.get("example_value")
    if getattr(value, "requires_grad", tensor.requires_grad) != tensor.requires_grad:
        tensor.synchronize_attributes(tx)


def unpack_rows(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`TensorVariable.unpack_var_sequence`: rows, as iteration makes them.

    Eager iterates over `unbind()`, whose outputs autograd forbids to change in place and whose
    gradients it stacks; Dynamo takes row by row.
    """

    def unpack(self: Any, tx: Any, *args: Any, **kwargs: Any) -> Any:
        compilation = current()
        if compilation is None or not (self.requires_grad and torch.is_grad_enabled()):
            return stock(self, tx, *args, **kwargs)
        if not compilation.takes_part_here():
            return stock(self, tx, *args, **kwargs)
        return self.call_method(tx, "unbind", [], {}).unpack_var_sequence(tx)

    return unpack


def ask_object(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Attributes of the user's objects."""

    def ask(self: Any, tx: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        if (compilation := current()) is not None:
            for feature in compilation.trace.obliged(Feature.on_object_question):
                feature.on_object_question(compilation, self, name)
        return stock(self, tx, name, *args, **kwargs)

    return ask


def ask_module(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Attributes of modules."""

    def var_getattr(self: Any, tx: Any, name: str) -> Any:
        if (compilation := current()) is not None:
            for feature in compilation.trace.obliged(Feature.on_module_question):
                feature.on_module_question(self.value, name)
        return stock(self, tx, name)

    return var_getattr


def ask_identity(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Hash and equality of a tensor."""

    def ask(self: Any, *args: Any, **kwargs: Any) -> Any:
        if (compilation := current()) is not None and compilation.trace.choices:
            graph_proof.check_identity(compilation, [self])
        return stock(self, *args, **kwargs)

    return ask


def ask_id(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`id(tensor)`."""

    def call_id(self: Any, tx: Any, *args: VariableTracker, **kwargs: Any) -> Any:
        if (compilation := current()) is not None and compilation.trace.choices:
            graph_proof.check_identity(compilation, [arg.realize() for arg in args])
        return stock(self, tx, *args, **kwargs)

    return call_id


def set_attribute(stock: Callable[..., Any]) -> Callable[..., Any]:
    """`t.name = value`."""

    def store_attr(self: Any, item: VariableTracker, *args: Any, **kwargs: Any) -> None:
        if (compilation := current()) is not None and compilation.trace.choices:
            graph_proof.check_identity(compilation, [item])
        stock(self, item, *args, **kwargs)

    return store_attr


def compare_identity(function: Callable[..., Any], stock: Callable[..., Any]) -> Callable[..., Any]:
    """`is` and `is not`."""

    def compare(tx: Any, args: Args, kwargs: Keywords) -> Any:
        captures.check_truths(args)
        captures.check_identity(args)
        if (value := host_among(args)) is not None:
            return host_arithmetic.computed_on_host(tx, value, function, args, kwargs)
        if (compilation := current()) is not None and compilation.trace.choices:
            operands = [arg.realize() for arg in args]
            if all(operand.is_tensor() for operand in operands):
                graph_proof.check_identity(compilation, operands)
        return stock(tx, args, kwargs)

    return compare


def compare_symbols(stock: Callable[..., Any]) -> Callable[..., Any]:
    """A number known only at run time is compared, by a container too."""

    def richcompare_impl(self: Any, tx: Any, other: Any, op: str) -> Any:
        captures.check_truths((self, other))
        return stock(self, tx, other, op)

    return richcompare_impl


def compare_numbers(function: str, stock: Callable[..., Any]) -> Callable[..., Any]:
    """Comparisons of numbers that are only compared."""

    def compare(tx: Any, args: Args, kwargs: Keywords) -> Any:
        for number, other, reverse in ((args[0], args[1], False), (args[1], args[0], True)):
            if issubclass(type(number), HostNumberVariable):
                known = cast(HostNumberVariable, number)
                return known.compare(tx, function, other.realize(), reverse)
        captures.check_truths(args)
        if (value := host_among(args)) is not None:
            return host_arithmetic.computed_on_host(
                tx, value, getattr(operator, function), args, kwargs
            )
        return stock(tx, args, kwargs)

    return compare
