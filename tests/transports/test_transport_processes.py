"""Paced clients of several processes share one cap."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from strict_provider import StrictProvider
from transport_workers import call_often

from llm_sched import read_snapshot
from llm_sched.demo.lifeline import Child

if TYPE_CHECKING:
    from pathlib import Path

CAP = 3
CALLS = 20


def test_clients_of_three_processes_never_exceed_one_cap(tmp_path: Path) -> None:
    """Threads on httpx, threads on httpx2, and tasks, on a provider that refuses the fourth."""
    state = tmp_path / "state.json"
    knobs = {"max_in_flight": CAP, "state_path": state}
    names = ["httpx", "httpx2", "async"]
    with StrictProvider(limit=CAP, latency_s=0.01) as provider, ExitStack() as stack:
        children = [Child(call_often, name, knobs, provider.base_url, CALLS, name=name) for name in names]
        for child in children:
            stack.callback(child.stop)
        assert [child.connection.recv() for child in children] == [{200}] * len(names)
        stats = provider.stats()
    assert (stats.refused, stats.answered, stats.requests) == (0, CALLS * len(names), CALLS * len(names))
    assert stats.peak == CAP
    (bucket,) = read_snapshot(state).buckets
    assert (bucket.totals.granted, bucket.in_flight, bucket.waiting) == (stats.requests, 0, 0)
