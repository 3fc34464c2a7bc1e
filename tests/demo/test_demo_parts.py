"""Plan, progress, stopwatch, view and texts: values in, values out."""

from __future__ import annotations

import dataclasses
import os
from io import StringIO
from itertools import count
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from rich.console import Console

from llm_sched import Policy, Scheduler, read_snapshot
from llm_sched.demo import plan, screen
from llm_sched.demo.messages import CallRecord, Failure, Finished, Ready, Target
from llm_sched.demo.progress import Progress
from llm_sched.demo.stopwatch import Stopwatch, Unpaced
from llm_sched.demo.view import BucketRow, OwnBucket, ProviderRow, View, view_of

TARGET = Target("http://127.0.0.1:1/v1", "stub", "gpt-demo", is_stub=True)


def options(workers: int = 2, calls: int = 5, cap: int = 4, *, scheduled: bool = True) -> plan.Options:
    """Options of a small run."""
    return plan.Options(workers, calls, cap, 0.0, 0.1, scheduled, None, "gpt-demo", None)


def call(worker: str, failure: Failure | None = None) -> CallRecord:
    """A call of a second, granted after half of it."""
    return CallRecord(worker, 0.0, 0.5, 1.0, 0.5, "stub/gpt-demo", failure)


@given(st.integers(1, 20), st.integers(1, 300), st.integers(1, 40))
def test_every_call_has_one_worker(workers: int, calls: int, cap: int) -> None:
    """Shares differ by one at most, and nobody has more lanes than calls."""
    tasks = plan.tasks(options(workers, calls, cap), TARGET, Path("s.json"))
    shares = [task.calls for task in tasks]
    assert len(tasks) == workers
    assert sum(shares) == calls
    assert max(shares) - min(shares) <= 1
    assert all(task.lanes <= task.calls for task in tasks)


def test_half_of_the_workers_are_threads() -> None:
    """And the others asyncio; without a scheduler nobody has a policy."""
    tasks = plan.tasks(options(workers=4, calls=40), TARGET, Path("s.json"))
    assert [task.style for task in tasks] == ["threads", "asyncio"] * 2
    assert {task.pace for task in plan.tasks(options(scheduled=False), TARGET, Path("s.json"))} == {None}


def test_there_are_more_callers_than_slots() -> None:
    """With a large cap each worker gets more lanes: without waiters there is nothing to see."""
    tasks = plan.tasks(options(workers=4, calls=1000, cap=40), TARGET, Path("s.json"))
    assert sum(task.lanes for task in tasks) == 80


@pytest.mark.parametrize(
    ("url", "label"),
    [
        ("https://api.openai.com/v1", "openai"),
        ("http://GPU-box:8000/v1", "gpu-box:8000"),
        ("https://user:secret@llm.example/v1", "llm.example"),
    ],
)
def test_an_endpoint_is_labelled_by_its_host(url: str, label: str) -> None:
    """As a policy labels it, and never with what stands before the host."""
    assert plan.endpoint(url, "m").provider == label


@pytest.mark.parametrize("url", ["", "api.openai.com", "ftp://x/v1", "http:///v1"])
def test_what_is_no_endpoint(url: str) -> None:
    """Only http and https with a host."""
    with pytest.raises(ValueError, match="is not an http"):
        plan.endpoint(url, "m")


def test_progress_adds_up() -> None:
    """Calls and failures count for their worker; the end comes when all have finished."""
    progress = Progress(plan.tasks(options(), TARGET, Path("s.json")))
    for message in (Ready("worker-1"), Ready("worker-2")):
        assert not progress.all_ready
        progress.note(message)
    assert progress.all_ready
    progress.note(call("worker-1"))
    progress.note(call("worker-1", Failure("429 RateLimitError", "no")))
    assert (progress.workers["worker-1"].done, progress.workers["worker-1"].failed) == (2, 1)
    progress.note(Finished("worker-1"))
    assert not progress.all_finished
    progress.gone("worker-2", -9)
    assert progress.all_finished
    assert progress.workers["worker-2"].lost == 2


def test_a_process_that_ends_after_its_work_is_no_failure() -> None:
    """One that ends before it is, and says how."""
    progress = Progress(plan.tasks(options(), TARGET, Path("s.json")))
    progress.note(Finished("worker-1"))
    progress.gone("worker-1", 0)
    progress.gone("worker-2", -9)
    assert progress.workers["worker-1"].failure is None
    failure = progress.workers["worker-2"].failure
    assert failure is not None
    assert "exit code -9" in failure.detail


def test_an_unknown_message_is_an_error() -> None:
    """It would be a mistake in the demo."""
    with pytest.raises(TypeError, match="unknown"):
        Progress(()).note("hello")


def test_a_stopwatch_tells_waiting_from_calling() -> None:
    """Asked, granted, ended; and the slot's own wait."""
    watch = Stopwatch("worker-1", clock=count(1.0).__next__)
    watch.granted(Unpaced("stub/m", 0.75))
    watch.ended()
    assert watch.record(None) == CallRecord("worker-1", 1.0, 2.0, 3.0, 0.75, "stub/m", None)


def test_a_call_without_a_slot_has_waited_all_the_time() -> None:
    """It was never granted."""
    record = Stopwatch("worker-1", clock=count(1.0).__next__).record(Failure("SlotTimeout", "late"))
    assert (record.granted_s, record.ended_s, record.waited_s) == (None, 2.0, 1.0)


def a_view(*, done: int = 3, failed: int = 0, elapsed_s: float | None = 2.0) -> View:
    """A view of a run of ten calls."""
    progress = Progress(plan.tasks(options(), TARGET, Path("s.json")))
    rows = view_of(progress, None, None, OwnBucket("stub/gpt-demo", 4), None).workers
    buckets = (BucketRow("stub/gpt-demo", 3, 4, 12, 0.5),)
    return View(4, elapsed_s, done, failed, 10, buckets, rows, ProviderRow(3, 5, 7))


def test_a_line_says_it_all() -> None:
    """Calls, bucket, provider, failures."""
    text = screen.line(a_view(failed=2))
    assert text == ("3/10 calls | stub/gpt-demo: 3/4 in flight, 12 waiting | provider: 3 now, peak 5, 7 refused | 2 failed")


def test_the_picture_shows_buckets_workers_and_provider() -> None:
    """In eighty columns, without a line that is broken."""
    console = Console(width=80, file=StringIO())
    with console.capture() as capture:
        console.print(screen.picture("a title", a_view()))
    text = capture.get()
    for part in ("a title", "3/10", "1.5/s", "●●●○ 3/4", "0.50 s", "worker-2  asyncio", "429s"):
        assert part in text
    assert "loading" not in text


def test_an_idle_bucket_keeps_its_cap(tmp_path: Path) -> None:
    """The ledger may know no cap any more when all workers are gone; the demo does, for its own bucket only."""
    scheduler = Scheduler(Policy(max_in_flight=3, state_path=tmp_path / "s.json"))
    for model in ("gpt-demo", "other"):
        scheduler.acquire(provider="stub", model=model).release()
    snapshot = read_snapshot(tmp_path / "s.json")
    snapshot = replace(snapshot, buckets=[replace(row, max_in_flight=0) for row in snapshot.buckets])
    view = view_of(Progress(()), snapshot, None, OwnBucket("stub/gpt-demo", 3), 1.0)
    assert {(row.name, row.cap) for row in view.buckets} == {("stub/gpt-demo", 3), ("stub/other", 0)}


def test_a_view_finds_each_workers_slots(tmp_path: Path) -> None:
    """By its process id; a worker that the ledger doesn't know holds none."""
    progress = Progress(plan.tasks(options(), TARGET, tmp_path / "s.json"))
    progress.started("worker-1", os.getpid())
    scheduler = Scheduler(Policy(max_in_flight=3, state_path=tmp_path / "s.json"))
    with scheduler.slot(provider="stub", model="gpt-demo"):
        snapshot = read_snapshot(tmp_path / "s.json")
        view = view_of(progress, snapshot, None, OwnBucket("stub/gpt-demo", 3), 1.0)
    assert [(row.held, row.waiting) for row in view.workers] == [(1, 0), (0, 0)]
    assert (view.buckets[0].in_flight, view.buckets[0].cap) == (1, 3)


def test_before_the_beginning_there_is_no_rate() -> None:
    """The workers still load."""
    assert a_view(elapsed_s=None).calls_per_s == 0


def test_lines_are_few() -> None:
    """One at the beginning, one every two seconds, one at the end; never the same twice."""
    now = iter([0.0, 0.0, 0.1, 1.0, 2.5, 2.5, 2.6, 2.7]).__next__
    console = Console(width=200, file=StringIO())
    with console.capture() as capture, screen.LineScreen(console, "a title", clock=now) as lines:
        lines.show(a_view(done=0, elapsed_s=None))
        for done in (0, 1, 2, 3, 10, 10):
            lines.show(a_view(done=done))
    starts = [text.split(" |")[0] for text in capture.get().splitlines()]
    assert starts[0] == "a title"
    assert starts[1] == "0/10 calls"
    assert starts[-1] == "10/10 calls"
    assert len(starts) == 4


def test_what_looks_like_markup_is_shown_as_it_is() -> None:
    """An IPv6 address, a model in brackets, an emoji code."""
    console = Console(width=200)
    title, bucket = "calling http://[::1]:8000/v1", BucketRow("p/m[/b]:100:", 1, 2, 0, 0.0)
    view = dataclasses.replace(a_view(), buckets=(bucket,))
    with console.capture() as capture, screen.LineScreen(console, title) as lines:
        lines.show(view)
        console.print(screen.picture(title, view))
    shown = capture.get()
    assert (shown.count(title), shown.count(bucket.name)) == (2, 2)
