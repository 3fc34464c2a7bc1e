"""What cannot be done at once is done later, whatever was in the way."""

from __future__ import annotations

import _thread
import threading
from typing import TYPE_CHECKING

import pytest
from unit_support import until

from llm_sched import cleanup
from llm_sched.cleanup import Cleanup
from llm_sched.store import BusyError

if TYPE_CHECKING:
    from unit_support import Stage


class Work:
    """Jobs that write down that they were done.

    Attributes:
        done: names of those that were.
    """

    def __init__(self) -> None:
        self.done: list[str] = []

    def job(self, name: str) -> cleanup.Job:
        """A job that cannot be done without waiting."""

        def work(deadline: float | None) -> None:
            if threading.current_thread() is threading.main_thread() and name.startswith("busy"):
                raise BusyError
            assert deadline
            self.done.append(name)

        return work


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """No thread can be started until this is undone."""

    def refuse(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(_thread, "start_new_thread", refuse)
    return monkeypatch


def test_what_found_no_thread_is_done_with_the_next_job(full: pytest.MonkeyPatch) -> None:
    """Too many threads for a moment: nothing is lost, and nothing raises."""
    helper, work = Cleanup(), Work()
    helper.later(work.job("first"))
    full.undo()
    helper.later(work.job("second"))
    until(lambda: work.done == ["first", "second"])


def test_what_found_no_thread_is_done_as_soon_as_anything_is_run(full: pytest.MonkeyPatch) -> None:
    """Also a job that itself needs no helper sees to the earlier ones."""
    helper, work = Cleanup(), Work()
    helper.run(work.job("busy"))
    full.undo()
    helper.run(work.job("easy"))
    until(lambda: sorted(work.done) == ["busy", "easy"])


def test_a_release_that_found_no_thread_is_done_by_the_next_call(full: pytest.MonkeyPatch, stage: Stage) -> None:
    """A process that only asks for slots gets back what it could not give back."""
    scheduler = stage.scheduler(max_in_flight=1)
    slot = scheduler.acquire()
    with full.context() as patch:
        patch.setattr(stage.store, "transact", _busy)
        slot.release()
    assert stage.held() == 1
    full.undo()
    scheduler.acquire(timeout_s=30).release()
    assert stage.held() == 0


def _busy(*_: object, **_options: object) -> None:
    raise BusyError
