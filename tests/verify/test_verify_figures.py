"""Numbers from calls."""

from __future__ import annotations

import pytest
from verify_evidence import hold, killed, rated, wait

from llm_sched.verify import figures


def test_the_peak_is_how_many_surely_held_at_once() -> None:
    """Who ends when another begins does not overlap him; a hold without length counts for nothing."""
    assert figures.peak([hold(1, 3), hold(2, 4), hold(3, 5), hold(2.5, 2.5)]) == 2


def test_overtaking_is_proven_by_a_full_bucket() -> None:
    """`a` queued at 1.1 and `b` asked at 2; `b` held from 3, and as the bucket was full until 4, `a` still waited."""
    calls = [hold(0, 4, process="x"), hold(3, 6, asked=2, process="b"), hold(4.5, 5, asked=1, queued=1.1)]
    assert figures.order(calls, 2) == figures.Order(grants=3, overtaking=1, within_process=0)


def test_within_a_process() -> None:
    """The same with both in one process."""
    calls = [hold(0, 4, process="x"), hold(3, 6, asked=2), hold(4.5, 5, asked=1, queued=1.1)]
    assert figures.order(calls, 2).within_process == 1


def test_who_only_wakes_up_late_was_not_overtaken() -> None:
    """Without a full bucket in between, `a` may have been granted before `b` and have noted it later."""
    calls = [hold(0, 2.5, process="x"), hold(3, 6, asked=2, process="b"), hold(4.5, 5, asked=1, queued=1.1)]
    assert figures.order(calls, 2).overtaking == 0


def test_who_was_not_seen_to_queue_was_not_overtaken() -> None:
    """He had asked, but not been heard."""
    calls = [hold(0, 4, process="x"), hold(3, 6, asked=2, process="b"), hold(4.5, 5, asked=1)]
    assert figures.order(calls, 2).overtaking == 0


def test_who_queued_hardly_earlier_was_not_overtaken() -> None:
    """A few milliseconds don't count."""
    calls = [hold(0, 4, process="x"), hold(3, 6, asked=2, process="b"), hold(4.5, 5, asked=1, queued=1.999)]
    assert figures.order(calls, 2).overtaking == 0


def test_who_timed_out_in_the_queue_was_overtaken_by_whoever_came_later_and_held_before() -> None:
    """Until his timeout he surely waited; whoever got a slot after it has overtaken nobody."""
    waiter = wait(1.0, 4.0, queued=1.1, gave_up=4.1)
    assert figures.order([waiter, hold(3, 6, asked=2, process="b")], 1).overtaking == 1
    assert figures.order([waiter, hold(5, 6, asked=2, process="b")], 1).overtaking == 0


def test_the_worst_window() -> None:
    """One a second and a burst of two: three within a second are one too many, less the tolerance."""
    calls = [rated(0, 0), rated(0, 0), rated(0.1, 0.5)]
    assert figures.excess(calls, 60, 2) == pytest.approx(0.5 - figures.RATE_TOLERANCE_S)
    (span,) = figures.spans(calls, [1.0], 60, 2)
    assert (span.grants, span.allowed) == (3, pytest.approx(3 + figures.RATE_TOLERANCE_S))


def test_who_may_have_been_granted_before_is_not_counted_in_a_window() -> None:
    """He asked before it began."""
    calls = [rated(0, 0), rated(0, 2), rated(1.9, 2), rated(2, 2.1)]
    assert figures.excess(calls, 60, 2) <= 0


def test_exactly_the_rate_is_allowed() -> None:
    """A burst, and then one a second."""
    calls = [rated(0, 0), *(rated(second, second) for second in range(60))]
    assert -0.1 < figures.excess(calls, 60, 2) <= 0


def test_lateness_counts_from_the_timeout() -> None:
    """Also of one who got his slot too late; whoever was cancelled had no time to be late."""
    calls = [wait(1, 2, gave_up=2.25), hold(11.5, 12, asked=1), wait(1, 2)]
    assert figures.lateness(calls) == [0.25, 0.5]


def test_a_killed_holders_slot_is_back_when_the_bucket_is_full_again() -> None:
    """With one slot lost for ever it would never be full."""
    calls = [hold(0, 9), killed(0, 1), hold(1.5, 2, asked=0), hold(2, 8, asked=0)]
    assert figures.recoveries(calls, 2, unless_below_s=2) == [0.5]


def test_while_nobody_waits_a_free_slot_proves_nothing() -> None:
    """The next who asks gets it."""
    calls = [hold(0, 9), killed(0, 1), hold(7, 8)]
    assert figures.recoveries(calls, 2, unless_below_s=2) == []


def test_a_slot_that_never_comes_back_is_found_all_the_same() -> None:
    """When the last waiter has given up."""
    calls = [hold(0, 9), killed(0, 1), wait(0, 5, gave_up=5.0), wait(4, 9, gave_up=9.0)]
    assert figures.recoveries(calls, 2, unless_below_s=2) == [8.0]


def test_hand_offs_are_measured_where_somebody_waited() -> None:
    """From the end of one hold to the begin of the next."""
    calls = [hold(0, 1), hold(1.25, 2, asked=0.5), hold(3, 4)]
    assert figures.hand_offs(calls, 1) == [0.25]


def test_whoever_was_cancelled_may_have_been_granted_before() -> None:
    """He surely waited only as long as others filled the bucket."""
    waiter = wait(1.0, 5.0, queued=1.1)
    late = hold(4, 6, asked=2, process="b")
    assert figures.order([waiter, late, hold(0, 3.5, process="x")], 1).overtaking == 0
    assert figures.order([waiter, late, hold(0, 4.5, process="x")], 2).overtaking == 1
