"""The places where Dynamo is met: each seam replaces one attribute and can be put back.

    compile_frame          one call per frame to compile: the mending loop runs around it
    trace_frame            one call per attempt: what an attempt found is forgotten with it
    ConvertFrameAssert     one call of a frame is left to eager Python
      .__call__
    InliningInstruction-   the code object of an inlined callee is replaced by the rewritten one
      Translator.__init__
    call_user_compiler     the graph is complete: proofs over the whole graph
    OutputGraph.__init__   operators are listened to from the start
    compile_subgraph       effects noted at the root run also when a nested break ends the graph
    compile_and_call-    further outputs of the graph, for the wrapper around it
      _fx_graph
    remove_unused_-        operators that may raise stay in the graph although nothing uses them
      graphargs
    compare_op_handlers    `is` between tensors: a chosen tensor must not be compared by identity
    TensorVariable         questions about memory and autograd of tensors, once one is chosen; the
                           rows that a tensor is unpacked to; subscripts by numbers of tensors
    UserDefinedObject-     attributes of an object that a deferred call is going to change
      Variable
    PythonModuleVariable   flags of cuDNN, inside a block that sets them
    NumpyVariable          draws from NumPy's generator, for which Dynamo takes torch's
    DequeVariable          the largest length of a deque that was there before
    MappingProxyVariable   reading a proxy whose dict cannot be the one that the frame changed
    BuiltinVariable        operators on values that the host reads from tensors after the graph;
                           subscripts by numbers of tensors
    CatchWarningsCtx-      warnings after a `catch_warnings` stay where they are
      ManagerVariable
    WrapperUserFunction-   functions that cache their results: Dynamo traces them every time
      Variable
    TorchInGraphFunction-  settings of the process, which Dynamo sets while it traces
      Variable
    initialize_lazy_-      lazy modules, which it initialises while it traces
      module
    StringFormatVariable   when a text was made; `!r` of a tensor is left to the format
    _load_const            a primitive is a constant Dynamo does not know
    get_dynamo_observed-   an exception that tracing raises because of a number known only at run
      _exception             time is not the program's
    get_guard_manager_-    guards on values that are computed from the inputs
      from_source
    SymNodeVariable        operations on numbers known only at run time
    op_implementations_-   shapes of operators that torch's own table lacks
      dict
    what is absent         keys, attributes, globals and hooks that a trace does not find, and what
                           classes hold: guarded on in frames with a mend (the table below)
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
from torch._dynamo import (
    convert_frame,
    exc,
    guards,
    output_graph,
    side_effects,
    symbolic_convert,
)
from torch._dynamo.variables import (
    builtin,
    ctx_manager,
    dicts,
    functions,
    lists,
    misc,
    nn_module,
    tensor,
    user_defined,
)
from torch._dynamo.variables import torch as torch_functions
from torch._dynamo.variables.base import VariableTracker
from torch._subclasses import fake_impls

from graphmend_bc.dynamo import (
    absent,
    algebra,
    captured,
    classes,
    ctc,
    deques,
    draw,
    eager_call,
    effects,
    hoisted_source,
    hooks,
    host_ops,
    proxies,
    sets,
    subscripts,
    texts,
    trace_effects,
)
from graphmend_bc.dynamo import interceptors as at
from graphmend_bc.dynamo.asked import COMPARISONS
from graphmend_bc.dynamo.primitive_variable import PrimitiveVariable
from graphmend_bc.runtime import Primitive


class Mender(Protocol):
    """What the seams call."""

    def compile(
        self, stock: Callable[..., Any], code: CodeType, args: list[Any], kwargs: dict[str, Any]
    ) -> Any:
        """Compile one frame; `stock(code, *args, **kwargs)` is Dynamo's own function."""

    def unguarded(self, code: CodeType, error: Exception) -> None:
        """The guards of a frame that was mended could not be made."""

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
        self._replace(convert_frame, "trace_frame", at.trace_frame)
        self._replace(convert_frame.ConvertFrameAssert, "__call__", self._convert)
        self._replace(symbolic_convert.InliningInstructionTranslator, "__init__", at.inline)
        self._replace(output_graph.OutputGraph, "__init__", at.output_graph)
        self._replace(output_graph.OutputGraph, "call_user_compiler", at.call_user_compiler)
        self._replace(output_graph.OutputGraph, "compile_subgraph", at.compile_subgraph)
        self._replace(output_graph.OutputGraph, "compile_and_call_fx_graph", at.compile_and_call)
        self._replace(output_graph.OutputGraph, "remove_unused_graphargs", at.remove_unused)
        for name in ("call_method", "var_getattr", "call_obj_hasattr"):
            self._replace(tensor.TensorVariable, name, at.ask_tensor)
        # The names of the hash and equality hooks differ between torch versions.
        for name in ("hash_impl", "get_python_hash", "is_python_equal"):
            if name in vars(tensor.TensorVariable):
                self._replace(tensor.TensorVariable, name, at.ask_identity)
        self._replace(tensor.TensorVariable, "call_method", subscripts.call_method)
        self._replace(tensor.TensorVariable, "unpack_var_sequence", at.unpack_rows)
        self._replace(user_defined.UserDefinedObjectVariable, "var_getattr", at.ask_object)
        self._replace(misc.PythonModuleVariable, "var_getattr", at.ask_module)
        self._replace(misc.NumpyVariable, "call_function", draw.draw_as_numpy)
        for name in ("call_method", "mp_subscript_impl"):
            if name in vars(dicts.MappingProxyVariable):
                self._replace(dicts.MappingProxyVariable, name, partial(proxies.read_proxy, name))
        for name in ("call_method", "var_getattr", "sq_concat_impl"):
            if name in vars(lists.DequeVariable):
                self._replace(lists.DequeVariable, name, deques.bounded)
        self._replace(side_effects.SideEffects, "codegen_update_mutated", sets.replayed)
        in_graph = torch_functions.TorchInGraphFunctionVariable
        self._replace(in_graph, "call_function", trace_effects.call_torch)
        self._replace(nn_module, "initialize_lazy_module", trace_effects.initialize_lazy)
        self._replace(functions.WrapperUserFunctionVariable, "call_function", at.call_cached)
        self._replace(misc.StringFormatVariable, "__init__", texts.make_format)
        translator = symbolic_convert.InstructionTranslatorBase
        self._replace(translator, "_convert_value", texts.convert_value)
        self._replace(translator, "_format_value", texts.format_value)
        self._replace(ctx_manager.CatchWarningsCtxManagerVariable, "enter", effects.enter_catching)
        self._replace(builtin.BuiltinVariable, "call_id", at.ask_id)
        self._replace(builtin.BuiltinVariable, "call_function", subscripts.call_builtin)
        self._replace(builtin.BuiltinVariable, "call_function", host_ops.call_builtin)
        for name, identity in (("is", operator.is_), ("is not", operator.is_not)):
            self._replace_item(
                symbolic_convert.compare_op_handlers, name, partial(at.compare_identity, identity)
            )
        for name, function in COMPARISONS.items():
            self._replace_item(
                symbolic_convert.compare_op_handlers,
                name,
                partial(at.compare_numbers, function),
            )
        self._look_for_absent()
        self._replace(guards.GuardBuilder, "get_guard_manager_from_source", hoisted_source.guarding)
        for known, shapes in ctc.SHAPES.items():
            self._add_item(fake_impls.op_implementations_dict, known, shapes)
        self._replace(tensor.SymNodeVariable, "create", algebra.symbol_made)
        self._replace(exc, "get_dynamo_observed_exception", captured.raising)
        self._replace(torch._dynamo, "reset", self._reset)

    def remove(self) -> None:
        """Put back what was there."""
        while self._undo:
            self._undo.pop()()

    def _look_for_absent(self) -> None:
        for module, owner_name, name, make in _ABSENT:
            owner = getattr(module, owner_name, None)  # names differ between torch versions
            if hasattr(owner, name):
                self._replace(owner, name, make)

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

    def _convert(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        return eager_call.convert(self._mender.unguarded, stock)

    def _reset(self, stock: Callable[..., Any]) -> Callable[..., Any]:
        def reset() -> None:
            self._mender.forget()
            stock()

        return reset


_ABSENT: list[tuple[Any, str, str, Callable[[Any], Callable[..., Any]]]] = [
    (dicts, "ConstDictVariable", "getitem_const_raise_exception_if_absent", absent.subscript),
    (dicts, "ConstDictVariable", "repr_impl", absent.show_items),
    (dicts, "ConstDictVariable", "call_method", absent.take_item),
    (dicts, "DunderDictVariable", "install_dict_contains_guard", absent.ask_attributes),
    (dicts, "DunderDictVariable", "install_dict_keys_match_guard", absent.list_attributes),
    (builtin, "BuiltinVariable", "call_function", absent.show_in_text),
    (user_defined, "DefaultDictVariable", "mp_subscript_impl", absent.default_item),
    (user_defined, "OrderedDictVariable", "call_method", absent.take_item),
    (user_defined, "UserDefinedObjectVariable", "var_getattr", absent.attribute),
    (user_defined, "UserDefinedClassVariable", "var_getattr", absent.attribute),
    (misc, "PythonModuleVariable", "var_getattr", absent.attribute),
    (functions, "UserFunctionVariable", "var_getattr", absent.attribute),
    (tensor, "TensorVariable", "var_getattr", absent.attribute),
    (misc, "PythonModuleVariable", "call_obj_hasattr", absent.has_attribute),
    (functions, "UserFunctionVariable", "call_obj_hasattr", absent.has_attribute),
    (user_defined, "UserDefinedObjectVariable", "method_setattr_standard", absent.change_attribute),
    (user_defined, "UserDefinedObjectVariable", "lookup_class_mro_attr", classes.looked_up),
    (user_defined, "UserDefinedClassVariable", "lookup_cls_mro_attr", classes.looked_up),
    (user_defined, "UserDefinedVariable", "_maybe_get_baseclass_method", classes.looked_up),
    (nn_module, "UnspecializedNNModuleVariable", "call_function", classes.called),
    (misc, "SuperVariable", "_resolved_getattr_and_source", classes.looked_up_in_bases),
    (symbolic_convert, "InstructionTranslatorBase", "load_builtin", absent.load_builtin),
    (nn_module, "UnspecializedNNModuleVariable", "var_getattr", hooks.asked),
    (misc, "PythonModuleVariable", "var_getattr", hooks.asked),
]
"""What a trace does not find, or finds without a guard of Dynamo's: the seams that note it."""


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
