"""llm-sched: one machine-wide pace for every live LLM call."""

from llm_sched.config import Policy
from llm_sched.default import install, llm_slot
from llm_sched.errors import ConfigError, LedgerError, SchedulerError, SlotTimeout
from llm_sched.scheduler import Scheduler, Slot
from llm_sched.snapshot import Snapshot, read_snapshot
from llm_sched.version import __version__

__all__ = [
    "ConfigError",
    "LedgerError",
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
