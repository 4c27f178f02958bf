"""What torch has inside, and how releases of torch and Python differ, is known in few places."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "graphmend_bc"

FACING = ("dynamo/", "legality/", "rules/", "contrib/")
"""Packages that may use what is inside torch."""

NAMED = {
    "call_timing.py": {"torch.utils._pytree.tree_leaves", "torch.utils._pytree.tree_map"},
    "canary/check.py": {"torch._dynamo"},  # a logger
    # Modules whose processes are torch's own.
    "cli/child_processes.py": {"torch._dynamo", "torch._inductor"},
    "cli/explanation/compiled_callables.py": {"torch.utils._pytree.tree_map_only"},
    "config.py": {
        "torch.utils._config_module.Config",
        "torch.utils._config_module.install_config_module",
    },
    "testing/observation.py": {"torch.utils._pytree"},
    "runtime/deferral/effect_preflight.py": {"torch._logging"},  # where a class of torch's is found
    "runtime/deferral/known_code.py": {"torch._logging"},  # the same
    "runtime/deferral/call_places.py": {
        "torch._dynamo."
    },  # modules whose frames are not the program's
}
"""What other files use of it, by name."""

VERSIONS = {
    "torch.__version__": {"versions.py", "cli/doctor.py"},
    "sys.version_info": {"versions.py", "code/facts.py"},
}
"""Who may do more with a version than show it."""

ASKS_TORCH = {"dynamo/facts.py", "dynamo/patches/torch_compile.py", "contrib/cudnn.py"}
"""Who may ask whether something is inside torch. `attach()` leaves out what the wrapper of
`torch.compile` does not set either; builds without CUDA lack some flags."""

SOURCES = {str(p.relative_to(PACKAGE)): p.read_text() for p in sorted(PACKAGE.rglob("*.py"))}


def imported(tree: ast.Module) -> dict[str, str]:
    """What the names that a file imports stand for."""
    names = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
        elif isinstance(node, ast.Import):
            names |= {a.asname or a.name.split(".")[0]: a.asname and a.name for a in node.names}
    return {name: meant or name for name, meant in names.items()}


def dotted(node: ast.expr, names: dict[str, str]) -> str:
    """What an expression made of names and attributes stands for; empty for others."""
    if isinstance(node, ast.Name):
        return names.get(node.id, "")
    if isinstance(node, ast.Attribute) and (owner := dotted(node.value, names)):
        return f"{owner}.{node.attr}"
    return ""


def is_internal(name: str) -> bool:
    first, *rest = name.replace(":", ".").split(".")
    return first == "torch" and any(
        part.startswith("_") and not part.startswith("__") for part in rest
    )


def internals(source: str) -> set[str]:
    """The names inside torch that a file imports, reads or has as texts."""
    tree = ast.parse(source)
    names = imported(tree)
    found = {f"{n.names[0].name}" for n in ast.walk(tree) if isinstance(n, ast.Import)}
    found |= set(names.values())
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not is_internal(dotted(node.value, names)):
            found.add(dotted(node, names))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= {node.value} if " " not in node.value else set()
    return {name for name in found if is_internal(name)}


def version_uses(source: str) -> set[str]:
    """The versions that a file does more with than show them in a text."""
    tree = ast.parse(source)
    names = imported(tree)
    texts = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    shown = {id(inner) for text in texts for inner in ast.walk(text)}
    found = {
        dotted(node, names)
        for node in ast.walk(tree)
        if isinstance(node, (ast.Attribute, ast.Name)) and id(node) not in shown
    }
    if any(name.startswith("torch.torch_version") or name == "torch.version" for name in found):
        found.add("torch.__version__")
    if found & {"sys.hexversion", "platform.python_version_tuple"}:
        found.add("sys.version_info")
    return found & VERSIONS.keys()


def asks_torch(source: str) -> Iterator[str]:
    """Where a file asks whether something is inside torch."""
    tree = ast.parse(source)
    names = imported(tree)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or not node.args:
            continue
        asks = node.func.id == "hasattr" or (node.func.id == "getattr" and len(node.args) == 3)
        if asks and is_internal(dotted(node.args[0], names)):
            yield ast.unparse(node)


@pytest.mark.parametrize("path", [path for path in SOURCES if not path.startswith(FACING)])
def test_only_packages_that_face_torch_use_what_is_inside_it(path: str) -> None:
    assert internals(SOURCES[path]) == NAMED.get(path, set())


@pytest.mark.parametrize("path", SOURCES)
def test_only_files_of_facts_know_that_releases_differ(path: str) -> None:
    allowed = {version for version, files in VERSIONS.items() if path in files}
    assert version_uses(SOURCES[path]) <= allowed
    assert path in ASKS_TORCH or list(asks_torch(SOURCES[path])) == []


@pytest.mark.slow
def test_no_file_is_named_in_vain() -> None:
    assert {path for path in SOURCES if internals(SOURCES[path])} >= NAMED.keys()
    assert ASKS_TORCH == {path for path in SOURCES if list(asks_torch(SOURCES[path]))}
    for version, files in VERSIONS.items():
        assert {path for path in SOURCES if version in version_uses(SOURCES[path])} == files


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import torch\ntorch.sum(torch._C._is_tracing)", {"torch._C"}),
        ("import torch._dynamo", {"torch._dynamo"}),
        ("from torch._dynamo.exc import Unsupported as U", {"torch._dynamo.exc.Unsupported"}),
        ("from torch import fx\nfx._symbolic_trace.Tracer", {"torch.fx._symbolic_trace"}),
        ("import importlib\nimportlib.import_module('torch._guards')", {"torch._guards"}),
        ("import torch.nn as nn\nnn.Module.__call__, torch._C", set()),
        ("import os\nos._exit(0)", set()),
    ],
)
def test_internals_are_found(source: str, expected: set[str]) -> None:
    assert internals(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import torch\nif torch.__version__ >= '2.14': pass", {"torch.__version__"}),
        ("from torch import __version__ as v\nnew = v > '2'", {"torch.__version__"}),
        ("import torch\nprint(f'torch {torch.__version__}')", set()),
        ("from torch.torch_version import TorchVersion\nTorchVersion('2')", {"torch.__version__"}),
        ("import sys\nold = sys.version_info < (3, 12)", {"sys.version_info"}),
        ("from sys import version_info\nold = version_info[1] < 12", {"sys.version_info"}),
        ("import sys\nold = sys.hexversion < 1", {"sys.version_info"}),
    ],
)
def test_conditions_on_versions_are_found(source: str, expected: set[str]) -> None:
    assert version_uses(source) == expected


def test_questions_to_torch_are_found() -> None:
    source = (
        "from torch._dynamo import exc\nhasattr(exc, 'A'), getattr(exc, 'B', 1), hasattr(2, 'D')"
    )
    assert list(asks_torch(source)) == ["hasattr(exc, 'A')", "getattr(exc, 'B', 1)"]
