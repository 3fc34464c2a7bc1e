"""Where a ledger may be: on a network file system each machine gets one of its own."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from llm_sched import host

if TYPE_CHECKING:
    from pathlib import Path


@cache
def local_path(path: Path) -> Path:
    """Return `path`, or on a network file system a sibling that only this machine uses, with a warning once.

    Locks, memory maps and the monotonic clock do not reach from one machine to another, so a shared file would lie.
    """
    kind = host.file_system(path)
    if kind not in host.NETWORK_FILE_SYSTEMS:
        return path
    own = path.with_name(f"{path.stem}.{host.machine_id()[:8]}{path.suffix}")
    import logging  # noqa: PLC0415 - rare, and slow to import

    logging.getLogger("llm_sched").warning(
        "%s is on a network file system (%s): this machine uses %s, and its slots are not shared with other machines. "
        "Set MAS_LLM_SCHEDULER_STATE to a local file",
        path,
        kind,
        own,
    )
    return own
