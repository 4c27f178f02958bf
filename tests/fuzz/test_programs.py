"""Five hundred generated programs are exact under mending; `make fuzz` tries many more.

A program that fails here is printed as a test to paste into tests/programs/, after it was made small.
"""

from __future__ import annotations

import pytest

from tests.fuzz.hunt import hunt

BATCHES, COUNT = 5, 100


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(BATCHES))
def test_generated_programs(batch: int) -> None:
    catch = hunt(COUNT, batch)
    if catch.failure is not None:
        program, difference = catch.failure
        pytest.fail(f"{difference}\n\n{program.test()}", pytrace=False)
    # A generator whose programs are all alike, or all refused, would show nothing.
    assert sum(catch.faults.values()) == COUNT
    assert catch.faults["STOCK"] <= COUNT // 20
    assert {"where", "defer"} <= catch.met.keys()
