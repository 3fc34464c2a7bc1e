"""The witness counts what is inside, whatever happens."""

from __future__ import annotations

from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from llm_sched.demo.witness import RequestRecord, Seat, Witness


def test_the_peak_counts_refused_requests_too() -> None:
    """What was sent at the provider counts, not what it let through."""
    witness = Witness(limit=1)
    first, second = witness.arrive(), witness.arrive()
    assert (first.admitted, second.admitted) == (True, False)
    assert (witness.counters().current, witness.counters().peak) == (2, 2)


def test_a_refused_request_takes_no_place() -> None:
    """When a refused request leaves, the limit still counts the admitted one."""
    witness = Witness(limit=1)
    first, second = witness.arrive(), witness.arrive()
    witness.leave(second, "refused")
    assert not witness.arrive().admitted
    witness.leave(first, "answered")
    assert witness.arrive().admitted


def test_only_the_first_end_counts() -> None:
    """A request that was answered can't be dropped afterwards."""
    witness = Witness(limit=0, clock=count(10.0).__next__)
    seat = witness.arrive()
    witness.leave(seat, "answered")
    witness.leave(seat, "dropped")
    stats = witness.stats()
    assert (stats.answered, stats.dropped, stats.current) == (1, 0, 0)
    assert stats.records == (RequestRecord(10.0, 11.0, "answered"),)


def test_without_a_limit_everybody_is_admitted() -> None:
    """Limit 0 is no limit."""
    witness = Witness(limit=0)
    assert all(witness.arrive().admitted for _ in range(100))


@given(limit=st.integers(1, 4), arrivals=st.lists(st.booleans(), max_size=60))
def test_never_more_admitted_than_the_limit(limit: int, arrivals: list[bool]) -> None:
    """In every history of arrivals (True) and ends (False), limit and counters agree with a plain model."""
    witness = Witness(limit=limit)
    inside: list[Seat] = []
    highest = 0
    for arrives in arrivals:
        if arrives:
            inside.append(witness.arrive())
        elif inside:
            witness.leave(inside.pop(0), "answered")
        highest = max(highest, len(inside))
        assert sum(seat.admitted for seat in inside) <= limit
        assert witness.counters().current == len(inside)
    assert witness.counters().peak == highest
    assert witness.counters().requests == sum(arrivals)
