"""What attach takes as a target, how patterns choose, and what it says to the rest."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounter

import graphmend_bc as gm
from tests.attach import library

hooks = pytest.importorskip("graphmend_bc._frame_hooks")

X = torch.tensor([1.0, 2.0])


@pytest.fixture
def graphs() -> CompileCounter:
    return CompileCounter()


def generator() -> Iterator[int]:
    yield 1


async def coroutine() -> None: ...


async def asynchronous_generator() -> AsyncIterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("target", "sentence"),
    [
        (len, "<built-in function len> is written in C and has no code object"),
        (torch.add, "torch.add|<built-in method add .*> is written in C"),
        (torch.Tensor.add, "written in C and has no code object"),
        (library.Scaled, "Scaled is a class. Name one of its methods"),
        (library.Scaled(1.0), "Scaled is a module. Use Scaled.forward, which means all Scaled"),
        (3, "3 has no code object"),
    ],
)
def test_what_has_no_code_object_is_named(target: Any, sentence: str) -> None:
    with pytest.raises(TypeError, match=sentence):
        gm.attach(target)
    assert not hooks.installed()


@pytest.mark.parametrize("function", [generator, coroutine, asynchronous_generator])
def test_generators_and_coroutines_are_refused(function: Any) -> None:
    with pytest.raises(ValueError, match=f"{function.__name__} is a generator or a coroutine"):
        gm.attach(function)


def test_what_dynamo_never_compiles_is_refused() -> None:
    with pytest.raises(ValueError, match=r"Dynamo never compiles Linear.forward by itself"):
        gm.attach(torch.nn.Linear.forward)


def test_a_module_body_is_refused() -> None:
    with pytest.raises(ValueError, match="is the body of a module or class"):
        gm.attach(compile("x = 1", "body.py", "exec"))


@pytest.mark.parametrize(
    "name", ["no_such_package:f", "tests.attach.library:no_such_name", "not a name"]
)
def test_a_name_that_cannot_be_found_is_repeated(name: str) -> None:
    with pytest.raises(ValueError, match=f"cannot find '{name}'"):
        gm.attach(name)


def test_without_the_extension_it_says_how_to_build_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "graphmend_bc._frame_hooks", None)
    monkeypatch.delattr(gm, "_frame_hooks", raising=False)
    with pytest.raises(ImportError, match="install a C compiler"):
        gm.attach(library.double)
    with gm.enabled():
        torch.compile(library.branching, backend="eager", fullgraph=True)(X)


@pytest.mark.parametrize("form", ["tests.attach.library:double", "tests.attach.library.double"])
def test_names_with_and_without_a_colon(graphs: CompileCounter, form: str) -> None:
    with gm.attach(form, backend=graphs):
        library.double(X)
    assert graphs.frame_count == 1


def test_a_code_object(graphs: CompileCounter) -> None:
    with gm.attach(library.double.__code__, backend=graphs):
        library.double(X)
    assert graphs.frame_count == 1


@pytest.mark.parametrize(
    "pattern",
    ["tests.attach.libr*", "tests.attach.*:double", "*:doubl?", "tests.attach.library.[d]ouble"],
)
def test_patterns(graphs: CompileCounter, pattern: str) -> None:
    with gm.attach(pattern, backend=graphs):
        assert torch.equal(library.double(X), X * 2)
        assert torch.equal(library.double(X), X * 2)
    assert graphs.frame_count == 1
    assert not hooks.installed()


def test_a_pattern_compiles_the_outermost_frame(graphs: CompileCounter) -> None:
    with gm.attach("tests.attach.library.*", backend=graphs):
        assert torch.equal(library.outer(X), X * 2 + 1)
    assert graphs.frame_count == 1


def test_a_pattern_leaves_out_what_it_should(graphs: CompileCounter) -> None:
    with gm.attach("tests.attach.library.*", backend=graphs):
        assert library.plain_number(1) == 2
        library.Scaled(1.0)
    assert graphs.frame_count == 0


def test_a_pattern_waits_for_modules_not_imported_yet(
    graphs: CompileCounter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "imported_later.py").write_text("def triple(x):\n    return x * 3\n")
    monkeypatch.syspath_prepend(tmp_path)
    with gm.attach("imported_later.*", backend=graphs):
        assert "imported_later" not in sys.modules
        from imported_later import triple  # type: ignore[import-not-found]

        assert torch.equal(triple(X), X * 3)
    assert graphs.frame_count == 1


def test_an_exact_target_goes_before_a_pattern(graphs: CompileCounter) -> None:
    exact = CompileCounter()
    with (
        gm.attach(library.double, backend=exact),
        gm.attach("tests.attach.library.*", backend=graphs),
    ):
        library.double(X)
    assert (exact.frame_count, graphs.frame_count) == (1, 0)


def test_what_remains_applies_after_each_removal(graphs: CompileCounter) -> None:
    wide, narrow, exact = CompileCounter(), CompileCounter(), CompileCounter()
    counts = []
    first = gm.attach("tests.attach.*", backend=wide)
    second = gm.attach("*:double", backend=narrow)
    third = gm.attach(library.double, backend=exact)
    for handle in (third, second, first, None):
        torch._dynamo.reset()
        library.double(X)
        counts.append((exact.frame_count, narrow.frame_count, wide.frame_count))
        if handle is not None:
            handle.remove()
    assert counts == [(1, 0, 0), (1, 1, 0), (1, 1, 1), (1, 1, 1)]
    assert not hooks.installed()


def test_names_in_main_are_met_when_they_run(
    graphs: CompileCounter, monkeypatch: pytest.MonkeyPatch
) -> None:
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec("def step(x): return torch.sin(x)", namespace, namespace)
    namespace["torch"] = torch
    with gm.attach("__main__:step", backend=graphs):
        assert torch.equal(namespace["step"](X), X.sin())
    assert graphs.frame_count == 1
