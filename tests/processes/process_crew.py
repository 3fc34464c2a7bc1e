"""The parent's side: starts children, talks to them, and leaves none behind.

The law: only children that were started here are signalled, and only until they are reaped: afterwards their number may be
somebody else's. What they started goes with their process group, while they themselves are still zombies. Nothing waits
without a deadline.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from process_witness import Witness

PATIENCE_S = 60.0
"""A generous deadline: passing it means "never", not "slow"."""

_POLL_S = 0.005
_SCRIPT = Path(__file__).with_name("process_child.py")


def until(condition: Callable[[], bool], what: str, within: float = PATIENCE_S) -> None:
    """Wait for a condition that nobody announces."""
    deadline = time.monotonic() + within
    while not condition():
        assert time.monotonic() < deadline, f"not within {within:g} s: {what}"
        time.sleep(_POLL_S)


class Child:
    """One child process.

    Args:
        arguments: its command line.
        errors: file that takes what it writes to stderr.
        row: its row in the witness.

    Attributes:
        may_complain: whether tracebacks on stderr are to be expected.
    """

    def __init__(self, arguments: Sequence[str], errors: Path, row: int) -> None:
        self.row = row
        self.errors = errors
        self.may_complain = False
        with errors.open("wb") as stderr:
            self.process = subprocess.Popen(
                arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr, start_new_session=True
            )
        self._heard: deque[dict[str, Any]] = deque()
        self._buffer = b""

    @property
    def pid(self) -> int:
        """Its process id."""
        return self.process.pid

    def tell(self, **order: object) -> None:
        """Send an order."""
        assert self.process.stdin
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        self.process.stdin.flush()

    def hear(self, name: str, within: float = PATIENCE_S) -> dict[str, Any]:
        """Wait for the next fact of that name; others are kept."""
        deadline = time.monotonic() + within
        while True:
            for fact in self._heard:
                if fact.get("name") == name:
                    self._heard.remove(fact)
                    return fact
            assert self._listen(deadline - time.monotonic()), f"{name!r} not heard within {within:g} s: {self.story()}"

    def heard(self, name: str) -> bool:
        """Whether such a fact has come; does not wait."""
        while self._listen(0):
            pass
        return any(fact.get("name") == name for fact in self._heard)

    def _listen(self, seconds: float) -> bool:
        assert self.process.stdout
        fd = self.process.stdout.fileno()
        if not select.select([fd], [], [], max(0.0, seconds))[0]:
            return False
        data = os.read(fd, 65536)
        *lines, self._buffer = (self._buffer + data).split(b"\n")
        self._heard.extend(json.loads(line) for line in lines)
        return bool(data)

    def ask(self, name: str, within: float = PATIENCE_S, **order: object) -> dict[str, Any]:
        """Send an order and wait for its answer."""
        self.tell(name=name, **order)
        return self.hear(name, within)

    def signal(self, number: int) -> None:
        """Send a signal to this process alone."""
        self.process.send_signal(number)

    def kill(self, witness: Witness | None = None, *, reap: bool = True) -> None:
        """Kill it with SIGKILL, and, with `reap`, whatever it started; without, it stays a zombie and those live on."""
        assert self.process.returncode is None
        if witness:
            with witness.doomed(self.row):
                os.kill(self.pid, signal.SIGKILL)
        else:
            os.kill(self.pid, signal.SIGKILL)
        until(self._is_dead, f"{self.pid} is dead")
        if reap:
            self._reap()

    def _is_dead(self) -> bool:
        """Whether it has ended; it stays a zombie, so that its number remains its own."""
        return os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is not None

    def _reap(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # nobody is left in its group but a zombie
            os.killpg(self.pid, signal.SIGKILL)
        self.process.wait(PATIENCE_S)

    def end(self, within: float = PATIENCE_S) -> None:
        """Close its orders and wait for its good end."""
        assert self.process.stdin
        self.process.stdin.close()
        if self.process.returncode is None:
            until(self._is_dead, f"{self.pid} ends by itself: {self.story()}", within)
            self._reap()
        code = self.process.returncode
        assert code == 0, f"exit code {code}: {self.story()}"

    def story(self) -> str:
        """What it wrote to stderr, for messages."""
        return self.errors.read_text(errors="replace")[-4000:]

    def clear_away(self) -> None:
        """Kill whatever is left of it and of its children."""
        if self.process.returncode is None:
            self._reap()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


class Crew:
    """All children of one test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.children: list[Child] = []

    def start(self, module: str, function: str, *, through: Sequence[str] = (), **arguments: object) -> Child:
        """Start a body; `through` is a command that starts it, e.g. `unshare`."""
        row = len(self.children)
        command = [*through, sys.executable, str(_SCRIPT), module, function, json.dumps({**arguments}, default=str)]
        child = Child(command, self._folder / f"child-{row}.err", row)
        self.children.append(child)
        return child

    def puppet(self, state: Path, *, through: Sequence[str] = (), **policy: object) -> Child:
        """Start a child that acquires and releases when told; ready to hear when this returns."""
        child = self.start("process_puppet", "serve", through=through, state=state, **policy)
        child.hear("ready")
        return child

    def storm(self, state: Path, witness: Path, **arguments: object) -> Child:
        """Start a child that takes and gives back slots all the time; it is at work when this returns."""
        row = len(self.children)
        facts: dict[str, Any] = {"state": state, "witness": witness, "row": row, **arguments}
        child = self.start("process_storm", "work", **facts)
        child.hear("working")
        return child

    def clear_away(self) -> None:
        """Kill and reap every child that is left; none may have died of an error of its own on the way."""
        for child in self.children:
            child.clear_away()
        for child in self.children:
            assert child.may_complain or "Traceback" not in child.story(), child.story()
