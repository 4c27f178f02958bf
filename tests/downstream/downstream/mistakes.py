"""Mistakes, each of which a type checker finds: a comment that is not needed is an error, too."""

# pyright: basic, reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

import graphmend_bc
from graphmend_bc.testing import assert_exact


def none_of_this_runs() -> None:
    graphmend_bc.enable(cach=True)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    graphmend_bc.enable(on_error="ignore")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    graphmend_bc.config.where_op_limit = "many"  # type: ignore[assignment]
    graphmend_bc.config.where_op_limt = 3  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    print(graphmend_bc.report().mended)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    graphmend_bc.reprot()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    graphmend_bc.register_rule("mine")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    graphmend_bc.Rule("mine", "defer", 4, len)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    print(assert_exact(len, [], gradient=True).strategy)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
    with graphmend_bc.profile() as prof:
        prof.tabel()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]
