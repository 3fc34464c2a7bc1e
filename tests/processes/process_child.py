"""The child's side: `python process_child.py MODULE FUNCTION ARGUMENTS` runs one body of these tests.

It tells its parent facts as lines of JSON and hears orders the same way.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
from typing import Any

_speaking = threading.Lock()


def say(**facts: object) -> None:
    """Tell the parent; one line, never torn, from any thread, and in forked children as well."""
    line = json.dumps(facts).encode() + b"\n"
    with _speaking:
        os.write(1, line)


def hear() -> dict[str, Any] | None:
    """Wait for the parent's next order; None when it sends no more."""
    line = sys.stdin.readline()
    return json.loads(line) if line else None


def main() -> None:
    """Run a body."""
    module, function, arguments = sys.argv[1:]
    # Without its own name's module: forked and spawned grandchildren must find the same one.
    body = getattr(importlib.import_module(module), function)
    body(**json.loads(arguments))


if __name__ == "__main__":
    main()
