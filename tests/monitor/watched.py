"""The monitor as a process on a terminal of its own: what it prints, and what it costs."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
import time
from pathlib import Path
from typing import Self

_TICKS = os.sysconf("SC_CLK_TCK")


class WatchedMonitor:
    """`llm-sched-tui` on a pseudo-terminal, as a context manager; it is gone afterwards.

    Args:
        arguments: its command line.
        size: columns and lines of the terminal.
    """

    def __init__(self, *arguments: str, size: tuple[int, int] = (160, 48)) -> None:
        self._arguments = arguments
        self._size = size
        self._seen = bytearray()
        self._news = threading.Condition()

    def __enter__(self) -> Self:
        """Start it."""
        self._fd, terminal = pty.openpty()
        columns, lines = self._size
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        self.begun = time.monotonic()
        command = [sys.executable, "-m", "llm_sched_tui", *self._arguments]
        self._process = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, env=environment)
        os.close(terminal)
        self._thread = threading.Thread(target=self._drain)
        self._thread.start()
        return self

    def _drain(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self._fd, 65536):
                with self._news:
                    self._seen += data
                    del self._seen[:-1_000_000]
                    self._news.notify_all()

    def wait_for(self, text: str, within_s: float = 30.0) -> float:
        """Wait until it has printed something; return the seconds since its start."""
        wanted = text.encode()
        with self._news:
            if not self._news.wait_for(lambda: wanted in self._seen, within_s):
                message = f"{text!r} was not shown within {within_s:g} s"
                raise TimeoutError(message)
        return time.monotonic() - self.begun

    def press(self, keys: str) -> None:
        """Type something."""
        os.write(self._fd, keys.encode())

    def cpu_s(self) -> float:
        """Seconds of processor time that it has used so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS

    def memory_mb(self) -> float:
        """Resident memory now."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024

    def load(self, seconds: float) -> float:
        """Share of one core that it uses over some seconds, in percent."""
        cpu, begun = self.cpu_s(), time.monotonic()
        time.sleep(seconds)
        return (self.cpu_s() - cpu) / (time.monotonic() - begun) * 100

    def __exit__(self, *_error: object) -> None:
        """End it."""
        with contextlib.suppress(OSError):
            os.write(self._fd, b"q")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join()
        os.close(self._fd)
