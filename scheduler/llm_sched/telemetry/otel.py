"""The observer that reports to OpenTelemetry. Uses its API only; the application configures the SDK.

The law: nothing here raises into a call, blocks a release or holds the file lock. A call's way has the span's start and end
and one append to a queue of facts; counting and the SDK's histograms come later, in `recorder.py`. What one process does it
reports itself, and a forked child starts from nothing.
"""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING

from opentelemetry import context, metrics, trace

from llm_sched.errors import SlotTimeout
from llm_sched.telemetry import forks, names
from llm_sched.telemetry.recorder import NOWHERE, Answer, Held, Measured, Reclaimed, recorder_for
from llm_sched.telemetry.spans import WaitSpans, current_traceparent
from llm_sched.version import __version__

if TYPE_CHECKING:
    from collections.abc import Sequence

    from opentelemetry.context import Context
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from llm_sched.calls import Call
    from llm_sched.model import Event
    from llm_sched.observer import Census

_EXEMPLARY_S = 0.001
_TAKEN_BACK = {"reclaimed", "overdue"}


class OTelObserver:
    """Reports a process's schedulers to OpenTelemetry; also see `llm_sched.telemetry.setup`.

    Args:
        tracer_provider: where spans go; None = the global one, also when that is set later.
        meter_provider: where metrics go; None = the global one, also when that is set later.
        every_span: make a span also for a slot that was granted without a wait.
        user_on_metrics: put the user's label on the slot metrics; one series for each user that a process calls for.

    """

    def __init__(
        self,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        *,
        every_span: bool = False,
        user_on_metrics: bool = False,
    ) -> None:
        self._spans = WaitSpans(trace.get_tracer(names.SCOPE, __version__, tracer_provider))
        self._meter_provider = meter_provider
        self._recorder = recorder_for(meter_provider or metrics.get_meter_provider())
        self.choose(every_span=every_span, user_on_metrics=user_on_metrics)
        _observers.add(self)

    def choose(self, *, every_span: bool, user_on_metrics: bool) -> None:
        """Change the options; see the class."""
        self._spans.every = every_span
        self._user_on_metrics = user_on_metrics

    def watch(self, census: Census) -> None:
        """See `Listener`."""
        self._recorder.watch(census)

    def began(self, call: Call) -> None:
        """See `Listener`; the call's own trace goes into the ledger, for links from whoever waits for it."""
        call.traceparent = current_traceparent()

    def waits(self, call: Call, waited_s: float) -> None:
        """See `Listener`."""
        self._spans.start(call, waited_s)

    def acquired(self, call: Call) -> None:
        """See `Listener`."""
        kind = limit_kind(call)
        self._spans.end(call, names.ACQUIRED, kind, call.waited_s)
        self._recorder.note(Answer(call.bucket, self._user(call), names.ACQUIRED, kind, call.waited_s, _where(call.waited_s)))

    def failed(self, call: Call, error: BaseException, waited_s: float) -> None:
        """See `Listener`."""
        result, kind = result_of(error), limit_kind(call)
        self._spans.end(call, result, kind, waited_s, error)
        self._recorder.note(Answer(call.bucket, self._user(call), result, kind, waited_s, _where(waited_s)))
        self._recorder.relieve()

    def released(self, call: Call, held_s: float, error: str) -> None:
        """See `Listener`."""
        self._recorder.note(Held(call.bucket, self._user(call), held_s, error, _where(held_s)))
        self._recorder.relieve()

    def _user(self, call: Call) -> str:
        return call.labels["user"] if self._user_on_metrics else ""

    def measured(self, locking_s: float, transaction_s: float) -> None:
        """See `Listener`."""
        self._recorder.note(Measured(locking_s, transaction_s))

    def on_events(self, events: Sequence[Event]) -> None:
        """See `Observer`: what was taken back from others is counted by whoever took it back."""
        for event in events:
            if event.kind in _TAKEN_BACK:
                self._recorder.note(Reclaimed(event.bucket))
                self._spans.reclaimed(event.bucket)

    def end(self) -> None:
        """From now on this process holds and waits for nothing: it ends."""
        self._recorder.end()

    def after_fork(self) -> None:
        """In a forked child: what the parent recorded is the parent's."""
        forks.forget(self._meter_provider or metrics.get_meter_provider(), names.SCOPE)
        self._recorder.after_fork()
        self._spans.after_fork()


def _where(seconds: float) -> Context:
    """The context for exemplars; what took next to no time is no example of anything, and exemplars cost."""
    return context.get_current() if seconds >= _EXEMPLARY_S else NOWHERE


def limit_kind(call: Call) -> str:
    """What made a call wait."""
    return names.LIMIT_KINDS[call.seen.waits_for] if call.seen else names.LIMIT_KINDS["none"]


def result_of(error: BaseException) -> str:
    """How a call ended that got no slot."""
    if isinstance(error, SlotTimeout):
        return names.TIMEOUT
    # asyncio's CancelledError is no Exception, like Ctrl-C, exit, and the end of a coroutine that nobody awaits any more.
    return names.ERROR if isinstance(error, Exception) else names.CANCELED


def end_all() -> None:
    """This process ends."""
    for observer in list(_observers):
        observer.end()


def _after_fork() -> None:
    for observer in list(_observers):
        observer.after_fork()


_observers: weakref.WeakSet[OTelObserver] = weakref.WeakSet()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
