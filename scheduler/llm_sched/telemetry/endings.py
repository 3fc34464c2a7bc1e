"""A process that ends sends what it has recorded: at exit, as a child of multiprocessing, and on SIGTERM.

The law: every wait is bounded, nothing raises, and how the process ends does not change. Nobody can help `kill -9`.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import threading
import time
from functools import partial
from multiprocessing import process, util
from typing import TYPE_CHECKING, Any, Protocol

from opentelemetry import metrics, trace

from llm_sched.telemetry.otel import end_all

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import FrameType

_PATIENCE_S = 5.0
_TERMINATED_PATIENCE_S = 3.0
"""Supervisors send SIGKILL some ten seconds after SIGTERM."""


class Flushable(Protocol):
    """What has something to send."""

    def flush(self, timeout_s: float) -> bool:
        """Send it, within `timeout_s`."""
        ...

    def shutdown(self, timeout_s: float) -> bool:
        """Send it and stop, within `timeout_s`."""
        ...

    def after_fork(self) -> None:
        """In a forked child."""
        ...


_all: list[Flushable] = []
_hooked: list[int] = []


def bounded(jobs: Sequence[Callable[[], object]], timeout_s: float) -> bool:
    """Run jobs at the same time, wait for them for at most `timeout_s` seconds, and say whether all succeeded."""
    done: list[bool] = []

    def work(job: Callable[[], object]) -> None:
        with contextlib.suppress(Exception):
            job()
            done.append(True)

    threads = [threading.Thread(target=work, args=(job,), name="llm-sched-flush", daemon=True) for job in jobs]
    deadline = time.monotonic() + timeout_s
    try:
        for thread in threads:
            thread.start()
    except RuntimeError:  # the interpreter is ending: no more threads
        return False
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return len(done) == len(jobs)


def at_every_end(target: Flushable) -> None:
    """Have `target` shut down when this process ends."""
    _all.append(target)
    if not _hooked:
        _hooked.append(os.getpid())
        atexit.register(_at_exit)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=_after_fork)
        _on_sigterm()


def at_children_s_ends() -> None:
    """Have the global providers flushed when a child of multiprocessing ends, this one or a later: it runs no exit handlers."""
    util.register_after_fork(_flush_all, _finalize)  # remembered weakly, so it is given something that lasts
    if process.parent_process() is not None:
        _finalize(_flush_all)


def _finalize(job: Callable[[], None]) -> None:
    util.Finalize(None, job, exitpriority=-1)  # after the schedulers have given everything back


def _flush_all() -> None:
    end_all()
    if _all:
        for target in _all:
            target.flush(_PATIENCE_S)
        return
    providers: tuple[Any, ...] = (trace.get_tracer_provider(), metrics.get_meter_provider())  # the program's
    bounded([each.force_flush for each in providers if hasattr(each, "force_flush")], _PATIENCE_S)  # the API's have none


def _at_exit() -> None:
    end_all()
    for target in _all:
        target.shutdown(_PATIENCE_S)


def _after_fork() -> None:
    for target in _all:
        target.after_fork()


def _on_sigterm() -> None:
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminated)


def _terminated(number: int, _frame: FrameType | None) -> None:
    """Send all, in other threads since this one may have any lock, and then end as one does without a handler."""
    end_all()
    bounded([partial(target.flush, _TERMINATED_PATIENCE_S) for target in _all], _TERMINATED_PATIENCE_S)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
