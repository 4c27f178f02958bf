"""graphmend_bc: torch.compile compiles unmodified programs whole.

`enable()` before running a model is all it takes:

    import graphmend_bc
    graphmend_bc.enable()

When Dynamo reports a graph break, the bytecode around it is rewritten (a data-dependent branch
becomes predicated tensor operations, a print or log call runs after the graph) and fed back to
Dynamo within the same compilation. What cannot be shown to be exact is left as it was, with a
reason.
"""

from __future__ import annotations

import importlib
import logging
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from graphmend_bc import config as config
    from graphmend_bc.attachment.attach import Attachment as Attachment
    from graphmend_bc.attachment.attach import attach as attach
    from graphmend_bc.explanation import Explanation as Explanation
    from graphmend_bc.explanation import explain as explain
    from graphmend_bc.extension import Extension as Extension
    from graphmend_bc.extension import register as register
    from graphmend_bc.profiling.profile import Profile as Profile
    from graphmend_bc.profiling.profile import profile as profile
    from graphmend_bc.registration import Registration as Registration
    from graphmend_bc.reporting.report import Decline as Decline
    from graphmend_bc.reporting.report import Mend as Mend
    from graphmend_bc.reporting.report import Report as Report
    from graphmend_bc.rewriting.plan import AskTruth as AskTruth
    from graphmend_bc.rewriting.plan import CallOperation as CallOperation
    from graphmend_bc.rewriting.plan import LiftBranch as LiftBranch
    from graphmend_bc.rewriting.plan import LiftLoop as LiftLoop
    from graphmend_bc.rewriting.plan import LiftRound as LiftRound
    from graphmend_bc.rewriting.plan import MarkCallee as MarkCallee
    from graphmend_bc.rewriting.plan import MarkOperands as MarkOperands
    from graphmend_bc.rewriting.plan import Outline as Outline
    from graphmend_bc.rules.registry import register_rule as register_rule
    from graphmend_bc.rules.rule import BreakSite as BreakSite
    from graphmend_bc.rules.rule import Rule as Rule
    from graphmend_bc.session import Handle as Handle
    from graphmend_bc.session import disable as disable
    from graphmend_bc.session import enable as enable
    from graphmend_bc.session import enabled as enabled
    from graphmend_bc.session import is_enabled as is_enabled
    from graphmend_bc.session import leave_alone as leave_alone
    from graphmend_bc.session import report as report
    from graphmend_bc.session import reset as reset
    from graphmend_bc.session import rewrite as rewrite
    from graphmend_bc.versions import UnsupportedVersionError as UnsupportedVersionError

__version__ = "0.2.0"

# The bytecode layers import no torch, so names are looked up when first asked for. No submodule
# has the name of a public function: importing it would put the module in the function's place.
_HOMES = {
    "Attachment": "attachment.attach",
    "attach": "attachment.attach",
    "Explanation": "explanation",
    "explain": "explanation",
    "Extension": "extension",
    "register": "extension",
    "Profile": "profiling.profile",
    "profile": "profiling.profile",
    "Registration": "registration",
    "Decline": "reporting.report",
    "Mend": "reporting.report",
    "Report": "reporting.report",
    "AskTruth": "rewriting.plan",
    "CallOperation": "rewriting.plan",
    "LiftBranch": "rewriting.plan",
    "LiftLoop": "rewriting.plan",
    "LiftRound": "rewriting.plan",
    "MarkCallee": "rewriting.plan",
    "MarkOperands": "rewriting.plan",
    "Outline": "rewriting.plan",
    "register_rule": "rules.registry",
    "BreakSite": "rules.rule",
    "Rule": "rules.rule",
    "Handle": "session",
    "disable": "session",
    "enable": "session",
    "enabled": "session",
    "is_enabled": "session",
    "leave_alone": "session",
    "report": "session",
    "reset": "session",
    "rewrite": "session",
    "UnsupportedVersionError": "versions",
}

_PUBLIC = ["config", *_HOMES]


# What is only for information would else reach the user's handlers with the root logger's level.
# Whoever has set a level, or sets one, is asking for it: TORCH_LOGS does so on either side of this.
_log = logging.getLogger(__name__)
if _log.level == logging.NOTSET:
    _log.setLevel(logging.WARNING)


def _look_up(name: str) -> Any:
    if name == "config":
        return importlib.import_module("graphmend_bc.config")
    if name not in _HOMES:
        raise AttributeError(f"module 'graphmend_bc' has no attribute {name!r}")
    home = _home(name)
    value = getattr(importlib.import_module(f"graphmend_bc.{home}"), name)
    if home == _HOMES[name]:
        globals()[name] = value
    return value


if not TYPE_CHECKING:  # to a type checker any name would be ours, and none be in `import *`
    __getattr__ = _look_up
    __all__ = _PUBLIC


def _home(name: str) -> str:
    """The module of a name. With a torch that is too old, the session could not be imported."""
    home = _HOMES[name]
    if home == "session" and importlib.import_module("graphmend_bc.versions").refusal():
        return "unsupported"
    return home


def __dir__() -> list[str]:
    return sorted([*globals(), *_PUBLIC])
