"""All that is replaced in torch without regard to who mends: a table of seams.

Seams of one attribute are put in one after the other; the last one is met first.
"""

from __future__ import annotations

import operator
from functools import partial
from typing import Final

from graphmend_bc.dynamo import facts
from graphmend_bc.dynamo.before_graph import computed_source, imports, subgraphs
from graphmend_bc.dynamo.calls import call_retry
from graphmend_bc.dynamo.corrections import (
    attribute_dicts,
    finalisers,
    same_tensors,
    shared_objects,
    tensor_hooks,
    user_sets,
)
from graphmend_bc.dynamo.deferral import final_calls, object_texts
from graphmend_bc.dynamo.frames import resume_functions
from graphmend_bc.dynamo.host_values import host_arithmetic
from graphmend_bc.dynamo.patches import absence_table, capabilities, primitives, value_table
from graphmend_bc.dynamo.patches import frames as at
from graphmend_bc.dynamo.patches.seam import Seam
from graphmend_bc.dynamo.predication.tensor_predicates import COMPARISONS
from graphmend_bc.dynamo.rollback import quiet_errors
from graphmend_bc.dynamo.speculation import checks, survey
from graphmend_bc.dynamo.symbols import captures, symbolic_arithmetic, tensor_indexing
from graphmend_bc.dynamo.trace import break_decisions
from graphmend_bc.dynamo.trace.op_recorder import Recorder

_CONVERT = "torch._dynamo.convert_frame"
_TRANSLATOR = "torch._dynamo.symbolic_convert:InstructionTranslatorBase"
_INLINING = "torch._dynamo.symbolic_convert:InliningInstructionTranslator"
_COMPARISONS = "torch._dynamo.symbolic_convert:compare_op_handlers"
_GRAPH = "torch._dynamo.output_graph:OutputGraph"
_VARIABLES = "torch._dynamo.variables"
_TENSOR = f"{_VARIABLES}.tensor:TensorVariable"
_BUILTIN = f"{_VARIABLES}.builtin:BuiltinVariable"


_FRAME: Final = (
    Seam(
        _TRANSLATOR,
        ("_load_const",),
        primitives.load_const,
        "a primitive is a constant Dynamo does not know; resume functions made from rewritten code"
        " hold primitives, and may be compiled after `disable()`",
        stays=True,
    ),
    Seam(
        "torch.fx.graph_module",
        ("print",),
        quiet_errors.printing,
        "a graph that raises and is rolled back prints nothing, after `disable()` neither",
        adds=True,
        stays=True,
    ),
    Seam(
        _CONVERT,
        ("trace_frame",),
        at.trace_frame,
        "one call per attempt: what an attempt found is forgotten with it",
    ),
    Seam(
        _INLINING,
        ("__init__",),
        at.inline,
        "the code object of an inlined callee is replaced by the rewritten one",
    ),
    Seam(
        _INLINING,
        ("should_compile_partial_graph",),
        at.ends_graph,
        "no graph ends inside of an arm, or of a function of this library",
        needed_by=(capabilities.NESTED_BREAKS,),
    ),
    *(
        Seam(
            _TRANSLATOR,
            (name,),
            break_decisions.before_break,
            "a break that nothing mends is made as stock makes it, without another attempt",
            needed_by=(capabilities.DECIDING,),
        )
        for name in ("log_graph_break", "raise_loop_graph_break")
    ),
    Seam(
        _TRANSLATOR,
        ("call_function",),
        call_retry.retry_calls,
        "a call that breaks the graph is mended on the spot, without another attempt",
        needed_by=(capabilities.RETRYING,),
    ),
    Seam(
        "torch._dynamo.symbolic_convert",
        ("__import__",),
        imports.importing,
        "imports inside a function: those that fail, and what `sys.modules` holds later",
        adds=True,
        needed_by=(capabilities.COMPUTED_GUARDS, "imports"),
    ),
    Seam(
        _TRANSLATOR,
        ("_load_attr",),
        imports.import_from,
        "`from module import name` of a name that the module lacks",
        needed_by=("imports",),
    ),
    Seam(
        "torch._dynamo.resume_execution:ContinueExecutionCache",
        ("lookup",),
        resume_functions.resume_in_original,
        "Python goes on after a break with the program's own code",
        needed_by=(capabilities.RESUMING,),
    ),
    Seam(
        "torch._dynamo.resume_execution",
        ("transform_code_object",),
        resume_functions.keeping_lines,
        "what a loop runs again after a break is in the line that the program has it in",
        needed_by=(capabilities.RESUMING,),
    ),
    Seam(
        "torch._dynamo.guards:GuardBuilder",
        ("get_guard_manager_from_source",),
        computed_source.guarding,
        "guards on values that are computed from the inputs",
        needed_by=(capabilities.COMPUTED_GUARDS,),
    ),
    Seam(
        "torch._dynamo.exc",
        ("get_dynamo_observed_exception",),
        captures.raising,
        "an exception that tracing raises because of a number known only at run time is not the"
        " program's",
        needed_by=(capabilities.SYMBOLS,),
        also=facts.RAISING,
    ),
)

_OF_GRAPHS: Final = (
    Seam(_GRAPH, ("__init__",), at.output_graph, "operators are listened to from the start"),
    Seam(
        _GRAPH,
        ("call_user_compiler",),
        at.call_user_compiler,
        "the graph is complete: proofs over the whole graph",
    ),
    Seam(
        _GRAPH,
        ("compile_subgraph",),
        at.compile_subgraph,
        "effects noted at the root run also when a nested break ends the graph",
    ),
    Seam(
        _GRAPH,
        ("compile_and_call_fx_graph",),
        at.compile_and_call,
        "further outputs of the graph, for the wrapper around it",
    ),
    Seam(
        _GRAPH,
        ("remove_unused_graphargs",),
        at.remove_unused,
        "operators that may raise stay in the graph although nothing uses them",
    ),
    *(
        Seam(
            f"{_VARIABLES}.dicts:DunderDictVariable",
            ("__init__",),
            attribute_dicts.keep_owner_of_dict,
            "the dict of an object that a frame makes",
            needed_by=(capabilities.ATTRIBUTE_DICTS,),
        )
        for _ in facts.OWN_DICT
    ),
    Seam(
        f"{_VARIABLES}.builder",
        ("make_dupe_guard",),
        shared_objects.guard_shared_objects,
        "an object that is reached by a local name and by a global one",
    ),
    Seam(
        "torch._dynamo.side_effects:SideEffects",
        ("codegen_update_mutated",),
        user_sets.replay_sets,
        "what a frame changed in sets of a class of the user's",
    ),
    Seam(
        f"{_VARIABLES}.higher_order_ops:CheckpointHigherOrderVariable",
        ("_call_function",),
        subgraphs.call_checkpoint,
        "what is mended inside of blocks with activation checkpointing",
        needed_by=(capabilities.AUTOGRAD_FUNCTIONS,),
    ),
    Seam(
        f"{_VARIABLES}.higher_order_ops",
        ("validate_subgraph_output_types",),
        checks.give_checks,
        "checks in the forward pass of autograd functions",
        needed_by=(capabilities.AUTOGRAD_FUNCTIONS,),
    ),
    Seam(
        "torch._dynamo.side_effects:SideEffects",
        ("codegen_update_mutated",),
        final_calls.make_final_call,
        "a call that comes after the changes of the frame",
        needed_by=(capabilities.DEFERRED_CALLS,),
    ),
    Seam(
        "torch._dynamo.side_effects:SideEffects",
        ("track_new_user_defined_object",),
        finalisers.make_finalised,
        "objects with a finaliser that a frame copies",
    ),
    Seam(
        f"{_VARIABLES}.user_defined:UserDefinedClassVariable",
        ("call_function",),
        finalisers.call_class,
        "objects with a finaliser, and weak references to what a frame makes",
    ),
)

_OF_TENSORS: Final = (
    *(
        Seam(
            _TENSOR,
            names,
            make,
            "questions about memory and autograd of tensors, once one is chosen",
        )
        for names, make in (
            (("call_method",), at.ask_tensor),
            (facts.GETATTR, at.ask_attribute),
            (("call_obj_hasattr",), at.ask_tensor),
        )
    ),
    *(
        Seam(_TENSOR, ("mp_ass_subscript_impl",), make, "`t[k] = v`, as its method is watched")
        for make in (at.set_item, tensor_indexing.set_item)
        if facts.SETS_ITEMS_BY_SLOT
    ),
    Seam(
        _TENSOR,
        facts.HASH,
        at.ask_identity,
        "hash and equality of tensors, once one is chosen",
        needed_by=(capabilities.SELECTION,),
    ),
    Seam(
        _TENSOR,
        ("call_method",),
        tensor_indexing.call_method,
        "subscripts by numbers of tensors",
        needed_by=(capabilities.SYMBOLS,),
    ),
    *(
        Seam(
            _TENSOR,
            ("_method_register_hook",),
            tensor_hooks.register_hook,
            "hooks of tensors that a mended frame makes",
        )
        for _ in range(facts.HOOKS_ARE_FUNCTIONS)
    ),
    Seam(
        "torch._dynamo.side_effects:SideEffects",
        ("store_attr",),
        same_tensors.written,
        "writes to attributes of a tensor that an operator returned as it is",
    ),
    Seam(
        "torch._dynamo.side_effects:SideEffects",
        ("store_attr",),
        at.set_attribute,
        "writes to attributes of tensors, once one is chosen",
    ),
    Seam(_TENSOR, ("unpack_var_sequence",), at.unpack_rows, "the rows a tensor is unpacked to"),
    Seam(
        f"{_VARIABLES}.tensor:SymNodeVariable",
        ("create",),
        symbolic_arithmetic.symbol_made,
        "operations on numbers known only at run time",
        needed_by=(capabilities.SYMBOLS,),
    ),
    *(
        Seam(
            f"{_VARIABLES}.tensor:SymNodeVariable",
            facts.RICHCOMPARE,
            at.compare_symbols,
            "comparisons of numbers known only at run time, without an operator",
        )
        for _ in range(facts.HAS_SLOTS)
    ),
)

_OF_OPERATORS: Final = (
    Seam(
        _BUILTIN,
        ("call_id",),
        at.ask_id,
        "`id` of a tensor, once one is chosen",
        needed_by=(capabilities.SELECTION,),
    ),
    Seam(
        _BUILTIN,
        ("call_function",),
        tensor_indexing.call_builtin,
        "subscripts by numbers of tensors",
        needed_by=(capabilities.SYMBOLS,),
    ),
    Seam(
        _BUILTIN,
        ("call_function",),
        host_arithmetic.call_builtin,
        "operators on values that the host reads from tensors after the graph",
        needed_by=(capabilities.HOST_READS, capabilities.SYMBOLS),
    ),
    Seam(_BUILTIN, ("call_function",), object_texts.call_builtin, "texts of objects"),
    *(
        Seam(
            _COMPARISONS,
            (name,),
            partial(at.compare_identity, identity),
            "`is` between tensors: a chosen tensor must not be compared by identity",
            needed_by=(capabilities.SELECTION, capabilities.HOST_READS, capabilities.SYMBOLS),
        )
        for name, identity in (("is", operator.is_), ("is not", operator.is_not))
    ),
    *(
        Seam(
            _COMPARISONS,
            (name,),
            partial(at.compare_numbers, function),
            "comparisons of values that the host reads from tensors",
            needed_by=(capabilities.HOST_READS, capabilities.SYMBOLS),
        )
        for name, function in COMPARISONS.items()
    ),
)

_OF_OBJECTS: Final = (
    Seam(
        _TRANSLATOR,
        ("dispatch_table",),
        survey.listen_to_jumps,
        "jumps on tensors that no plan covers",
        replaced=False,
    ),
    Seam(
        _GRAPH,
        ("create_proxy",),
        survey.watch_nodes,
        "how many nodes a survey has added",
        replaced=False,
    ),
    Seam(
        "torch._subclasses.fake_tensor:FakeTensorMode",
        ("dispatch",),
        Recorder,
        "the operators that a trace runs",
        replaced=False,
    ),
    *(
        Seam(
            "torch.fx.experimental.symbolic_shapes:ShapeEnv",
            (name,),
            captures.listen_to_captures,
            "the numbers known only at run time, where they are made",
            needed_by=(capabilities.SYMBOLS,),
            replaced=False,
        )
        for name in captures.MAKERS
    ),
)
"""What must be there because single objects, of one attempt, have it replaced."""

SEAMS: Final = (
    *_FRAME,
    *_OF_OBJECTS,
    *_OF_GRAPHS,
    *_OF_TENSORS,
    *_OF_OPERATORS,
    *value_table.SEAMS,
    *absence_table.SEAMS,
)
