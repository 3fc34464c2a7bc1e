"""A queue of waiters behind slots that are all held: what waiting costs, and what draining costs, start here."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.benchmarks.bench import CAP
from tests.benchmarks.commands import Hold, Queue
from tests.benchmarks.fleet import Fleet, Worker, WorkerError, shares

if TYPE_CHECKING:
    from tests.benchmarks.peers.base import Backend
    from tests.benchmarks.place import Place

_SETTLE_S = 0.5
_LONGEST_SETTLE_S = 30.0


def queue_up(fleet: Fleet, holder: Worker, backend: Backend, place: Place, waiters: int) -> list[int]:
    """Let `holder` take all slots and `waiters` threads of `fleet` queue up; return when the slots were granted.

    Returns when the peer itself counts that many waiters, or, with peers that cannot tell, half a second after all
    threads have called. `WorkerError` when they do not all get to wait within 30 s.
    """
    granted = holder.ask(Hold(CAP))
    fleet.ask_all([Queue(threads) for threads in shares(waiters, len(fleet.workers))])
    deadline = time.monotonic() + _LONGEST_SETTLE_S
    while (queued := backend.queued(place)) is not None and queued < waiters:
        if time.monotonic() > deadline:
            message = f"{queued} of {waiters} threads wait after {_LONGEST_SETTLE_S:.0f} s"
            raise WorkerError(message)
        time.sleep(0.05)
    time.sleep(_SETTLE_S)
    return granted
