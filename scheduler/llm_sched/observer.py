"""Who hears what happened. Events are delivered after the ledger's lock is free; no observer can touch a slot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from llm_sched.model import Event


class Observer(Protocol):
    """Somebody who is told what happened in this process's transactions."""

    def on_events(self, events: Sequence[Event]) -> None:
        """Take note of the events of one transaction, oldest first; must be quick and may be called by any thread."""
        ...


class NullObserver:
    """Hears nothing; the default."""

    def on_events(self, events: Sequence[Event]) -> None:
        """Do nothing."""


class FanOut:
    """Passes events on to several observers. One that raises is logged once and counted, and the others still hear.

    Attributes:
        failures: how many deliveries raised.
    """

    def __init__(self, *observers: Observer) -> None:
        self._observers = observers
        self.failures = 0

    def on_events(self, events: Sequence[Event]) -> None:
        """See `Observer`; never raises."""
        for observer in self._observers:
            try:
                observer.on_events(events)
            except Exception:
                self.failures += 1
                if self.failures == 1:
                    import logging  # noqa: PLC0415 - rare, and slow to import

                    logging.getLogger("llm_sched").exception("%r failed; further failures are only counted", observer)
