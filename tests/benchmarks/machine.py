"""One line about the machine that the figures come from."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.benchmarks.peers.base import Backend

_MOUNTS = Path("/proc/self/mounts")


def describe(folder: Path, backends: Iterable[Backend]) -> str:
    """Return cores, system, Python, the file system below `folder`, and the peers' versions."""
    versions = [known for known in map(_version, backends) if known]
    system = f"{platform.system()} {platform.release()}"
    parts = [f"{_cores()} cores", system, f"Python {platform.python_version()}", _file_system(folder), *versions]
    return ", ".join(parts)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _version(backend: Backend) -> str | None:
    if backend.version_of is None:
        return None
    try:
        return f"{backend.version_of} {version(backend.version_of)}"
    except PackageNotFoundError:
        return None


def _file_system(folder: Path) -> str:
    if not _MOUNTS.exists():
        return "unknown file system"
    wanted = folder.resolve()
    mounts = [line.split(" ")[1:3] for line in _MOUNTS.read_text(encoding="utf-8").splitlines()]
    above = [(Path(point), kind) for point, kind in mounts if wanted.is_relative_to(point)]
    # The last of equally deep mounts is the one on top.
    return max(enumerate(above), key=lambda found: (len(found[1][0].parts), found[0]))[1][1]
