"""What a failed attempt changes in the plans, and how it is described."""

from __future__ import annotations

from typing import Any

import torch

from graphmend_bc import session
from graphmend_bc.dynamo.trace.compilation import SiteRefused, TextsMoved, Trace
from graphmend_bc.engine.outcomes.speculation_flips import SpeculationFlips
from graphmend_bc.engine.plans.rewrite_cache import site_of
from graphmend_bc.engine.plans.site_plans import Plans
from graphmend_bc.engine.plans.survey_policy import Surveys
from graphmend_bc.engine.retry_policy import RetryPolicy
from graphmend_bc.engine.traced import Failed
from graphmend_bc.reporting.reasons import Refused
from graphmend_bc.runtime import Site, identity_of
from tests.engine.test_survey_policy import branching, jump_of, start

CODE = branching.__code__
SITE = site_of(CODE, jump_of(branching))


def policy() -> RetryPolicy:
    state = session.new_state(mends=True)
    plans = Plans(state, identity_of(CODE), False, False)
    return RetryPolicy(state, plans, Surveys(plans), SpeculationFlips(), wants_errors=False)


def rule_at(policy: RetryPolicy, site: Site) -> str:
    rewrite = policy.plans.rewrite_at(site)
    return "" if rewrite is None else rewrite.rule


class Compiling:
    """As much of a compilation as the policy looks at."""

    def __init__(self) -> None:
        self.trace = Trace()
        self.captures = False


def after(policy: RetryPolicy, error: Exception) -> bool:
    compilation: Any = Compiling()
    return policy.after(compilation, Failed(error))


def test_a_refused_rule_is_followed_by_the_next_that_helps() -> None:
    retries = policy()
    assert start(retries.plans, branching)
    assert rule_at(retries, SITE) == "where"
    assert after(retries, SiteRefused(Refused("arm-too-dear"), SITE))
    assert rule_at(retries, SITE) == "cond"
    assert after(retries, SiteRefused(Refused("arm-mutates-tensor"), SITE))
    assert rule_at(retries, SITE) == "speculate"
    assert not retries.plans.declined


def test_a_final_reason_declines_the_site() -> None:
    retries = policy()
    assert start(retries.plans, branching)
    assert after(retries, SiteRefused(Refused("under-export"), SITE))
    assert retries.plans.declined[SITE].reason == "under-export"
    assert not after(retries, SiteRefused(Refused("under-export"), SITE))


def test_the_last_attempt_takes_a_site_out() -> None:
    retries = policy()
    assert start(retries.plans, branching)
    assert retries.after_the_last(SiteRefused(Refused("alias-escapes"), SITE))
    assert retries.plans.declined[SITE].reason == "alias-escapes"
    assert not retries.after_the_last(SiteRefused(Refused("alias-escapes"), SITE))


def test_texts_that_move_have_the_frame_traced_anew() -> None:
    retries = policy()
    assert after(retries, TextsMoved())
    assert retries.plans.exact_texts


def test_an_error_of_the_programs_changes_nothing() -> None:
    assert not after(policy(), RuntimeError("mine"))
    assert not policy().after_the_last(RuntimeError("mine"))


def test_descriptions() -> None:
    retries = policy()
    assert retries.describe(Trace(), Failed(KeyError(1))) == "KeyError"
    text = retries.describe(Trace(), Failed(SiteRefused(Refused("alias-escapes"), SITE)))
    assert text == f"alias-escapes at {SITE}"
    assert retries.place_of(Failed(torch.OutOfMemoryError())) is None
