"""Provider and workers as real processes: they do their work, and they go."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from llm_sched.demo import plan
from llm_sched.demo.calls import Worker
from llm_sched.demo.crew import Crew
from llm_sched.demo.messages import Target, Task
from llm_sched.demo.provider import StubProvider
from llm_sched.demo.provider_process import provider_process

if TYPE_CHECKING:
    from llm_sched.demo.messages import CallRecord, Style

UNUSED = Path("unused.json")


def target_of(stub: StubProvider) -> Target:
    """A target that is our own stub."""
    return Target(stub.base_url, "stub", "gpt-demo", is_stub=True)


def unscheduled(stub: StubProvider, *, workers: int, calls: int) -> tuple[Task, ...]:
    """Tasks without slots: these tests are about processes."""
    options = plan.Options(workers, calls, 4, 0.0, 0.1, scheduled=False, endpoint=None, stub_model="m", state=None)
    return plan.tasks(options, target_of(stub), UNUSED)


def work(crew: Crew) -> None:
    """Let a crew do all its work."""
    while not crew.progress.all_ready:
        crew.collect(timeout_s=30)
    crew.go()
    while not crew.progress.all_finished:
        crew.collect(timeout_s=30)


@pytest.mark.parametrize("style", ["threads", "asyncio"])
def test_a_worker_makes_all_its_calls(style: Style) -> None:
    """From all its lanes, some of them streamed; every one is told."""
    records: list[CallRecord] = []
    with StubProvider(latency_s=0.005) as stub:
        failure = Worker(Task("worker-1", style, 10, 3, target_of(stub), None), records.append).run()
        stats = stub.stats()
    assert failure is None
    assert [record.failure for record in records] == [None] * 10
    assert (stats.answered, stats.requests) == (10, 10)


@pytest.mark.parametrize("style", ["threads", "asyncio"])
def test_a_refusal_is_a_failed_call_and_not_the_end(style: Style) -> None:
    """429s are counted by kind, and the lanes go on."""
    records: list[CallRecord] = []
    with StubProvider(limit=1, latency_s=0.1) as stub:
        failure = Worker(Task("worker-1", style, 12, 4, target_of(stub), None), records.append).run()
        stats = stub.stats()
    kinds = [record.failure.kind for record in records if record.failure is not None]
    assert failure is None
    assert len(records) == 12
    assert kinds == ["429 RateLimitError"] * stats.refused
    assert stats.refused > 0


@pytest.mark.parametrize("style", ["threads", "asyncio"])
def test_a_worker_gives_up_what_is_hopeless(style: Style) -> None:
    """After a 404 the next call would get one too."""
    records: list[CallRecord] = []
    with StubProvider(latency_s=0) as stub:
        nowhere = Target(stub.base_url + "/nowhere", "stub", "m", is_stub=True)
        failure = Worker(Task("worker-1", style, 50, 1, nowhere, None), records.append).run()
    assert failure is not None
    assert failure.kind == "404 NotFoundError"
    assert len(records) == 1


def test_a_crew_works_and_leaves() -> None:
    """Threads and asyncio together; afterwards no process is left."""
    with StubProvider(latency_s=0.005) as stub:
        with Crew(unscheduled(stub, workers=2, calls=12)) as crew:
            pids = [worker.pid for worker in crew.progress.workers.values()]
            work(crew)
        assert stub.stats().answered == 12
    assert len(crew.progress.records) == 12
    assert {record.worker for record in crew.progress.records} == {"worker-1", "worker-2"}
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_a_crew_that_is_left_in_the_middle_leaves_nothing() -> None:
    """Its calls would have taken an hour."""
    with StubProvider(latency_s=3600) as stub, Crew(unscheduled(stub, workers=1, calls=4)) as crew:
        (worker,) = crew.progress.workers.values()
        while not crew.progress.all_ready:
            crew.collect(timeout_s=30)
        crew.go()
    with pytest.raises(ProcessLookupError):
        os.kill(worker.pid, 0)


@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
def test_a_worker_that_is_killed_is_reported() -> None:
    """The other one goes on, and the run ends."""
    with StubProvider(latency_s=0.005) as stub, Crew(unscheduled(stub, workers=2, calls=12)) as crew:
        while not crew.progress.all_ready:
            crew.collect(timeout_s=30)
        os.kill(crew.progress.workers["worker-1"].pid, signal.SIGKILL)
        work(crew)
    failure = crew.progress.workers["worker-1"].failure
    assert failure is not None
    assert failure.kind == "worker died"
    assert "-9" in failure.detail
    assert crew.progress.workers["worker-2"].done == 6


def test_a_worker_that_cannot_begin_says_why(tmp_path: Path) -> None:
    """It is a failure of the worker, and no calls are waited for."""
    with StubProvider(latency_s=0) as stub:
        options = plan.Options(1, 4, -1, 0.0, 0.1, scheduled=True, endpoint=None, stub_model="m", state=None)
        with Crew(plan.tasks(options, target_of(stub), tmp_path / "s.json")) as crew:
            work(crew)
    failure = crew.progress.workers["worker-1"].failure
    assert failure is not None
    assert failure.kind == "ConfigError"
    assert "max_in_flight" in failure.detail


def test_the_provider_in_its_own_process() -> None:
    """Answers from there, and is gone with the context."""
    with provider_process(limit=3, latency_s=0) as remote:
        assert remote.base_url.endswith("/v1")
        assert remote.counters().limit == 3
    with pytest.raises(OSError, match=r".*"):
        remote.counters()
