"""Programs for the seams at the values that Dynamo tracks, and at what serves one library."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Final

from graphmend_bc.canary.frames import DOWN, PRINT
from graphmend_bc.canary.program import Program
from graphmend_bc.code.facts import COMPREHENSIONS_ARE_CALLED

_TWICE: Final = "given = torch.cat([given, given])"

_MANY: Final = "y = torch.sin(torch.arange(1000.0)) * x.sum()"

_STANCE: Final = "torch.compiler.set_stance('{}')"

_GROWN: Final = "m = types.SimpleNamespace(v=[])"

_FLAGS: Final = "torch.backends.cudnn"

_MOVED: Final = "torch.compiler.config.reorderable_logging_functions"

_MADE: Final = "class C(metaclass=M): pass"

_BOUNDED: Final = "q = collections.deque([1, 1], maxlen=2)"

_METHODS: Final = """class K(torch.autograd.Function):
    gain = 3.0
    @classmethod
    def forward(cls, ctx, x): return x * cls.gain
    @classmethod
    def backward(cls, ctx, grad): return grad * cls.gain
"""

_PRODUCT: Final = """class P(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, y, w): return x * y * w
    @staticmethod
    def backward(ctx, grad): return None, None, grad
w = torch.ones(3, requires_grad=True)
"""

_BRANCHING: Final = """class B(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w): return x * w if x.sum() > 0 else x.cumsum(0) * w
    @staticmethod
    def backward(ctx, grad): return None, grad
w = torch.ones(3, requires_grad=True)
"""


_BLOCK: Final = """import copy
from torch.utils.checkpoint import checkpoint
w, n = torch.ones(3, requires_grad=True), torch.zeros(())
def block(x):
    n.add_(1)
    return copy.copy({1: x})[1] + n
"""


def _named(attribute: str) -> Program:
    """A name of a function that is a key, and not that of its code."""
    return Program(
        f"return x + {{'run': 1, 'go': 2}}[k.{attribute}]",
        f"def k(): pass\nk.{attribute} = 'run'",
        (f"k.{attribute} = 'go'",),
    )


OF_VALUES: Final = MappingProxyType(
    {
        "UserDefinedObjectVariable.var_getattr (frames.ask_object)": Program(
            "bar.update(1)\nreturn x * bar.n",
            "from tqdm import tqdm\nbar = tqdm(total=9, file=out, mininterval=1e9)",
            whole=False,
            needs="tqdm",
        ),
        "PythonModuleVariable.var_getattr (frames.ask_module)": Program(
            f"with {_FLAGS}.flags(enabled=False): y = x * {_FLAGS}.enabled\nreturn y",
            declines="flags-not-neutral",
            whole=False,
        ),
        "NumpyVariable.call_function (numpy_random.draw_as_numpy)": Program(
            "return x * np.random.uniform(1, 2)",
            "import numpy as np\nstate = np.random.get_state()\nnp.random.seed(3)",
            ("np.random.seed(4)",),
            mends="draw",
            after="np.random.set_state(state)",
            needs="numpy",
        ),
        "InstructionTranslatorBase.call_function (python_random.call_function)": Program(
            "return x.long() * random.uniform(1, 2)",
            "import random\nstate = random.getstate()\nrandom.seed(3)",
            ("random.seed(4)",),
            mends="draw",
            after="random.setstate(state)",
        ),
        "TorchInGraphFunctionVariable.call_function (padding.call_pad)": Program(
            "return F.pad(x, [1, 1], value=x.shape[0] - 1)",
            "",
            (_TWICE, f"{_STANCE.format('fail_on_recompile')}\n{_TWICE}"),
            after=_STANCE.format("default"),
        ),
        "VariableBuilder._wrap (grown_lists.wrap_list)": Program(
            "m.v.append(x * 2)\nreturn torch.cat(m.v)", _GROWN, ("",), mends="accumulate"
        ),
        "TorchInGraphFunctionVariable.call_function (grown_lists.call_cat)": Program(
            "m.v.append(x * 2)\nreturn torch.cat(m.v, dim=0)", _GROWN, ("",), mends="accumulate"
        ),
        "InstructionTranslatorBase.call_function (grown_lists.call_mapping)": Program(
            "m.v.append(x * 2)\nreturn torch.cat([v.float() for v in m.v])",
            _GROWN,
            ("",),
            mends="accumulate" if COMPREHENSIONS_ARE_CALLED else "",
        ),
        "RandomVariable.call_method (python_random.call_method)": Program(
            "return x * r.random()",
            "import random\nr = random.Random(3)",
            ("given = given + 1",),
            mends="draw",
        ),
        "NumpyNdarrayVariable.__init__ (numpy_types.make_array)": Program(
            "return x.sum() + torch.from_numpy(np.array([2, 3]) / 3)",
            "import numpy as np",
            whole=False,
            needs="numpy",
        ),
        "UserDefinedObjectVariable.is_python_equal (equal_keys.equal_as_keys)": Program(
            "return x * {O(): 2.0}.get(O(), 3.0)",
            "class O:\n    def __eq__(self, other): return True\n"
            "    def __hash__(self): return 1\n",
        ),
        "BuiltinVariable.call_str (exception_texts.text_of_exception)": Program(
            "try: raise KeyError('k')\nexcept KeyError as error: return x * len(str(error))"
        ),
        "RangeVariable.sq_contains (range_members.found_in_range)": Program(
            "return x * len(str(7 in range(9)))"
        ),
        "MappingProxyVariable.call_method (value_table._read_proxy)": Program(
            "d['k'] = d['k'] + 1\nreturn x * p['k'], p.get('j', 3)",
            "d, p = {'k': 0}, types.MappingProxyType({'k': 2})",
        ),
        "DequeVariable.call_method (bounded_deques.bounded)": Program(
            f"q.append(2)\n{PRINT}\nreturn x * len(q)", _BOUNDED, mends="defer"
        ),
        "DequeVariable.sq_repeat_impl (bounded_deques.repeated)": Program(
            f"{PRINT}\nreturn x * len(q * 2)", _BOUNDED, mends="defer"
        ),
        "BuiltinVariable.call_function (bounded_deques.added)": Program(
            f"{PRINT}\nreturn x * len(q + q)", _BOUNDED, mends="defer"
        ),
        "tp_getset.maxlen (bounded_deques.read_bound)": Program(
            f"{PRINT}\nreturn x * q.maxlen", _BOUNDED, mends="defer"
        ),
        "UserDefinedClassVariable.call_function (metaclass_calls.call_class)": Program(
            "return x * len(C())", "class M(type):\n    def __call__(cls): return [1, 2]\n" + _MADE
        ),
        "SuperVariable.call_method (metaclass_calls.call_super)": Program(
            "return x * C().k",
            "class M(type):\n"
            "    def __call__(cls):\n        o = super().__call__()\n        o.k = 2\n"
            "        return o\n" + _MADE,
        ),
        "UserDefinedObjectVariable._check_for_getattr (metaclass_calls.own_getattr)": Program(
            "return x * getattr(C(), 'k', 2)",
            f"class M(type):\n    def __getattr__(cls, name): return 3\n{_MADE}",
        ),
        "UserDefinedClassVariable.var_getattr (metaclass_calls.read_of_metaclass)": Program(
            "return x * len(C.held)",
            f"class M(type): held = [1, 2]\n{_MADE}",
            ("M.held.append(3)",),
        ),
        "BuiltinVariable.call_slice (tensor_slices.call_slice)": Program(
            f"n = x.max().long()\n{PRINT}\nreturn slice(n), x + 1", mends="defer"
        ),
        "SliceVariable.__init__ (array_numbers.make_slice)": Program(
            "n = x.argmax()\na = x[n] * 2\ntry: return a + x[n[None].numpy() :]\n"
            "except TypeError: return a",
            declines="hoist-not-input",
            whole=False,
        ),
        "SliceVariable.as_python_constant (host_value.constant_slice)": Program(
            "for f in FS[: x.argmax().item()]: x = f(x)\nreturn x",
            "FS = [torch.sin, torch.cos, torch.tan]",
            mends="hoist",
        ),
        "TorchInGraphFunctionVariable.call_function (array_numbers.call_torch)": Program(
            "n = x.argmax()\na = x[n] * 2\ntry: return a + torch.zeros(n[None].numpy())\n"
            "except TypeError: return a",
            declines="hoist-not-input",
            whole=False,
        ),
        "TorchInGraphFunctionVariable.call_function (trace_time_effects.trace_call)": Program(
            "x = x * 2\nif x.sum() > 0: torch.set_float32_matmul_precision('high')\nreturn x",
            "precision = torch.get_float32_matmul_precision()\n"
            "torch.set_float32_matmul_precision('highest')\ngiven = -given",
            ("given = given * 0 + (torch.get_float32_matmul_precision() == 'high')",),
            whole=False,
            after="torch.set_float32_matmul_precision(precision)",
        ),
        "InvokeSubgraphHigherOrderVariable.call_function (compile_regions.call_region)": Program(
            "return region(x) * 2",
            "@torch.compiler.nested_compile_region\n"
            "def region(x):\n    if x.sum() > 0: x = x * 2\n    return x + 1",
            ("given = -given",),
            mends="inline",
        ),
        "TorchInGraphFunctionVariable.call_function (dropout.call_dropout)": Program(
            f"y = F.dropout(x, 0.5, False)\n{PRINT}\nreturn x.sum(), y is x", mends="defer"
        ),
        **{
            f"{where}{name} (factors.{ours})": Program(
                f"{PRINT}\n{_MANY}\nreturn (y * 1).{name}(y / 3, y + 7, value=0.1)", mends="defer"
            )
            for where, ours in (
                ("TensorVariable.method_", "keep_operator"),
                ("tp_methods.", "keep_entry"),
            )
            for name in ("addcmul_", "addcdiv_")
        },
        "TorchInGraphFunctionVariable.call_function (factors.call_method)": Program(
            f"{PRINT}\n{_MANY}\nreturn torch.addcdiv(y, y / 3, y + 7, value=0.1)", mends="defer"
        ),
        "TorchInGraphFunctionVariable.call_function (absent_generators.leave_out)": Program(
            "return x + torch.randint(1, 2, x.shape, generator=None)",
            "",
            ("given = torch.cat([given, given])",),
        ),
        "AutogradFunctionApplyVariable.prepare_fn_vt (class_methods.prepare_method)": Program(
            "return K.apply(x).sum()", f"given.requires_grad_()\n{_METHODS}", ("K.gain = 4.0",)
        ),
        "CheckpointHigherOrderVariable._call_function (subgraphs.call_checkpoint)": Program(
            "return checkpoint(block, x + w, use_reentrant=False)",
            _BLOCK,
            ("",),
            declines="inside-function",
            whole=False,
        ),
        "higher_order_ops.validate_subgraph_output_types (checks.give_checks)": Program(
            "return B.apply(x, w) + 1", _BRANCHING, ("given = -given",), mends="speculate"
        ),
        "functions.fn_var_getattr (qualified_names.read_function)": _named("__qualname__"),
        "UserFunctionVariable.get_name (qualified_names.name_of)": _named("__name__"),
        "UserFunctionVariable.get_qualname (qualified_names.qualified_name_of)": _named(
            "__qualname__"
        ),
        "AutogradFunctionApplyVariable.rewire_bwd_graph_outputs"
        " (repeated_inputs.rewire_gradients)": Program("return P.apply(x, x, w) + x", _PRODUCT),
        "AutogradFunctionVariable.call_apply (class_methods.call_apply)": Program(
            "return K.apply(x)", _METHODS, ("K.gain = 4.0",)
        ),
        "SuperVariable.__init__ (class_methods.make_super)": Program(
            "return L.apply(x)",
            f"{_METHODS}\nclass L(K):\n    @classmethod\n"
            "    def forward(cls, ctx, x): return super().forward(ctx, x)",
            ("K.gain = 4.0",),
        ),
        "AutogradFunctionVariable.var_getattr (class_methods.read_attribute)": Program(
            "return x * K.gain", _METHODS, ("K.gain = 4.0",)
        ),
        "TorchInGraphFunctionVariable.call_function (tensor_bounds.call_range)": Program(
            "return torch.arange(x.min().int(), x.max().int()) + 1",
            "given = given * torch.arange(given.numel())",
            ("given = given + given",),
            mends="capture",
        ),
        "nn_module.initialize_lazy_module (trace_time_effects.initialize_lazy)": Program(
            "x = x * 2\nif x.sum() > 0: x = lazy(x)\nreturn x.shape[0]",
            "lazy = nn.LazyLinear(3)\ngiven = -given",
            ("given = given * hasattr(lazy, '_initialize_hook')",),
            whole=False,
        ),
        "WrapperUserFunctionVariable.call_function (cached_calls.call_cached)": Program(
            "once('a')\nreturn x + 1",
            "@functools.lru_cache(None)\ndef once(text): print(text, file=out)",
            ("once.cache_clear()",),
            declines="effect-in-cache",
            whole=False,
        ),
        "StringFormatVariable.__init__ (tensor_formatting.make_format)": Program(
            "y = x * 2\ntext = f'{y}'\ny.add_(1)\nprint(text, file=out)\nreturn x + 1",
            mends="defer",
        ),
        "StringFormatVariable.reconstruct (object_texts.reconstruct_text)": Program(
            f"text = f'{{o}}: {{x.sum()}}'\no.n = 2\n{PRINT}\nreturn x + 1, text",
            "class O:\n    n = 1\n    def __repr__(self): return f'O{self.n}'\no = O()",
            ("o.n = 7",),
            mends="defer",
            whole=False,
        ),
        "symbolic_convert._detect_and_normalize_assert_statement (assertions.detect_assert)": (
            Program("assert x.sum() > 0, 'down'\nreturn x + 1", steps=(DOWN,), mends="speculate")
        ),
        "InstructionTranslatorBase._convert_value (tensor_formatting.convert_value)": Program(
            "print(f'{x!r}', file=out)\nreturn x + 1", mends="defer"
        ),
        "InstructionTranslatorBase._format_value (tensor_formatting.format_value)": Program(
            "print(f'{x.shape[0]:3d}', file=out)\nreturn x + 1",
            steps=("given = torch.ones(4)", "given = torch.ones(5)"),
            mends="defer",
        ),
        "CatchWarningsCtxManagerVariable.enter (deferred_calls.enter_catching)": Program(
            "with warnings.catch_warnings(record=True) as caught: warnings.warn('hidden')\n"
            "return x + len(caught)",
            declines="effect-moved",
            whole=False,
        ),
        "DebuggingVariable.call_function (reordered_calls.call_reordered)": Program(
            "return inner(x) + 1",
            "def say(value): print(value, file=out)\n"
            "def inner(x):\n    say(x.sum())\n    return x * 2\n"
            f"{_MOVED}.add(say)",
            mends="defer",
            after=f"{_MOVED}.discard(say)",
        ),
    }
)

_CTC: Final = Program(
    "scores = (logits @ torch.eye(3)).log_softmax(-1).transpose(0, 1)\n"
    "known = logits.sum(-1)[:, :3] < 9\n"
    "targets = labels.masked_select(known)\n"
    "return F.ctc_loss(scores, targets, torch.full((2,), 5), known.sum(-1))",
    "logits = torch.ones(2, 5, 3)\nlogits.requires_grad_()\nlabels = torch.ones(2, 3).long()",
    mends="capture",
)

OF_LIBRARIES: Final = MappingProxyType(
    {
        "op_implementations_dict.aten._ctc_loss.Tensor (ctc._unless_known)": _CTC,
        "op_implementations_dict.aten._ctc_loss_backward.Tensor (ctc._unless_known)": replace(
            _CTC, backend="aot_eager", quick=False
        ),
    }
)
