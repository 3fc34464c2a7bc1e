"""The figures of one run: every round's, and what they come to."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from tests.benchmarks.metrics import METRICS, merged
from tests.benchmarks.peers import OURS


@dataclass(slots=True)
class Results:
    """By peer and metric, one value per round."""

    rounds: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    rounds_made: int = 0

    def add(self, peer: str, figures: dict[str, float]) -> None:
        """Add what one measurement gave in one round."""
        for name, value in figures.items():
            self.rounds.setdefault(peer, {}).setdefault(name, []).append(value)

    def peers(self) -> list[str]:
        """Return the peers that have any figure."""
        return list(self.rounds)

    def figures(self) -> dict[str, dict[str, float]]:
        """Return all figures: metric, then peer; only what was measured."""
        table: dict[str, dict[str, float]] = {}
        for metric in METRICS:
            row = {peer: merged(metric, mine[metric.name]) for peer, mine in self.rounds.items() if metric.name in mine}
            if row:
                table[metric.name] = row
        return table

    def figure(self, metric: str, peer: str = OURS) -> float:
        """Return one figure; not a number when it was not measured."""
        return self.figures().get(metric, {}).get(peer, math.nan)

    def ratio(self, metric: str, peer: str) -> float:
        """Return ours over the peer's; not a number when one is missing or both are infinite."""
        ours, theirs = self.figure(metric), self.figure(metric, peer)
        return ours / theirs if theirs else math.nan
