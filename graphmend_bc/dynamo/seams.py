"""The places where Dynamo is met: each seam replaces one attribute and can be put back.

    compile_frame          one call per frame to compile: the mending loop runs around it
    trace_frame            one call per attempt: what an attempt found is forgotten with it
    InliningInstruction-   the code object of an inlined callee is replaced by the rewritten one
      Translator.__init__
    call_user_compiler     the graph is complete: proofs over the whole graph
    OutputGraph.__init__   operators are listened to from the start
    compile_subgraph       effects noted at the root run also when a nested break ends the graph
    compile_and_call-    further outputs of the graph, for the wrapper around it
      _fx_graph
    compare_op_handlers    `is` between tensors: a chosen tensor must not be compared by identity
    TensorVariable         questions about memory and autograd of tensors, once one is chosen
    UserDefinedObject-     attributes of an object that a deferred call is going to change
      Variable
    PythonModuleVariable   flags of cuDNN, inside a block that sets them
    BuiltinVariable        operators on values that the host reads from tensors after the graph
    WrapperUserFunction-   functions that cache their results: Dynamo traces them every time
      Variable
    StringFormatVariable   when a text was made; `!r` of a tensor is left to the format
    _load_const            a primitive is a constant Dynamo does not know
    get_dynamo_observed-   an exception that tracing raises because of a number known only at run
      _exception             time is not the program's
    get_guard_manager_-    guards on values that are computed from the inputs
      from_source
    op_implementations_-   shapes of operators that torch's own table lacks
      dict
    reset                  `torch._dynamo.reset()` forgets what was mended

The `_load_const` seam stays for the life of the process: resume functions made from rewritten code
hold primitives, and may be compiled after `disable()`.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from functools import partial
from types import CodeType
from typing import Any, Protocol

import torch._dynamo
from torch._dynamo import convert_frame, exc, guards, output_graph, symbolic_convert
from torch._dynamo.variables import builtin, functions, misc, tensor, user_defined
from torch._dynamo.variables.base import VariableTracker
from torch._subclasses import fake_impls

from graphmend_bc.dynamo import (
    bar_loops,
    captured,
    ctc,
    effects,
    flags,
    guess,
    hoisted_source,
    host_ops,
    leaf,
    proof,
    texts,
)
from graphmend_bc.dynamo.annotations import annotated_graph
from graphmend_bc.dynamo.asked import COMPARISONS, HostNumberVariable
from graphmend_bc.dynamo.compilation import current
from graphmend_bc.dynamo.host import HostVariable
from graphmend_bc.dynamo.primitive_variable import PrimitiveVariable
from graphmend_bc.dynamo.reading import reading
from graphmend_bc.dynamo.regions import TORCH
from graphmend_bc.dynamo.way_back import watched
from graphmend_bc.runtime import Primitive
from graphmend_bc.runtime.effects import naming_lost_effects


class Mender(Protocol):
    """What the seams call."""

    def compile(
        self, stock: Callable[..., Any], code: CodeType, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        """Compile one frame; `stock(code, *args, **kwargs)` is Dynamo's own function."""

    def forget(self) -> None:
        """Dynamo was reset."""


class Seams:
    """Installs the seams for one mender and takes them out again.

    Args:
        mender: called for each frame to compile.
    """

    def __init__(self, mender: Mender) -> None:
        self._mender = mender
        self._undo: list[Callable[[], None]] = []

    def install(self) -> None:
        """Put all seams in place."""
        _understand_primitives()
        self._replace(convert_frame, "compile_frame", self._compile_frame)
        self._replace(convert_frame, "trace_frame", _trace_frame)
        self._replace(symbolic_convert.InliningInstructionTranslator, "__init__", _inline)
        self._replace(output_graph.OutputGraph, "__init__", _output_graph)
        self._replace(output_graph.OutputGraph, "call_user_compiler", _call_user_compiler)
        self._replace(output_graph.OutputGraph, "compile_subgraph", _compile_subgraph)
        self._replace(output_graph.OutputGraph, "compile_and_call_fx_graph", _compile_and_call)
        for name in ("call_method", "var_getattr", "call_obj_hasattr"):
            self._replace(tensor.TensorVariable, name, _ask_tensor)
        # The names of the hash and equality hooks differ between torch versions.
        for name in ("hash_impl", "get_python_hash", "is_python_equal"):
            if name in vars(tensor.TensorVariable):
                self._replace(tensor.TensorVariable, name, _ask_identity)
        self._replace(user_defined.UserDefinedObjectVariable, "var_getattr", _ask_object)
        self._replace(misc.PythonModuleVariable, "var_getattr", _ask_module)
        self._replace(functions.WrapperUserFunctionVariable, "call_function", _call_cached)
        self._replace(misc.StringFormatVariable, "__init__", texts.make_format)
        translator = symbolic_convert.InstructionTranslatorBase
        self._replace(translator, "_convert_value", texts.convert_value)
        self._replace(translator, "_format_value", texts.format_value)
        self._replace(builtin.BuiltinVariable, "call_id", _ask_id)
        self._replace(builtin.BuiltinVariable, "call_function", host_ops.call_builtin)
        for name in ("is", "is not"):
            self._replace_item(symbolic_convert.compare_op_handlers, name, _compare_identity)
        for name, function in COMPARISONS.items():
            self._replace_item(
                symbolic_convert.compare_op_handlers, name, partial(_compare_numbers, function)
            )
        self._replace(guards.GuardBuilder, "get_guard_manager_from_source", hoisted_source.guarding)
        for known, shapes in ctc.SHAPES.items():
            self._add_item(fake_impls.op_implementations_dict, known, shapes)
        self._replace(exc, "get_dynamo_observed_exception", captured.raising)
        self._replace(torch._dynamo, "reset", self._reset)

    def remove(self) -> None:
        """Put back what was there."""
        while self._undo:
            self._undo.pop()()

    def _replace(
        self, owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]
    ) -> None:
        stock = getattr(owner, name)
        ours = functools.wraps(stock)(make(stock))
        setattr(owner, name, ours)

        def undo() -> None:
            # Somebody may have wrapped us since; leaving theirs in place is the lesser harm.
            if getattr(owner, name) is ours:
                setattr(owner, name, stock)

        self._undo.append(undo)

    def _replace_item(self, table: dict[str, Any], name: str, make: Callable[[Any], Any]) -> None:
        stock = table[name]
        ours = make(stock)
        table[name] = ours

        def undo() -> None:
            if table[name] is ours:
                table[name] = stock

        self._undo.append(undo)

    def _add_item(self, table: dict[Any, Any], key: object, ours: object) -> None:
        if key not in table:
            table[key] = ours
            self._undo.append(lambda: table.pop(key, None))

    def _compile_frame(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        def compile_frame(code: CodeType, *args: Any, **kwargs: Any) -> Any:
            return self._mender.compile(stock, code, list(args), kwargs)

        return compile_frame

    def _reset(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        def reset() -> None:
            self._mender.forget()
            stock()

        return reset


def _trace_frame(stock: Callable[..., Any]) -> Callable[..., Any]:
    def trace_frame(code: CodeType, *args: Any, **kwargs: Any) -> Any:
        if (compilation := current()) is not None:
            compilation.start_trace()
            compilation.trace.handles = _may_handle(code)
        return stock(code, *args, **kwargs)

    return trace_frame


def _may_handle(code: CodeType) -> bool:
    """True for a function of the user's that has a `try` or a `with`."""
    return bool(code.co_exceptiontable) and not code.co_filename.startswith(TORCH)


def _output_graph(stock: Callable[..., Any]) -> Callable[..., Any]:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        stock(self, *args, **kwargs)
        compilation = current()
        if compilation is not None and compilation.may_mend:
            # From the start: the first rewritten code may be met late, in a callee.
            compilation.trace.listen(self.fake_mode)
        if compilation is not None and compilation.captures:
            captured.listen_to_captures(self, compilation)

    return __init__


def _inline(stock: Callable[..., Any]) -> Callable[..., Any]:
    def __init__(self: Any, parent: Any, code: CodeType, *args: Any, **kwargs: Any) -> None:
        compilation = current()
        if compilation is not None:
            code = compilation.code_for(code)
            compilation.trace.handles |= _may_handle(code)
        stock(self, parent, code, *args, **kwargs)

    return __init__


def _call_user_compiler(stock: Callable[..., Any]) -> Callable[..., Any]:
    def call_user_compiler(self: Any, gm: Any, *args: Any, **kwargs: Any) -> Any:
        compilation = current()
        if compilation is None:
            return stock(self, gm, *args, **kwargs)
        proof.prove_graph(compilation, gm, self)
        compiled = annotated_graph(stock(self, gm, *args, **kwargs), self)
        if (clock := compilation.trace.clock) is not None:
            compiled = clock.timing(compiled)
        compiled = watched(reading(compiled, compilation.trace.to_read()), compilation)
        compilation.graphs += 1
        if compilation.trace.undo is not None:
            return compiled
        return naming_lost_effects(compiled, compilation.trace.effects)

    return call_user_compiler


def _compile_subgraph(stock: Callable[..., Any]) -> Callable[..., Any]:
    def compile_subgraph(self: Any, tx: Any, reason: Any, *args: Any, **kwargs: Any) -> Any:
        root, compilation = self.root_tx, current()
        if compilation is not None and compilation.trace.bars:
            is_break = tx is not root or reason.graph_break
            bar_loops.settle_all(tx, compilation.trace, is_break)
        if tx is not root and root.debug_locals:
            tx.debug_locals, root.debug_locals = root.debug_locals + tx.debug_locals, []
        if compilation is not None:
            flags.check_whole(compilation.trace)
            guess.gather(tx, compilation.trace)
        return stock(self, tx, reason, *args, **kwargs)

    return compile_subgraph


def _compile_and_call(stock: Callable[..., Any]) -> Callable[..., Any]:
    def compile_and_call_fx_graph(
        self: Any, tx: Any, rv: list[VariableTracker], *args: Any, **kwargs: Any
    ) -> Any:
        compilation = current()
        ours = [] if compilation is None else compilation.trace.our_outputs()
        return stock(self, tx, [*rv, *ours], *args, **kwargs)

    return compile_and_call_fx_graph


def _ask_tensor(stock: Callable[..., Any]) -> Callable[..., Any]:
    def ask(self: Any, tx: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        if (compilation := current()) is not None and compilation.trace.choices:
            proof.check_question(compilation, name)
        if compilation is not None and compilation.trace.leaves:
            leaf.check_question(compilation.trace, self, name)
        if compilation is not None and compilation.trace.captured:
            captured.check_question(self, name)
        return stock(self, tx, name, *args, **kwargs)

    return ask


def _call_cached(stock: Callable[..., Any]) -> Callable[..., Any]:
    def call_function(self: Any, *args: Any, **kwargs: Any) -> Any:
        compilation = current()
        if compilation is None or not hasattr(self.wrapper_obj, "cache_info"):
            return stock(self, *args, **kwargs)
        trace = compilation.trace
        trace.caches += 1
        try:
            return stock(self, *args, **kwargs)
        finally:
            trace.caches -= 1

    return call_function


def _ask_object(stock: Callable[..., Any]) -> Callable[..., Any]:
    def ask(self: Any, tx: Any, name: str, *args: Any, **kwargs: Any) -> Any:
        if (compilation := current()) is not None and compilation.trace.counting:
            effects.check_unread(compilation, self, name)
        return stock(self, tx, name, *args, **kwargs)

    return ask


def _ask_module(stock: Callable[..., Any]) -> Callable[..., Any]:
    def var_getattr(self: Any, tx: Any, name: str) -> Any:
        if (compilation := current()) is not None and compilation.trace.blocks:
            flags.check_question(compilation.trace, self.value, name)
        return stock(self, tx, name)

    return var_getattr


def _ask_identity(stock: Callable[..., Any]) -> Callable[..., Any]:
    def ask(self: Any, *args: Any, **kwargs: Any) -> Any:
        if (compilation := current()) is not None and compilation.trace.choices:
            proof.check_identity(compilation, [self])
        return stock(self, *args, **kwargs)

    return ask


def _ask_id(stock: Callable[..., Any]) -> Callable[..., Any]:
    def call_id(self: Any, tx: Any, *args: VariableTracker, **kwargs: Any) -> Any:
        if (compilation := current()) is not None and compilation.trace.choices:
            proof.check_identity(compilation, [arg.realize() for arg in args])
        return stock(self, tx, *args, **kwargs)

    return call_id


def _compare_identity(stock: Callable[..., Any]) -> Callable[..., Any]:
    def compare(tx: Any, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> Any:
        if (compilation := current()) is not None and compilation.trace.choices:
            operands = [arg.realize() for arg in args]
            if all(operand.is_tensor() for operand in operands):
                proof.check_identity(compilation, operands)
        return stock(tx, args, kwargs)

    return compare


def _compare_numbers(function: str, stock: Callable[..., Any]) -> Callable[..., Any]:
    def compare(tx: Any, args: list[VariableTracker], kwargs: dict[str, VariableTracker]) -> Any:
        for number, other, reverse in ((args[0], args[1], False), (args[1], args[0], True)):
            if isinstance(number, HostNumberVariable):
                return number.compare(tx, function, other.realize(), reverse)
        for value in args:
            if isinstance(value, HostVariable):
                return host_ops.computed(value, getattr(operator, function), args, kwargs)
        return stock(tx, args, kwargs)

    return compare


def _understand_primitives() -> None:
    translator = symbolic_convert.InstructionTranslatorBase
    stock = translator._load_const
    if getattr(stock, "__graphmend_bc__", False):
        return

    @functools.wraps(stock)
    def _load_const(self: Any, inst: Any) -> VariableTracker:
        if isinstance(inst.argval, Primitive):
            return PrimitiveVariable(inst.argval)
        return stock(self, inst)

    _load_const.__graphmend_bc__ = True  # type: ignore[attr-defined]
    translator._load_const = _load_const  # type: ignore[method-assign]
