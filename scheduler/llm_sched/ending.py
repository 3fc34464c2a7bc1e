"""Once the process ends, daemon threads that still run get no new slots: they rest until the interpreter stops them."""

from __future__ import annotations

import threading

from llm_sched.errors import SchedulerError

_ending = threading.Event()


def begin() -> None:
    """From now on nobody gets a slot."""
    _ending.set()


def undo() -> None:
    """In a forked child, whose life begins."""
    _ending.clear()


def rest_if_ending() -> None:
    """Once the process ends, stay here for ever; an error in a daemon thread would only be noise at exit.

    Raises:
        SchedulerError: the main thread, in an exit handler, wants a slot.
    """
    if _ending.is_set():
        if threading.current_thread() is threading.main_thread():
            raise SchedulerError("the process is ending; there are no new slots")
        threading.Event().wait()
