"""Assertions for the tests of programs that are compiled: no graph breaks, and eager's results.

    from graphmend_bc.testing import assert_exact, assert_no_breaks

The pytest plugin is in `graphmend_bc.pytest_plugin`. May import `session` and what is below it.
"""

from graphmend_bc.testing.assertions import assert_exact, assert_no_breaks

__all__ = ["assert_exact", "assert_no_breaks"]
