"""What a provider saw: who came, who was refused, how many were inside at once."""

# Law: the witness decides whether one more request is let in, and remembers every arrival and end.
# It may know neither sockets nor HTTP nor llm_sched: what it says about the cap must not come from the ledger.
# A request counts as inside from `arrive` to `leave`, also while it is being refused, so that the peak
# shows what was sent at the provider and not what the provider let through.

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable

Outcome = Literal["answered", "refused", "invalid", "dropped"]
"""How a request ended; `dropped` is a client that went away before its answer was complete."""


class RequestRecord(msgspec.Struct, frozen=True, array_like=True):
    """One request. Times are seconds of CLOCK_MONOTONIC; `ended_s` and `outcome` are None while it is inside."""

    arrived_s: float
    ended_s: float | None
    outcome: Outcome | None


class ProviderStats(msgspec.Struct, frozen=True, kw_only=True):
    """The counters of one provider, and every request it has seen when they were asked for.

    `limit` is its own concurrency limit (0 = none), `current` and `peak` count requests inside at once.
    """

    limit: int
    requests: int
    current: int
    peak: int
    answered: int
    refused: int
    invalid: int
    dropped: int
    records: tuple[RequestRecord, ...] = ()


@dataclass(frozen=True, slots=True)
class Seat:
    """The place of one request: its number, and whether the provider's limit let it in."""

    number: int
    admitted: bool


class Witness:
    """Counts requests for any number of threads."""

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        """Start with nothing seen.

        Args:
            limit: requests admitted at once; 0 admits all.
            clock: seconds, monotonic. Read under the lock, so that times are in the order of the counts.
        """
        self._limit = limit
        self._clock = clock
        self._lock = threading.Lock()
        self._arrived: list[float] = []
        self._ended: list[float | None] = []
        self._outcomes: list[Outcome | None] = []
        self._counts: dict[Outcome, int] = {"answered": 0, "refused": 0, "invalid": 0, "dropped": 0}
        self._current = self._serving = self._peak = 0

    def arrive(self) -> Seat:
        """Count a request that has been read completely, and say whether it is admitted."""
        with self._lock:
            admitted = self._limit == 0 or self._serving < self._limit
            self._serving += admitted
            self._current += 1
            self._peak = max(self._peak, self._current)
            self._arrived.append(self._clock())
            self._ended.append(None)
            self._outcomes.append(None)
            return Seat(number=len(self._arrived) - 1, admitted=admitted)

    def leave(self, seat: Seat, outcome: Outcome) -> None:
        """Count the end of a request. Only the first end of a seat counts."""
        with self._lock:
            if self._outcomes[seat.number] is not None:
                return
            self._serving -= seat.admitted
            self._current -= 1
            self._ended[seat.number] = self._clock()
            self._outcomes[seat.number] = outcome
            self._counts[outcome] += 1

    def counters(self) -> ProviderStats:
        """The counters, without the single requests (cheap, for a live display)."""
        with self._lock:
            return self._stats(())

    def stats(self) -> ProviderStats:
        """The counters and every request, in order of arrival."""
        with self._lock:
            rows = zip(self._arrived, self._ended, self._outcomes, strict=True)
            return self._stats(tuple(RequestRecord(*row) for row in rows))

    def _stats(self, records: tuple[RequestRecord, ...]) -> ProviderStats:
        return ProviderStats(
            limit=self._limit,
            requests=len(self._arrived),
            current=self._current,
            peak=self._peak,
            records=records,
            **self._counts,
        )
