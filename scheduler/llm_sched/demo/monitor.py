"""The demo's display on a terminal: the monitor, in a process of its own."""

# Law: a `Screen`. The monitor draws and hears the keys; a pipe is its lifeline, over which it is also told what to
# say. It ends when the pipe does; when the user ends it first, the plain display takes over.

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

from llm_sched.demo.lifeline import STOP_GRACE_S, children_ignore_interrupts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from types import TracebackType
    from typing import Self

    from llm_sched.demo.screen import Screen
    from llm_sched.demo.view import View

_INTERRUPTED = 128 + signal.SIGINT
_LEAVE = "\x1b[?1049l\x1b[?25h\x1b[?1000l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[0m"
"""Main screen, cursor, no mouse, no bracketed paste, no colour: for a monitor that had no time to tidy up."""


def can_open(environment: Mapping[str, str]) -> bool:
    """Whether there is a terminal that the monitor can draw on, and a monitor."""
    streams = (sys.stdin, sys.stdout, sys.stderr)
    on_terminal = all(stream.isatty() for stream in streams) and environment.get("TERM", "") not in {"", "dumb"}
    return os.name == "posix" and on_terminal and find_spec("llm_sched_tui") is not None


class MonitorScreen:
    """The monitor on the terminal, and after it whatever `after` is."""

    def __init__(self, state: Path, title: str, after: Screen) -> None:
        """Take the ledger to watch, what to say first, and the display for a user who ends the monitor early."""
        self._state = state
        self._title = title
        self._after = after
        self._exit = contextlib.ExitStack()
        self._process: subprocess.Popen[bytes] | None = None
        self._pipe = -1
        self._view: View | None = None

    def show(self, view: View) -> None:
        """See `Screen`.

        Raises:
            KeyboardInterrupt: the user pressed Ctrl-C in the monitor.
        """
        self._view = view
        if self._process is not None and self._process.poll() is not None:
            self._gone(self._process)
        if self._process is None:
            self._after.show(view)

    def _gone(self, process: subprocess.Popen[bytes]) -> None:
        self._process = None
        if process.returncode == _INTERRUPTED:
            raise KeyboardInterrupt
        self._exit.enter_context(self._after)

    def __enter__(self) -> Self:
        """Open the monitor."""
        with contextlib.ExitStack() as stack:
            stack.callback(_restored_terminal())
            reader, self._pipe = os.pipe()
            stack.callback(self._hang_up)
            options = ("--window", "1", "--lifeline", str(reader))
            command = [sys.executable, "-m", "llm_sched_tui", str(self._state), *options]
            try:
                with children_ignore_interrupts():
                    self._process = subprocess.Popen(command, pass_fds=(reader,))  # noqa: S603 - our own command
            finally:
                os.close(reader)
            self._say(self._title)
            self._exit = stack.pop_all()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Let the user look as long as they like, if all went well; then give the terminal back."""
        with self._exit:
            if kind is None and self._process is not None:
                self._say(_verdict(self._view))
                if self._process.wait() == _INTERRUPTED:
                    raise KeyboardInterrupt

    def _say(self, line: str) -> None:
        with contextlib.suppress(OSError):  # the monitor has gone; `show` finds out
            os.write(self._pipe, line.encode() + b"\n")

    def _hang_up(self) -> None:
        os.close(self._pipe)
        if self._process is None:
            return
        try:
            self._process.wait(STOP_GRACE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            sys.stdout.write(_LEAVE)
            sys.stdout.flush()


def _restored_terminal() -> Callable[[], None]:
    import termios  # noqa: PLC0415 - not on every platform

    attributes = termios.tcgetattr(sys.stdin)
    return lambda: termios.tcsetattr(sys.stdin, termios.TCSADRAIN, attributes)


def _verdict(view: View | None) -> str:
    if view is None:
        return "done: press q for the summary"
    peak = "" if view.provider is None else f", at most {view.provider.peak} at once (cap {view.cap})"
    failed = f", {view.failed} failed" if view.failed else ""
    return f"done: {view.done - view.failed} of {view.calls} calls answered{failed}{peak}. Press q for the summary"
