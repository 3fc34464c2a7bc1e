"""Who hears what happened. Events are delivered after the ledger's lock is free; no observer can touch a slot.

The law: whoever listens may fail in any way, and is caught, counted and logged once. A listener hears of each call of this
process, in the thread or task of the call; nobody listens, nothing is paid. May not know what listeners do with it.
"""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Protocol, TypeGuard

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from llm_sched.calls import Call
    from llm_sched.model import Event

MEASURED_ONE_IN = 16
"""Of so many transactions one is measured: two histograms for every one would cost more than all the rest together."""


class Observer(Protocol):
    """Somebody who is told what happened in this process's transactions."""

    def on_events(self, events: Sequence[Event]) -> None:
        """Take note of the events of one transaction, oldest first; must be quick and may be called by any thread."""
        ...


class Census(Protocol):
    """What one scheduler can tell about itself at any time."""

    @property
    def limit(self) -> int:
        """Its own cap; 0 = none."""
        ...

    def census(self) -> Mapping[str, tuple[int, int]]:
        """By bucket that was ever called: how many calls of this process hold a slot, and how many wait."""
        ...


class Listener(Observer, Protocol):
    """An observer that is also told of each call of this process: began, perhaps waits, acquired or failed, released."""

    def watch(self, census: Census) -> None:
        """Another scheduler uses this listener; keep it only weakly."""
        ...

    def began(self, call: Call) -> None:
        """A call is about to ask; here it may be given a `traceparent`."""
        ...

    def waits(self, call: Call, waited_s: float) -> None:
        """It was not granted at once, which took `waited_s`, and waits; `call.seen` says what for."""
        ...

    def acquired(self, call: Call) -> None:
        """It has its slot, after `call.waited_s`."""
        ...

    def failed(self, call: Call, error: BaseException, waited_s: float) -> None:
        """It ended without a slot, after `waited_s` seconds."""
        ...

    def released(self, call: Call, held_s: float, error: str) -> None:
        """Its slot was given back; `error` names the type of what went wrong meanwhile, if it is known. Must not block."""
        ...

    def measured(self, locking_s: float, transaction_s: float) -> None:
        """A transaction took so long, of which so much to get the ledger's lock and content."""
        ...


_HOOKS = ("watch", "began", "waits", "acquired", "failed", "released", "measured")


class NullObserver:
    """Hears nothing. Given to a `Scheduler`, it also keeps OpenTelemetry out."""

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
            except Exception:  # noqa: BLE001 - whatever it is, it is the observer's
                self.failed(observer)

    def failed(self, observer: object) -> None:
        """Count, and log the first time, that an observer raised."""
        self.failures += 1
        if self.failures == 1:
            import logging  # noqa: PLC0415 - rare, and slow to import

            text = "%r failed; further failures are only counted"
            logging.getLogger("llm_sched").exception(text, observer)  # noqa: LOG004 - called while it is handled


class Audience(FanOut):
    """All who hear one scheduler: the observer it was given, and a listener, which may come later.

    Args:
        observer: given to the scheduler; may itself be a `Listener`.
        find: asked at the start of each call until it returns a listener.

    Attributes:
        listener: is told about single calls; None = nobody, and then nothing is paid.

    """

    def __init__(self, observer: Observer | None, find: Callable[[], Listener | None]) -> None:
        super().__init__(*([observer] if observer else []))
        self.listener: Listener | None = None
        self._find = _nobody if isinstance(observer, NullObserver) else find
        self._given = observer
        self._transactions = itertools.count()

    def look(self, census: Census) -> Listener | None:
        """The listener, if there is one by now."""
        if self.listener is None:
            given = self._given
            found = given if is_listener(given) else self._find()
            if found is not None:
                self._join(found, census)
        return self.listener

    def _join(self, listener: Listener, census: Census) -> None:
        self.tell(listener.watch, census)
        if listener is not self._given:
            self._observers = (*self._observers, listener)
        self.listener = listener

    def tell(self, hook: Callable[..., None], *facts: object) -> None:
        """Tell a listener something; never raises."""
        try:
            hook(*facts)
        except Exception:  # noqa: BLE001 - whatever it is, it is the listener's
            self.failed(hook)

    def stopwatch(self) -> Stopwatch | None:
        """For one in `MEASURED_ONE_IN` transactions, something to measure it with."""
        if self.listener is None or next(self._transactions) % MEASURED_ONE_IN:
            return None
        return Stopwatch(self, self.listener)


class Stopwatch:
    """Measures one transaction."""

    __slots__ = ("_audience", "_began", "_listener", "_locked")

    def __init__(self, audience: Audience, listener: Listener) -> None:
        self._audience = audience
        self._listener = listener
        self._began = self._locked = time.perf_counter()

    def locked(self) -> None:
        """The ledger's lock is there, and what it says."""
        self._locked = time.perf_counter()

    def ended(self) -> None:
        """The transaction is over and the lock is free."""
        now = time.perf_counter()
        self._audience.tell(self._listener.measured, self._locked - self._began, now - self._began)


def is_listener(observer: object) -> TypeGuard[Listener]:
    """Whether an observer wants to hear of single calls."""
    return all(hasattr(observer, hook) for hook in _HOOKS)


def _nobody() -> None:
    return None
