"""Where readings come from: the ledger itself, or a recording.

The law: bounded work however often the ledger changes: one look a call, one read at most. No lock, nothing changed.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Protocol

from llm_sched.errors import LedgerError
from llm_sched.snapshot import Snapshot, read_snapshot
from llm_sched_tui.view_model.values import Reading

if TYPE_CHECKING:
    from collections.abc import Callable

RECHECK_S = 2.0
"""A ledger that did not change is read again after this long: its owners may have died without a word."""

_COARSE_NS = 20_000_000
"""File times are kept in ticks; a read this soon after a write may have missed another write of the same tick."""


class Source(Protocol):
    """Readings, and the clock they belong to."""

    def poll(self) -> list[Reading]:
        """Look; return what was seen, oldest first; the last one is the newest."""
        ...

    def now(self) -> float:
        """Seconds on the clock of the readings."""
        ...

    def wall(self) -> float:
        """Time of day of what is shown, in seconds since the epoch."""
        ...

    def hold(self, *, still: bool) -> None:
        """Let the clock stand still, where that is possible, or run on."""
        ...

    def progress(self) -> str:
        """Where in a recording this is; empty for a ledger."""
        ...


class LiveSource:
    """Tails a ledger.

    Args:
        path: the ledger; None = the environment's, else the default one.
        read: reads a snapshot.
        clock: seconds, monotonic.
        wall: seconds since the epoch.
    """

    def __init__(
        self,
        path: str | None = None,
        read: Callable[[str | None], Snapshot] = read_snapshot,
        clock: Callable[[], float] = time.monotonic,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._path = path
        self._read = read
        self._clock = clock
        self._wall = wall
        self._last: Reading | None = None
        self._mark: tuple[int, int, int] | None = None
        self._sure = False
        self._read_at = 0.0

    def poll(self) -> list[Reading]:
        """See `Source`."""
        last, now = self._last, self.now()
        mark = self._look(last.snapshot.path) if last is not None and not last.refused else None
        if last is not None and self._sure and mark == self._mark and now - self._read_at < RECHECK_S:
            return [Reading(now, last.taken, self.wall(), last.snapshot)]
        reading, self._read_at = self._fresh(now), now
        self._mark = self._look(reading.snapshot.path)
        self._sure = self._mark is None or self.wall() * 1e9 - self._mark[0] > _COARSE_NS
        if last is not None and _same(last, reading):
            reading = Reading(now, last.taken, reading.wall, last.snapshot, last.refused)
        self._last = reading
        return [reading]

    def now(self) -> float:
        """See `Source`."""
        return self._clock()

    def wall(self) -> float:
        """See `Source`."""
        return self._wall()

    def hold(self, *, still: bool) -> None:
        """See `Source`; a ledger does not wait."""

    def progress(self) -> str:
        """See `Source`."""
        return ""

    def _fresh(self, now: float) -> Reading:
        try:
            snapshot = self._read(self._path)
        except LedgerError as error:
            empty = Snapshot(error.path or self._path or "", 0, 0, None, None, "absent")
            return Reading(now, now, self.wall(), empty, str(error))
        return Reading(now, now, self.wall(), snapshot)

    @staticmethod
    def _look(path: str) -> tuple[int, int, int] | None:
        try:
            status = os.stat(path)  # noqa: PTH116 - half the price of Path.stat, several times a second
        except OSError:
            return None
        return status.st_mtime_ns, status.st_size, status.st_ino


def _same(before: Reading, now: Reading) -> bool:
    """Whether a second read of a ledger shows what the first did, although time has passed."""
    one, two = before.snapshot, now.snapshot
    if (before.refused, one.path, one.state, one.seq) != (now.refused, two.path, two.state, two.seq):
        return False
    return one.updated_at == two.updated_at and [each.alive for each in one.owners] == [each.alive for each in two.owners]
