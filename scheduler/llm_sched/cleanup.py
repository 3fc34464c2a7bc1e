"""What must not block or fail, done at once if possible and else by a helper thread until it is done.

The law: `release` and the withdrawal of an interrupted call never raise and never block an event loop. What cannot be written
now is tried again; at the very worst the kernel lock on the mailbox gives all back when the process ends.
"""

from __future__ import annotations

import _thread
import queue
import sys
import time
from typing import TYPE_CHECKING

from llm_sched.errors import LedgerError, SchedulerError
from llm_sched.store import BusyError

if TYPE_CHECKING:
    from collections.abc import Callable

    Job = Callable[[float | None], None]

_PATIENCE_S = 2.0
_LINGER_S = 1.0
_RETRY_FIRST_S = 0.001
_RETRY_LAST_S = 1.0


class Cleanup:
    """Runs transactions of calls that are over."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._running = False

    def run(self, job: Job) -> None:
        """Run it now, blocking for a moment only outside event loops; else leave it to the helper. Never raises.

        Args:
            job: a transaction; gets the `time.monotonic()` until which to try for the lock, None = try once.
        """
        self.catch_up()
        try:
            job(None if on_event_loop() else time.monotonic() + _PATIENCE_S)
        except (BusyError, LedgerError, OSError):
            self.later(job)
        except SchedulerError:  # closed: all has been given back
            return
        except BaseException:  # a second Ctrl-C
            self.later(job)
            raise

    def later(self, job: Job) -> None:
        """Leave it to the helper thread; safe in a finalizer, where this thread may hold any lock."""
        self._jobs.put(job)
        self.catch_up()

    def catch_up(self) -> None:
        """See that the helper runs if something is left to do: with too many threads it could not be started."""
        if self._running or self._jobs.empty():
            return
        self._running = True
        try:
            # Not `threading`, whose own locks the interrupted code may hold.
            _thread.start_new_thread(self._work, ())
        except RuntimeError:  # no thread just now: whoever comes next tries again; or the interpreter ends, and frees all
            self._running = False

    def _work(self) -> None:
        while True:
            try:
                job = self._jobs.get(timeout=_LINGER_S)
            except queue.Empty:
                self._running = False
                if self._jobs.empty():
                    return
                self._running = True
                continue
            self._insist(job)

    @staticmethod
    def _insist(job: Job) -> None:
        pause = _RETRY_FIRST_S
        while True:
            try:
                job(time.monotonic() + _PATIENCE_S)
            except (BusyError, LedgerError, OSError):
                time.sleep(pause)
                pause = min(pause * 2, _RETRY_LAST_S)
            except SchedulerError:  # closed: all has been given back
                return
            except Exception:
                import logging  # noqa: PLC0415 - rare, and slow to import

                logging.getLogger("llm_sched").exception("giving a slot back failed; it comes back when the process ends")
                return
            else:
                return

    def after_fork(self) -> None:
        """In a forked child: the parent's jobs are the parent's."""
        self._jobs = queue.SimpleQueue()
        self._running = False


def on_event_loop() -> bool:
    """Whether this thread runs an asyncio event loop, which must not be blocked."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return False
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
