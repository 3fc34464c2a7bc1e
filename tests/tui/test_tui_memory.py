"""Memory over hours, as fast as the view model takes them."""

from __future__ import annotations

import tracemalloc

import pytest
from tui_support import bucket, holder, model, reading, snapshot, totals, waiters

from llm_sched_tui.view_model.values import Query

HOUR_S = 3600


@pytest.mark.soak
def test_memory_is_flat_once_the_longest_window_is_full() -> None:
    """Another hour of looks, each of them news, add nothing: history, leases and log have an end."""
    known = model()

    def watch(start: int, seconds: int) -> None:
        for second in range(start, start + seconds):
            shown = [
                bucket(
                    f"p/{number}",
                    holders=[holder(pid, f"u{pid}", float(second % 7)) for pid in range(1, 5)],
                    waiters=[waiters(pid, f"u{pid}") for pid in range(5, 9)],
                    totals=totals(second * 10, (second, second * 5, second * 9, second * 10), wait_s=second * 3.0),
                )
                for number in range(2)
            ]
            known.take(reading(snapshot(*shown, seq=second), float(second)))
            known.view(Query(bucket="p/1"), float(second), 0.0)

    tracemalloc.start()
    try:
        watch(0, HOUR_S + 300)
        before = tracemalloc.get_traced_memory()[0]
        watch(HOUR_S + 300, HOUR_S)
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert after < before * 1.03, (before, after)
