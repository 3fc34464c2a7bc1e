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

from opentelemetry.context import Context
from opentelemetry.metrics import Observation

from llm_sched.telemetry import names
from llm_sched.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from opentelemetry.metrics import CallbackOptions, Histogram, Meter, MeterProvider

    from llm_sched.observer import Census
    from llm_sched.telemetry.names import Instrument

MANY = 64
"""A release that finds so many facts hands them to the SDK: half a millisecond, by which nobody waits for the slot any more."""

NOWHERE = Context()
"""Where there is no trace: what is recorded here is no exemplar."""

_PATIENCE_S = 1.0

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


class _Cell:
    """How often requests have been answered in one way, and the attributes that say which."""

    __slots__ = ("attributes", "count")

    def __init__(self, attributes: dict[str, str]) -> None:
        self.attributes = attributes
        self.count = 0


class Recorder:
    """The metrics of a process's schedulers.

    Args:
        meter: makes the instruments.
    """

    def __init__(self, meter: Meter) -> None:
        self._schedulers: weakref.WeakSet[Census] = weakref.WeakSet()
        self.after_fork()
        self._wait = _histogram(meter, names.WAIT_DURATION)
        self._hold = _histogram(meter, names.HOLD_DURATION)
        self._lock_wait = _histogram(meter, names.LOCK_WAIT_DURATION)
        self._transaction = _histogram(meter, names.TRANSACTION_DURATION)
        for counter, observe in (
            (names.REQUESTS, self._requests),
            (names.TIMEOUTS, self._timeouts),
            (names.RECLAIMED, self._taken_back),
        ):
            meter.create_observable_counter(counter.name, [observe], counter.unit, counter.description)
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
        """In a forked child, as at first: nothing has happened yet."""
        self._facts: deque[Answer | Held | Measured | Reclaimed] = deque()
        self._draining = threading.Lock()
        self._answers: dict[tuple[str, str, str, str], _Cell] = {}
        self._holds: dict[tuple[str, str, str], dict[str, str]] = {}
        self._reclaimed: Counter[str] = Counter()
        self._buckets: dict[str, str] = {}
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
            cell = self._cell(fact)
            cell.count += 1
            self._wait.record(fact.seconds, cell.attributes, fact.where)
        elif isinstance(fact, Held):
            self._hold.record(fact.seconds, self._attributes(fact), fact.where)
        elif isinstance(fact, Measured):
            self._lock_wait.record(fact.locking_s, None, NOWHERE)
            self._transaction.record(fact.transaction_s, None, NOWHERE)
        else:
            self._reclaimed[self._bucket(fact.bucket)] += 1

    def _cell(self, fact: Answer) -> _Cell:
        key = (self._bucket(fact.bucket), fact.user, fact.result, fact.kind)
        cell = self._answers.get(key)
        if cell is None:
            attributes = {**_where(key[0], fact.user), names.RESULT: fact.result, names.LIMIT_KIND: fact.kind}
            cell = self._answers[key] = _Cell(attributes)
        return cell

    def _attributes(self, fact: Held) -> dict[str, str]:
        key = (self._bucket(fact.bucket), fact.user, fact.error)
        attributes = self._holds.get(key)
        if attributes is None:
            error = {names.ERROR_TYPE: fact.error} if fact.error else {}
            attributes = self._holds[key] = {**_where(key[0], fact.user), **error}
        return attributes

    def _bucket(self, name: str) -> str:
        """The bucket as an attribute's value: its name, as long as there are not too many."""
        value = self._buckets.get(name)
        if value is None:
            if len(self._buckets) >= names.MOST_BUCKETS:
                return names.OTHER
            value = self._buckets[name] = name
        return value

    # -- what is observed --------------------------------------------------------------------------------------------

    def _requests(self, _options: CallbackOptions) -> Iterable[Observation]:
        self._drain(_PATIENCE_S)
        counts: Counter[tuple[str, str, str]] = Counter()
        for (bucket, user, result, _), cell in list(self._answers.items()):
            counts[bucket, user, result] += cell.count
        return [
            Observation(count, {**_where(bucket, user), names.RESULT: result})
            for (bucket, user, result), count in counts.items()
        ]

    def _timeouts(self, _options: CallbackOptions) -> Iterable[Observation]:
        self._drain(_PATIENCE_S)
        counts = Counter({(bucket, ""): 0 for bucket in self._known()})
        for (bucket, user, result, _), cell in list(self._answers.items()):
            if result == names.TIMEOUT:
                counts[bucket, user] += cell.count
        return [Observation(count, _where(bucket, user)) for (bucket, user), count in counts.items()]

    def _taken_back(self, _options: CallbackOptions) -> Iterable[Observation]:
        self._drain(_PATIENCE_S)
        counts = {**dict.fromkeys(self._known(), 0), **self._reclaimed}
        return [Observation(count, _where(bucket, "")) for bucket, count in counts.items()]

    def _known(self) -> list[str]:
        """Buckets that were called: from nothing to 1 is no increase to Prometheus, from 0 to 1 is."""
        return [self._bucket(name) for each in list(self._schedulers) for name in each.census()]

    def _present(self, index: int) -> _Callback:
        def observe(_options: CallbackOptions) -> Iterable[Observation]:
            found: Counter[str] = Counter()
            for counts in [] if self._ended else [each.census() for each in list(self._schedulers)]:
                for name, count in counts.items():
                    found[self._bucket(name)] += count[index]
            # A bucket that was seen stays: a series that just ends would stand at its last value for minutes.
            known = dict.fromkeys([*self._buckets, *found], 0)
            return [Observation(count, _where(name, "")) for name, count in {**known, **found}.items()]

        return observe

    def _limits(self, _options: CallbackOptions) -> Iterable[Observation]:
        limits: dict[str, int] = {}
        for each in list(self._schedulers):
            for name in map(self._bucket, each.census()) if each.limit else ():
                limits[name] = min(each.limit, limits.get(name, each.limit))
        return [Observation(limit, _where(name, "")) for name, limit in limits.items()]


def _where(bucket: str, user: str) -> dict[str, str]:
    return {names.BUCKET: bucket, names.USER: user} if user else {names.BUCKET: bucket}


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
