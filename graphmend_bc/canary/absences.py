"""Programs for the seams at which a trace learns that something is absent, or what classes hold.

Each asks for something that is not there, is mended, and is called again when it has come.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Final

from graphmend_bc.canary.frames import PRINT
from graphmend_bc.canary.program import Program
from graphmend_bc.dynamo import facts

_OBJECT: Final = "class O: pass\no = O()"

_ABSTRACT: Final = f"import abc\nclass A(abc.ABC): pass\n{_OBJECT}"
_MODULE: Final = (  # Dynamo remembers modules by their names
    "import sys, time\nm = types.ModuleType(f'graphmend_bc_{time.monotonic_ns()}')\n"
    "sys.modules[m.__name__] = m\nexec('o = 3\\ndef g(): o', vars(m))"
)


def _asks(question: str, before: str, *steps: str, after: str = "") -> Program:
    """A program whose answer changes when what was absent comes."""
    body = f"w = 1\n{question}\n{PRINT}\nreturn w * x"
    return Program(body, before, steps, mends="defer", whole=False, after=after)


def _tries(value: str, before: str, *steps: str) -> Program:
    return _asks(f"try: w = {value}\nexcept Exception: pass", before, *steps)


OF_ITEMS: Final = MappingProxyType(
    {
        "ConstDictVariable.getitem_const_raise_exception_if_absent (absent_keys.subscript)": (
            _tries("d['k']", "d = {}", "d['k'] = 3")
        ),
        "functions.bind_args_cached (absent_defaults.bind_absent_defaults)": _tries(
            "g()", "def g(*, n): return n", "g.__kwdefaults__ = {'n': 3}"
        ),
        "ConstDictVariable.repr_impl (absent_keys.show_items)": _asks(
            "w = len(f'{d!r}')", "d = {}", "d['k'] = 3"
        ),
        "BuiltinVariable.call_function (absent_keys.use_whole)": _asks(
            "w = len(str([d]))", "d = {}", "d['k'] = 3"
        ),
        "ConstDictVariable.as_python_constant (absent_keys.take_whole)": _asks(
            "w = 2 if d else 1", "d = {}", "d['k'] = 3"
        ),
        "ListVariable.call_method (absent_keys.take_all)": _asks(
            "k = []\nk.extend(d)\nw = len(k) + 1", "d = {}", "d['k'] = 3"
        ),
        "SetVariable.call_method (absent_keys.take_all)": _asks(
            "k = set()\nk.update(d)\nw = len(k) + 1", "d = {}", "d['k'] = 3"
        ),
        f"{facts.DICT_BUILTIN}.call_custom_dict_fromkeys (absent_keys.take_keys)": _asks(
            "w = len(dict.fromkeys(d)) + 1", "d = {}", "d['k'] = 3"
        ),
        "DefaultDictVariable.mp_subscript_impl (absent_keys.default_item)": _tries(
            "d['k']", "d = collections.defaultdict()", "d['k'] = 3"
        ),
        "ConstDictVariable.call_method (absent_keys.take_item)": _asks(
            "k, w = d.popitem()\nd[k] = w", "d = {'a': 1, 'b': 2}", "d['a'] = d.pop('a')"
        ),
        "OrderedDictVariable.call_method (absent_keys.take_item)": _asks(
            "k, w = d.popitem()\nd[k] = w",
            "d = collections.OrderedDict(a=1, b=2)",
            "d['a'] = d.pop('a')",
        ),
        "DunderDictVariable.install_dict_contains_guard (absent_keys.ask_attributes)": _asks(
            "w = vars(o).get('w', 1)", _OBJECT, "o.w = 3"
        ),
        "DunderDictVariable.install_dict_keys_match_guard (absent_keys.list_attributes)": _asks(
            "w = len(vars(o)) + 1", _OBJECT, "o.w = 3"
        ),
    }
)

OF_ITEMS_BY_NAME: Final = MappingProxyType(
    {
        "DefaultDictVariable.call_method (absent_keys.default_item_by_method)": _tries(
            "d['k']", "d = collections.defaultdict()", "d['k'] = 3"
        ),
        "UserDefinedObjectVariable.has_key_in_generic_dict (absent_names.ask_own)": _asks(
            "w = 2 if 'w' in o.__dict__ else 1", _OBJECT, "o.w = 3"
        ),
        "UserDefinedClassVariable.has_key_in_generic_dict (absent_names.ask_own)": _asks(
            "w = 2 if 'w' in o.__dict__ else 1", "class o: pass", "o.w = 3"
        ),
    }
)
"""Where releases of torch answer by the names of methods, and not by slots."""

OF_ATTRIBUTES: Final = MappingProxyType(
    {
        **{
            f"{owner}.var_getattr (absent_names.attribute)": _tries("o.w", before, "o.w = 3")
            for owner, before in (
                ("UserDefinedObjectVariable", _OBJECT),
                ("UserDefinedClassVariable", "class o: pass"),
                ("PythonModuleVariable", "o = types.ModuleType('o')"),
                ("UserFunctionVariable", "def o(): pass"),
            )
        },
        "TensorVariable.var_getattr (absent_names.attribute)": _asks(
            "try: (x * 2).w\nexcept AttributeError: w = 2", ""
        ),
        **{
            f"{owner}.var_getattr (absent_names.attribute_of_container)": _asks(
                f"try: {made}.sum()\nexcept AttributeError: w = 2", ""
            )
            for owner, made in (
                ("TupleVariable", "(x, 1)"),
                ("ListVariable", "[x]"),
                ("ConstDictVariable", "{'a': x}"),
            )
        },
        "UserDefinedClassVariable.call_obj_hasattr (class_writes.has_attribute)": Program(
            "C.n = 3\nreturn x + hasattr(D, 'n')",
            "class C: pass\nclass D(C): pass",
            ("del C.n",),
            whole=False,  # torch 2.11 breaks at the write
        ),
        "TensorVariable.call_obj_hasattr (absent_names.has_attribute)": _asks(
            "w = 5 if hasattr(x * 2, 'w') else 1", ""
        ),
        **{
            f"{owner}.call_obj_hasattr (absent_names.has_attribute)": _asks(
                "w = o.w if hasattr(o, 'w') else 1", before, "o.w = 3"
            )
            for owner, before in (
                ("PythonModuleVariable", "o = types.ModuleType('o')"),
                ("UserFunctionVariable", "def o(): pass"),
            )
        },
        "UserDefinedObjectVariable.method_setattr_standard (absent_names.change_attribute)": _asks(
            "try: del o.w\nexcept AttributeError: w = 2", _OBJECT, "o.w = 3"
        ),
        "ContextVarVariable._get_value (context_variables.get_unset)": _tries(
            "v.get()", "import contextvars\nv = contextvars.ContextVar('v')", "v.set(3)"
        ),
        "InstructionTranslatorBase.load_builtin (absent_names.load_builtin)": _asks(
            "w = len([1, 2])", "", "len = lambda items: 7"
        ),
        "InstructionTranslatorBase._load_global (absent_names.load_global)": _asks(
            "try: o\nexcept NameError: w = 2", "o = 3", "del o"
        ),
        "InliningInstructionTranslator._load_global (absent_names.load_global)": _asks(
            "try: m.g()\nexcept NameError: w = 2",
            _MODULE,
            "del m.o",
            after="sys.modules.pop(m.__name__)",
        ),
        "InliningInstructionTranslator.get_globals_source_and_value "
        "(standard_globals.global_of_callee)": _asks(
            "w = int(os.getenv('GRAPHMEND_BC_CANARY', '2'))",
            "import os",
            "os.environ['GRAPHMEND_BC_CANARY'] = '3'",
            after="os.environ.pop('GRAPHMEND_BC_CANARY', None)",
        ),
    }
)

OF_CLASSES: Final = MappingProxyType(
    {
        "UserDefinedObjectVariable.lookup_class_mro_attr (class_lookups.looked_up)": _asks(
            "w = o.m()",
            "class A:\n    def m(self): return 2\nclass O(A): pass\no = O()",
            "O.m = lambda self: 3",
        ),
        "UserDefinedClassVariable.lookup_cls_mro_attr (class_lookups.looked_up)": _asks(
            "w = O.m()",
            "class A:\n    @staticmethod\n    def m(): return 2\nclass O(A): pass",
            "O.m = staticmethod(lambda: 3)",
        ),
        "UserDefinedObjectVariable.try_get_descritor_and_setter_py_func "
        "(class_lookups.looked_up)": _asks(
            "o.w = 1\nw = o.w",
            "class D:\n    def __init__(self, n): self.n = n\n"
            "    def __set__(self, o, value): o.n = value + self.n\n"
            "    def __get__(self, o, kind): return o.n\n"
            "class A: w = D(1)\nclass O(A): pass\no = O()",
            "O.w = D(2)",
        ),
        "UserDefinedClassVariable.var_getattr (class_lookups.read_of_class)": _asks(
            "w = O.n", "class A: n = 2\nclass O(A): pass", "O.n = 3"
        ),
        "UserDefinedVariable._maybe_get_baseclass_method (class_lookups.looked_up)": _asks(
            "w = o['k']",
            "class D(dict):\n    def __getitem__(self, key): return 2\no = D(k=1)",
            "D.__getitem__ = lambda self, key: 3",
        ),
        "UnspecializedNNModuleVariable.call_function (class_lookups.called)": _asks(
            "x = o(x)",
            "class M(nn.Module):\n    def forward(self, x): return x * 2\no = M()",
            "M.forward = lambda self, x: x * 3",
        ),
        "SuperVariable._resolved_getattr_and_source (class_lookups.looked_up_in_bases)": _asks(
            "w = o.m()",
            "class A:\n    def m(self): return 2\n"
            "class B(A): pass\nclass O(B):\n    def m(self): return super().m() + 1\no = O()",
            "B.m = lambda self: 5",
        ),
        "UnspecializedNNModuleVariable.var_getattr (module_hooks.asked_for_hooks)": _asks(
            "x = o(x)", "o = nn.Identity()", "o.register_forward_hook(lambda m, a, y: y * 2)"
        ),
        "PythonModuleVariable.var_getattr (module_hooks.asked_for_hooks)": _asks(
            "x = o(x)",
            "o = nn.Identity()",
            "hook = nn.modules.module.register_module_forward_hook(lambda m, a, y: y * 2)",
            after="hook.remove()",
        ),
    }
)

_OVERRIDES: Final = """class O:
    def __matmul__(self, t): return t * 3
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None): return args[0] * 5
o = O()"""

OF_SPECIAL_METHODS: Final = MappingProxyType(
    {
        "BuiltinVariable._handle_insert_op_in_graph (own_operators.operated)": Program(
            "return o @ x", _OVERRIDES, ("O.__matmul__ = lambda self, t: t * 7",)
        ),
        "object_protocol._get_cached_slots (special_methods.special_slots_of)": _tries(
            "len(o)", _OBJECT, "O.__len__ = lambda self: 3"
        ),
        "UserDefinedObjectVariable.richcompare_impl (special_methods.compared)": _asks(
            "w = 2 if o == 1 else 3", _OBJECT, "O.__eq__ = lambda self, other: True"
        ),
        "UserDefinedObjectVariable.is_python_equal (special_methods.found_equal)": _asks(
            "w = 2 if o in {p: 1, o: 2} else 3",
            "class O:\n    def __hash__(self): return 1\no, p = O(), O()",
            "O.__eq__ = lambda self, other: True",
        ),
        "BuiltinVariable.call_callable (special_methods.asked_if_callable)": _asks(
            "w = 5 if callable(o) else 2", _OBJECT, "O.__call__ = lambda self: 3"
        ),
        "BuiltinVariable.call_isinstance (abstract_classes.asked_for_class)": _asks(
            "w = 5 if isinstance(o, A) else 2", _ABSTRACT, "A.register(O)"
        ),
        "BuiltinVariable.call_issubclass (abstract_classes.asked_for_class)": _asks(
            "w = 5 if issubclass(O, A) else 2", _ABSTRACT, "A.register(O)"
        ),
        "BuiltinVariable.call_reversed (special_methods.asked_to_reverse)": _asks(
            "w = len(list(reversed(o)))",
            "class O(list): pass\no = O([1, 2])",
            "O.__reversed__ = lambda self: iter([1, 2, 3])",
        ),
        "BuiltinVariable.call_function (special_methods.rejected)": _tries(
            "3 if O[int] else 2", _OBJECT, "O.__class_getitem__ = classmethod(lambda c, k: True)"
        ),
        "builtin.vt_getitem (special_methods.subscripted)": _tries(
            "3 if O[int] else 2", _OBJECT, "O.__class_getitem__ = classmethod(lambda c, k: True)"
        ),
        "UserDefinedObjectVariable._check_for_getattr (special_methods.asked_for_getattr)": _tries(
            "o.rate", _OBJECT, "O.__getattr__ = lambda self, name: 3"
        ),
    }
)
