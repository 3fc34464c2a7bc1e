"""The one thread that a process has while calls of it wait: it notices deaths at once, and all else within a second.

The law: asleep it costs nothing; once a second it looks, without the lock, whether anything needs repair. A pidfd only says
"look": whether somebody is dead is decided by the kernel lock on its mailbox. May not know what a repair does.
"""

from __future__ import annotations

import contextlib
import os
import random
import select
import threading
import time
from typing import TYPE_CHECKING

from llm_sched.errors import LedgerError
from llm_sched.mailroom import WATCH
from llm_sched.store import BusyError

if TYPE_CHECKING:
    from llm_sched.participant import Participant

TICK_S = 1.0
_REPAIR_PATIENCE_S = 2.0


class Watch:
    """Watches a ledger on behalf of one participant; started by the first call that waits."""

    def __init__(self, part: Participant) -> None:
        self._part = part
        self._thread: threading.Thread | None = None
        self._start_lock = threading.RLock()  # a signal handler may have to wait as well
        self._ended = threading.Event()
        self._wanted = threading.Event()
        self._pidfds: dict[str, int] = {}
        self._stopped = False

    def want(self) -> None:
        """Somebody waits: see that the thread runs."""
        if not self._wanted.is_set():
            self._wanted.set()
        if self._thread is None:
            with self._start_lock:
                if self._thread is None:
                    self._start()

    def _start(self) -> None:
        self._stopped = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(self._ended,), name="llm-sched-watch", daemon=True)
        try:
            self._thread.start()
        except BaseException:
            self._thread = None
            raise

    def stop(self) -> None:
        """Let the thread end, and wait for it: it reads from descriptors that the caller is about to close."""
        self._stopped = True
        self._wanted.set()
        thread = self._thread
        # Neither `current_thread` nor `join`: in the cleanup's thread each leaves a dummy in `threading` for ever.
        if thread and thread.ident != threading.get_ident():
            self._part.mailroom.nudge(self._part.owner_id)
            self._ended.wait(_REPAIR_PATIENCE_S)

    def _run(self, ended: threading.Event) -> None:
        try:
            while not self._stopped:
                if self._part.roll.has_waiters():
                    self._watch_once_safely()
                else:
                    self._part.watched = False
                    self._wanted.clear()
                    self._unwatch(())
                    # Somebody may have begun to wait between the two lines above.
                    if not self._part.roll.has_waiters():
                        self._wanted.wait()
        finally:
            self._part.watched = False
            self._unwatch(())
            ended.set()

    def _watch_once_safely(self) -> None:
        try:
            self._watch_once()
        except Exception:
            import logging  # noqa: PLC0415 - rare, and slow to import

            logging.getLogger("llm_sched").exception("the watch failed; it goes on")
            time.sleep(TICK_S)

    def _watch_once(self) -> None:
        if not self._watch_owners():
            self._sleep(TICK_S * random.uniform(0.9, 1.1))  # noqa: S311 - jitter
        with contextlib.suppress(BusyError, LedgerError, OSError):
            if not self._stopped and self._part.needs_repair():
                self._part.repair(time.monotonic() + _REPAIR_PATIENCE_S)

    def _watch_owners(self) -> bool:
        """Watch the owners that are not watched yet; True if one of them is gone before that."""
        owners = self._part.owners
        self._unwatch(owners)
        if not hasattr(os, "pidfd_open"):
            return False
        gone = False
        self._part.watched = True
        for owner in owners.difference(self._pidfds):
            pid = int(owner.partition("-")[0])
            if pid != self._part.pid:
                # An owner of another pid namespace has a number that means somebody else here, or nobody: no harm done.
                try:
                    self._pidfds[owner] = os.pidfd_open(pid)
                except ProcessLookupError:
                    self._pidfds[owner], gone = -1, True
                except OSError:
                    self._pidfds[owner] = -1
        return gone

    def _unwatch(self, keep: frozenset[str] | tuple[()]) -> None:
        for owner in [owner for owner in self._pidfds if owner not in keep]:
            fd = self._pidfds.pop(owner)
            if fd >= 0:
                os.close(fd)

    def _sleep(self, seconds: float) -> None:
        """Sleep until a watched process dies, a newcomer nudges, or the time is over."""
        if not hasattr(select, "poll"):
            time.sleep(seconds)
            return
        poll = select.poll()
        for fd in self._pidfds.values():
            if fd >= 0:
                poll.register(fd, select.POLLIN)
        nudges = -1
        with contextlib.suppress(OSError):  # somebody deletes the folder just now: newcomers are seen a second later
            nudges = self._part.mailroom.listen(WATCH)
        if nudges >= 0:
            poll.register(nudges, select.POLLIN)
        events = {fd for fd, _ in poll.poll(seconds * 1000)}
        if nudges in events:
            with contextlib.suppress(OSError):
                os.read(nudges, 4096)
        for owner in [owner for owner, fd in self._pidfds.items() if fd in events]:
            # Never again: if its mailbox says that it lives, this was somebody else's number. First struck off, then
            # closed: a fork may come between.
            fd, self._pidfds[owner] = self._pidfds[owner], -1
            os.close(fd)

    def after_fork(self) -> None:
        """In a forked child: the thread did not come along, its descriptors did."""
        self._unwatch(())
        self._thread = None
        self._start_lock = threading.RLock()
        self._wanted = threading.Event()
