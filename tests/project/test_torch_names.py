"""The script that lists what differs for us between two releases of torch."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from tests import torch_names
from tests.torch_names import Release, compare, main, names_used

OLD = {
    "torch/__init__.py": "from torch import fx\n",
    "torch/_dynamo/__init__.py": "",
    "torch/_dynamo/exc.py": "class Base:\n    def tell(self, a): ...\nclass Stop(Base): ...\n",
    "torch/_dynamo/utils.py": "from .exc import *\ncounters = {}\ndef read(a, b): ...\nold_word = 1\n",
    "torch/fx/__init__.py": "from .graph import Graph as Graph\n",
    "torch/fx/graph.py": "if True:\n    class Graph:\n        kept: int = 1\n        gone = 2\n",
}
NEW = {
    **OLD,
    "torch/_dynamo/utils.py": "from .exc import Stop\ndef read(a, *, b): ...\nfresh = 1\n",
    "torch/_dynamo/more.py": "counters = {}\n",
    "torch/fx/graph.py": "class Graph:\n    kept: int = 1\n",
}
NAMES = {
    "torch._dynamo.utils.counters",
    "torch._dynamo.utils.read",
    "torch._dynamo.utils.fresh",
    "torch._dynamo.utils.Stop.tell",
    "torch.fx.Graph.kept",
    "torch.fx.Graph.gone",
    "torch.never.there",
}


def folder(at: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (at / name).parent.mkdir(parents=True, exist_ok=True)
        (at / name).write_text(text)
    return at


def wheel(at: Path, files: dict[str, str]) -> Path:
    with zipfile.ZipFile(at, "w") as found:
        for name, text in files.items():
            found.writestr(name, text)
    return at


def test_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wheel and a folder; names are followed through what modules import of each other."""
    monkeypatch.setattr(torch_names, "attributes_used", lambda package: {"old_word", "read", "x"})
    old, new = Release(wheel(tmp_path / "old.whl", OLD)), Release(folder(tmp_path / "new", NEW))
    assert compare(old, new, NAMES) == {
        "gone": ["torch._dynamo.utils.counters; see torch._dynamo.more", "torch.fx.Graph.gone"],
        "new": ["torch._dynamo.utils.fresh"],
        "arguments": ["torch._dynamo.utils.read(a, b) -> (a, *, b)"],
        "words": ["old_word"],
    }


def test_names_of_a_package(tmp_path: Path) -> None:
    text = (
        "import torch._dynamo.exc\nfrom torch._dynamo import variables as vts\nimport os\n"
        "def f(x): return vts.ListVariable.items, torch.fx.Graph, x.items, os.path\n"
    )
    assert names_used(folder(tmp_path, {"ours.py": text})) == {
        "torch._dynamo.exc",
        "torch._dynamo.variables",
        "torch._dynamo.variables.ListVariable",
        "torch._dynamo.variables.ListVariable.items",
        "torch.fx",
        "torch.fx.Graph",
    }


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The torch that is installed has what we use, and an empty one has not."""
    import torch

    installed = Path(torch.__file__).parents[1]
    assert main([str(installed), str(folder(tmp_path, OLD))]) == 1
    told = capsys.readouterr().out
    assert "    torch._dynamo.side_effects.SideEffects.codegen_update_mutated\n" in told
    assert "    store_attr_mutations\n" in told


@pytest.mark.parametrize("what", ["nothing", "text", "folder"])
def test_what_is_no_release(what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "it"
    if what == "text":
        path.write_text("no wheel")
    elif what == "folder":
        path.mkdir()
    assert main([str(path), str(path)]) == 2
    assert "Give two wheels of torch" in capsys.readouterr().err


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "OLD NEW" in capsys.readouterr().err
