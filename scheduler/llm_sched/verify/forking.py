"""Calls of a thread that forks while it holds: the child holds nothing of its parent, and may take its own."""

# Law: the child lives for one call at most, and ends by `os._exit` or by SIGKILL; nothing of its parent's runs in it.

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

from llm_sched.demo.lifeline import exit_with_parent

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from random import Random

    from llm_sched.scheduler import Slot
    from llm_sched.verify.caller import Caller
    from llm_sched.verify.plan import BucketPlan

_SHARE = 0.015
_DIES, _ONLY_RELEASES = 0.25, 0.25


class Forking:
    """Makes calls, and forks in some of them.

    Args:
        caller: makes them.
        connection: the lifeline of this process; its children hang on it as well.
    """

    def __init__(self, caller: Caller, connection: Connection[Any, Any]) -> None:
        self._caller = caller
        self._connection = connection

    def call(self, bucket: BucketPlan, random: Random) -> None:
        """Make one call."""
        if random.random() >= _SHARE:
            self._caller.call(bucket, random)
            return
        pids: list[int] = []

        def fork(slot: Slot) -> None:
            self._caller.journal.note("forked")
            pid = os.fork()
            if not pid:
                self._be_child(slot, bucket, random)
            pids.append(pid)

        self._caller.call(bucket, random, fork)
        for pid in pids:
            os.waitpid(pid, 0)

    def _be_child(self, inherited: Slot, bucket: BucketPlan, random: Random) -> None:
        try:
            self._caller.journal = self._caller.journal.of_child()
            exit_with_parent(self._connection, lambda _message: None)
            inherited.release()  # its parent's, so this must do nothing; the witness sees whether it does
            fate = random.random()
            if fate >= _ONLY_RELEASES:
                self._caller.call(bucket, random, self._die if fate < _ONLY_RELEASES + _DIES else None)
                self._caller.close()
        except BaseException as error:  # noqa: BLE001 - it must not go on as if it were its parent
            self._caller.journal.note("failed", text=f"forked child: {type(error).__name__}: {error}")
        finally:
            os._exit(0)

    def _die(self, _slot: Slot) -> None:
        self._caller.journal.note("dying")
        os.kill(os.getpid(), signal.SIGKILL)
