"""llm-sched: one machine-wide pace for every live LLM call."""

import importlib
from typing import TYPE_CHECKING, Any

from llm_sched.config import Policy
from llm_sched.default import install, llm_slot
from llm_sched.errors import ConfigError, LedgerError, SchedulerError, SlotTimeout
from llm_sched.scheduler import Scheduler, Slot
from llm_sched.snapshot import Snapshot, read_snapshot
from llm_sched.version import __version__

if TYPE_CHECKING:
    from llm_sched.pipeline.middleware import LlmSchedulerMiddleware

__all__ = [
    "ConfigError",
    "LedgerError",
    "LlmSchedulerMiddleware",
    "Policy",
    "Scheduler",
    "SchedulerError",
    "Slot",
    "SlotTimeout",
    "Snapshot",
    "__version__",
    "install",
    "llm_slot",
    "read_snapshot",
]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    """Load the pipeline's public name when it is asked for, and not before."""
    if name == "LlmSchedulerMiddleware":
        return importlib.import_module("llm_sched.pipeline.middleware").LlmSchedulerMiddleware
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
