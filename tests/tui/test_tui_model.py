"""From snapshots to rows: severities, estimates, limits, the four pages."""

from __future__ import annotations

import dataclasses

import pytest
from tui_support import CONTENTION, bucket, holder, missing, model, policy, reading, snapshot, totals, waiters

from llm_sched.snapshot import OwnerView, Snapshot
from llm_sched_tui.view_model.bucket import turn_s
from llm_sched_tui.view_model.cells import Line
from llm_sched_tui.view_model.pages import BucketPage, OverviewPage, RunsPage
from llm_sched_tui.view_model.severity import Severity, severity_of
from llm_sched_tui.view_model.values import Query, View


def view_of(shown: Snapshot, query: Query, now: float = 0.0) -> View:
    """The answer after one look."""
    known = model()
    known.take(reading(shown))
    view = known.view(query, now, 0.0)
    assert view is not None
    return view


def overview(shown: Snapshot, query: Query | None = None, now: float = 0.0) -> OverviewPage:
    """The first page."""
    page = view_of(shown, query or Query(), now).page
    assert isinstance(page, OverviewPage)
    return page


def bucket_page(shown: Snapshot, name: str, now: float = 0.0, **query: str) -> BucketPage:
    """The second page."""
    page = view_of(shown, Query(screen="bucket", bucket=name, **query), now).page  # type: ignore[arg-type]
    assert isinstance(page, BucketPage)
    return page


def words(line: Line) -> str:
    """A line without its roles."""
    return " ".join(text for chunk in line for text, _ in chunk.spans)


@pytest.mark.parametrize(
    ("facts", "elapsed_s", "timeouts", "severity"),
    [
        ({}, 0.0, 0, Severity.IDLE),
        ({}, 0.0, 3, Severity.IDLE),
        ({"holders": [holder()]}, 0.0, 3, Severity.BUSY),
        ({"waiters": [waiters()]}, 0.0, 0, Severity.SATURATED),
        ({"waiters": [waiters()]}, 0.0, 1, Severity.STARVING),
        ({"waiters": [waiters(oldest_wait_s=29.0)]}, 0.0, 0, Severity.SATURATED),
        ({"waiters": [waiters(oldest_wait_s=29.0)]}, 1.5, 0, Severity.STARVING),
        ({"waiters": [waiters(oldest_wait_s=9.0, deadline_s=5.5)]}, 0.0, 0, Severity.SATURATED),
        ({"waiters": [waiters(oldest_wait_s=9.0, deadline_s=5.5)]}, 1.0, 0, Severity.STARVING),
        ({"waiters": [waiters(oldest_wait_s=0.5, deadline_s=1.5)]}, 0.0, 0, Severity.SATURATED),
        ({"waiters": [waiters(deadline_s=None)]}, 0.0, 0, Severity.SATURATED),
    ],
)
def test_severity(facts: dict[str, object], elapsed_s: float, timeouts: int, severity: Severity) -> None:
    """Idle, busy, saturated, starving; a short patience alone is no emergency."""
    assert severity_of(bucket(**facts), elapsed_s, timeouts) is severity


def test_severities_differ_in_shape_and_word() -> None:
    """Colour alone says nothing to some."""
    assert len({each.sign for each in Severity}) == len({each.role for each in Severity}) == len(Severity)


def test_a_row_says_what_the_snapshot_says() -> None:
    """In flight, limit, waiting, from how many processes, the oldest wait, which goes on growing."""
    row = {each.name: each for each in overview(snapshot(*CONTENTION), now=2.0).buckets.records}["openai/gpt-4o"]
    assert (row.in_flight, row.limit, row.waiting, row.processes) == (2, 2, 4, 2)
    assert row.oldest_s == pytest.approx(5.0)


def test_tokens_come_while_nobody_writes() -> None:
    """The rate refills with time, up to the burst."""
    rated = bucket(requests_per_minute=60.0, burst=3.0, rate_available=0.4, rate_next_s=0.6)
    first, later, last = (overview(snapshot(rated), now=now).buckets.records[0] for now in (0.0, 1.0, 100.0))
    assert first.tokens == pytest.approx(0.4)
    assert first.token_in_s == pytest.approx(0.6)
    assert later.tokens == pytest.approx(1.4)
    assert (last.tokens, last.token_in_s) == (3.0, 0.0)


@pytest.mark.parametrize(
    ("facts", "position", "per_minute", "expected"),
    [
        ({}, 4, 60.0, 4.0),
        ({}, 4, None, None),
        ({}, 4, 0.0, None),
        ({"requests_per_minute": 60.0, "rate_available": 0.0, "rate_next_s": 0.5}, 1, None, 0.5),
        ({"requests_per_minute": 60.0, "rate_available": 0.0, "rate_next_s": 0.5}, 3, 6000.0, 2.5),
        ({"requests_per_minute": 60.0, "rate_available": 5.0, "rate_next_s": 0.0}, 3, 60.0, 3.0),
    ],
)
def test_when_a_turn_comes(facts: dict[str, float], position: int, per_minute: float | None, expected: float | None) -> None:
    """From the recent rate; not before the rate limit has tokens; unknown is unknown."""
    assert turn_s(bucket(**facts), position, 0.0, per_minute) == (None if expected is None else pytest.approx(expected))


def test_who_holds_and_who_waits() -> None:
    """Oldest first, next first; ages go on while nobody writes."""
    page = bucket_page(snapshot(*CONTENTION), "openai/gpt-4o", now=1.0)
    assert [(row.user, round(row.held_s, 3)) for row in page.holders.records] == [("ann", 5.0), ("bob", 3.0)]
    assert [(row.user, row.position, row.count) for row in page.waiters.records] == [("bob", 1, 3), ("cid", 2, 1)]
    assert page.waiters.records[0].deadline_s == pytest.approx(296.0)


def test_limits_and_where_they_come_from() -> None:
    """The cap, the rate, the sources, and the policies that disagree, with their pids."""
    policies = [policy(11, 8, source="run.yaml"), policy(12, 2, 60.0, source="environment variable MAS_LLM_RPM")]
    limits = {"requests_per_minute": 60.0, "burst": 60.0, "rate_available": 0.2, "rate_next_s": 0.8}
    one = bucket(cap=2, holders=[holder(11)], waiters=[waiters(12)], policies=policies, **limits)
    told = [words(fact) for fact in bucket_page(snapshot(one), "p/m").facts]
    assert any("at most 2 in flight" in fact and "60 a minute" in fact and "next in 0.8 s" in fact for fact in told)
    assert any("run.yaml (1 process)" in fact and "MAS_LLM_RPM" in fact for fact in told)
    assert any("policies disagree" in fact and "8: pid 11" in fact and "2 at 60/min: pid 12" in fact for fact in told)


def test_a_bucket_without_limits_says_so() -> None:
    """No cap, no rate, nobody waits."""
    told = " ".join(words(fact) for fact in bucket_page(snapshot(bucket(cap=0, policies=[policy(cap=0)])), "p/m").facts)
    assert "no cap" in told
    assert "no rate limit" in told
    assert "nobody waits" in told


def test_the_limits_of_a_bucket_come_with_whoever_calls() -> None:
    """Where nobody holds or waits, no policy is live; that is not the same as no cap."""
    told = " ".join(words(fact) for fact in bucket_page(snapshot(bucket(cap=0)), "p/m").facts)
    assert "none while nobody is here" in told
    assert "no cap" not in told


def test_a_bucket_that_is_not_there() -> None:
    """Is named, and no error."""
    page = bucket_page(snapshot(*CONTENTION), "no/such")
    assert "no/such" in words(page.facts[0])
    assert page.plots == ()


def test_what_somebody_waits_for() -> None:
    """A slot, a token, a stricter policy, its turn: four different words."""
    reasons = ("in_flight", "rate", "policy", "none")
    crowd = [waiters(pid, f"u{pid}", waiting_for=reason, position=pid) for pid, reason in enumerate(reasons, 1)]
    page = bucket_page(snapshot(bucket(waiters=crowd)), "p/m")
    column = next(column for column in page.waiters.columns if column.key == "reason")
    shown = ["".join(text for text, _ in column.cell(row).draw(20)).strip() for row in page.waiters.records]
    assert shown == ["a slot", "rate token", "stricter policy", "its turn"]


def test_one_row_a_run() -> None:
    """Several schedulers of one process are one run; its share is of all recent grants."""
    people = [OwnerView(11, "ann", "a.py", alive, 1, 2, 10) for alive in (True, False)]
    people.append(OwnerView(12, "bob", "b.py", False, 0, 0, 0))  # noqa: FBT003
    known = model()
    known.take(reading(snapshot(owners=people)))
    more = [OwnerView(11, "ann", "a.py", True, 1, 2, 25), people[1], OwnerView(12, "bob", "b.py", False, 0, 0, 5)]  # noqa: FBT003
    known.take(reading(snapshot(seq=2, owners=more), 10.0))
    view = known.view(Query(screen="runs"), 10.0, 0.0)
    assert view is not None
    assert isinstance(view.page, RunsPage)
    ann, bob = view.page.runs.records
    assert (ann.user, ann.alive, ann.held, ann.waiting, ann.granted) == ("ann", True, 2, 4, 35)
    assert (ann.share, bob.share, bob.alive) == (0.75, 0.25, False)


def test_a_run_leads_to_where_it_waits() -> None:
    """Before where it holds."""
    page = view_of(snapshot(*CONTENTION), Query(screen="runs")).page
    assert isinstance(page, RunsPage)
    cid = next(run for run in page.runs.records if run.user == "cid")
    assert cid.bucket == "openai/gpt-4o"
    assert cid.buckets == ("openai/gpt-4o", "ollama/llama")


def test_only_one_user() -> None:
    """Their buckets, their calls, their runs."""
    assert [row.name for row in overview(snapshot(*CONTENTION), Query(user="ann")).buckets.records] == ["openai/gpt-4o"]
    page = bucket_page(snapshot(*CONTENTION), "openai/gpt-4o", user="cid")
    assert (len(page.holders.records), [row.user for row in page.waiters.records]) == (0, ["cid"])


def test_a_filter_is_for_its_screen() -> None:
    """What is filtered here is not filtered there."""
    query = Query().with_filter("ollama")
    assert [row.name for row in overview(snapshot(*CONTENTION), query).buckets.records] == ["ollama/llama"]
    page = view_of(snapshot(*CONTENTION), dataclasses.replace(query, screen="runs")).page
    assert isinstance(page, RunsPage)
    assert len(page.runs.records) == 3


def test_the_window_has_ends() -> None:
    """One minute to one hour."""
    assert Query().with_window(-1).with_window(-1).window_s == 60.0
    assert Query().with_window(1).with_window(1).with_window(1).window_s == 3600.0


@pytest.mark.parametrize(
    ("shown", "now", "word"),
    [
        (snapshot(*CONTENTION), 0.0, "live"),
        (snapshot(*CONTENTION), 31.0, "stale"),
        (snapshot(*CONTENTION, owners=[]), 0.0, "stale"),
        (snapshot(bucket(policies=[])), 500.0, "quiet"),
        (missing("absent"), 0.0, "no file yet"),
        (missing("corrupt"), 0.0, "unreadable"),
        (missing("newer"), 0.0, "newer schema"),
        (missing("foreign"), 0.0, "foreign file"),
    ],
)
def test_the_state_in_a_word(shown: Snapshot, now: float, word: str) -> None:
    """Each is shown as what it is; where there are no rows, with advice."""
    status = view_of(shown, Query(), now).status
    assert status.word == word
    assert bool(status.advice) == (shown.state != "live")


def test_a_file_that_was_there_is_removed_not_missing() -> None:
    """And what may not be read says why."""
    known = model()
    known.take(reading(snapshot(*CONTENTION)))
    known.take(reading(missing("absent"), 1.0))
    view = known.view(Query(), 1.0, 0.0)
    assert view is not None
    assert view.status.word == "removed"
    known.take(reading(missing("absent"), 2.0, refused="no permission: use another file"))
    view = known.view(Query(), 2.0, 0.0)
    assert view is not None
    assert (view.status.word, view.status.advice[1]) == ("unreadable", "no permission: use another file")


def test_before_anything_was_seen_there_is_nothing_to_show() -> None:
    """No view."""
    assert model().view(Query(), 0.0, 0.0) is None


def test_a_copy_does_not_move() -> None:
    """What is taken in later is not in it."""
    known = model()
    known.take(reading(snapshot(bucket(totals=totals(granted=1)))))
    still = known.copy()
    known.take(reading(snapshot(bucket("p/new"), seq=2), 1.0))
    view = still.view(Query(), 0.0, 0.0)
    assert view is not None
    assert isinstance(view.page, OverviewPage)
    assert [row.name for row in view.page.buckets.records] == ["p/m"]


def test_an_unchanged_look_moves_the_history_on() -> None:
    """A level that holds is no gap."""
    known, shown = model(), snapshot(bucket(holders=[holder()]))
    known.take(reading(shown, 0.0))
    known.take(reading(shown, 10.0, taken=0.0))
    page = known.view(Query(window_s=60.0), 10.0, 0.0).page  # type: ignore[union-attr]
    assert isinstance(page, OverviewPage)
    assert page.buckets.records[0].in_flight_series.values[-1] == 1


def test_waits_go_on_while_nobody_writes() -> None:
    """A second look at the same snapshot does not make it younger."""
    known, shown = model(), snapshot(bucket(waiters=[waiters(oldest_wait_s=3.0)]))
    known.take(reading(shown, 0.0))
    known.take(reading(shown, 10.0, taken=0.0))
    page = known.view(Query(), 12.0, 0.0).page  # type: ignore[union-attr]
    assert isinstance(page, OverviewPage)
    assert page.buckets.records[0].oldest_s == pytest.approx(15.0)
