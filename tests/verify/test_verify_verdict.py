"""Promises: kept by good evidence, broken by each doctored one."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console
from verify_evidence import RATED, TWO, evidence, hold, killed, rated, wait

from llm_sched.verify.leftovers import Leftovers
from llm_sched.verify.report import report
from llm_sched.verify.summary import Summary, figures_of
from llm_sched.verify.verdict import Evidence, promises

GOOD = (hold(1, 3), hold(2, 4), hold(3.1, 5, asked=2.5, queued=2.6))
RATE = evidence(rated(0, 0), rated(0, 0), rated(0.5, 1.5), bucket=RATED)


def summary(*phases: Evidence) -> Summary:
    """The outcome of these."""
    return Summary(Path("place"), "ext4", 30.0, tuple(promises(phases)), figures_of(phases))


def broken(*phases: Evidence) -> list[str]:
    """The promises that these broke."""
    return [promise.name for promise in promises(phases) if not promise.ok]


def test_good_evidence_breaks_nothing() -> None:
    """Cap, rate, order, durations, leaks and errors."""
    assert broken(evidence(*GOOD), RATE) == []


@pytest.mark.parametrize(
    ("doctored", "names"),
    [
        (evidence(*GOOD, hold(2.5, 2.75)), ["cap: verify/two"]),
        (evidence(), ["cap: verify/two"]),
        (evidence(*GOOD, wait(1.0, 2.0, gave_up=3.5)), ["timeout: no wait goes beyond it"]),
        (evidence(hold(0, 9), killed(0, 1), hold(4, 5, asked=0)), ["crash: killed holders' slots"]),
        (evidence(*GOOD, unclean=("a: 1 slots held",)), ["leaks: of living processes"]),
        (evidence(*GOOD, leftovers=Leftovers(leases=1)), ["leaks: in the ledger"]),
        (evidence(*GOOD, leftovers=Leftovers(tickets=1)), ["leaks: in the ledger"]),
        (evidence(*GOOD, leftovers=Leftovers(owners=1)), ["leaks: in the ledger"]),
        (evidence(*GOOD, leftovers=Leftovers(refused=("no slot",))), ["leaks: in the ledger"]),
        (evidence(*GOOD, leftovers=Leftovers(files=("ledger.json.d/x.box",))), ["leaks: files"]),
        (evidence(*GOOD, remaining=("a",)), ["leaks: processes"]),
        (evidence(*GOOD, failures=("a: ValueError: no",)), ["errors"]),
        (evidence(*GOOD, crashed=("a ended by itself with exit code 1",)), ["errors"]),
    ],
)
def test_a_planted_violation_is_found(doctored: Evidence, names: list[str]) -> None:
    """And nothing else with it."""
    assert broken(doctored) == names


def test_overtaking_is_found() -> None:
    """In the same process it breaks two promises."""
    calls = [hold(0, 4, process="x"), hold(3, 6, asked=2), hold(4.5, 5, asked=1, queued=1.1)]
    assert broken(evidence(*calls)) == ["order: first come, first served", "order: within a process"]


def test_a_rate_that_is_exceeded_is_found() -> None:
    """Even where no window of a round length shows it."""
    calls = [rated(0, 0), rated(0, 0), rated(0.1, 0.5)]
    assert broken(evidence(*calls, bucket=RATED)) == ["rate: verify/rated, any window"]
    assert "rate: verify/rated, worst 1 s" in broken(evidence(*calls, rated(0.2, 0.5), bucket=RATED))


def test_a_machine_that_stood_still_is_no_broken_promise() -> None:
    """But it is said."""
    late = evidence(*GOOD, wait(1.0, 2.0, gave_up=5.5), stalled_s=3.0)
    assert broken(late) == []
    assert any("3.0 s" in detail for promise in promises([late]) for detail in promise.details)


def test_the_summary_as_json() -> None:
    """Names, measures, bounds and figures, and one verdict."""
    told = json.loads(json.dumps(summary(evidence(*GOOD), RATE).to_dict()))
    assert told["ok"] is True
    assert told["promises"][0] == {
        "name": "cap: verify/two",
        "measured": "2 in flight",
        "bound": "2",
        "ok": True,
        "details": [],
    }
    assert told["figures"]["granted"] == 6
    assert told["figures"]["rate_share"] == pytest.approx(3 / 3.5)
    assert not summary(evidence()).ok


def test_the_summary_for_people() -> None:
    """Every promise in a line, details below, the verdict at the end."""
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(report(summary(evidence(*GOOD, leftovers=Leftovers(files=tuple("abcdefg"))))))
    text = console.export_text()
    assert "cap: verify/two" in text
    assert "leaks: files: a" in text
    assert "and 2 more" in text
    assert "1 of 10 promises were broken here" in text
    console.print(report(summary(evidence(*GOOD))))
    assert "every promise held" in console.export_text()


def test_the_buckets_of_these_tests_have_the_names_that_calls_have() -> None:
    """As in the ledger."""
    assert (TWO.name, RATED.name) == ("verify/two", "verify/rated")
