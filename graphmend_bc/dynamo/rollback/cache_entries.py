"""Dynamo's compiled versions of a frame: how many count against its limit, and forgetting them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from types import CodeType
from typing import Any, cast

from torch._C._dynamo.eval_frame import _debug_get_cache_entry_list
from torch._dynamo.cache_size import _has_same_id_matched_objs
from torch._dynamo.convert_frame import compile_lock
from torch._dynamo.guards import DeletedGuardManagerWrapper, GuardManagerWrapper

from graphmend_bc.dynamo.before_graph.computed_source import is_computed
from graphmend_bc.dynamo.frames.attempt import keeps_compiled
from graphmend_bc.dynamo.rollback import checkpoints


def counted(code: CodeType, frame: Any) -> int:
    """How many versions Dynamo counts when it is to compile a frame once more.

    Args:
        code: the frame's own code.
        frame: the frame, as Dynamo passes it; versions for other objects than it has do not count.
    """
    return sum(_has_same_id_matched_objs(frame, e) for e in _debug_get_cache_entry_list(code))


def misses_computed(frame: Any) -> bool:
    """Whether a version of a frame fits but for a value that is computed before the graph.

    Args:
        frame: the frame, as Dynamo passes it.
    """
    for entry in _debug_get_cache_entry_list(frame.f_code):
        known: Any = entry.guard_manager
        if not isinstance(known, DeletedGuardManagerWrapper):
            said = known.check_verbose(frame.f_locals).verbose_code_parts
            if any(is_computed(str(part)) for part in said):
                return True
    return False


def failing_guards(frame: Any) -> frozenset[str]:
    """What most versions of a frame fail for, without its numbers: `len(G['seen']) ==`.

    Args:
        frame: the frame, as Dynamo passes it; no version fits it.
    """
    kinds: Counter[str] = Counter()
    versions = 0
    for entry in _debug_get_cache_entry_list(frame.f_code):
        known: Any = entry.guard_manager
        if not isinstance(known, DeletedGuardManagerWrapper):
            said = known.check_verbose(frame.f_locals).verbose_code_parts
            kinds.update({re.sub(r"[\d.]+", "", str(part).partition("#")[0]) for part in said})
            versions += 1
    return frozenset(kind for kind, count in kinds.items() if count * 2 > versions)


def forget_entries(code: CodeType, change: Callable[[], None] | None = None) -> bool:
    """Make Dynamo compile a code object anew at its next call.

    Not where the user wants what is compiled to stay as it is, nor while a checkpoint's
    recomputation is to run a graph of it again. Not while another thread compiles: it would keep a
    graph that rests on the old speculations. A later failure will try again.

    Args:
        code: the frame's own code.
        change: called before, if it is done: what is to be assumed instead.

    Returns:
        True if it was done.
    """
    if keeps_compiled() or checkpoints.is_awaited(code) or not compile_lock.acquire(blocking=False):
        return False
    try:
        if change is not None:
            change()
        for entry in _debug_get_cache_entry_list(code):
            known = entry.guard_manager
            if isinstance(known, DeletedGuardManagerWrapper) or known.extra_state is None:
                continue
            known.extra_state.invalidate(entry, _Forgotten(known, entry.code))
    finally:
        compile_lock.release()
    return True


class _Forgotten(DeletedGuardManagerWrapper):
    """In the place of a cache entry's guards.

    The entry stays, because another thread may be looking at it (`reset_code` would free it), but
    must not count as a recompilation of the frame: no object is the one it was made for.

    Args:
        former: the guards. They are kept, because another thread may be waiting to check them.
        code: the generated code. It is kept, because torch frees code that only a captured
            traceback holds while it holds a lock, and may then wait for a thread that wants it.
    """

    def __init__(self, former: GuardManagerWrapper, code: CodeType) -> None:
        super().__init__("graphmend_bc had this frame compiled anew")
        self.former = former, code
        self.id_matched_objs = {"": cast(Any, object)}
