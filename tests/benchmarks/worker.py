"""A worker process: obeys the commands that come over its pipe until the pipe closes.

Started as ``python -m tests.benchmarks.worker DESCRIPTOR`` by `fleet.py`; not for people.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from tests.benchmarks.commands import Session

if TYPE_CHECKING:
    from tests.benchmarks.commands import Command

_STACK_BYTES = 256 * 1024
"""Enough for every peer, and small enough for hundreds of threads in each of many processes."""


def main() -> None:
    """Obey until the measuring process closes the pipe or has gone, then end at once, waiting threads and all."""
    threading.stack_size(_STACK_BYTES)
    pipe: Connection[tuple[bool, Any], Command[Any]] = Connection(int(sys.argv[1]))
    session = Session()
    try:
        while True:
            pipe.send(_obey(session, pipe.recv()))
    except (EOFError, OSError, KeyboardInterrupt):
        # Not sys.exit: daemon threads may sit in a peer's C code, which an orderly exit can wait for.
        os._exit(0)


def _obey(session: Session, command: Command[Any]) -> tuple[bool, Any]:
    try:
        return True, command.run(session)
    except Exception:  # noqa: BLE001 - it is raised again where the command came from
        return False, traceback.format_exc()


if __name__ == "__main__":
    main()
