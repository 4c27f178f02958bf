"""What attach does to a call: it runs as under torch.compile, and nothing else changes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch._C._dynamo.eval_frame import get_eval_frame_callback
from torch._dynamo.testing import CompileCounter

import graphmend_bc as gm
from tests.attachment import vendor
from tests.attachment.vendor import Scaled, double

hooks = pytest.importorskip("graphmend_bc._frame_hooks")

X = torch.tensor([1.0, 2.0])


def reaches_hooks() -> bool:
    """Whether frames still go through our evaluator, wherever in the chain it is."""
    before = hooks.counters()["frames"]
    (lambda: None)()
    return bool(hooks.counters()["frames"] != before)


@pytest.fixture(autouse=True)
def nothing_left_attached() -> Iterator[None]:
    yield
    assert not hooks.installed()
    assert not reaches_hooks()
    assert get_eval_frame_callback() is None


@pytest.fixture
def graphs() -> CompileCounter:
    return CompileCounter()


def test_a_function_imported_before_and_after(graphs: CompileCounter) -> None:
    with gm.attach(vendor.double, backend=graphs):
        from tests.attachment.vendor import double as again

        assert torch.equal(double(X), X * 2)
        assert torch.equal(again(X), X * 2)
    assert graphs.frame_count == 1


def test_the_function_and_its_module_are_untouched(graphs: CompileCounter) -> None:
    before = (vendor.double, vendor.double.__code__, dict(vars(vendor.double)))
    with gm.attach(vendor.double, backend=graphs):
        vendor.double(X)
        assert (vendor.double, vendor.double.__code__, dict(vars(vendor.double))) == before


def test_by_name(graphs: CompileCounter) -> None:
    with gm.attach("tests.attachment.vendor:Scaled.forward", backend=graphs):
        assert torch.equal(Scaled(3.0)(X), X * 3)
    assert graphs.frame_count == 1


def test_a_module_called_through_dunder_call(graphs: CompileCounter) -> None:
    module = Scaled(3.0)
    with gm.attach(Scaled.forward, backend=graphs):
        assert torch.equal(module(X), X * 3)
        assert torch.equal(module.forward(X), X * 3)
    assert graphs.frame_count == 1


def test_hooks_of_a_module_still_run(graphs: CompileCounter) -> None:
    module = Scaled(3.0)
    module.register_forward_hook(lambda self, inputs, output: output + 1)
    with gm.attach(Scaled.forward, backend=graphs):
        assert torch.equal(module(X), X * 3 + 1)
    assert graphs.frame_count == 1


@pytest.mark.parametrize("name", ["method", "static", "of_class"])
def test_methods_of_each_kind(graphs: CompileCounter, name: str) -> None:
    thing = vendor.Thing()
    expected = getattr(thing, name)(X)
    with gm.attach(getattr(thing, name), backend=graphs):
        assert torch.equal(getattr(thing, name)(X), expected)
        assert torch.equal(getattr(vendor.Thing(), name)(X), expected)
    assert graphs.frame_count == 1


def test_a_closure_stands_for_all_of_its_def(graphs: CompileCounter) -> None:
    by_two, by_three = vendor.multiplier(2.0), vendor.multiplier(3.0)
    with gm.attach(by_two, backend=graphs):
        assert torch.equal(by_two(X), X * 2)
        assert torch.equal(by_three(X), X * 3)
    assert graphs.frame_count == 2


def test_a_wrapper_stands_for_what_it_wraps(graphs: CompileCounter) -> None:
    with gm.attach(vendor.without_grad, backend=graphs):
        assert torch.equal(vendor.without_grad(X), X + 7)
    assert graphs.frame_count == 1


def test_every_form_of_argument_arrives(graphs: CompileCounter) -> None:
    def all_forms(a: Any, /, b: Any, *rest: Any, c: Any = 1, **more: Any) -> Any:
        return a + 2 * b + 3 * sum(rest) + 4 * c + 5 * more["d"]

    expected = all_forms(X, 1, X, 2, c=X, d=3)
    with gm.attach(all_forms, backend=graphs):
        assert torch.equal(all_forms(X, 1, X, 2, c=X, d=3), expected)
        with pytest.raises(KeyError, match="d"):
            all_forms(X, 1)
        with pytest.raises(TypeError, match="missing 1 required positional argument"):
            all_forms(X)  # type: ignore[call-arg]


def test_compile_keywords_are_honoured(graphs: CompileCounter) -> None:
    with gm.attach(vendor.double, backend=graphs, dynamic=True):
        for size in (3, 4, 5):
            vendor.double(torch.ones(size))
    assert graphs.frame_count == 1
    torch._dynamo.reset()
    with gm.attach(vendor.double, backend=graphs, dynamic=False):
        for size in (3, 4, 5):
            vendor.double(torch.ones(size))
    assert graphs.frame_count == 1 + 3


def test_graph_breaks_are_as_under_torch_compile(graphs: CompileCounter) -> None:
    stock = CompileCounter()
    expected = torch.compile(vendor.broken, backend=stock)(X)
    torch._dynamo.reset()
    with gm.attach(vendor.broken, backend=graphs):
        assert torch.equal(vendor.broken(X), expected)
    assert graphs.frame_count == stock.frame_count == 2


def test_mending_applies_to_attached_functions(graphs: CompileCounter) -> None:
    expected = vendor.branching(X)
    gm.enable()
    with gm.attach(vendor.branching, backend=graphs, fullgraph=True):
        assert torch.equal(vendor.branching(X), expected)
        assert torch.equal(vendor.branching(-X), -X + 1)
    assert graphs.frame_count == 1


def test_gradients_flow(graphs: CompileCounter) -> None:
    x = X.clone().requires_grad_()
    with gm.attach(vendor.double, backend="aot_eager"):
        vendor.double(x).sum().backward()
    assert x.grad is not None
    assert torch.equal(x.grad, torch.full((2,), 2.0))


def test_wrong_keywords_are_refused_at_once() -> None:
    with pytest.raises(TypeError, match="no_such_keyword"):
        gm.attach(vendor.double, no_such_keyword=1)
    with pytest.raises(torch._dynamo.exc.InvalidBackend, match="no_such_backend"):
        gm.attach(vendor.double, backend="no_such_backend")


@pytest.mark.parametrize("kind", [ValueError, SystemExit, KeyboardInterrupt])
def test_exceptions_propagate(graphs: CompileCounter, kind: type[BaseException]) -> None:
    def raises(x: torch.Tensor) -> None:
        vendor.opaque()
        raise kind("from the function")

    with gm.attach(raises, backend=graphs), pytest.raises(kind, match="from the function"):
        raises(X)


def test_fullgraph_errors_are_dynamos_own(graphs: CompileCounter) -> None:
    def message(call: Callable[..., object]) -> str:
        torch._dynamo.reset()
        with pytest.raises(torch._dynamo.exc.Unsupported) as caught:
            call(X)
        names = [entry.name for entry in caught.traceback]
        assert "step" not in names  # Dynamo's own frames are out of the traceback
        return str(caught.value)

    stock = message(torch.compile(vendor.broken, backend=graphs, fullgraph=True))
    with gm.attach(vendor.broken, backend=graphs, fullgraph=True):
        assert message(vendor.broken) == stock


def test_backend_errors_are_dynamos_own() -> None:
    def backend(module: object, inputs: object) -> None:
        raise LookupError("from the backend")

    with (
        gm.attach(vendor.double, backend=backend),
        pytest.raises(torch._dynamo.exc.BackendCompilerFailed, match="from the backend"),
    ):
        vendor.double(X)


@pytest.mark.skipif(
    not hasattr(torch._C._dynamo.eval_frame, "set_fullgraph_compiled_frame_count"),
    reason="torch.compile of this torch does not mind either.",
)
def test_fullgraph_of_a_frame_that_is_never_compiled_is_an_error(graphs: CompileCounter) -> None:
    def skipped(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    torch._dynamo.eval_frame.skip_code(skipped.__code__)
    with (
        gm.attach(skipped, backend=graphs, fullgraph=True),
        pytest.raises(RuntimeError, match=r"skipped is attached with fullgraph=True"),
    ):
        skipped(X)


def test_a_disabled_torch_compile_attaches_nothing() -> None:
    with gm.attach(vendor.double, disable=True):
        assert not hooks.installed()


def test_switched_off_by_the_config(graphs: CompileCounter) -> None:
    with gm.config.patch(enabled=False), gm.attach(vendor.double, backend=graphs):
        assert not hooks.installed()


def test_partials_and_tables_of_callables(graphs: CompileCounter) -> None:
    table: dict[str, Callable[[], torch.Tensor]] = {"double": functools.partial(double, X)}
    with gm.attach(vendor.double, backend=graphs):
        assert torch.equal(table["double"](), X * 2)
    assert graphs.frame_count == 1


def test_code_that_was_executed_from_text(graphs: CompileCounter) -> None:
    namespace: dict[str, Any] = {"__name__": "made_up"}
    exec("def triple(x):\n    return x * 3\n", namespace)
    with gm.attach("made_up:*", backend=graphs):
        assert torch.equal(namespace["triple"](X), X * 3)
    assert graphs.frame_count == 1


def test_module_hooks_run_once_and_in_order(graphs: CompileCounter) -> None:
    ran: list[str] = []
    module = Scaled(3.0)
    module.register_forward_pre_hook(lambda self, args: ran.append("before"))
    module.register_forward_hook(lambda self, args, output: ran.append("after"))
    with gm.attach(Scaled, backend=graphs):
        for _ in range(2):
            module(X)
    assert ran == ["before", "after"] * 2
    assert graphs.frame_count == 1


def test_dispatch_keys_that_a_failing_frame_leaves_behind_are_set_back(
    graphs: CompileCounter,
) -> None:
    def keys() -> tuple[object, object]:
        c = torch._C
        return c._dispatch_tls_local_include_set(), c._dispatch_tls_local_exclude_set()

    left_behind = []

    def leaves_a_key() -> None:
        key = torch._C.DispatchKeySet(torch._C.DispatchKey.AutogradCPU)
        left_behind.append(torch._C._ExcludeDispatchKeyGuard(key))
        left_behind[-1].__enter__()
        raise KeyError("from the frame")

    def fails(x: torch.Tensor) -> torch.Tensor:
        x = x + 1
        vendor.opaque(leaves_a_key)
        return x

    before = keys()
    with gm.attach(fails, backend=graphs):
        for _ in range(2):
            with pytest.raises(KeyError, match="from the frame"):
                fails(X)
            assert keys() == before
