"""More surroundings of programs: what they ask the process, which answers otherwise the next time."""

from __future__ import annotations

from typing import Final

from tests.fuzz.surroundings import DOUBLE, Surrounding, quietly

ENVIRONMENT: Final = Surrounding(
    definitions=("import os\n\nos.environ.pop('FUZZ_RATE', None)", "import os\n\nos.environ['FUZZ_RATE'] = '3'"),
    vector=(
        "{vector} * float(os.environ.get('FUZZ_RATE', '2'))",
        "({vector} + 1 if 'FUZZ_RATE' in os.environ else {vector})",
        "{vector} * float(os.getenv('FUZZ_RATE', '1.5'))",
        "{vector} * len(os.environ.get('FUZZ_RATE') or 'none')",
    ),
    number=("int(os.getenv('FUZZ_RATE', '1'))",),
    test=("os.getenv('FUZZ_RATE') == '3'", "os.environ.get('FUZZ_RATE')", "torch.get_num_threads() > 0"),
    statements=(
        "try:\n    {vector_old} = {vector} * float(os.environ['FUZZ_RATE'])\nexcept KeyError:\n    <block>",
        "os.environ['FUZZ_RATE'] = '5'\n{vector_old} = {vector} * float(os.environ['FUZZ_RATE'])",
        "<i> = os.environ.setdefault('FUZZ_RATE', '6')\nprint(<i>, {vector}.detach())",
        "os.environ.pop('FUZZ_RATE', None)",
    ),
    changes={
        "variable comes": ("os.environ['FUZZ_RATE'] = '3'", "os.environ['FUZZ_RATE'] = '4'", "os.putenv('FUZZ_RATE', '8')"),
        "variable goes": ("os.environ.pop('FUZZ_RATE', None)",),
    },
)  # fmt: skip

CONTEXT: Final = Surrounding(
    definitions=(
        "from contextvars import ContextVar\n\nkeyed, bare = (ContextVar('keyed', default=2.0), ContextVar('bare'))",
    ),
    vector=("{vector} * keyed.get()", "{vector} * bare.get(3.0)", "{vector} + keyed.get(1.0)"),
    number=("keyed.get()",),
    test=("keyed.get() > 2", "bare.get(None) is None"),
    statements=(
        "<i> = keyed.set(5.0)\n{vector_old} = {vector} * keyed.get()\nkeyed.reset(<i>)",
        "keyed.set({number})",
        "try:\n    {vector_old} = {vector} * bare.get()\nexcept LookupError:\n    <block>",
        "print(keyed.get(), {vector}.detach())",
        "if {test}:\n    keyed.set(7.0)\n    <block>",
    ),
    changes={
        "variable is set": ("keyed.set(4.0)", "bare.set(0.5)"),
        "variable changes type": ("keyed.set(3)", f"keyed.set({DOUBLE})", f"bare.set({DOUBLE})"),
        "variable is another": ("keyed = ContextVar('keyed', default=6.0)",),
    },
)

IMPORTS: Final = Surrounding(
    definitions=("import sys, types\n\nsys.modules.pop('fuzz_late', None)",),
    vector=("{vector} * getattr(sys.modules.get('fuzz_late'), 'rate', 3)",),
    test=("'fuzz_late' in sys.modules",),
    statements=(
        "try:\n    import fuzz_late as <i>\nexcept ImportError:\n    <i> = None\n"
        "{vector_old} = {vector} * (2 if <i> is None else <i>.rate)",
        "try:\n    from fuzz_late import rate as <i>\nexcept ImportError as error:\n    print(error.name, {vector}.detach())\n"
        "    <block>\nelse:\n    {vector_old} = {vector} * <i>",
        "from math import tau as <i>\n{vector_old} = {vector} * <i>",
        "try:\n    import fuzz_late.inner\nexcept ModuleNotFoundError as error:\n    print(error)\n    <block>",
        "import importlib\n{vector_old} = {vector} * (importlib.util.find_spec('fuzz_never') is None)",
    ),
    changes={
        "module comes": ("sys.modules['fuzz_late'] = types.SimpleNamespace(rate=2.0)",),
        "module changes": (quietly("vars(sys.modules['fuzz_late'])['rate'] = 4", "(KeyError, TypeError)"),),
        "module goes": ("sys.modules.pop('fuzz_late', None)", "sys.modules['fuzz_late'] = None"),
    },
)  # fmt: skip

SURROUNDINGS: Final[dict[str, Surrounding]] = {
    "environment": ENVIRONMENT,
    "context": CONTEXT,
    "imports": IMPORTS,
}
"""By the name of their group of forms."""
