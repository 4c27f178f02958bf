"""What attach takes as a target, how patterns choose, and what it says to the rest."""

from __future__ import annotations

import functools
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
import torch
from torch._dynamo.testing import CompileCounter

import graphmend_bc as gm
from tests.attachment import vendor

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
        (vendor.Thing, "Thing has none. Name one of its methods"),
        (vendor.Scaled(1.0), "Scaled is a module. Use Scaled.forward, which means all Scaled"),
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
    "name", ["no_such_package:f", "tests.attachment.vendor:no_such_name", "not a name"]
)
def test_a_name_that_cannot_be_found_is_repeated(name: str) -> None:
    with pytest.raises(ValueError, match=f"cannot find '{name}'"):
        gm.attach(name)


def test_without_the_extension_it_says_how_to_build_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "graphmend_bc._frame_hooks", None)
    monkeypatch.delattr(gm, "_frame_hooks", raising=False)
    with pytest.raises(ImportError, match="install a C compiler"):
        gm.attach(vendor.double)
    with gm.enabled():
        torch.compile(vendor.branching, backend="eager", fullgraph=True)(X)


@pytest.mark.parametrize(
    "form", ["tests.attachment.vendor:double", "tests.attachment.vendor.double"]
)
def test_names_with_and_without_a_colon(graphs: CompileCounter, form: str) -> None:
    with gm.attach(form, backend=graphs):
        vendor.double(X)
    assert graphs.frame_count == 1


def test_a_code_object(graphs: CompileCounter) -> None:
    with gm.attach(vendor.double.__code__, backend=graphs):
        vendor.double(X)
    assert graphs.frame_count == 1


@pytest.mark.parametrize(
    "pattern",
    [
        "tests.attachment.vend*",
        "tests.attachment.*:double",
        "*:doubl?",
        "tests.attachment.vendor.[d]ouble",
    ],
)
def test_patterns(graphs: CompileCounter, pattern: str) -> None:
    with gm.attach(pattern, backend=graphs):
        assert torch.equal(vendor.double(X), X * 2)
        assert torch.equal(vendor.double(X), X * 2)
    assert graphs.frame_count == 1
    assert not hooks.installed()


def test_a_pattern_compiles_the_outermost_frame(graphs: CompileCounter) -> None:
    with gm.attach("tests.attachment.vendor.*", backend=graphs):
        assert torch.equal(vendor.outer(X), X * 2 + 1)
    assert graphs.frame_count == 1


def test_a_pattern_leaves_out_what_it_should(graphs: CompileCounter) -> None:
    with gm.attach("tests.attachment.vendor.*", backend=graphs):
        assert vendor.plain_number(1) == 2
        vendor.Scaled(1.0)
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
        gm.attach(vendor.double, backend=exact),
        gm.attach("tests.attachment.vendor.*", backend=graphs),
    ):
        vendor.double(X)
    assert (exact.frame_count, graphs.frame_count) == (1, 0)


def test_what_remains_applies_after_each_removal(graphs: CompileCounter) -> None:
    wide, narrow, exact = CompileCounter(), CompileCounter(), CompileCounter()
    counts = []
    first = gm.attach("tests.attachment.*", backend=wide)
    second = gm.attach("*:double", backend=narrow)
    third = gm.attach(vendor.double, backend=exact)
    for handle in (third, second, first, None):
        torch._dynamo.reset()
        vendor.double(X)
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


@pytest.mark.parametrize("target", [vendor.Scaled, "tests.attachment.vendor:Scaled"])
def test_a_class_stands_for_its_forward(graphs: CompileCounter, target: Any) -> None:
    with gm.attach(target, backend=graphs):
        assert torch.equal(vendor.Scaled(3.0)(X), X * 3)
    assert graphs.frame_count == 1


def test_a_class_that_inherits_its_forward_stands_for_that(graphs: CompileCounter) -> None:
    class Inherits(vendor.Scaled): ...

    class Overrides(vendor.Scaled):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.factor

    with gm.attach(Inherits, backend=graphs):
        assert torch.equal(Overrides(3.0)(X), X + 3)
        assert graphs.frame_count == 0
        assert torch.equal(Inherits(3.0)(X), X * 3)
    assert graphs.frame_count == 1


def test_a_module_class_without_a_forward_is_named() -> None:
    class Empty(torch.nn.Module): ...

    with pytest.raises(TypeError, match=r"Empty has none. Name one of its methods"):
        gm.attach(Empty)


@pytest.mark.parametrize(
    "target",
    [functools.partial(vendor.double), functools.partial(functools.partial(vendor.double))],
)
def test_a_partial_stands_for_its_function(graphs: CompileCounter, target: Any) -> None:
    with gm.attach(target, backend=graphs):
        assert torch.equal(vendor.double(X), X * 2)
    assert graphs.frame_count == 1


def test_a_staticmethod_object_of_a_class_body(graphs: CompileCounter) -> None:
    with gm.attach(vars(vendor.Thing)["static"], backend=graphs):
        assert torch.equal(vendor.Thing.static(X), X + 2)
    assert graphs.frame_count == 1


def test_where_chooses_among_all_functions(graphs: CompileCounter) -> None:
    def has_free_variables(code: CodeType) -> bool:
        return code.co_filename == vendor.__file__ and "factor" in code.co_freevars

    with gm.attach(where=has_free_variables, backend=graphs):
        assert torch.equal(vendor.double(X), X * 2)
        assert graphs.frame_count == 0
        assert torch.equal(vendor.multiplier(3.0)(X), X * 3)
    assert graphs.frame_count == 1


def test_where_narrows_a_pattern_and_is_asked_once_for_each_function(
    graphs: CompileCounter,
) -> None:
    asked: list[str] = []

    def unary(code: CodeType) -> bool:
        asked.append(code.co_name)
        return code.co_argcount == 1

    with gm.attach("tests.attachment.vendor:*", where=unary, backend=graphs):
        for _ in range(3):
            vendor.double(X)
            vendor.Thing().method(X)
    assert asked == ["double", "method"]
    assert graphs.frame_count == 1


def test_what_where_raises_is_raised_by_the_call_it_was_asked_about() -> None:
    def fails(code: CodeType) -> bool:
        raise LookupError(f"about {code.co_name}")

    with (
        gm.attach("tests.attachment.vendor.*", where=fails),
        pytest.raises(LookupError, match="about double"),
    ):
        vendor.double(X)
    assert torch.equal(vendor.double(X), X * 2)


@pytest.mark.parametrize(
    ("target", "where", "sentence"),
    [
        (None, None, "takes a target, such as 'package.models.*', or where="),
        (None, "vendor", "where must be a function of a code object, not 'vendor'"),
        (vendor.double, lambda code: True, "where= chooses among the functions of a pattern"),
    ],
)
def test_where_in_the_wrong_place_is_refused(target: Any, where: Any, sentence: str) -> None:
    with pytest.raises(TypeError, match=sentence):
        gm.attach(target, where=where)
    assert not hooks.installed()


def test_a_pattern_leaves_generators_and_coroutines_alone(graphs: CompileCounter) -> None:
    namespace: dict[str, Any] = {"__name__": "resumable"}
    exec(
        "def numbers(x):\n    yield x + 1\n    yield x + 2\n"
        "async def later(x):\n    return x + 3\n",
        namespace,
    )
    with gm.attach("resumable.*", backend=graphs):
        assert [value[0].item() for value in namespace["numbers"](X)] == [2.0, 3.0]
        with pytest.raises(StopIteration) as done:
            namespace["later"](X).send(None)
    assert torch.equal(done.value.value, X + 3)
    assert graphs.frame_count == 0


def test_an_attached_function_driven_from_a_generator(graphs: CompileCounter) -> None:
    def produce() -> Iterator[torch.Tensor]:
        for factor in range(3):
            yield vendor.double(X * factor)

    with gm.attach(vendor.double, backend=graphs):
        assert [value[0].item() for value in produce()] == [0.0, 2.0, 4.0]
    assert graphs.frame_count == 1


def test_enable_attaches_what_the_config_names() -> None:
    with gm.config.patch(attach="tests.attachment.vendor:branching, tests.attachment.vendor.dou*"):
        gm.enable()
    assert hooks.installed()
    gm.disable()
    assert not hooks.installed()


def test_enable_refuses_a_target_that_does_not_exist_and_leaves_nothing_behind() -> None:
    with (
        gm.config.patch(attach="tests.attachment.vendor:double,no_such_package:f"),
        pytest.raises(ValueError, match="cannot find 'no_such_package:f'"),
    ):
        gm.enable()
    assert not gm.is_enabled()
    assert not hooks.installed()
