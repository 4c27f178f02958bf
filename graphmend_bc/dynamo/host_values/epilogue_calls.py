"""Notes of calls that Dynamo's generated code is to make right after the graph."""

from __future__ import annotations

from typing import Any

from torch._dynamo.bytecode_transformation import create_call_function, create_instruction
from torch._dynamo.codegen import PyCodegen
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.lists import TupleVariable

from graphmend_bc import config
from graphmend_bc.dynamo.host_values.chosen_value import in_arm, jump_if
from graphmend_bc.dynamo.host_values.epilogue import EpilogueCallVariable
from graphmend_bc.dynamo.host_values.host_reads import read_predicate
from graphmend_bc.dynamo.trace.compilation import Compilation
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site
from graphmend_bc.runtime.deferral.effects import Effect
from graphmend_bc.runtime.shown_effects import told_of_shown

Note = tuple[VariableTracker, list[VariableTracker]]
"""What is called, and with what."""


class MadeVariable(VariableTracker):
    """An object of ours that generated code makes once in each call, for the notes that use it.

    Args:
        make: makes it.
    """

    def __init__(self, make: EpilogueCallVariable, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.make = make

    def reconstruct(self, codegen: PyCodegen) -> None:
        codegen.add_push_null(lambda: codegen(self.make))
        codegen.extend_output(create_call_function(0, False))


class MethodVariable(VariableTracker):
    """A method of such an object, or of an attribute of it.

    Args:
        owner: the object.
        path: from the object to the method.
    """

    _nonvar_fields = {"path", *VariableTracker._nonvar_fields}  # noqa: RUF012

    def __init__(self, owner: MadeVariable, path: tuple[str, ...], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.owner = owner
        self.path = path

    def reconstruct(self, codegen: PyCodegen) -> None:
        codegen(self.owner)
        codegen.extend_output([codegen.create_load_attr(name) for name in self.path])


class DeferredMethodVariable(MethodVariable):
    """A method of an object that is made after the graph; a marked call of it is deferred.

    Args:
        owner: stands for the object.
        path: from what stands for it to the method.
        function: the method as the object's class has it.
    """

    _nonvar_fields = {"function", *MethodVariable._nonvar_fields}  # noqa: RUF012

    def __init__(
        self, owner: MadeVariable, path: tuple[str, ...], function: object, **kwargs: Any
    ) -> None:
        super().__init__(owner, path, **kwargs)
        self.function = function

    def was_noted(self) -> None:
        """A call was deferred."""

    def was_refused(self, refused: Refused) -> None:
        """A call cannot be deferred.

        Raises:
            SiteRefused: then the object cannot be made after the graph.
        """


class ArmCallVariable(VariableTracker):
    """A call that generated code makes if all branches around it were taken.

    It stands where Dynamo's generated code calls something without arguments. Arguments are made
    only for a call that is made: a text that is formatted reads tensors from their device.

    Args:
        function: what is called.
        around: truth values of the branches, outermost first, each with the value under which the
            call's arm is taken.
        call: its arguments.
    """

    def __init__(
        self,
        function: VariableTracker,
        around: TupleVariable,
        call: list[VariableTracker],
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.function = function
        self.around = around
        self.call = call

    def reconstruct(self, codegen: PyCodegen) -> None:
        after = create_instruction("NOP")
        for branch in self.around.items:
            assert isinstance(branch, TupleVariable)
            value, taken = branch.items
            jump_if(codegen, value, not taken.as_python_constant(), after)
        with in_arm(codegen):
            codegen.add_push_null(lambda: codegen(self.function))
            codegen.foreach(self.call)
            codegen.extend_output(create_call_function(len(self.call), False))
            codegen.append_output(create_instruction("POP_TOP"))
        codegen.append_output(after)
        # What Dynamo calls in our place; it does nothing.
        codegen.append_output(create_instruction("LOAD_CONST", argval=tuple))


def predicates(
    tx: InstructionTranslatorBase, compilation: Compilation, site: Site
) -> TupleVariable:
    """The branches around what is being traced, for after the graph.

    Args:
        tx: translator of the frame that is traced.
        compilation: what is being compiled.
        site: what is noted.
    """
    return TupleVariable(
        [
            TupleVariable(
                [read_predicate(tx, compilation, site, value), ConstantVariable.create(taken)]
            )
            for value, taken in compilation.trace.predicates
        ]
    )


def note(
    tx: InstructionTranslatorBase,
    effect: Effect,
    around: TupleVariable,
    call: list[VariableTracker],
) -> Note:
    """Put a call off until after the graph.

    Args:
        tx: translator of the frame that is traced.
        effect: where the call stands.
        around: the branches around it, from `predicates`.
        call: the callee, the tuple of arguments and the dict of keywords.
    """
    shows = told_of_shown(effect.run) if config.verify else effect.run
    run = EpilogueCallVariable("__gm_effect", shows)
    entry = (ArmCallVariable(run, around, call), []) if around.items else (run, call)
    tx.output.root_tx.debug_locals.append(entry)
    return entry
