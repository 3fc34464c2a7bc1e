"""What was measured, on its way into OpenTelemetry's metrics.

The law: `note` is one append, safe anywhere: in a signal handler, in a finalizer, while the SDK holds its locks in this very
thread. Facts are counted, and given to the SDK's histograms, when it collects, or by a release that finds many of them.
Counters are observed from a tally of our own, and what is held and waiting from the schedulers themselves, so a forked child
starts at zero. May not know calls or spans.
"""

from __future__ import annotations

import threading
import weakref
from collections import Counter, deque
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from opentelemetry.metrics import Observation

from llm_sched.telemetry import names
from llm_sched.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opentelemetry.context import Context
    from opentelemetry.metrics import CallbackOptions, Histogram, Meter, MeterProvider

    from llm_sched.observer import Census
    from llm_sched.telemetry.names import Instrument

MANY = 64
"""A release that finds so many facts hands them to the SDK: half a millisecond, by which nobody waits for the slot any more."""

_PATIENCE_S = 1.0

Attributes: TypeAlias = tuple[tuple[str, str], ...]
_Callback: TypeAlias = "Callable[[CallbackOptions], Iterable[Observation]]"


class Answer(NamedTuple):
    """A request for a slot was answered; `user` empty: not to be told; `where` is the context in which, for exemplars."""

    bucket: str
    user: str
    result: str
    kind: str
    seconds: float
    where: Context


class Held(NamedTuple):
    """A slot was given back."""

    bucket: str
    user: str
    seconds: float
    error: str
    where: Context


class Measured(NamedTuple):
    """A transaction was measured."""

    locking_s: float
    transaction_s: float


class Reclaimed(NamedTuple):
    """A slot was taken back."""

    bucket: str


class Recorder:
    """The metrics of a process's schedulers.

    Args:
        meter: makes the instruments.

    """

    def __init__(self, meter: Meter) -> None:
        self._facts: deque[Answer | Held | Measured | Reclaimed] = deque()
        self._draining = threading.Lock()
        self._tally: dict[Instrument, Counter[Attributes]] = {}
        self._buckets: dict[str, str] = {}
        self._schedulers: weakref.WeakSet[Census] = weakref.WeakSet()
        self._ended = False
        self.after_fork()
        self._wait = _histogram(meter, names.WAIT_DURATION)
        self._hold = _histogram(meter, names.HOLD_DURATION)
        self._lock_wait = _histogram(meter, names.LOCK_WAIT_DURATION)
        self._transaction = _histogram(meter, names.TRANSACTION_DURATION)
        for counter in (names.REQUESTS, names.TIMEOUTS, names.RECLAIMED):
            meter.create_observable_counter(counter.name, [self._counted(counter)], counter.unit, counter.description)
        for instrument, index in ((names.IN_FLIGHT, 0), (names.WAITING, 1)):
            meter.create_observable_up_down_counter(
                instrument.name, [self._present(index)], instrument.unit, instrument.description
            )
        limit = names.LIMIT
        meter.create_observable_gauge(limit.name, [self._limits], limit.unit, limit.description)

    def watch(self, census: Census) -> None:
        """Include another scheduler."""
        self._schedulers.add(census)

    def note(self, fact: Answer | Held | Measured | Reclaimed) -> None:
        """Remember a fact."""
        self._facts.append(fact)

    def relieve(self) -> None:
        """Hand the facts on if there are many."""
        if len(self._facts) >= MANY:
            self._drain(0.0)

    def end(self) -> None:
        """From now on nothing is held and nobody waits."""
        self._ended = True

    def after_fork(self) -> None:
        """In a forked child: nothing has happened yet."""
        self._facts = deque()
        self._draining = threading.Lock()
        self._tally = {counter: Counter() for counter in (names.REQUESTS, names.TIMEOUTS, names.RECLAIMED)}
        self._buckets = {}
        self._ended = False

    # -- what was noted ----------------------------------------------------------------------------------------------

    def _drain(self, patience_s: float) -> None:
        if not self._draining.acquire(timeout=patience_s) if patience_s else not self._draining.acquire(blocking=False):
            return
        try:
            for _ in range(len(self._facts)):
                self._take(self._facts.popleft())
        finally:
            self._draining.release()

    def _take(self, fact: Answer | Held | Measured | Reclaimed) -> None:
        if isinstance(fact, Answer):
            where = self._where(fact.bucket, fact.user)
            self._tally[names.REQUESTS][*where, (names.RESULT, fact.result)] += 1
            if fact.result == names.TIMEOUT:
                self._tally[names.TIMEOUTS][where] += 1
            attributes = {**dict(where), names.RESULT: fact.result, names.LIMIT_KIND: fact.kind}
            self._wait.record(fact.seconds, attributes, fact.where)
        elif isinstance(fact, Held):
            attributes = dict(self._where(fact.bucket, fact.user))
            if fact.error:
                attributes[names.ERROR_TYPE] = fact.error
            self._hold.record(fact.seconds, attributes, fact.where)
        elif isinstance(fact, Measured):
            self._lock_wait.record(fact.locking_s)
            self._transaction.record(fact.transaction_s)
        else:
            self._tally[names.RECLAIMED][((names.BUCKET, self._bucket(fact.bucket)),)] += 1

    def _where(self, bucket: str, user: str) -> Attributes:
        where = ((names.BUCKET, self._bucket(bucket)),)
        return (*where, (names.USER, user)) if user else where

    def _bucket(self, name: str) -> str:
        """The bucket as an attribute's value: its name, as long as there are not too many."""
        value = self._buckets.get(name)
        if value is None:
            if len(self._buckets) >= names.MOST_BUCKETS:
                return names.OTHER
            value = self._buckets[name] = name
        return value

    # -- what is observed --------------------------------------------------------------------------------------------

    def _counted(self, counter: Instrument) -> _Callback:
        def observe(_options: CallbackOptions) -> Iterable[Observation]:
            self._drain(_PATIENCE_S)
            counts: dict[Attributes, int] = {}
            if counter is not names.REQUESTS:
                # From nothing to 1 is no increase to Prometheus, from 0 to 1 is.
                counts = {
                    ((names.BUCKET, name),): 0 for each in list(self._schedulers) for name in map(self._bucket, each.census())
                }
            counts.update(list(self._tally[counter].items()))
            return [Observation(count, dict(attributes)) for attributes, count in counts.items()]

        return observe

    def _present(self, index: int) -> _Callback:
        def observe(_options: CallbackOptions) -> Iterable[Observation]:
            found: Counter[str] = Counter()
            for counts in [] if self._ended else [each.census() for each in list(self._schedulers)]:
                for name, count in counts.items():
                    found[self._bucket(name)] += count[index]
            # A bucket that was seen stays: a series that just ends would stand at its last value for minutes.
            known = dict.fromkeys([*self._buckets, *found], 0)
            return [Observation(count, {names.BUCKET: name}) for name, count in {**known, **found}.items()]

        return observe

    def _limits(self, _options: CallbackOptions) -> Iterable[Observation]:
        limits: dict[str, int] = {}
        for each in list(self._schedulers):
            for name in map(self._bucket, each.census()) if each.limit else ():
                limits[name] = min(each.limit, limits.get(name, each.limit))
        return [Observation(limit, {names.BUCKET: name}) for name, limit in limits.items()]


_recorders: weakref.WeakKeyDictionary[MeterProvider, Recorder] = weakref.WeakKeyDictionary()


def recorder_for(provider: MeterProvider) -> Recorder:
    """The recorder of a provider: one for all observers, since an instrument of one name can be observed by one only."""
    recorder = _recorders.get(provider)
    if recorder is None:
        recorder = _recorders[provider] = Recorder(provider.get_meter(names.SCOPE, __version__))
    return recorder


def _histogram(meter: Meter, instrument: Instrument) -> Histogram:
    return meter.create_histogram(
        instrument.name,
        instrument.unit,
        instrument.description,
        explicit_bucket_boundaries_advisory=list(instrument.boundaries),
    )
