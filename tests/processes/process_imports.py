"""Body of a child that looks what an import does; it imports llm_sched itself, under observation."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from process_child import say


def look(state: str) -> None:
    """Import, make a scheduler, and tell which modules were loaded and which files opened besides modules' own."""
    before = set(sys.modules)
    opened: list[str] = []
    others: list[str] = []

    def listen(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open" and not str(arguments[0]).endswith((".py", ".pyc", ".so", "py.typed", "/mountinfo")):
            opened.append(str(arguments[0]))
        elif event in {"socket.__new__", "_thread.start_new_thread", "os.fork", "subprocess.Popen", "os.mkdir"}:
            others.append(event)

    sys.addaudithook(listen)
    from llm_sched import Policy, Scheduler  # noqa: PLC0415 - this is what is observed

    Scheduler(Policy(state_path=state))
    say(
        name="imported",
        modules=sorted(set(sys.modules) - before),
        threads=threading.active_count(),
        descriptors=len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0,  # noqa: PTH112, PTH208
        opened=opened,
        forks=len(others),
    )
