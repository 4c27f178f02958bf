"""Programs for the seams at frames, graphs, tensors and operators."""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from graphmend_bc.canary.program import Program

PRINT: Final = "print('sum', x.sum(), file=out)"
"""What is mended in most programs: a call that is deferred."""

_BRANCH: Final = "x = x + 1\nif x.sum() > 0: x = x * 2"
DOWN: Final = "given = -given"
"""A change of the argument: conditions have the other value."""

_CHOSEN: Final = "h = x + 1\ny = h if x.sum() > 0 else x + 2\n"
_TAGGED: Final = "h = torch.ones(3)\nh.tag = 3"

_SCHEDULED: Final = """
rows = []
weight = torch.ones(1, requires_grad=True)
def rate(epoch): return print(epoch, len(rows), file=out) or 1.0
s = torch.optim.lr_scheduler.LambdaLR(torch.optim.SGD([weight], 0.5), rate)
"""
_FINALISED: Final = "n = [0]\nclass D:\n    def __del__(self): n[0] += 1"


def _forgotten(stance: str) -> Program:
    """A stance against compiling, when a failed check has just had a graph forgotten."""
    return Program(
        "return [x + 1] if x.sum() > 0 else [x, x + 2]",
        steps=(DOWN, f"torch.compiler.set_stance({stance})", DOWN),
        mends="speculate",
        quick=False,
        after="torch.compiler.set_stance('default')",
    )


OF_FRAMES: Final = MappingProxyType(
    {
        "convert_frame.compile_frame (installer.compiling)": Program(
            f"{_BRANCH}\nreturn x", steps=(DOWN,), mends="where"
        ),
        "convert_frame._compile (installer.converting)": Program(
            f"{_BRANCH}\nreturn x + torch.ones(3)",
            steps=("given = torch.ones(4)", DOWN),
        ),
        "eval_frame._callback_from_stance (installer.calling_back)": _forgotten(
            "'fail_on_recompile'"
        ),
        "eval_frame._is_skip_guard_eval_unsafe_stance (installer.skipping_guards)": _forgotten(
            "skip_guard_eval_unsafe=True"
        ),
        "_dynamo.reset (installer.resetting)": Program(
            f"if on: {PRINT}\nreturn x",
            "on = True",
            ("torch._dynamo.reset(); on = False",),
            forgets="defer",
            quick=False,
        ),
        "InstructionTranslatorBase._load_const (primitives.load_const)": Program(
            f"{_BRANCH}\nreturn x", steps=(DOWN,), mends="where"
        ),
        "graph_module.print (quiet_errors.printing)": Program(
            "seen = []\nif n.sum() > 3: seen.append(n)\nreturn [*seen, n % m]",
            "n, m = torch.tensor([4, 5]), torch.tensor([5, 5])",
            ("m = torch.tensor([0, 5])",),
            whole=False,
            backend="module",
        ),
        "convert_frame.trace_frame (frames.trace_frame)": Program(
            "n = 1\nif x.sum() > 0: n = 2\ntorch._dynamo.graph_break()\nreturn x * n, n",
            steps=(DOWN,),
            mends="speculate",
            whole=False,
        ),
        "InliningInstructionTranslator.__init__ (frames.inline)": Program(
            "return g(x) + 1",
            "def g(x):\n    x = x + 1\n    if x.sum() > 0: x = x * 2\n    return x",
            (DOWN,),
            mends="where",
        ),
        "InliningInstructionTranslator.should_compile_partial_graph (frames.ends_graph)": Program(
            "n = 0\nwhile x.shape[0] > 0: x, n = x[torch.where(x > n)[0]], n + 1\nreturn n",
            "settings = torch._dynamo.config\nset_before = settings.nested_graph_breaks\n"
            "settings.nested_graph_breaks = True",
            ("given = given + 1",),
            mends="hoist",
            whole=False,
            quick=False,
            after="settings.nested_graph_breaks = set_before",
        ),
        "symbolic_convert.__import__ (imports.importing)": Program(
            "try:\n    import gm_absent\n    x = x * 2\nexcept ImportError: x = x + 1\nreturn x",
            "import sys\nsys.modules['gm_absent'] = None",
            ("sys.modules['gm_absent'] = torch",),
            mends="probe",
            after="del sys.modules['gm_absent']",
        ),
        "InstructionTranslatorBase._load_attr (imports.import_from)": Program(
            "try: from gm_names import n\nexcept ImportError: n = 3\nreturn x * n",
            "import sys\nm = sys.modules['gm_names'] = types.ModuleType('m')",
            ("m.n = 4",),
            mends="probe",
            after="del sys.modules['gm_names']",
        ),
        "InstructionTranslatorBase.log_graph_break (break_decisions.before_break)": Program(
            "return x[x > 1].sum()", steps=("given = given + 1",), mends="capture"
        ),
        "InstructionTranslatorBase.raise_loop_graph_break (break_decisions.before_break)": Program(
            "for n in (1, 2): y = x[x > n].sum()\nreturn y",
            steps=("given = given + 1",),
            mends="capture",
        ),
        "InstructionTranslatorBase.call_function (call_retry.retry_calls)": Program(
            "for i in range(int(x[0].item())): x = x + i\nreturn x",
            steps=("given = given + 1",),
            mends="hoist",
        ),
        "ContinueExecutionCache.lookup (resume_functions.resume_in_original)": Program(
            "h = x + 1\nif on: torch._dynamo.graph_break()\n"
            "y = h if x.sum() > 0 else x + 2\nreturn x * (2 if on and y is h else 3)",
            "on = False",
            ("on = True", DOWN),
            mends="speculate",
            whole=False,
        ),
        "resume_execution.transform_code_object (resume_functions.keeping_lines)": Program(
            "n = 3\nwhile n:\n    n -= 1\n    if n < 2: at = line()\n"
            "    torch._dynamo.graph_break()\n    if x.dim() > 3: return x\n"
            "    x = x + (1 if x.sum() > 0 else 2)\nreturn x, at",
            "def line(): return inspect.currentframe().f_back.f_lineno",
            whole=False,
        ),
        "GuardBuilder.get_guard_manager_from_source (computed_source.guarding)": Program(
            "for i in range(int(x[0].item())): x = x + i\nreturn x",
            steps=("given = given + 1",),
            mends="hoist",
        ),
        "exc.get_dynamo_observed_exception (captures.raising)": Program(
            "y = x * 2\nn = y.sum().long().item()\ny.add_(1)\n"
            "try: s = 'abc'[n]\n"
            "except (TypeError, IndexError): s = 'none'\n"
            "return y, s",
            steps=("given = given * 0",),
            whole=False,
        ),
        "OutputGraph.__init__ (frames.output_graph)": Program(
            "x.add_(1)\nn = 1\nif x.sum() > 0: n = 2\nreturn x * 1, n",
            steps=(DOWN,),
            mends="speculate",
        ),
        "OutputGraph.call_user_compiler (frames.call_user_compiler)": Program(
            "n = 1\nif x.sum() > 0: n = 2\nreturn x * 1, n", steps=(DOWN,), mends="speculate"
        ),
        "OutputGraph.compile_subgraph (frames.compile_subgraph)": Program(
            "n = 1\nif x.sum() > 0: n = 2\nreturn x.sum() * 0, n", steps=(DOWN,), mends="speculate"
        ),
        "OutputGraph.compile_and_call_fx_graph (frames.compile_and_call)": Program(
            "n = 1\nif x.sum() > 0: n = 2\nreturn x.sum() * 0 + 1, n",
            steps=(DOWN,),
            mends="speculate",
        ),
        "OutputGraph.remove_unused_graphargs (frames.remove_unused)": Program(
            f"{PRINT}\nx[i]\nreturn x + 1",
            "i = torch.tensor([0])",
            ("i = torch.tensor([9])",),
            mends="defer",
        ),
        "DunderDictVariable.__init__ (attribute_dicts.keep_owner_of_dict)": Program(
            f"{PRINT}\no = O()\no.n = 2\nreturn x, vars(o)",
            "class O: pass",
            ("given = given * (1 + len(result[1]))",),
            mends="defer",
        ),
        "builder.make_dupe_guard (shared_objects.guard_shared_objects)": Program(
            f"{PRINT}\nk = x.rows if hasattr(x, 'rows') else [1]\nreturn x * sum(k) * len(rows)",
            "rows = [1]",
            ("given.rows = rows", "rows = [1, 1]"),
            mends="defer",
        ),
        "SideEffects.codegen_update_mutated (user_sets.replay_sets)": Program(
            "if 'a' not in s:\n    s.add('a')\n    print('a', file=out)\nreturn x * len(s)",
            "class S(set): pass\ns = S([1])",
            ("s.discard(1)",),
            mends="defer",
        ),
        "SideEffects.codegen_update_mutated (final_calls.make_final_call)": Program(
            "rows.append(1)\ny = x * 2\ns.step()\nreturn y",
            _SCHEDULED,
            ("",),
            mends="defer",
        ),
        "UserDefinedClassVariable.call_function (finalisers.call_class)": Program(
            "d = D()\ndel d\nreturn x + n[0]",
            _FINALISED,
            ("",),
            declines="object-finalised",
            whole=False,
        ),
        "SideEffects.track_new_user_defined_object (finalisers.make_finalised)": Program(
            "d = object.__new__(D)\ndel d\nreturn x + n[0]",
            _FINALISED,
            ("",),
            declines="object-finalised",
            whole=False,
        ),
    }
)

OF_TENSORS: Final = MappingProxyType(
    {
        "TensorVariable.call_method (frames.ask_tensor)": Program(
            "y = w * x\nif x.sum() > 0:\n    y.register_hook(lambda g: g * 2)\n    y = y * 2\n"
            "return y",
            "w = nn.Parameter(torch.ones(3))",
            (DOWN,),
            declines="arm-changes-state",
            whole=False,
        ),
        "TensorVariable._method_register_hook (tensor_hooks.register_hook)": Program(
            "if x.sum() > 0:\n    x = x * 2\ny = w * x\ny.register_hook(lambda g: g * 2)\nreturn y",
            "w = nn.Parameter(torch.ones(3))",
            (DOWN,),
            mends="where",
            whole=False,
        ),
        "TensorVariable.var_getattr (frames.ask_attribute)": Program(
            f"{_CHOSEN}return x + y._version",
            steps=(DOWN,),
            declines="identity-compared",
            whole=False,
        ),
        "TensorVariable.call_obj_hasattr (frames.ask_tensor)": Program(
            f"{_CHOSEN}return x + hasattr(y, 'tag')",
            steps=(DOWN,),
            declines="identity-compared",
            whole=False,
        ),
        "TensorVariable.hash_impl (frames.ask_identity)": Program(
            f"{_CHOSEN}return x + (y in {{h: 1}})",
            steps=(DOWN,),
            declines="identity-compared",
            whole=False,
        ),
        **dict.fromkeys(
            (
                "TensorVariable.call_method (tensor_indexing.call_method)",
                "TensorVariable.mp_ass_subscript_impl (tensor_indexing.set_item)",
                "TensorVariable.mp_ass_subscript_impl (frames.set_item)",
            ),
            Program(
                "n = i * 1\ny = x * 2\ny[n] = 5.0\nreturn y",
                "i = torch.tensor(1)",
                ("i = torch.tensor(2)",),
                mends="capture",
            ),
        ),
        "SideEffects.store_attr (same_tensors.written)": Program(
            "h.contiguous().tag = 9\nreturn x + 1",
            _TAGGED,
            ("given = given * h.tag",),
        ),
        "SideEffects.store_attr (frames.set_attribute)": Program(
            f"{_CHOSEN}y.tag = 9\nreturn x + 1",
            steps=(DOWN,),
            declines="identity-compared",
            whole=False,
        ),
        "TensorVariable.unpack_var_sequence (frames.unpack_rows)": Program(
            f"{PRINT}\na, b, c = w * x\nreturn a",
            "w = nn.Parameter(torch.ones(3))",
            ("given = given * ('Unbind' in result.grad_fn.name())",),
            mends="defer",
            whole=False,
        ),
        "SymNodeVariable.create (symbolic_arithmetic.symbol_made)": Program(
            "y = x * 2\nn = y.max().long().item()\ny.add_(1)\nreturn y * (6 // n)",
            steps=("given = given * 0",),
            whole=False,
        ),
        "SymNodeVariable.richcompare_impl (frames.compare_symbols)": Program(
            "y = x * 2\nn = y.max().long().item()\nreturn y * (2 if [n] == [6] else 3)",
            steps=("given = given * 0", "given = given + 3"),
            whole=False,
        ),
    }
)

OF_OPERATORS: Final = MappingProxyType(
    {
        "BuiltinVariable.call_id (frames.ask_id)": Program(
            f"{_CHOSEN}return x + (id(y) == id(h))",
            steps=(DOWN,),
            declines="identity-compared",
            whole=False,
        ),
        "BuiltinVariable.call_function (tensor_indexing.call_builtin)": Program(
            "n = i * 1\nreturn x[n] * 2",
            "i = torch.tensor(1)",
            ("i = torch.tensor(2)",),
            mends="capture",
        ),
        "BuiltinVariable.call_function (host_arithmetic.call_builtin)": Program(
            "v = x.max().item()\nprint(min(v, 3.0), file=out)\nreturn x",
            steps=(DOWN,),
            mends="defer",
        ),
        "BuiltinVariable.call_function (object_texts.call_builtin)": Program(
            "text = str(o)\no.n = 2\nprint(text, file=out)\nreturn x + 1",
            "class O:\n    n = 1\n    def __repr__(self): return f'O{self.n}'\no = O()",
            ("o.n = 7",),
            mends="defer",
        ),
        **{
            f"compare_op_handlers.{name} (frames.compare_identity)": Program(
                f"{_CHOSEN}return x + (y {name} h)",
                steps=(DOWN,),
                declines="identity-compared",
                whole=False,
            )
            for name in ("is", "is not")
        },
        **{
            f"compare_op_handlers.{name} (frames.compare_numbers)": Program(
                f"if x.max().item() {name} 3: x = x * 2\nreturn x + 1",
                steps=(DOWN,),
                mends="capture",
            )
            for name in ("<", "<=", ">", ">=", "==", "!=")
        },
    }
)
