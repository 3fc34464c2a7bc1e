"""Child processes of a test: they run a function of `pipeline_bodies`, tell facts and hear orders as lines of JSON."""

from __future__ import annotations

import contextlib
import json
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PATIENCE_S = 60.0
"""Passing it means "never", not "slow"."""

_SCRIPT = Path(__file__).with_name("pipeline_bodies.py")


class Child:
    """One child."""

    def __init__(self, function: str, arguments: dict[str, object], errors: Path) -> None:
        self._errors = errors
        command = [sys.executable, str(_SCRIPT), function, json.dumps(arguments, default=str)]
        with errors.open("wb") as stderr:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)

    def hear(self) -> Any:
        """The next fact."""
        assert self.process.stdout
        deadline = time.monotonic() + PATIENCE_S
        ready, _, _ = select.select([self.process.stdout], [], [], max(0.0, deadline - time.monotonic()))
        assert ready, f"nothing heard: {self.story()}"
        line = self.process.stdout.readline()
        assert line, f"it has ended: {self.story()}"
        return json.loads(line)

    def go(self) -> None:
        """Tell it to go on."""
        assert self.process.stdin
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()

    def end(self) -> None:
        """Wait for its good end."""
        assert self.process.wait(PATIENCE_S) == 0, self.story()

    def kill(self) -> None:
        """Kill and reap it."""
        self.process.kill()
        self.process.wait(PATIENCE_S)

    def story(self) -> str:
        """What it wrote to stderr."""
        return self._errors.read_text(errors="replace")[-3000:]

    def clear_away(self) -> None:
        """Leave nothing of it."""
        if self.process.poll() is None:
            self.kill()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()


class Crew:
    """All children of a test."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._children: list[Child] = []

    def start(self, function: str, **arguments: object) -> Child:
        """Start one."""
        child = Child(function, arguments, self._folder / f"child-{len(self._children)}.err")
        self._children.append(child)
        return child

    def clear_away(self) -> None:
        """Kill and reap what is left."""
        for child in self._children:
            child.clear_away()
