"""The ledger's own facts as metrics: what all processes together hold and wait for, and the limits in force.

The law: one reader for the whole machine, which looks at the file and changes nothing; of four processes that each reported the
shared 8, a collector made 32. What cannot be read is not reported. May not know where the metrics go.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeAlias

from opentelemetry.metrics import Observation

from llm_sched.errors import LedgerError
from llm_sched.snapshot import read_snapshot
from llm_sched.telemetry import names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from opentelemetry.metrics import CallbackOptions, Meter

    from llm_sched.snapshot import BucketView, Snapshot
    from llm_sched.telemetry.names import Instrument

    _Figure: TypeAlias = Callable[[BucketView], float | None]

_FRESH_S = 0.25
"""The instruments of one collection are read off one look at the file."""

_FIGURES: dict[Instrument, _Figure] = {
    names.LEDGER_IN_FLIGHT: lambda bucket: bucket.in_flight,
    names.LEDGER_WAITING: lambda bucket: bucket.waiting,
    names.LEDGER_LIMIT: lambda bucket: bucket.max_in_flight or None,
    names.LEDGER_OLDEST_WAIT: lambda bucket: bucket.oldest_wait_s,
    names.LEDGER_RATE_AVAILABLE: lambda bucket: bucket.rate_available,
    names.LEDGER_RATE_LIMIT: lambda bucket: bucket.requests_per_minute or None,
}
_SUMMED = {names.LEDGER_IN_FLIGHT, names.LEDGER_WAITING}
"""What makes sense of many buckets together; of `oldest_wait` the longest does."""


class LedgerMetrics:
    """Gauges of one ledger.

    Args:
        meter: makes them.
        path: the ledger.
        tell: called with a line for people when the ledger can no longer be read, or can again.
    """

    def __init__(self, meter: Meter, path: Path, tell: Callable[[str], None]) -> None:
        self._path = path
        self._tell = tell
        self._said = ""
        self._looked_at = float("-inf")
        self._snapshot: Snapshot | None = None
        self._named: dict[str, None] = {}
        for instrument in _FIGURES:
            meter.create_observable_gauge(
                instrument.name, [self._observer_of(instrument)], instrument.unit, instrument.description
            )
        owners = names.LEDGER_OWNERS
        meter.create_observable_gauge(owners.name, [self._owners], owners.unit, owners.description)

    def _look(self) -> Snapshot | None:
        """The ledger as it is; None if it cannot be read."""
        if time.monotonic() - self._looked_at > _FRESH_S:
            try:
                snapshot = read_snapshot(self._path)
                fault = "" if snapshot.state in {"live", "absent"} else f"{self._path} is {snapshot.state}"
            except LedgerError as error:
                snapshot, fault = None, str(error)
            self._snapshot = None if fault else snapshot
            self._looked_at = time.monotonic()
            self._say(fault)
            self._choose_names()
        return self._snapshot

    def _say(self, fault: str) -> None:
        if fault != self._said:
            self._said = fault
            self._tell(f"{fault}; nothing is reported until that changes" if fault else f"{self._path} can be read again")

    def _choose_names(self) -> None:
        """Keep the names of buckets that are still there, and add new ones as long as there are not too many."""
        present = [bucket.name for bucket in self._snapshot.buckets] if self._snapshot else []
        kept = {name: None for name in self._named if name in set(present)}
        for name in present:
            if len(kept) < names.MOST_BUCKETS:
                kept[name] = None
        self._named = kept

    def _observer_of(self, instrument: Instrument) -> Callable[[CallbackOptions], Iterable[Observation]]:
        figure = _FIGURES[instrument]

        def observe(_options: CallbackOptions) -> Iterable[Observation]:
            snapshot = self._look()
            found = [(bucket.name, figure(bucket)) for bucket in (snapshot.buckets if snapshot else ())]
            known = [(name, value) for name, value in found if value is not None]
            others = [value for name, value in known if name not in self._named]
            points = [(name, value) for name, value in known if name in self._named]
            if others and instrument in _SUMMED:
                points.append((names.OTHER, sum(others)))
            elif others and instrument is names.LEDGER_OLDEST_WAIT:
                points.append((names.OTHER, max(others)))
            return [Observation(value, {names.BUCKET: name}) for name, value in points]

        return observe

    def _owners(self, _options: CallbackOptions) -> Iterable[Observation]:
        snapshot = self._look()
        return [Observation(sum(owner.alive for owner in snapshot.owners))] if snapshot else []
