"""What tells a tensor that `where` chose from eager Python's, asked of graphs made by hand."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.fx import Node

from graphmend_bc.dynamo.rollback.graph_proof import check_identity, check_question
from graphmend_bc.dynamo.trace.compilation import SiteRefused
from graphmend_bc.legality.storage import Choice, storage_of
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
    attempt, _, _ = choosing()
    with pytest.raises(SiteRefused) as found:
        check_question(attempt.compilation, name)
    assert said(found.value) == f"identity-compared: A tensor is asked for '{name}'."
    assert found.value.sites == (site(),)


@pytest.mark.parametrize("name", ["shape", "requires_grad", "add", "stride"])
def test_questions_that_do_not(name: str) -> None:
    check_question(choosing()[0].compilation, name)


def test_identities() -> None:
    attempt, x, chosen = choosing()

    def value(node: Node | None) -> Any:
        proxy = SimpleNamespace(node=node)
        return SimpleNamespace(is_tensor=lambda: node is not None, as_proxy=lambda: proxy)

    check_identity(attempt.compilation, [value(x), value(None)])
    with pytest.raises(SiteRefused) as found:
        check_identity(attempt.compilation, [value(x), value(None), value(chosen)])
    assert (said(found.value), found.value.sites) == ("identity-compared", (site(),))
