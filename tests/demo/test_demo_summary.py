"""The summary: whose word counts, and when a run was good."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

from rich.console import Console

from llm_sched.demo import plan
from llm_sched.demo.messages import CallRecord, Failure, Finished, Target
from llm_sched.demo.progress import Progress
from llm_sched.demo.report import report, verdict
from llm_sched.demo.summary import Summary, summarize
from llm_sched.demo.witness import ProviderStats, RequestRecord

TARGET = Target("http://127.0.0.1:1/v1", "stub", "gpt-demo", is_stub=True)
REFUSED = Failure("429 RateLimitError", "Error code: 429")


def options(*, calls: int = 2, cap: int = 1, rpm: float = 0.0, scheduled: bool = True) -> plan.Options:
    """Options of a run with one worker."""
    return plan.Options(1, calls, cap, rpm, 0.1, scheduled, None, "gpt-demo", None)


def call(asked: float, granted: float | None, ended: float, failure: Failure | None = None) -> CallRecord:
    """A call of the only worker."""
    waited = (ended if granted is None else granted) - asked
    return CallRecord("worker-1", asked, granted, ended, waited, "stub/gpt-demo", failure)


def run(asked: plan.Options, *calls: CallRecord, end: Failure | None = None) -> Progress:
    """The progress of a worker that made these calls and finished."""
    progress = Progress(plan.tasks(asked, TARGET, Path("s.json")))
    for record in calls:
        progress.note(record)
    progress.note(Finished("worker-1", end))
    return progress


def seen(*spans: tuple[float, float], peak: int = 1, refused: int = 0) -> ProviderStats:
    """What the provider saw."""
    return ProviderStats(
        limit=1,
        requests=len(spans),
        current=0,
        peak=peak,
        answered=len(spans) - refused,
        refused=refused,
        invalid=0,
        dropped=0,
        records=tuple(RequestRecord(begin, end, "answered") for begin, end in spans),
    )


GOOD = (call(0, 0, 10), call(1, 10.25, 20))


def test_a_good_run() -> None:
    """All answered, the cap kept: the figures are those of the calls and of the provider."""
    summary = summarize(options(), run(options(), *GOOD), seen((0.5, 9.5), (10.5, 19.5)))
    assert summary.ok
    assert (summary.witness, summary.peak, summary.completed, summary.failed) == ("provider", 1, 2, 0)
    assert (summary.wait_s.p50, summary.wait_s.max) == (0, 9.25)
    assert summary.handoff_s is not None
    assert summary.slot_handoff_s is not None
    assert (summary.handoff_s.count, summary.handoff_s.p50) == (1, 1.0)
    assert (summary.slot_handoff_s.count, summary.slot_handoff_s.p90) == (1, 0.25)
    assert (summary.elapsed_s, summary.calls_per_s) == (20, 0.1)
    assert summary.provider_busy == 0.9
    assert verdict(summary) == "OK: never more than 1 at once, all 2 calls answered"


def test_the_provider_is_believed_and_not_the_workers() -> None:
    """Calls that look serial don't help when the provider saw two at once."""
    summary = summarize(options(), run(options(), *GOOD), seen((0, 10), (9, 20), peak=2))
    assert not summary.ok
    assert verdict(summary) == "NOT OK: peak 2 is over the cap of 1"


def test_without_a_stub_the_workers_times_are_merged() -> None:
    """And the summary says so."""
    overlapping = run(options(), call(0, 0, 10), call(0, 9, 20))
    summary = summarize(options(), overlapping, None)
    assert (summary.witness, summary.peak, summary.ok) == ("workers", 2, False)
    assert summarize(options(), run(options(), *GOOD), None).ok


def test_one_failed_call_spoils_the_run() -> None:
    """Errors are counted by kind; 429s have a figure of their own."""
    asked = options(calls=3)
    progress = run(asked, *GOOD, call(0, None, 5, REFUSED))
    summary = summarize(asked, progress, seen((0, 1), (2, 3)))
    assert not summary.ok
    assert (summary.failed, summary.refused, summary.errors) == (1, 1, {"429 RateLimitError": 1})
    assert summary.example == "Error code: 429"


def test_calls_that_were_never_made_are_failures() -> None:
    """A worker that died with calls left is counted for each of them."""
    asked = options(calls=5)
    summary = summarize(asked, run(asked, *GOOD, end=Failure("worker died", "exit code -9")), seen((0, 1), (2, 3)))
    assert (summary.ok, summary.failed, summary.errors) == (False, 3, {"worker died": 3})


def test_a_worker_that_dies_after_its_calls_is_a_failure_too() -> None:
    """Nothing may have failed."""
    summary = summarize(options(), run(options(), *GOOD, end=Failure("worker died", "x")), seen((0, 1), (2, 3)))
    assert (summary.ok, summary.failed) == (False, 0)
    assert verdict(summary) == "NOT OK: a worker ended badly"


def test_a_run_without_a_single_call() -> None:
    """Nothing is divided by nothing."""
    summary = summarize(options(), run(options(), end=Failure("ConfigError", "no")), seen())
    assert (summary.ok, summary.completed, summary.calls_per_s, summary.wait_s.p50) == (False, 0, 0, None)


def test_gaps_that_a_rate_limit_makes_are_no_hand_offs() -> None:
    """With requests per minute, slots stay empty on purpose."""
    summary = summarize(options(rpm=60), run(options(), *GOOD), seen((0, 1), (2, 3)))
    assert (summary.handoff_s, summary.slot_handoff_s, summary.busiest_minute) == (None, None, 2)
    assert summarize(options(scheduled=False), run(options(), *GOOD), seen()).handoff_s is None


def text_of(summary: Summary) -> str:
    """A report as plain text."""
    console = Console(width=100, file=StringIO())
    with console.capture() as capture:
        console.print(report(summary))
    return capture.get()


def test_the_report_names_its_witness() -> None:
    """And shows every figure of the issue."""
    text = text_of(summarize(options(), run(options(), *GOOD), seen((0.5, 9.5), (10.5, 19.5))))
    for part in ("1 of 1 allowed, as the provider saw it", "p95 9.25 s", "slot hand-off    p50 250 ms", "0.1 calls/s"):
        assert part in text
    assert "the workers' own call times" in text_of(summarize(options(), run(options(), *GOOD), None))


def test_the_report_of_a_bad_run_says_why() -> None:
    """Kinds with their counts, and the first in full."""
    asked = options(rpm=30)
    text = text_of(summarize(asked, run(asked, GOOD[0], call(0, 1, 2, REFUSED)), seen((0, 1), (1, 2), refused=1)))
    for part in ("1 x 429 RateLimitError", "first: Error code: 429", "NOT OK", "2 requests; 30 a minute"):
        assert part in text


def test_a_peak_over_the_cap_says_that_the_refused_count() -> None:
    """Who is refused has arrived all the same; in a good run there is nothing to say."""
    asked = options(scheduled=False)
    bad = text_of(summarize(asked, run(asked, GOOD[0], call(0, 1, 2, REFUSED)), seen((0, 1), (1, 2), peak=2, refused=1)))
    assert "2 of 1 allowed, as the provider saw it, the refused ones included" in bad
    assert "refused" not in text_of(summarize(options(), run(options(), *GOOD), seen((0, 1), (1, 2))))
