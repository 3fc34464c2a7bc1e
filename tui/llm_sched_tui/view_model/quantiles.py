"""Percentiles of waits from the ledger's cumulative histogram, by linear interpolation within a cell.

As Prometheus' `histogram_quantile` does it; the last, open cell counts as its lower bound.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def quantile(part: float, bounds: Sequence[float], counts: Sequence[int]) -> float | None:
    """The wait (s) that `part` (0 to 1) of the calls did not exceed; None without calls.

    Args:
        part: which share of the calls.
        bounds: upper bounds of the cells in seconds, without the open one.
        counts: cumulative counts by cell, the open one last.
    """
    if not counts or counts[-1] <= 0:
        return None
    rank = part * counts[-1]
    below, lower = 0, 0.0
    for bound, until in zip(bounds, counts, strict=False):
        if until >= rank and until > below:
            return lower + (bound - lower) * max(0.0, rank - below) / (until - below)
        below, lower = until, bound
    return lower
