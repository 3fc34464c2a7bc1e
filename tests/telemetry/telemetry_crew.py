"""Child processes of a test, which are ended and reaped with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

PATIENCE_S = 60.0


class Child:
    """One child; see `telemetry_bodies`."""

    def __init__(self, body: str, options: dict[str, Any], environment: dict[str, str]) -> None:
        script = Path(__file__).with_name("telemetry_child.py")
        self._process = subprocess.Popen(
            [sys.executable, str(script), body, json.dumps(options)],
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def line(self) -> str:
        """The next line that it says."""
        assert self._process.stdout
        line = self._process.stdout.readline().strip()
        assert line, self._process.communicate(timeout=PATIENCE_S)
        return line

    def hear(self, word: str) -> None:
        """Wait until it says so."""
        assert self.line() == word

    def tell(self) -> None:
        """Let it go on."""
        assert self._process.stdin
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def send(self, number: signal.Signals) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    def end(self, code: int = 0) -> tuple[str, str]:
        """Wait for its end; its output and errors."""
        output, errors = self._process.communicate(timeout=PATIENCE_S)
        assert self._process.returncode == code, (self._process.returncode, output, errors)
        return output, errors

    def clear_away(self) -> None:
        """Whatever is left of it."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()


class Crew:
    """The children of a test.

    Args:
        folder: where ledger and provider are.
        environment: of all children.
    """

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder = folder
        self.environment = environment
        self._children: list[Child] = []

    def start(self, body: str, **options: Any) -> Child:
        """Start one."""
        child = Child(body, {"folder": str(self.folder), **options}, self.environment)
        self._children.append(child)
        return child

    def calls(self) -> int:
        """How many calls the provider has counted."""
        path = self.folder / "provider"
        return path.stat().st_size if path.exists() else 0

    def clear_away(self) -> None:
        """End and reap all."""
        for child in self._children:
            child.clear_away()
