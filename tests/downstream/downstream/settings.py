"""Every setting, with its type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_type

from graphmend_bc import config

SWITCHES: tuple[bool, ...] = (
    config.enabled,
    config.strict_versions,
    config.disk_cache,
    config.contrib,
)
LIMITS: tuple[int, ...] = (
    config.where_op_limit,
    config.hoist_op_limit,
    config.hoist_size_limit,
    config.hoist_limit,
    config.concrete_eval_limit,
    config.speculation_limit,
    config.arm_limit,
    config.failed_check_limit,
    config.flip_limit,
    config.snapshot_limit,
    config.attempt_limit,
    config.verify,
)
NAMES: tuple[tuple[str, ...], ...] = (
    config.strategies,
    config.rules_off,
    config.sites_off,
    config.sites_only,
)
TEXTS: tuple[str, ...] = (config.attach, config.cache_dir, config.verify_action)
EFFECTS: list[Callable[..., Any]] = config.effects


def changed() -> tuple[int, ...]:
    """Some of them, in the four ways to set them."""
    config.hoist_limit = 5
    with config.patch(hoist_limit=4) as nothing:
        assert_type(nothing, None)
        found = [config.hoist_limit]
    with config.patch("hoist_limit", 3):
        found.append(config.hoist_limit)
    with config.patch({"hoist_limit": 2, "rules_off": ("cond",)}):
        found.append(config.hoist_limit)
    return (config.hoist_limit, *found)
