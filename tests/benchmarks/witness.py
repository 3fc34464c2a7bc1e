# The judge of the cap. It may believe nobody but the threads that held: no ledger, no counter of a peer.
"""Checks in every run that no more slots were held at once than allowed.

A thread holds at least from the return of its acquire to the start of its release, by the one monotonic clock that
all processes share. Where more than `cap` of these intervals overlap, the cap was broken, with no false alarm; and
taking the stamps costs the peers no lock, as a shared counter would.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.benchmarks.analysis import peak
from tests.benchmarks.calls import NOT_YET

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.benchmarks.calls import Call


@dataclass(slots=True)
class Witness:
    """Collects what it saw over the whole benchmark."""

    runs: int = 0
    grants: int = 0
    violations: list[str] = field(default_factory=list)

    def saw(self, what: str, calls: Iterable[Call], cap: int, end: int) -> None:
        """Check the cap in the calls of one run, whose logs were read at `end` or later."""
        self.saw_holds(what, [(call.granted, call.held_until(end)) for call in calls if call.granted != NOT_YET], cap)

    def saw_holds(self, what: str, holds: list[tuple[int, int]], cap: int) -> None:
        """Check the cap in the `holds` (start, end) of one run."""
        self.runs += 1
        self.grants += len(holds)
        highest = peak(holds)
        if highest > cap:
            self.violations.append(f"{what}: {highest} held at once, {cap} allowed")

    def saw_rate(self, what: str, calls: Iterable[Call], rpm: float, burst: int) -> None:
        """Check that there were at most `burst` + rate x time grants from the first call to the last grant."""
        granted = [call for call in calls if call.granted != NOT_YET]
        if not granted:
            return
        span_s = (max(call.granted for call in granted) - min(call.started for call in granted)) / 1e9
        if len(granted) > burst + span_s * rpm / 60:
            self.violations.append(f"{what}: {len(granted)} grants in {span_s:.2f} s, {rpm:g} a minute allowed")
