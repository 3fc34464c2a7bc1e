"""`llm-sched status`: text and JSON for every state of the ledger."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from cli_support import Command

from llm_sched import Policy, Scheduler, SlotTimeout, read_snapshot


def test_no_ledger_is_no_error(llm_sched: Command, ledger: Path) -> None:
    """Before the first call there is nothing to show, and that is said with exit code 0."""
    result = llm_sched("status")
    assert result.returncode == 0
    assert "no ledger yet" in result.stdout
    assert not ledger.exists()


def test_json_names_what_design_promises(llm_sched: Command, ledger: Path) -> None:
    """`--json` is the documented snapshot."""
    with Scheduler(Policy(max_in_flight=1, requests_per_minute=60, user="ann", state_path=ledger)).slot(model="m"):
        snapshot = json.loads(llm_sched("status", "--json").stdout)
    assert {"path", "schema", "seq", "updated_at", "age_s", "state", "buckets", "owners"} <= set(snapshot)
    (bucket,) = snapshot["buckets"]
    assert (bucket["name"], bucket["max_in_flight"], bucket["in_flight"], bucket["waiting"]) == ("default/m", 1, 1, 0)
    assert {"rate_available", "rate_next_s", "requests_per_minute", "burst", "oldest_wait_s"} <= set(bucket)
    assert {"pid", "user", "command", "held_s", "waited_s", "overdue"} == set(bucket["holders"][0])
    assert {"granted", "timed_out", "canceled", "reclaimed", "wait_s", "wait_histogram"} == set(bucket["totals"])
    assert bucket["policies"][0]["requests_per_minute"] == 60
    assert snapshot["owners"][0]["user"] == "ann"
    assert snapshot["owners"][0]["alive"] is True


def test_text_shows_who_holds_and_the_totals(llm_sched: Command, ledger: Path) -> None:
    """A person sees the bucket, the holder's user and how many timed out."""
    scheduler = Scheduler(Policy(max_in_flight=1, user="ann", state_path=ledger))
    with scheduler.slot(provider="p", model="m"):
        with contextlib.suppress(SlotTimeout):
            scheduler.acquire(provider="p", model="m", timeout_s=0)
        result = llm_sched("status")
    assert result.returncode == 0
    assert "p/m  1/1 in flight, 0 waiting" in result.stdout
    assert "ann" in result.stdout
    assert "1 timed out" in result.stdout


def test_a_ledger_of_somebody_else_is_named_as_such(llm_sched: Command, ledger: Path) -> None:
    """Foreign JSON is shown as what it is, and left alone."""
    ledger.write_text('{"hello": 1}')
    result = llm_sched("status")
    assert result.returncode == 0
    assert "no ledger of llm-sched" in result.stdout
    assert ledger.read_text() == '{"hello": 1}'


def test_disagreeing_policies_are_shown(llm_sched: Command, ledger: Path) -> None:
    """Two policies in one bucket: both are named, and that the strictest holds."""
    with (
        Scheduler(Policy(max_in_flight=3, state_path=ledger)).acquire(model="m"),
        Scheduler(Policy(max_in_flight=2, state_path=ledger)).acquire(model="m"),
    ):
        result = llm_sched("status")
    assert "policies disagree" in result.stdout
    assert "2/2 in flight" in result.stdout


def test_a_bucket_that_nobody_uses_shows_no_cap(llm_sched: Command, ledger: Path) -> None:
    """The cap went with those who had it; the totals stay."""
    llm_sched("run", "--model", "m", "--", "true")
    result = llm_sched("status")
    assert "default/m  0 in flight, 0 waiting" in result.stdout
    assert "1 granted" in result.stdout
    assert read_snapshot(ledger).buckets[0].policies == []
