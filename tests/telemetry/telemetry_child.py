"""Runs one function of a module of bodies in a process of its own: `telemetry_child.py FUNCTION JSON`."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path


def main() -> None:
    """Run it."""
    sys.path.insert(0, str(Path(__file__).parent))
    body = getattr(importlib.import_module("telemetry_bodies"), sys.argv[1])
    body(**json.loads(sys.argv[2]))


if __name__ == "__main__":
    main()
