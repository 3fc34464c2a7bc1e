"""A real terminal emulator: tmux, with a server of its own that ends with the test."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Self

from tui_support import PATIENCE_S

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

TMUX = shutil.which("tmux")
REASON = "needs tmux, a terminal emulator without a screen (Debian: apt-get install tmux)"


class Terminal:
    """One command in a terminal, as a context manager.

    Args:
        folder: for the server's socket and the exit code.
        command: what to run.
        size: columns and lines.
        environment: more variables.
    """

    def __init__(self, folder: Path, command: list[str], size: tuple[int, int] = (120, 36), **environment: str) -> None:
        self._socket = folder / "tmux"
        self._code = folder / "code"
        self._command = command
        self._size = size
        self._environment = {"PYTHONPATH": os.pathsep.join(sys.path), "COLORTERM": "truecolor", **environment}

    def _tmux(self, *arguments: str) -> str:
        command = [TMUX or "tmux", "-S", str(self._socket), "-f", "/dev/null", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    def __enter__(self) -> Self:
        """Start it; the shell around it remembers how it ended and stays, so that its last screen can be read."""
        known = " ".join(f"{name}={shlex.quote(value)}" for name, value in self._environment.items())
        # Somebody above may have told the size of another terminal.
        line = f"env -u COLUMNS -u LINES {known} {shlex.join(self._command)}; echo $? >{shlex.quote(str(self._code))}; exec cat"
        columns, lines = self._size
        self._tmux("new-session", "-d", "-s", "t", "-x", str(columns), "-y", str(lines), line)
        return self

    def __exit__(self, *_error: object) -> None:
        """End it: closing the terminal hangs up whatever runs in it."""
        with contextlib.suppress(subprocess.CalledProcessError):
            self._tmux("kill-server")

    def text(self) -> str:
        """What stands on the screen."""
        return self._tmux("capture-pane", "-p", "-t", "t")

    def press(self, *keys: str) -> None:
        """Type keys by their names in tmux, e.g. `Enter`, `C-c`, `q`."""
        self._tmux("send-keys", "-t", "t", *keys)

    def until(self, condition: Callable[[str], bool], what: str) -> str:
        """Wait until the screen is as it should be, and return it."""
        deadline = time.monotonic() + PATIENCE_S
        while not condition(text := self.text()):
            assert time.monotonic() < deadline, f"never: {what}\n{text}"
            time.sleep(0.02)
        return text

    def shows(self, *texts: str) -> str:
        """Wait until all of these stand on the screen, and return it."""
        return self.until(lambda screen: all(text in screen for text in texts), f"shows {texts}")

    def code(self) -> int:
        """How the command ended, once it has."""
        deadline = time.monotonic() + PATIENCE_S
        while not (self._code.exists() and self._code.read_text().strip()):
            assert time.monotonic() < deadline, f"it did not end\n{self.text()}"
            time.sleep(0.02)
        return int(self._code.read_text())
