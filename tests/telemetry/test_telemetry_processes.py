"""Many processes: what each reports sums to what the provider counted, however they were made and however they end."""

from __future__ import annotations

import signal
import time
from typing import TYPE_CHECKING

import pytest
from telemetry_stage import until

from llm_sched import read_snapshot
from llm_sched.telemetry import names

if TYPE_CHECKING:
    from telemetry_crew import Crew
    from telemetry_sink import Sink

pytestmark = pytest.mark.timeout(180)


def assert_all_counted(sink: Sink, crew: Crew, processes: int) -> None:
    """Counters, histograms and instances are those of the calls that were made."""
    calls = crew.calls()
    assert sink.total(names.REQUESTS) == calls
    assert sink.total(names.REQUESTS, result="acquired") == calls
    assert sink.total(names.WAIT_DURATION) == calls
    assert sink.total(names.HOLD_DURATION) == calls
    assert len({point.instance for point in sink.points(names.REQUESTS)}) == processes
    assert sink.total(names.IN_FLIGHT) == 0
    assert sink.total(names.WAITING) == 0


def test_several_programs(sink: Sink, crew: Crew) -> None:
    """Short-lived ones, too: what was recorded before the end arrives."""
    for child in [crew.start("work", times=times) for times in (1, 4, 9)]:
        child.end()
    assert crew.calls() == 14
    assert_all_counted(sink, crew, 3)


def test_forked_children_start_from_nothing(sink: Sink, crew: Crew) -> None:
    """5 + 1 is 6 in all, not 5 in the parent and 6 in the child."""
    crew.start("fork", times=5, children=3).end()
    assert crew.calls() == 25
    assert_all_counted(sink, crew, 4)


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_children_of_multiprocessing(sink: Sink, crew: Crew, method: str) -> None:
    """They run no exit handlers."""
    crew.start("processes", times=5, children=2, method=method).end()
    assert crew.calls() == 15
    assert_all_counted(sink, crew, 3)


def test_a_pool_which_ends_its_workers_by_signal(sink: Sink, crew: Crew) -> None:
    """SIGTERM, as soon as the results are there."""
    crew.start("pool", times=3, children=2, method="fork").end()
    assert crew.calls() == 18
    workers = len({point.instance for point in sink.points(names.REQUESTS)})
    assert workers in {2, 3}  # a fast worker may have done the other's part
    assert_all_counted(sink, crew, workers)


def test_sigterm_sends_what_there_is(sink: Sink, crew: Crew) -> None:
    """And ends the process by that signal, as without us; what it held is no longer held."""
    child = crew.start("hold", times=3)
    child.hear("holds")
    until(lambda: sink.total(names.IN_FLIGHT) == 1)
    child.send(signal.SIGTERM)
    child.end(-signal.SIGTERM)
    assert sink.total(names.REQUESTS) == 4
    assert sink.total(names.IN_FLIGHT) == 0


def test_in_flight_sums_to_the_ledger_though_one_was_killed(sink: Sink, crew: Crew) -> None:
    """`kill -9`: it reports no more, and whoever lives reports what is held."""
    holder, victim = crew.start("hold", times=2), crew.start("hold", times=2)
    for child in (holder, victim):
        child.hear("holds")
    until(lambda: sink.total(names.IN_FLIGHT) == 2)
    victim.send(signal.SIGKILL)
    victim.end(-signal.SIGKILL)
    crew.start("work", times=3).end()
    rest = time.time_ns()
    until(lambda: sink.points(names.IN_FLIGHT, rest))
    (bucket,) = read_snapshot(crew.folder / "ledger.json").buckets
    assert sink.total(names.IN_FLIGHT, rest) == bucket.in_flight == 1
    assert sink.total(names.RECLAIMED) == bucket.totals.reclaimed == 1
    assert sink.total(names.REQUESTS) == bucket.totals.granted == crew.calls() + 2
    holder.tell()
    holder.end()
    assert sink.total(names.IN_FLIGHT, rest) == 0


def test_a_program_with_an_sdk_of_its_own_needs_no_line_of_ours(sink: Sink, crew: Crew) -> None:
    """Its forked children, too."""
    crew.start("own_sdk", times=3, children=2, endpoint=sink.endpoint).end()
    assert crew.calls() == 12
    assert_all_counted(sink, crew, 3)
