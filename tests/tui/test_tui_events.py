"""What happened between two snapshots, and which lease is which."""

from __future__ import annotations

from tui_support import bucket, holder, missing, model, owners_of, policy, reading, snapshot, totals, waiters

from llm_sched.snapshot import OwnerView
from llm_sched_tui.view_model.leases import Leases
from llm_sched_tui.view_model.pages import EventsPage
from llm_sched_tui.view_model.values import Query


def events(*shown: object) -> list[str]:
    """The log after these snapshots, one second apart, as words without the time."""
    known = model()
    for second, each in enumerate(shown):
        known.take(reading(each, float(second)))  # type: ignore[arg-type]
    view = known.view(Query(screen="events"), float(len(shown)), 0.0)
    assert view is not None
    assert isinstance(view.page, EventsPage)
    return [record.words.partition(" ")[2] for record in view.page.events.records]


def test_a_lease_keeps_its_number() -> None:
    """The same slot, a second later, although its age has changed and others have come."""
    leases = Leases()
    leases.follow(10.0, [bucket(holders=[holder(1, held_s=5.0), holder(2, held_s=3.0)])])
    first = leases.held("p/m")
    change = leases.follow(11.0, [bucket(holders=[holder(1, held_s=6.01), holder(2, held_s=3.99), holder(2, held_s=0.5)])])[
        "p/m"
    ]
    assert [lease.number for lease in change.held[:2]] == [lease.number for lease in first]
    assert len(change.came) == 1
    assert change.went == ()


def test_another_lease_of_the_same_process_is_another() -> None:
    """It began at another time."""
    leases = Leases()
    leases.follow(10.0, [bucket(holders=[holder(1, held_s=5.0)])])
    change = leases.follow(11.0, [bucket(holders=[holder(1, held_s=0.5)])])["p/m"]
    assert (len(change.came), len(change.went)) == (1, 1)


def test_leases_of_a_bucket_that_is_gone_went() -> None:
    """A dropped bucket holds nothing."""
    leases = Leases()
    leases.follow(10.0, [bucket(holders=[holder(1)])])
    assert len(leases.follow(11.0, [])["p/m"].went) == 1
    assert leases.held("p/m") == ()


def test_grants_and_releases_by_process() -> None:
    """Who got what, after how long; who gave back."""
    before = snapshot(bucket(holders=[holder(11, "ann", 2.0)], totals=totals(granted=5)))
    after = snapshot(bucket(holders=[holder(12, "bob", 0.2, waited_s=1.5)], totals=totals(granted=6)))
    found = events(before, after)
    assert "granted x1 p/m 12 bob waited 1.5 s" in found
    assert "released x1 p/m 11 ann held 2.0 s or more" in found


def test_what_nobody_saw_is_told_without_a_name() -> None:
    """Seven grants by the counters, none of whose holders is seen: seven grants and releases between two looks."""
    before = snapshot(bucket(totals=totals(granted=5)))
    after = snapshot(bucket(totals=totals(granted=12)))
    found = events(before, after)
    assert "granted x7 p/m between two looks" in found
    assert "released x7 p/m between two looks" in found


def test_timeouts_cancellations_and_reclaims() -> None:
    """Each counter that moved is an event; a dead holder's slot is its own."""
    before = snapshot(bucket(holders=[holder(11, "ann")], totals=totals(granted=1)))
    after = snapshot(bucket(totals=totals(granted=1, timed_out=2, canceled=1, reclaimed=1)))
    found = events(before, after)
    assert "timed out x2 p/m" in found
    assert "canceled x1 p/m" in found
    assert "reclaimed x1 p/m 11 ann held 1.0 s or more" in found
    assert not any(event.startswith("released") for event in found)


def test_policies_that_change_or_disagree() -> None:
    """The limit in force, from what to what; and that there is more than one opinion."""
    before = snapshot(bucket(cap=8, holders=[holder(11)]))
    both = [policy(11, 8), policy(12, 2)]
    after = snapshot(bucket(cap=2, holders=[holder(11, held_s=2.0)], waiters=[waiters(12)], policies=both))
    found = events(before, after)
    assert "policy x1 p/m cap 8 -> cap 2" in found
    assert "disagree x1 p/m 2 policies; the strictest holds: cap 2" in found


def test_processes_that_come_go_and_die() -> None:
    """A process that died is told from one that left."""
    ann, bob = bucket(holders=[holder(11, "ann")]), bucket(holders=[holder(12, "bob")])
    dead = [OwnerView(12, "bob", "run-bob.py", False, 1, 0, 0)]  # noqa: FBT003
    found = events(snapshot(ann), snapshot(bob), snapshot(bob, owners=dead))
    assert "joined x1 12 bob run-bob.py" in found
    assert "left x1 11 ann run-ann.py" in found
    assert "left x1 12 bob died: run-bob.py" in found


def test_counters_that_began_anew_are_one_event() -> None:
    """A ledger that was reset is no burst of releases."""
    found = events(snapshot(bucket(totals=totals(granted=900))), snapshot(bucket(totals=totals(granted=2))))
    assert "ledger x1 p/m the counters began anew" in found


def test_the_first_look_is_no_event() -> None:
    """What was there before the monitor did not happen now."""
    assert events(snapshot(bucket(holders=[holder()], totals=totals(granted=50)))) == []


def test_all_that_is_in_a_ledger_that_appears_came_since() -> None:
    """The monitor saw that there was none."""
    found = events(missing(), snapshot(bucket(holders=[holder(11, "ann")])))
    assert found[0].startswith("ledger")
    assert {"joined x1 11 ann run-ann.py", "granted x1 p/m 11 ann waited 0.5 s"} <= set(found)


def test_a_bucket_that_appears_tells_who_came() -> None:
    """Its counters of before are no news."""
    found = events(snapshot(), snapshot(bucket(holders=[holder(11, "ann")], totals=totals(granted=400))))
    assert "granted x1 p/m 11 ann waited 0.5 s" in found


def test_the_log_is_bounded() -> None:
    """It keeps the newest."""
    known = model()
    for second in range(3000):
        known.take(reading(snapshot(bucket(totals=totals(granted=second)), owners=owners_of()), float(second)))
    view = known.view(Query(screen="events"), 3000.0, 0.0)
    assert view is not None
    assert isinstance(view.page, EventsPage)
    assert len(view.page.events.records) == 2000
