"""The seams at the values that Dynamo tracks, but for tensors, operators and what is absent."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.absence.class_lookups import note_class
from graphmend_bc.dynamo.calls import assertions, cached_calls, compile_regions
from graphmend_bc.dynamo.corrections import (
    absent_generators,
    bounded_deques,
    class_methods,
    dropout,
    equal_keys,
    exception_texts,
    factors,
    mapping_proxy,
    metaclass_calls,
    numpy_types,
    qualified_names,
    range_members,
    repeated_inputs,
    trace_time_effects,
)
from graphmend_bc.dynamo.deferral import (
    deferred_calls,
    grown_lists,
    object_texts,
    reordered_calls,
    tensor_formatting,
)
from graphmend_bc.dynamo.host_values import host_value
from graphmend_bc.dynamo.patches import capabilities
from graphmend_bc.dynamo.patches import frames as at
from graphmend_bc.dynamo.patches.seam import Seam
from graphmend_bc.dynamo.random_draws import numpy_random, python_random
from graphmend_bc.dynamo.symbols import array_numbers, padding, tensor_bounds, tensor_slices

_TRANSLATOR = "torch._dynamo.symbolic_convert:InstructionTranslatorBase"
_VARIABLES = "torch._dynamo.variables"
_BUILTIN = f"{_VARIABLES}.builtin:BuiltinVariable"
_TENSOR = f"{_VARIABLES}.tensor:TensorVariable"
_METHODS, _PREFIX, _keep_factor = (
    (f"{_TENSOR}.tp_methods", "", factors.keep_entry)
    if facts.HAS_METHOD_TABLES
    else (_TENSOR, "method_", factors.keep_operator)
)


def _read_proxy(stock: Any) -> Any:
    return mapping_proxy.read_proxy(stock.__name__, stock)


SEAMS: Final = (
    Seam(
        f"{_VARIABLES}.user_defined:UserDefinedObjectVariable",
        facts.GETATTR,
        at.ask_object,
        "attributes of an object that a deferred call is going to change",
        needed_by=(capabilities.DEFERRED_CALLS,),
    ),
    Seam(
        f"{_VARIABLES}.misc:PythonModuleVariable",
        facts.GETATTR,
        at.ask_module,
        "attributes of modules, where a feature of the trace has something to say",
        needed_by=(capabilities.MODULE_FLAGS,),
    ),
    Seam(
        _TRANSLATOR,
        ("call_function",),
        python_random.call_function,
        "draws from Python's own generator",
        needed_by=(capabilities.PYTHON_DRAWS,),
    ),
    Seam(
        f"{_VARIABLES}.misc:RandomVariable",
        ("call_method",),
        python_random.call_method,
        "draws from a generator of the user's, for which Dynamo takes a copy",
        needed_by=(capabilities.PYTHON_DRAWS,),
        inherited=True,  # since torch 2.15
    ),
    Seam(
        f"{_VARIABLES}.misc:NumpyVariable",
        ("call_function",),
        numpy_random.draw_as_numpy,
        "draws from NumPy's generator, for which Dynamo takes torch's",
        needed_by=(capabilities.NUMPY_DRAWS,),
    ),
    Seam(
        f"{_VARIABLES}.tensor:NumpyNdarrayVariable",
        ("__init__",),
        numpy_types.make_array,
        "results of NumPy's functions for which torch's stand-in has another type",
        needed_by=("types of NumPy results",),
        inherited=True,
    ),
    *(
        Seam(
            f"{_VARIABLES}.user_defined:UserDefinedObjectVariable",
            (name,),
            equal_keys.equal_as_keys,
            "objects of the user's classes as keys, which are compared by their identity",
        )
        for name in facts.EQUALITY_OF_KEYS
    ),
    *(
        Seam(
            _BUILTIN,
            (name,),
            exception_texts.text_of_exception,
            "the text of an exception whose class makes it",
        )
        for name in facts.TEXT_OF_EXCEPTIONS
    ),
    *(
        Seam(
            f"{_VARIABLES}.lists:RangeVariable",
            (name,),
            range_members.found_in_range,
            "whether a number is in a range, which is counted",
        )
        for name in facts.MEMBERSHIP_IN_RANGES
    ),
    Seam(
        f"{_VARIABLES}.dicts:MappingProxyVariable",
        ("call_method", "mp_subscript_impl"),
        _read_proxy,
        "reading a proxy whose dict cannot be the one that the frame changed",
        needed_by=("mapping proxies",),
    ),
    Seam(
        f"{_VARIABLES}.lists:DequeVariable",
        ("call_method", *facts.GETATTR, *facts.DEQUE_OPERATORS),
        bounded_deques.bounded,
        "the largest length of a deque that was there before",
    ),
    *(
        Seam(
            f"{_VARIABLES}.lists:DequeVariable.tp_getset",
            ("maxlen",),
            bounded_deques.read_bound,
            "the same, where a table is asked",
        )
        for _ in range(facts.HAS_ATTRIBUTE_TABLES)
    ),
    Seam(
        f"{_VARIABLES}.lists:DequeVariable",
        ("sq_repeat_impl",),
        bounded_deques.repeated,
        "the largest length of a deque that is made of another one",
        inherited=True,
    )
    if facts.HAS_SLOTS
    else Seam(
        _BUILTIN,
        ("call_function",),
        bounded_deques.added,
        "the largest length of a deque that is made of others",
    ),
    Seam(
        _BUILTIN,
        ("call_slice",),
        tensor_slices.call_slice,
        "slices of tensors, of which Dynamo makes slices of numbers",
    ),
    Seam(
        f"{_VARIABLES}.user_defined:UserDefinedClassVariable",
        ("call_function",),
        partial(metaclass_calls.call_class, note=note_class),
        "calls of classes whose metaclass has a `__call__`, which Dynamo leaves out",
        also=((f"{_VARIABLES}.tensor:TensorSubclassVariable", "call_function"),),
    ),
    Seam(
        f"{_VARIABLES}.misc:SuperVariable",
        ("call_method",),
        partial(metaclass_calls.call_super, note=note_class),
        "what such a `__call__` does by `super().__call__()`",
    ),
    Seam(
        f"{_VARIABLES}.user_defined:UserDefinedObjectVariable",
        ("_check_for_getattr",),
        metaclass_calls.own_getattr,
        "the `__getattr__` of a metaclass, which Dynamo asks about objects",
    ),
    *(
        Seam(
            f"{_VARIABLES}.user_defined:UserDefinedClassVariable",
            facts.GETATTR,
            metaclass_calls.read_of_metaclass,
            "attributes that only the metaclass of a class has",
        )
        for _ in range(facts.GUARDS_CLASS_ATTRIBUTES)
    ),
    Seam(
        f"{_VARIABLES}.builder:VariableBuilder",
        ("_wrap",),
        grown_lists.wrap_list,
        "lists that the frame has added to, and joins",
        needed_by=(capabilities.GROWN_LISTS,),
    ),
    Seam(
        _TRANSLATOR,
        ("call_function",),
        grown_lists.call_mapping,
        "comprehensions over such lists",
        needed_by=(capabilities.GROWN_LISTS,),
    ),
    Seam(
        f"{_VARIABLES}.torch:TorchInGraphFunctionVariable",
        ("call_function",),
        grown_lists.call_cat,
        "`torch.cat` of such lists",
        needed_by=(capabilities.GROWN_LISTS,),
    ),
    Seam(
        f"{_VARIABLES}.torch:TorchInGraphFunctionVariable",
        ("call_function",),
        trace_time_effects.trace_call,
        "settings of the process, which Dynamo sets while it traces",
    ),
    Seam(
        f"{_VARIABLES}.higher_order_ops:InvokeSubgraphHigherOrderVariable",
        ("call_function",),
        compile_regions.call_region,
        "regions that are to be compiled once, one of which breaks the graph",
        needed_by=("compile regions",),
        inherited=True,
    ),
    Seam(
        f"{_VARIABLES}.torch:TorchInGraphFunctionVariable",
        ("call_function",),
        dropout.call_dropout,
        "dropout that drops nothing gives its argument",
    ),
    *(
        Seam(
            _METHODS,
            (f"{_PREFIX}{name}",),
            _keep_factor,
            "operators with a factor, which stock computes by others",
        )
        for name in ("addcmul_", "addcdiv_")
    ),
    Seam(
        f"{_VARIABLES}.torch:TorchInGraphFunctionVariable",
        ("call_function",),
        factors.call_method,
        "torch.addcdiv with a factor, which stock computes by others",
    ),
    Seam(
        f"{_VARIABLES}.torch:TorchInGraphFunctionVariable",
        ("call_function",),
        absent_generators.leave_out,
        "random tensors of a dynamic size with a generator that is None",
    ),
    Seam(
        f"{_VARIABLES}.higher_order_ops:AutogradFunctionApplyVariable",
        ("prepare_fn_vt",),
        class_methods.prepare_method,
        "autograd functions whose forward is a class method: stock passes the class twice",
        needed_by=(capabilities.AUTOGRAD_FUNCTIONS,),
    ),
    *(
        Seam(
            f"{_VARIABLES}.higher_order_ops:AutogradFunctionApplyVariable",
            ("rewire_bwd_graph_outputs",),
            repeated_inputs.rewire_gradients,
            "autograd functions that are given a tensor twice",
            needed_by=(capabilities.AUTOGRAD_FUNCTIONS,),
        )
        for _ in facts.REWIRES_GRADIENTS
    ),
    *(
        Seam(
            f"{_VARIABLES}.functions",
            ("fn_var_getattr",),
            qualified_names.read_function,
            "the qualified name of a function",
        )
        for _ in facts.READS_DESCRIPTORS
    ),
    *(
        Seam(
            f"{_VARIABLES}.functions:UserFunctionVariable",
            (name,),
            correction,
            "the names of a function that wraps another one",
            inherited=True,
        )
        for name, correction in (
            ("get_name", qualified_names.name_of),
            ("get_qualname", qualified_names.qualified_name_of),
        )
        if name in facts.NAMES_OF_CODE
    ),
    Seam(
        f"{_VARIABLES}.misc:AutogradFunctionVariable",
        ("call_apply",),
        class_methods.call_apply,
        "the same without a gradient: stock does not guard on what forward reads of its class",
        needed_by=(capabilities.AUTOGRAD_FUNCTIONS,),
    ),
    Seam(
        f"{_VARIABLES}.misc:SuperVariable",
        ("__init__",),
        class_methods.make_super,
        "`super()` in class methods of autograd functions: stock knows no class of it",
        needed_by=(capabilities.AUTOGRAD_FUNCTIONS,),
    ),
    Seam(
        f"{_VARIABLES}.misc:AutogradFunctionVariable",
        facts.GETATTR,
        class_methods.read_attribute,
        "attributes of the classes of autograd functions",
        needed_by=(capabilities.AUTOGRAD_FUNCTIONS,),
        inherited=True,
    ),
    Seam(
        f"{_VARIABLES}.torch:TorchInGraphFunctionVariable",
        ("call_function",),
        tensor_bounds.call_range,
        "the bounds of a range that are tensors, where their numbers are known only at run time",
        needed_by=(capabilities.SYMBOLS,),
    ),
    Seam(
        f"{_VARIABLES}.torch:TorchInGraphFunctionVariable",
        ("call_function",),
        array_numbers.call_torch,
        "arrays of NumPy's, of which Dynamo makes numbers",
        needed_by=(capabilities.SYMBOLS,),
    ),
    Seam(
        f"{_VARIABLES}.torch:TorchInGraphFunctionVariable",
        ("call_function",),
        padding.call_pad,
        "padding by a number that is a symbol",
        needed_by=(capabilities.SYMBOLS,),
    ),
    Seam(
        f"{_VARIABLES}.lists:SliceVariable",
        ("__init__",),
        array_numbers.make_slice,
        "the same, where they are bounds of a slice",
        needed_by=(capabilities.SYMBOLS,),
    ),
    *(
        Seam(
            f"{_VARIABLES}.lists:SliceVariable",
            ("as_python_constant",),
            host_value.constant_slice,
            "slices of lists to a number that is read",
            needed_by=(capabilities.HOST_READS,),
        )
        for _ in range(facts.TAKES_ANY_BOUND)
    ),
    Seam(
        f"{_VARIABLES}.nn_module",
        ("initialize_lazy_module",),
        trace_time_effects.initialize_lazy,
        "lazy modules, which Dynamo initialises while it traces",
    ),
    Seam(
        f"{_VARIABLES}.functions:WrapperUserFunctionVariable",
        ("call_function",),
        cached_calls.call_cached,
        "functions that cache their results: Dynamo traces them every time",
        needed_by=(capabilities.UNCACHED_CALLS,),
    ),
    Seam(
        f"{_VARIABLES}.misc:StringFormatVariable",
        ("__init__",),
        tensor_formatting.make_format,
        "when a text was made, and of what",
    ),
    Seam(
        f"{_VARIABLES}.misc:StringFormatVariable",
        ("reconstruct",),
        object_texts.reconstruct_text,
        "a text that is shown by an effect and made of an object",
    ),
    Seam(
        "torch._dynamo.symbolic_convert",
        ("_detect_and_normalize_assert_statement",),
        assertions.detect_assert,
        "`assert` on a tensor, of which Dynamo makes an operator that raises another exception",
    ),
    Seam(
        _TRANSLATOR,
        ("_convert_value",),
        tensor_formatting.convert_value,
        "`!r` of a tensor",
        needed_by=(capabilities.DEFERRED_CALLS,),
    ),
    Seam(
        _TRANSLATOR,
        ("_format_value",),
        tensor_formatting.format_value,
        "`!r` is left to the format",
        needed_by=(capabilities.DEFERRED_CALLS,),
    ),
    Seam(
        f"{_VARIABLES}.ctx_manager:CatchWarningsCtxManagerVariable",
        ("enter",),
        deferred_calls.enter_catching,
        "warnings after a `catch_warnings` stay where they are",
        needed_by=(capabilities.DEFERRED_CALLS,),
    ),
    Seam(
        f"{_VARIABLES}.misc:DebuggingVariable",
        ("call_function",),
        reordered_calls.call_reordered,
        "calls that the user lets Dynamo make after the graph, in inlined functions and arms",
    ),
)
