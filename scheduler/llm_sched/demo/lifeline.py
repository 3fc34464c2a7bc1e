"""Child processes that never outlive their parent."""

# Law: start a process, talk with it over one pipe, and end it. It may not know what the child does.
# The pipe is the lifeline: the kernel closes the parent's end however the parent goes (also by kill -9),
# and a child that reads the end of the pipe exits at once. So nobody has to be killed by name, and
# children ignore Ctrl-C: the parent decides.

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from multiprocessing.connection import Connection

STOP_GRACE_S = 2.0
"""How long a child may take to notice that its lifeline is gone before it is killed."""


class Child:
    """A started process, seen from its parent."""

    def __init__(self, target: Callable[..., None], *args: object, name: str) -> None:
        """Start `target(connection, *args)` in a fresh interpreter; it must be importable and `args` pickle."""
        context = multiprocessing.get_context("spawn")
        self._mine, theirs = context.Pipe()
        self._process = context.Process(target=target, args=(theirs, *args), name=name, daemon=True)
        with theirs, children_ignore_interrupts():
            self._process.start()

    @property
    def connection(self) -> Connection[Any, Any]:
        """The parent's end of the pipe; reading it raises EOFError once the child is gone."""
        return self._mine

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid or 0

    def exit_code(self) -> int | None:
        """How the child ended (negative: by that signal), after waiting for it a little; None: it hasn't."""
        self._process.join(STOP_GRACE_S)
        return self._process.exitcode

    def stop(self) -> None:
        """End the child, and return when it is gone. For a child that has ended, only tidy up."""
        self._mine.close()
        self._process.join(STOP_GRACE_S)
        if self._process.exitcode is None:
            self._process.kill()
            self._process.join()


def exit_with_parent(connection: Connection[Any, Any], on_message: Callable[[object], None]) -> None:
    """In a child: hand over what the parent sends, and exit the process when the parent is gone.

    Reads `connection` in a thread of its own from now on; writing to it stays free for other threads.
    """

    def listen() -> None:
        with contextlib.suppress(EOFError, OSError):
            while True:
                on_message(connection.recv())
        os._exit(0)  # not sys.exit: threads that wait for a slot or an answer must not delay it

    threading.Thread(target=listen, name="lifeline", daemon=True).start()


@contextlib.contextmanager
def children_ignore_interrupts() -> Generator[None]:
    """Start processes that are deaf to Ctrl-C."""
    # An ignored signal stays ignored across exec, so the child is deaf to Ctrl-C from its first instant, and
    # doesn't print a traceback when it comes while the child still imports. Only the main thread may do this.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
