"""What worked for a code object in another process, as a first suggestion for this one.

A plan that is read from disk is tried as one that was found in this process: it is rewritten,
traced and proved anew. It can cost an attempt, and decides nothing about exactness.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from graphmend_bc import config
from graphmend_bc.engine.decisions.code_digest import digest_of
from graphmend_bc.engine.decisions.decisions import (
    FORMAT,
    BadDecisionsError,
    Subject,
    decoded,
    encoded,
)
from graphmend_bc.engine.decisions.entry_files import EntryFiles
from graphmend_bc.engine.decisions.proven_plan import Proven
from graphmend_bc.rules.registry import all_rules
from graphmend_bc.runtime.signal_handlers import pass_on
from graphmend_bc.versions import running_versions

log = logging.getLogger("graphmend_bc")

_SETTINGS: Final = (
    *("strategies", "rules_off", "contrib", "where_op_limit", "arm_limit", "attempt_limit"),
    *("hoist_op_limit", "hoist_size_limit", "hoist_limit", "concrete_eval_limit"),
    *("speculation_limit", "failed_check_limit", "flip_limit", "snapshot_limit"),
    *("sites_off", "sites_only"),
)
"""The settings that plans depend on."""


def cache_dir() -> Path:
    """The directory of the entries: `config.cache_dir`, or one in the user's cache directory.

    Raises:
        RuntimeError: the user has no home directory.
    """
    if config.cache_dir:
        return Path(config.cache_dir).absolute()
    caches = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The specification of XDG_CACHE_HOME has relative paths ignored.
    return (caches if caches.is_absolute() else Path.home() / ".cache") / "graphmend_bc"


@dataclass(slots=True)
class DecisionCache:
    """The entries on disk. What goes wrong is logged, once in a process, and not raised.

    Attributes:
        files: the directory, once it was used.
        has_logged: True once something was logged.
    """

    files: EntryFiles | None = field(default=None)
    has_logged: bool = False

    def read(self, subject: Subject) -> Proven | None:
        """The plan that worked for a code object, or None."""
        if (key := self._key(subject)) is None:
            return None
        try:
            content = self._files().read(key)
            return None if content is None else decoded(content, subject)
        except BadDecisionsError as error:
            self._tell(error)
            self.drop(subject)
        except (OSError, RuntimeError) as error:
            self._tell(error)
        except Exception as error:  # a rule that was asked about a site of another kind
            self._tell(error)
            self.drop(subject)
        return None

    def write(self, proven: Proven, subject: Subject) -> None:
        """Keep a plan that worked, and what checks have taught, unless there is neither."""
        if not (proven.plan or proven.outcomes) or (key := self._key(subject)) is None:
            return
        try:
            content = encoded(proven, subject)
            if content is not None and self._files().read(key) != content.encode():
                self._files().write(key, content.encode())
        except Exception as error:
            self._tell(error)

    def drop(self, subject: Subject) -> None:
        """Forget a plan."""
        if (key := self._key(subject)) is None:
            return
        try:
            self._files().drop(key)
        except Exception as error:
            self._tell(error)

    def _files(self) -> EntryFiles:
        path = cache_dir()
        if self.files is None or self.files.path != path:
            self.files = EntryFiles(path)
        return self.files

    def _key(self, subject: Subject) -> str | None:
        if not config.disk_cache or not hasattr(os, "getuid"):
            return None
        try:
            return digest_of(subject.code, settings_now(subject.lost))
        except Exception as error:
            self._tell(error)
            return None

    def _tell(self, error: Exception) -> None:
        pass_on(error)
        if not self.has_logged:
            self.has_logged = True
            log.warning(
                "graphmend_bc does without the decisions that are kept on disk where they cannot be"
                " used: %s Set GRAPHMEND_BC_CACHE_DIR to another directory, or"
                " GRAPHMEND_BC_DISK_CACHE=0.",
                error if isinstance(error, BadDecisionsError) else repr(error),
            )


def settings_now(lost: Mapping[str, str]) -> tuple[Any, ...]:
    """What plans depend on besides the code.

    Args:
        lost: what this torch lacks; see `is_on`.
    """
    settings = tuple(str(getattr(config, name)) for name in _SETTINGS)
    effects = tuple(str(getattr(effect, "__qualname__", "")) for effect in config.effects)
    rules = tuple(rule.name for rule in all_rules())
    return FORMAT, running_versions(), settings, effects, rules, tuple(sorted(lost))
