"""Telemetry never harms a call: whatever a listener, a signal handler, an endpoint or the number of users does."""

from __future__ import annotations

import contextlib
import logging
import signal
import socket
import threading
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from telemetry_stage import BUCKET, Report, until

from llm_sched import Policy, Scheduler, SlotTimeout
from llm_sched.calls import Call
from llm_sched.observer import is_listener
from llm_sched.telemetry import names

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from telemetry_crew import Crew
    from telemetry_stage import Stage

    from llm_sched.model import Event

OPENAI = {"provider": "openai", "model": "gpt-4o"}


class Broken:
    """Raises whatever it hears."""

    def __init__(self) -> None:
        self.heard: list[str] = []

    def _raise(self, hook: str) -> NoReturn:
        self.heard.append(hook)
        raise ZeroDivisionError(hook)

    def watch(self, _census: Any) -> None:
        """Raise."""
        self._raise("watch")

    def began(self, _call: Any) -> None:
        """Raise."""
        self._raise("began")

    def waits(self, _call: Any, _waited_s: float) -> None:
        """Raise."""
        self._raise("waits")

    def acquired(self, _call: Any) -> None:
        """Raise."""
        self._raise("acquired")

    def failed(self, _call: Any, _error: BaseException, _waited_s: float) -> None:
        """Raise."""
        self._raise("failed")

    def released(self, _call: Any, _held_s: float, _error: str) -> None:
        """Raise."""
        self._raise("released")

    def measured(self, _locking_s: float, _transaction_s: float) -> None:
        """Raise."""
        self._raise("measured")

    def on_events(self, _events: Sequence[Event]) -> None:
        """Raise."""
        self._raise("on_events")


def test_a_listener_that_raises_everywhere_disturbs_no_call(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Slots come and go as without it; it is logged once."""
    broken = Broken()
    assert is_listener(broken)
    scheduler = Scheduler(Policy(max_in_flight=1, state_path=tmp_path / "s.json"), observer=broken)
    with caplog.at_level(logging.ERROR, "llm_sched"):
        with scheduler.slot(**OPENAI), pytest.raises(SlotTimeout):
            scheduler.acquire(**OPENAI, timeout_s=0.01)
        scheduler.acquire(**OPENAI, timeout_s=0).release()
    scheduler.close()
    assert set(broken.heard) == {"watch", "began", "waits", "acquired", "failed", "released", "measured", "on_events"}
    assert len(caplog.records) == 1


def test_an_observer_of_events_only_is_no_listener(stage: Stage) -> None:
    """It hears events, and OpenTelemetry may join it."""
    from llm_sched.testing import RecordingObserver  # noqa: PLC0415

    assert not is_listener(RecordingObserver())
    assert is_listener(stage.report.observer)


@pytest.fixture
def report() -> Iterator[Report]:
    """Where telemetry goes."""
    report = Report()
    yield report
    report.close()


def test_a_signal_handler_may_take_a_slot_in_the_middle_of_anything(tmp_path: Path, report: Report) -> None:
    """Also while the SDK records in this very thread, holding its locks; and all is counted."""
    scheduler = Scheduler(Policy(state_path=tmp_path / "s.json"), observer=report.observer)
    asked = [0]

    def take() -> None:
        asked[0] += 1
        with contextlib.suppress(SlotTimeout):  # this thread may have the ledger's lock
            scheduler.acquire(**OPENAI, timeout_s=0).release()

    handled: list[int] = []

    def handler(number: int, _frame: object) -> None:
        handled.append(number)
        take()

    before = signal.signal(signal.SIGALRM, handler)
    signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
    try:
        while len(handled) < 100:
            take()
            report.values(names.REQUESTS)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert sum(report.values(names.REQUESTS).values()) == asked[0]
    scheduler.close()


def test_many_threads_lose_no_count(tmp_path: Path, report: Report) -> None:
    """While somebody collects all the time."""
    scheduler = Scheduler(Policy(state_path=tmp_path / "s.json"), observer=report.observer)

    def work() -> None:
        for _ in range(100):
            scheduler.acquire(**OPENAI).release()

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        report.metrics()
    for thread in threads:
        thread.join()
    assert report.values(names.REQUESTS) == {(BUCKET, "acquired"): 800}
    assert sum(report.values(names.WAIT_DURATION).values()) == 800
    assert report.values(names.HOLD_DURATION) == {(BUCKET,): 800}
    scheduler.close()


def test_ten_thousand_users_and_five_hundred_buckets_are_a_bounded_number_of_series(report: Report) -> None:
    """The first hundred buckets of a process have names, the rest are `other`; and nothing is lost."""
    for number in range(10_000):
        policy = Policy(keys=["provider", "model", "user"], user=f"user-{number}")
        call = Call(policy.target("openai", f"model-{number % 500}"), "1-a", number, 0.0, 1.0)
        report.observer.acquired(call)
        report.observer.released(call, 1.0, "")
        report.observer.failed(call, SlotTimeout("none"), 1.0)
    for instrument in names.SLOT_INSTRUMENTS:
        assert len(report.points(instrument)) <= 2 * (names.MOST_BUCKETS + 1)
    requests = report.values(names.REQUESTS)
    assert sum(requests.values()) == 20_000
    assert requests["other", "acquired"] == 10_000 - names.MOST_BUCKETS
    assert report.values(names.HOLD_DURATION)["other",] == 10_000 - names.MOST_BUCKETS


@pytest.mark.soak
def test_an_endpoint_that_hangs_changes_nothing_for_callers(crew: Crew) -> None:
    """It takes connections and never answers: calls go on, and the process ends."""
    with socket.socket() as deaf:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(64)
        crew.environment["OTEL_EXPORTER_OTLP_ENDPOINT"] = f"http://127.0.0.1:{deaf.getsockname()[1]}"
        crew.start("work", times=300).end()
    assert crew.calls() == 300


@pytest.mark.soak
def test_a_process_forks_while_its_threads_call_and_its_metrics_are_collected(sink: Any, crew: Crew) -> None:
    """No child waits for a lock that a thread of its parent had, and no child sends what its parent counted."""
    crew.environment["OTEL_METRIC_EXPORT_INTERVAL"] = "20"
    crew.start("fork_in_a_storm", times=5, children=20).end()
    until(lambda: sink.total(names.REQUESTS, result="acquired") == crew.calls())
    assert sink.total(names.HOLD_DURATION) == sink.total(names.WAIT_DURATION) == crew.calls()
    assert len({point.instance for point in sink.points(names.REQUESTS)}) == 21
