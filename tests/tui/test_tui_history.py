"""What is remembered: rings, rates, percentiles; and that it has an end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tui_support import bucket, holder, owners_of, totals, waiters

from llm_sched_tui.view_model.history import BucketHistory, BucketSample, History
from llm_sched_tui.view_model.quantiles import quantile
from llm_sched_tui.view_model.series import STEPS, WINDOWS_S, Ring, Series


def sample(in_flight: int, granted: int = 0) -> BucketSample:
    """One step."""
    return BucketSample(in_flight, 0, granted, 0, 0.0, ())


def test_a_step_remembers_the_most_and_the_last() -> None:
    """Two looks in one step: the larger level, the later counter."""
    ring = Ring[BucketSample](10.0, 10)
    ring.add(3.1, sample(5, 1))
    ring.add(3.9, sample(2, 7))
    assert ring.level(3.9, lambda each: each.in_flight).values[-1] == 5
    assert ring.before(3.9) is not None
    assert ring.before(3.9).sample.granted == 7  # type: ignore[union-attr]


def test_where_nobody_looked_is_a_gap() -> None:
    """A gap is no zero."""
    ring = Ring[BucketSample](4.0, 4)
    ring.add(0.0, sample(1))
    ring.add(2.0, sample(0))
    assert ring.level(2.0, lambda each: each.in_flight).values == (None, 1, None, 0)
    assert ring.level(7.0, lambda each: each.in_flight).values == (None, None, None, None)


def test_a_look_that_is_due_is_no_gap() -> None:
    """The newest step shown is the newest that was seen, as long as that is not long ago: nothing flickers."""
    ring = Ring[BucketSample](4.0, 4)
    ring.add(0.0, sample(1))
    ring.add(1.0, sample(2))
    assert ring.level(2.5, lambda each: each.in_flight) == ring.level(1.0, lambda each: each.in_flight)


def test_a_ring_forgets() -> None:
    """However long it is filled, it holds one window."""
    ring = Ring[BucketSample](4.0, 4)
    for second in range(1000):
        ring.add(float(second), sample(second))
    assert ring.level(999.0, lambda each: each.in_flight).values == (996, 997, 998, 999)


def test_a_copy_stands_still() -> None:
    """What is added later is not in it."""
    ring = Ring[BucketSample](4.0, 4)
    ring.add(0.0, sample(1))
    copy = ring.copy()
    ring.add(1.0, sample(2))
    assert copy.level(1.0, lambda each: each.in_flight).values == (None, None, None, 1)


@given(st.lists(st.none() | st.floats(0, 100), min_size=1, max_size=60), st.integers(1, 80), st.integers(0, 500))
def test_a_plot_slides_and_does_not_shimmer(values: list[float | None], width: int, last: int) -> None:
    """A step later it is the same picture, moved to the left by a few columns or none; only its edges are new."""
    now = Series(tuple(values), last + len(values))
    later = Series((*values[1:], 50.0), now.last + 1)
    one, two = now.columns(width), later.columns(width)
    assert max(len(one), len(two)) <= width
    step = -(-width // len(values))  # a step may be several columns wide
    edge = 2 * step + 1
    assert any(one[edge + moved : len(one) - edge] == two[edge : len(one) - edge - moved] for moved in range(edge + 1))


def test_a_plot_fills_its_width() -> None:
    """As many columns as there are, or one less, whatever the width."""
    series = Series(tuple(float(number) for number in range(240)), 1000)
    for width in range(1, 400):
        assert width - 2 <= len(series.columns(width)) <= width


def test_a_column_shows_the_largest_of_its_steps() -> None:
    """No peak is lost."""
    assert Series((1.0, 9.0, None, 2.0, None, None), 5).columns(3) == (9.0, 2.0, None)
    assert Series((1.0, 9.0), 1).columns(4) == (1.0, 1.0, 9.0, 9.0)
    assert Series((1.0, 2.0), 1).columns(0) == ()


@pytest.mark.parametrize(
    ("part", "counts", "expected"),
    [
        (0.5, (0, 0, 0, 0), None),
        (0.5, (10, 10, 10, 10), 0.05),
        (0.5, (0, 10, 10, 10), 0.55),
        (0.95, (0, 0, 0, 4), 10.0),
        (1.0, (5, 10, 10, 10), 1.0),
    ],
)
def test_percentiles_come_from_the_histogram(part: float, counts: tuple[int, ...], expected: float | None) -> None:
    """Interpolated within a cell; the open one counts as its lower bound."""
    found = quantile(part, (0.1, 1.0, 10.0), counts)
    assert found == (None if expected is None else pytest.approx(expected))


def test_grants_a_minute() -> None:
    """From the counters of the last minute; nothing is said before two seconds were watched."""
    history = BucketHistory()
    history.add(100.0, bucket(totals=totals(granted=1000)))
    assert history.per_minute(100.5) is None
    history.add(110.0, bucket(totals=totals(granted=1020)))
    assert history.per_minute(110.0) == pytest.approx(120, rel=0.05)
    for second in range(111, 300):
        history.add(float(second), bucket(totals=totals(granted=1020 + (second - 110) // 2)))
    assert history.per_minute(299.0) == pytest.approx(30, rel=0.05)


def test_percentiles_are_of_recent_grants() -> None:
    """Waits from before the window count no more; without grants there are none."""
    history = BucketHistory()
    history.add(0.0, bucket(totals=totals(10, (10, 10, 10, 10))))
    assert history.waits(0.0, 60.0).p50 is None
    history.add(1.0, bucket(totals=totals(20, (10, 20, 20, 20))))
    assert history.waits(1.0, 60.0).p50 == pytest.approx(0.55)
    history.add(100.0, bucket(totals=totals(30, (20, 30, 30, 30))))
    assert history.waits(100.0, 60.0).p50 == pytest.approx(0.05)


def test_timeouts_of_the_last_minute() -> None:
    """Old ones are forgiven."""
    history = BucketHistory()
    history.add(0.0, bucket(totals=totals(timed_out=5)))
    history.add(10.0, bucket(totals=totals(timed_out=7)))
    assert history.recent_timeouts(10.0) == 2
    history.add(100.0, bucket(totals=totals(timed_out=7)))
    assert history.recent_timeouts(100.0) == 0


def test_counters_that_went_back_begin_anew() -> None:
    """A ledger that was made again gives no negative rates."""
    history = BucketHistory()
    history.add(0.0, bucket(totals=totals(granted=1000)))
    history.add(10.0, bucket(totals=totals(granted=3)))
    history.add(20.0, bucket(totals=totals(granted=13)))
    assert history.per_minute(20.0) == pytest.approx(60, rel=0.05)


def test_the_cap_outlives_those_who_had_it() -> None:
    """A bucket that is empty for a moment does not lose its gauge."""
    history = BucketHistory()
    history.add(0.0, bucket(cap=8, holders=[holder()]))
    history.add(1.0, bucket(cap=0, policies=[]))
    assert history.limit == 8


def test_grants_and_waits_as_series() -> None:
    """Smoothed over a few steps; None where nobody got a slot."""
    history = BucketHistory()
    for second in range(60):
        granted = min(second, 30)
        history.add(float(second), bucket(totals=totals(granted=granted, wait_s=granted * 2.0)))
    assert history.grants(59.0, 60.0).largest() == pytest.approx(60, rel=0.1)
    waits = history.mean_wait(59.0, 60.0)
    assert waits.largest() == pytest.approx(2.0)
    assert waits.values[-1] is None


def test_the_share_of_a_run_is_of_the_last_minutes() -> None:
    """Grants from before are not counted."""
    history = History()
    people = owners_of(bucket(holders=[holder(11)]))

    def owner(granted: int) -> list[object]:
        return [type(people[0])(11, "ann", "run-ann.py", True, 1, 0, granted)]  # noqa: FBT003

    history.add(0.0, [], owner(100))  # type: ignore[arg-type]
    history.add(10.0, [], owner(130))  # type: ignore[arg-type]
    assert history.runs[11, "ann", "run-ann.py"].recent(10.0) == 30


def test_history_is_bounded() -> None:
    """Ten thousand buckets and runs come and go; what is gone is forgotten, and there is a largest number at once."""
    history = History()
    for number in range(3000):
        one = bucket(f"p/{number}", holders=[holder(pid=number)], waiters=[waiters(pid=number)])
        history.add(float(number), [one], owners_of(one))
    assert len(history.buckets) <= 128
    assert len(history.runs) <= 301
    history.add(1e6, [], [])
    assert (history.buckets, history.runs) == ({}, {})


def test_every_window_has_as_many_steps() -> None:
    """A plot is as wide in each."""
    history = BucketHistory()
    history.add(0.0, bucket(holders=[holder()]))
    assert {len(history.in_flight(0.0, window).values) for window in WINDOWS_S} == {STEPS}
