"""The watch's end, and what it leaves behind: nothing."""

from __future__ import annotations

import _thread
import threading
from typing import TYPE_CHECKING

from unit_support import PATIENCE_S, Caller

if TYPE_CHECKING:
    from unit_support import Stage


def test_closing_in_a_thread_that_threading_does_not_know_leaves_no_trace(stage: Stage) -> None:
    """As the cleanup's thread is, which closes what nobody uses any more: one dummy each time would pile up."""
    scheduler = stage.scheduler(max_in_flight=1)
    slot = scheduler.acquire()
    caller = Caller(scheduler)
    stage.until_waiting(1)
    slot.release()
    caller.ended().release()
    before = set(threading.enumerate())
    assert any(thread.name == "llm-sched-watch" for thread in before)
    done = threading.Event()

    def close() -> None:
        scheduler.close()
        done.set()

    _thread.start_new_thread(close, ())
    assert done.wait(PATIENCE_S)
    assert set(threading.enumerate()) <= before
