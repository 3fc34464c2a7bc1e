"""The ledger in memory, for tests: one process, same contract, every state goes through the real codec."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from llm_sched import codec, host
from llm_sched.store import BusyError

if TYPE_CHECKING:
    from collections.abc import Callable

    from llm_sched.model import State
    from llm_sched.store import OutcomeT


class MemoryStore:
    """A ledger for the threads of one process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._document = codec.encode(codec.new_state(host.new_id(), host.boot_id(), host.machine_id()))

    def open(self) -> None:
        """See `Store`."""

    def transact(
        self,
        change: Callable[[State], OutcomeT],
        commit: Callable[[OutcomeT, int], None],
        deadline: float | None,
        *,
        yields: bool = False,  # noqa: ARG002 - nobody else is waiting long here
    ) -> OutcomeT:
        """See `Store`."""
        timeout = -1 if deadline is None else min(max(0.0, deadline - time.monotonic()), threading.TIMEOUT_MAX)
        if not self._lock.acquire(blocking=deadline is not None, timeout=timeout):
            raise BusyError
        try:
            state = codec.decode(self._document)
            answer = change(state)
            if answer.changed:
                state.seq += 1
                self._document = codec.encode(state)
            commit(answer, state.seq)
        finally:
            self._lock.release()
        return answer

    def read(self) -> State:
        """See `Store`."""
        return codec.decode(self._document)

    def intact(self) -> bool:
        """See `Store`."""
        return True

    def close(self) -> None:
        """See `Store`."""
