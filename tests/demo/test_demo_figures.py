"""Peaks, percentiles, gaps: small numbers that can be checked by eye, and laws that hold for all."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llm_sched.demo import figures

times = st.integers(0, 50).map(float)
intervals = st.lists(st.tuples(times, times).map(lambda pair: (min(pair), max(pair))), max_size=30)


def test_percentiles_are_values_that_occurred() -> None:
    """Nearest rank: no interpolation."""
    values = [4.0, 1.0, 3.0, 2.0]
    assert [figures.percentile(values, percent) for percent in (0, 50, 51, 95, 100)] == [1.0, 2.0, 3.0, 4.0, 4.0]
    assert figures.percentile([], 50) is None


def test_what_begins_as_another_ends_does_not_overlap() -> None:
    """Ends come before begins at the same instant."""
    assert figures.peak([(0, 1), (1, 2), (1, 3)]) == 2
    assert figures.peak([]) == 0


@given(intervals)
def test_the_peak_is_the_most_that_contain_one_instant(spans: list[figures.Interval]) -> None:
    """Counted the slow way, at every begin."""
    spans = [(begin, end) for begin, end in spans if begin < end]
    slow = max((sum(begin <= at < end for begin, end in spans) for at, _ in spans), default=0)
    assert figures.peak(spans) == slow


def test_a_gap_is_from_a_freed_slot_to_its_next_use() -> None:
    """Only a slot that was freed while somebody waited counts."""
    waits = [(0.0, 10.5), (0.0, 11.25)]
    gaps = figures.handoffs(freed=[10, 11, 12], taken=[0, 0, 10.5, 11.25, 20], waits=waits, slots=2)
    assert gaps == [0.5, 0.25]


def test_slots_that_were_free_all_along_make_no_gap() -> None:
    """The first takers find free slots; nothing was handed over."""
    assert figures.handoffs(freed=[5], taken=[0, 1], waits=[], slots=4) == []


@given(freed=st.lists(times), taken=st.lists(times), waits=intervals, slots=st.integers(0, 4))
def test_gaps_are_never_negative(freed: list[float], taken: list[float], waits: list[figures.Interval], slots: int) -> None:
    """Whatever the times, a slot is taken after it was freed."""
    assert all(gap >= 0 for gap in figures.handoffs(freed, taken, waits, slots))


def test_busy_share_ends_with_the_last_begin() -> None:
    """One of two slots half of the time is a quarter; the time after the last begin doesn't count."""
    assert figures.busy_share([(0, 5), (10, 99)], slots=2) == pytest.approx(0.25)
    assert figures.busy_share([(0, 5)], slots=2) is None
    assert figures.busy_share([], slots=2) is None


@given(intervals, st.integers(1, 4))
def test_a_share_is_between_nothing_and_all(spans: list[figures.Interval], slots: int) -> None:
    """Also when more overlap than there are slots."""
    share = figures.busy_share(spans, slots)
    assert share is None or 0 <= share <= 1 + 1e-9


def test_the_busiest_minute_may_begin_anywhere() -> None:
    """A minute is half-open: what came exactly 60 s ago is outside."""
    assert figures.busiest_minute([0, 50, 59, 60, 61, 200]) == 4
    assert figures.busiest_minute([]) == 0
