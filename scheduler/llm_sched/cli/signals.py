"""Commands that start processes end tidily whatever ends them."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Generator
from types import FrameType
from typing import NoReturn


@contextlib.contextmanager
def ended_by_signals() -> Generator[None]:
    """Let a closed terminal (SIGHUP) and a supervisor (SIGTERM) end the block as Ctrl-C does: tidied up."""
    # Signals can only be handled by the main thread.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    names = [name for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    before = {number: signal.getsignal(number) for number in (signal.Signals[name] for name in names)}
    try:
        for number, handler in before.items():
            if handler is signal.SIG_DFL:  # what the user has chosen to ignore (nohup) stays ignored
                signal.signal(number, _leave)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + number)
