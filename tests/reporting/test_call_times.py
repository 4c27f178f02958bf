"""What times of calls say."""

from __future__ import annotations

import pytest

from graphmend_bc.reporting.call_times import CallTimes, Timed

MS = 1_000_000


def around(median: int, first: int = 0, calls: int = 9) -> CallTimes:
    """Calls of which the middle half lies within 4% of a median, with one that took long."""
    half = calls // 2
    rest = [median + median * step // 100 for step in range(-half, calls - half)]
    return CallTimes(first, [*rest[:-1], 50 * median])


FAST, SLOW = around(2 * MS, 900 * MS), around(3 * MS, 500 * MS)
EAGER = around(10 * MS)
FIVE_SECONDS = around(2 * MS, 5_000 * MS)


@pytest.mark.parametrize(
    ("stock", "mended", "said"),
    [
        (
            SLOW,
            FAST,
            "Mended, a call at rest takes 2 ms, which is 1.50 times as fast as stock's 3 ms; what its "
            "first call took more (400 ms) is earned back after about 400 calls.",
        ),
        (
            around(3 * MS, 900 * MS),
            around(2 * MS, 500 * MS),
            "Mended, a call at rest takes 2 ms, which is 1.50 times as fast as stock's 3 ms; its first "
            "call took 400 ms less, too.",
        ),
        (
            around(2 * MS, 500 * MS),
            around(3 * MS, 900 * MS),
            "Mended, a call at rest takes 3 ms, which is 1.50 times as long as stock's 2 ms; its first "
            "call took 400 ms more, too.",
        ),
        (
            FAST,
            SLOW,
            "Mended, a call at rest takes 3 ms, which is 1.50 times as long as stock's 2 ms; what its "
            "first call took less (400 ms) is used up after about 400 calls.",
        ),
        (
            around(201 * MS // 100),
            FAST,
            "Mended, a call at rest takes 2 ms and with stock 2.01 ms: no difference that these calls "
            "show.",
        ),
    ],
)
def test_over_stock(stock: CallTimes, mended: CallTimes, said: str) -> None:
    assert Timed(EAGER, stock, mended).gain().startswith(f"{said} An eager call takes 10 ms")


@pytest.mark.parametrize(
    ("eager", "mended", "said"),
    [
        (EAGER, FAST, "10 ms: the time of compiling is earned back after about 120 calls."),
        (EAGER, FIVE_SECONDS, "10 ms: the time of compiling is earned back after about 630 calls."),
        (around(2 * MS), FAST, "2 ms, so the time of compiling is not earned back."),
        (
            around(2 * MS + MS // 50),
            FAST,
            "2.02 ms: no difference that these calls show, so it is not known whether the time of "
            "compiling is earned back.",
        ),
        (around(1 * MS), FAST, "1 ms, so the time of compiling is not earned back."),
    ],
)
def test_over_eager(eager: CallTimes, mended: CallTimes, said: str) -> None:
    assert Timed(eager, SLOW, mended).gain().endswith(f" An eager call takes {said}")


def test_a_difference_must_exceed_that_of_eager_calls() -> None:
    quiet, busy = Timed(EAGER, SLOW, FAST, drift=1.2), Timed(EAGER, SLOW, FAST, drift=1.6)
    assert "1.50 times as fast" in quiet.gain()
    assert "no difference that these calls show" in busy.gain()


def test_no_gain_is_stated_without_ground() -> None:
    few = Timed(EAGER, SLOW, CallTimes(0, [1, 1, 1])).gain()
    assert (
        few
        == "No gain is stated: in the time given only 3 of 5 needed calls at rest could be made."
    )
    assert "does not come to rest" in Timed(EAGER, SLOW, FAST, is_settled=False).gain()


def test_one_call_has_no_spread() -> None:
    assert str(CallTimes(0, [1_500])) == "1.5 us [1.5, 1.5]"


def test_json() -> None:
    written = Timed(EAGER, SLOW, FAST, 1.25, ("a note",)).as_dict()
    assert written["mended"] == {
        "first_ns": 900 * MS,
        "median_ns": 2 * MS,
        "quartiles_ns": [196 * MS // 100, 204 * MS // 100],
        "calls_at_rest": 9,
    }
    assert (written["drift"], written["notes"]) == (1.25, ["a note"])
    assert written["gain"] == Timed(EAGER, SLOW, FAST, 1.25).gain()
