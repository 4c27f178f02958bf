"""Imports inside a function: one graph where they fail or find what is loaded, noticed if that changes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import graphmend_bc as gm
from tests.oracle import Change, Outcome, agrees, check

X = torch.tensor([1.0, -2.0, 3.0])
_FILES = {
    "gm_tells.py": "print('tells')\nk = 2\n",
    "gm_fails.py": "import gm_nowhere\n",
    "gm_pack/__init__.py": "",
    "gm_pack/sub.py": "print('sub')\nk = 3\n",
    "gm_pack/relative.py": """
def f(x):
    try:
        from . import nothing
    except ImportError as error:
        k = len(str(error))
    try:
        from .nowhere import name
    except ImportError as error:
        k += len(error.name)
    from . import sub
    return x * k * sub.k
""",
}
_HEAD = "import builtins, contextlib, functools, importlib, sys, types\n"
_HEAD += "[sys.modules.pop(name) for name in [*sys.modules] if name.startswith('gm_')]\n"


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, text in _FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    monkeypatch.setattr("builtins.__import__", __import__)
    yield tmp_path
    for name in [*filter(lambda name: name.startswith("gm_"), sys.modules)]:
        del sys.modules[name]
    importlib.invalidate_caches()


def run(body: str, *changes: str, before: str = "") -> Outcome:
    """Compare the arms on a function that is called twice, and twice after each change."""
    calls: list[object] = [X, X]
    for change in changes:
        calls += [Change(change), X, X]
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    return agrees(f"{_HEAD}{before}\ndef f(x):\n{lines}", calls, orders=1)


MISSING = "try:\n    import gm_late\n    k = gm_late.k\nexcept ImportError as error:\n    k = len(str(error))"
NAME = "try:\n    from gm_late import k\nexcept ImportError as error:\n    k = len(str(error))"
LATE = "gm_late = types.ModuleType('gm_late'); sys.modules['gm_late'] = gm_late"


@pytest.mark.parametrize(
    "body",
    [
        f"{MISSING}\nreturn x * k",
        "try:\n    import json.decoder.nothing\nexcept ImportError as error:\n    return x + 1, str(error)",
        "try:\n    import gm_pack.nothing as n\nexcept ImportError:\n    import json as n\nreturn x + 1, n.__name__",
        "with contextlib.suppress(ImportError):\n    import gm_late\n    x = x + 1\nreturn x * 2",
        "try:\n    from json import gm_late\nexcept ImportError as error:\n    return x * 2, str(error)",
        "try:\n    from gm_pack import nothing\nexcept ImportError as error:\n    return x * 2, error.path",
        "for i in range(3):\n    try:\n        import gm_late\n    except ImportError:\n        x = x + i\nreturn x",
        "try:\n    import gm_late\nexcept ImportError:\n    x = x + 1\nelse:\n    x = x * 5\n"
        "finally:\n    print('end', x.sum())\nreturn x",
        "try:\n    from json import gm_late\nexcept AttributeError:\n    return x\n"
        "except Exception as error:\n    return x * 2, type(error).__name__, error.name",
    ],
)
def test_an_import_that_fails_is_in_one_graph(body: str) -> None:
    outcome = run(body)
    assert (outcome.graphs, outcome.breaks) == (1, 0)
    assert "probe@" in outcome.mends


@pytest.mark.parametrize(
    "shown",
    [
        "error.name, error.path, error.msg, error.args, str(error), repr(error)",
        "error.__context__, error.__cause__, error.__suppress_context__",
        "error.__traceback__.tb_next is None, type(error).__name__, hasattr(error, 'zz')",
    ],
)
@pytest.mark.parametrize("statement", ["import gm_late.a.b", "from json import gm_late"])
def test_what_is_raised(statement: str, shown: str) -> None:
    run(f"try:\n    {statement}\nexcept ImportError as error:\n    return x * 2, {shown}")


def test_exceptions_around_it() -> None:
    body = """
try:
    try:
        {}["a"]
    except KeyError as first:
        try:
            import gm_late
        except ImportError as second:
            raise RuntimeError("third") from second
except RuntimeError as error:
    second = error.__cause__
    return x * 2, second.name, type(error.__context__).__name__, type(second.__context__).__name__
"""
    assert run(body).mends


def test_a_caller_handles_it() -> None:
    before = "def g():\n    import gm_late\n\ndef h():\n    try:\n        g()\n    finally:\n        print('h')\n"
    outcome = run(
        "try:\n    h()\nexcept ModuleNotFoundError:\n    return x * 3\nreturn x", before=before
    )
    assert (outcome.graphs, outcome.breaks) == (1, 0)


def test_nobody_handles_it() -> None:
    assert not run("y = x * 2\nimport gm_late\nreturn y").mends


@pytest.mark.parametrize(
    "changes",
    [
        (f"{LATE}; gm_late.k = 7", "gm_late.k = 8", "del sys.modules['gm_late']"),
        ("sys.modules['gm_late'] = None", "del sys.modules['gm_late']"),
        (
            "(folder / 'gm_late.py').write_text('print(1)\\nk = 9\\n'); importlib.invalidate_caches()",
            "(folder / 'gm_late.py').unlink(); del sys.modules['gm_late']\nimportlib.invalidate_caches()",
        ),
        (
            "class Finder:\n"
            "    create_module = staticmethod(lambda spec: None)\n"
            "    exec_module = staticmethod(lambda module: setattr(module, 'k', 9))\n"
            "    @staticmethod\n"
            "    def find_spec(name, path=None, target=None):\n"
            "        if name == 'gm_late':\n"
            "            return importlib.machinery.ModuleSpec(name, Finder)\n"
            "sys.meta_path.append(Finder)",
            "del sys.modules['gm_late']; sys.meta_path.remove(Finder)",
        ),
    ],
)
def test_a_module_that_comes_later(changes: tuple[str, ...], modules: Path) -> None:
    before = f"from pathlib import Path\nfolder = Path({str(modules)!r})"
    (modules / "gm_late.py").unlink(missing_ok=True)
    importlib.invalidate_caches()
    assert run(f"{MISSING}\nreturn x * k", *changes, before=before).mends


@pytest.mark.parametrize(
    "changes",
    [
        ("gm_late.k = 7", "gm_late.k = 8", "del gm_late.k"),
        ("gm_late.__name__ = 'other'",),
        ("gm_late.__file__ = 'other'",),
        ("gm_late.__getattr__ = lambda name: 5",),
        ("sys.modules['gm_late.k'] = gm_late", "del sys.modules['gm_late.k']"),
        ("del sys.modules['gm_late']",),
        (f"{LATE}; gm_late.k = 5",),
    ],
)
def test_a_name_that_comes_later(changes: tuple[str, ...]) -> None:
    body = NAME.replace("error:\n    k", "error:\n    k = 1\n    k")
    shown = "return x * (k if isinstance(k, int) else 2)"
    assert run(f"{body}\n{shown}", *changes, before=LATE).mends


def test_a_submodule_that_comes_later(modules: Path) -> None:
    before = f"from pathlib import Path\nfile = Path({str(modules)!r}) / 'gm_pack/late.py'\n"
    before += "file.unlink(missing_ok=True); importlib.invalidate_caches()"
    write = "file.write_text('print(1)\\nk = 9\\n'); importlib.invalidate_caches()"
    body = "try:\n    from gm_pack import late\n    k = late.k\nexcept ImportError:\n    k = 1\nreturn x * k"
    assert run(body, write, before=before).mends


@pytest.mark.parametrize("statement", ["import gm_late", "import gm_late as gm_late"])
def test_another_module_in_the_place_of_one(statement: str) -> None:
    outcome = run(
        f"print('seen')\n{statement}\nreturn x * gm_late.k",
        "sys.modules['gm_late'] = other",
        "sys.modules['gm_late'] = gm_late",
        "del sys.modules['gm_late']",
        before=f"{LATE}; gm_late.k = 2\nother = types.ModuleType('gm_late'); other.k = 5",
    )
    assert "defer" in outcome.mends


def test_a_function_in_the_place_of_import() -> None:
    steps = (
        "stock = builtins.__import__\n"
        "builtins.__import__ = lambda name, *a, **k: stock('json' if 'gm' in name else name, *a, **k)",
        "builtins.__import__ = stock",
    )
    body = "try:\n    import gm_late\n    k = 1\nexcept ImportError:\n    k = 2\nreturn x * k"
    assert run(body, *steps).mends
    run("print('seen')\nimport json as gm\nreturn x * len(gm.__name__)", *steps)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("try:\n    import gm_late\nexcept ImportError as error:\n    kept.append(error)\nreturn x + 1", ""),
        ("sys.modules['gm_late'] = sys\ntry:\n    import gm_late\nexcept ImportError:\n    x = x + 1\nreturn x", ""),
        ("sys.path.insert(0, folder)\ntry:\n    import gm_sub\nexcept ImportError:\n    x = x + 1\n"
         "sys.path.pop(0)\nreturn x", ""),
        ("print('first')\nimport gm_tells\nreturn x * gm_tells.k", "effect-moved@"),
        ("print('first')\nfrom gm_pack import sub\nreturn x * sub.k", "effect-moved@"),
        ("return loads(x) if x.sum() > 0 else x", "speculation-has-effects@"),
        ("if x.sum() < 0:\n    raise ValueError('x')\nimport gm_tells\nreturn x * gm_tells.k", "speculation-has-effects@"),
        ("return x * 2 if cached() else x", ""),
    ],
)  # fmt: skip
def test_what_is_declined(body: str, reason: str, modules: Path) -> None:
    before = f"kept = []\nfolder = {str(modules / 'gm_pack')!r}\n"
    before += "def loads(x):\n    import gm_tells\n    return x * gm_tells.k\n"
    before += (
        "@functools.cache\ndef cached():\n    try:\n        import gm_late\n        return True\n"
    )
    before += "    except ImportError:\n        return False\n"
    (modules / "gm_pack/gm_sub.py").write_text("k = 2\n")
    outcome = run(body, before=before)
    assert (reason or "import-not-fixed@") in outcome.declines
    assert "probe@" not in outcome.mends


def test_a_module_that_runs_where_nothing_comes_before_it() -> None:
    outcome = run("import gm_tells\nprint('last')\nreturn x * gm_tells.k")
    assert (outcome.graphs, outcome.breaks) == (1, 0)


def test_relative_imports() -> None:
    outcome = agrees(f"{_HEAD}from gm_pack.relative import f\n", [X, X], orders=1)
    assert (outcome.graphs, outcome.breaks) == (1, 0)


def test_what_fails_inside_a_module_is_left_to_eager_python() -> None:
    body = "try:\n    import gm_fails\nexcept ImportError as error:\n    x = x * len(error.name)\nreturn x"
    assert not run(body).mends


def test_finders_of_the_program_are_not_asked_by_guards() -> None:
    before = (
        "class Finder:\n    find_spec = staticmethod(lambda *a: None)\nsys.meta_path.append(Finder)"
    )
    assert not run(f"{MISSING}\nreturn x * k", before=before).mends


@pytest.mark.parametrize("settings", [{"strategies": ("defer",)}])
def test_it_can_be_switched_off(settings: dict[str, tuple[str, ...]]) -> None:
    with gm.config.patch(**settings):
        assert not run(f"{MISSING}\nreturn x * k").mends


def test_one_graph_is_asked_for() -> None:
    check(f"{_HEAD}def f(x):\n    try:\n        import gm_late\n    except ImportError:\n"
          "        x = x + 1\n    return x", [X, -X], "probe@5", fullgraph=True)  # fmt: skip
