"""What tells a tensor that `where` chose from eager Python's, asked of graphs made by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.fx import Node

import graphmend_bc as gm
from graphmend_bc.dynamo.rollback.graph_proof import check_identity, check_question
from graphmend_bc.dynamo.trace.compilation import SiteRefused
from graphmend_bc.legality.storage import Choice, storage_of
from tests.oracle import check
from tests.rollback.attempts import Attempt, said, site


def choosing(*, shares: bool = True) -> tuple[Attempt, Node, Node]:
    """An attempt in which line 1 chooses between an input, or a copy of it, and another tensor."""
    attempt = Attempt()
    x = attempt.given(torch.ones(3))
    other = attempt.call("neg", x)
    chosen = attempt.call(torch.where, attempt.given(torch.tensor(True)), x, other)
    own, outside = (storage_of(node.meta["example_value"]) for node in (chosen, x))
    choice = Choice(own, frozenset({outside} if shares else ()), frozenset({outside}), 0)
    attempt.trace.choices[chosen] = site(), choice
    return attempt, x, chosen


def value(node: Node | None) -> Any:
    """A variable of a tensor, or of something else."""
    proxy = SimpleNamespace(node=node)
    return SimpleNamespace(is_tensor=lambda: node is not None, as_proxy=lambda: proxy)


def test_a_choice_that_nobody_can_tell() -> None:
    attempt, x, chosen = choosing()
    assert attempt.proof(attempt.call("add", chosen, x)) == ""


def test_choices_that_are_changed_or_returned() -> None:
    for shares in (True, False):
        attempt, _, chosen = choosing(shares=shares)
        assert attempt.proof(chosen) == ("alias-escapes @1" if shares else "")
        attempt, _, chosen = choosing(shares=shares)
        attempt.call("add_", chosen, 1)
        assert attempt.proof() == ("alias-mutated @1" if shares else "")


def test_changes_that_are_no_writes() -> None:
    attempt, _, chosen = choosing()
    attempt.graph.call_method("detach_", (chosen,))
    assert attempt.proof() == "alias-mutated @1"
    attempt, _, chosen = choosing()
    attempt.graph.call_function(torch.detach_, (), {"input": chosen})
    assert attempt.proof() == "alias-mutated @1"
    attempt, x, chosen = choosing()
    attempt.graph.call_method("add_", (attempt.call("mul", chosen, 2), x))
    assert attempt.proof() == ""


def test_changes_inside_an_operator() -> None:
    for shares in (True, False):
        attempt, x, _ = choosing(shares=shares)
        attempt.graph.call_function(torch.ops.higher_order.wrap, (x,))
        refusal = "alias-mutated: It may be changed inside wrap. @1"
        assert attempt.proof() == (refusal if shares else "")


def test_a_look_at_the_whole_memory() -> None:
    for shares in (True, False):
        attempt, x, _ = choosing(shares=shares)
        attempt.call("as_strided", x, (2,), (1,))
        refusal = "identity-compared: as_strided looks at the whole memory. @1"
        assert attempt.proof() == (refusal if shares else "")


def test_inputs_that_might_share_memory() -> None:
    attempt, _, _ = choosing()
    attempt.call("add_", attempt.given(torch.ones(3)), 1)
    attempt.output.export = True
    assert attempt.proof() == "alias-mutated: Two inputs might share memory. @1"


@pytest.mark.parametrize(
    "name",
    (
        "_backward_hooks _base _is_view _version data_ptr grad_fn is_leaf is_set_to output_nr retain_grad"
        " retains_grad storage storage_offset untyped_storage of_the_users"
    ).split(),
)
def test_questions_that_tell(name: str) -> None:
    attempt, x, _ = choosing()
    with pytest.raises(SiteRefused) as found:
        check_question(attempt.compilation, value(x), name)
    assert said(found.value) == f"identity-compared: A tensor is asked for '{name}'."
    assert found.value.sites == (site(),)


@pytest.mark.parametrize("name", ["shape", "requires_grad", "add", "stride"])
def test_questions_that_do_not(name: str) -> None:
    attempt, _, chosen = choosing()
    check_question(attempt.compilation, value(chosen), name)


@pytest.mark.parametrize("name", ["_grad", "_post_accumulate_grad_hooks", "grad"])
def test_questions_to_one_tensor_alone(name: str) -> None:
    attempt, x, chosen = choosing()
    check_question(attempt.compilation, value(x), name)
    with pytest.raises(SiteRefused):
        check_question(attempt.compilation, value(chosen), name)


def test_identities() -> None:
    attempt, x, chosen = choosing()
    check_identity(attempt.compilation, [value(x), value(None)])
    for same in (chosen, attempt.call("contiguous", chosen)):
        with pytest.raises(SiteRefused) as found:
            check_identity(attempt.compilation, [value(x), value(None), value(same)])
        assert (said(found.value), found.value.sites) == ("identity-compared", (site(),))


def test_gradients_that_are_asked_for_of_a_chosen_tensor() -> None:
    def proof(*, of_chosen: bool, as_list: bool) -> str:
        attempt, x, chosen = choosing()
        end = attempt.call("contiguous", chosen) if of_chosen else x
        loss = attempt.call("sum", chosen)
        given = ([end],) if as_list else (end,)
        attempt.graph.call_function(torch.autograd.grad, (loss, *given))
        return attempt.proof()

    refusal = "identity-compared: A gradient is asked for of one tensor alone. @1"
    for as_list in (False, True):
        assert proof(of_chosen=True, as_list=as_list) == refusal
        assert proof(of_chosen=False, as_list=as_list) == ""


def test_tensors_made_in_inference_mode() -> None:
    with torch.inference_mode():
        made = torch.ones(3)
    refusal = "identity-compared: An inference tensor records no gradients. @1"
    for given, shares in ((made, True), (made, False), (torch.ones(3), True), (3, True)):
        attempt, x, _ = choosing(shares=shares)
        x.meta["grapharg"] = SimpleNamespace(example=given)
        assert attempt.proof() == (refusal if given is made and shares else "")


@pytest.mark.parametrize(
    "then",
    [
        "return y.grad is None",
        "y.grad = torch.ones(3); return x * 2",
        "return y.contiguous() is x",
        "return y.float() in {x: 1}",
        "return torch.autograd.grad((y * 2 + x * 3).sum(), y)[0]",
        "y.requires_grad = True; return x * 2",
    ],
)
def test_one_tensor_alone(then: str) -> None:
    needs_grad = "autograd" in then or "grad is" in then
    given = torch.ones(3, requires_grad=needs_grad)
    check(
        f"""
        def f(x):
            y = x if x.sum() > 0 else x + 1
            {then}
        """,
        [given, given],
        mends=None,
        declines=None,
        breaks=None,
    )


def test_an_attribute_that_a_chosen_tensor_is_given() -> None:
    check(
        """
        held, seen = torch.ones(3), []

        def change(call):
            seen.append(hasattr(held, "tag"))

        def f(x):
            y = held if x.sum() > 0 else held + 1
            y.tag = 1
            return x * 2
        """,
        [torch.ones(3), torch.ones(3)],
        "speculate@7",
        None,
        None,
        orders=1,
    )


def test_an_inference_tensor_is_not_saved_for_a_backward_pass() -> None:
    weight = torch.ones(3, requires_grad=True)

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x if x.sum() > 0 else x + 1
        return weight * y

    with torch.inference_mode():
        made = torch.ones(3)
    with gm.enabled():
        compiled = torch.compile(f, backend="eager")
        assert compiled(torch.ones(3)).requires_grad
        with pytest.raises(RuntimeError, match="Inference tensors cannot be saved"):
            compiled(made)
