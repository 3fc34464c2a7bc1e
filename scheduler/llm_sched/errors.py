"""The one family of errors: what happened, to which bucket or file, and what the reader can do.

Every error keeps its facts as attributes and survives pickling: `BaseException` restores
`args` (the message) and `__dict__` (the facts), so all facts are optional keywords.
"""

from __future__ import annotations


class SchedulerError(Exception):
    """Root of every error that llm-sched raises on purpose."""


class ConfigError(SchedulerError, ValueError):
    """A knob has a value that makes no sense, or a name that nobody knows.

    Attributes:
        knob: the knob's name as the user wrote it.
        value: `repr` of the offending value.
        source: where it came from, e.g. `environment variable MAS_LLM_RPM`.
    """

    def __init__(self, message: str, *, knob: str = "", value: str = "", source: str = "") -> None:
        super().__init__(message)
        self.knob = knob
        self.value = value
        self.source = source


class LedgerError(SchedulerError):
    """The ledger's file cannot be used: unwritable, full disk, newer schema, somebody else's JSON.

    Attributes:
        path: the file that the error is about.
    """

    def __init__(self, message: str, *, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class SlotTimeout(SchedulerError, TimeoutError):  # noqa: N818 - public name, promised in the docs
    """No slot came within `timeout_s`; nothing was spent.

    Attributes:
        bucket: name of the bucket, e.g. `openai/gpt-4o`.
        waited_s: seconds waited.
        in_flight: slots held in the bucket when the wait ended.
        limit: the cap in force then; 0 = no cap.
        ahead: tickets that were still ahead in the queue.
    """

    def __init__(
        self,
        message: str,
        *,
        bucket: str = "",
        waited_s: float = 0.0,
        in_flight: int = 0,
        limit: int = 0,
        ahead: int = 0,
    ) -> None:
        super().__init__(message)
        self.bucket = bucket
        self.waited_s = waited_s
        self.in_flight = in_flight
        self.limit = limit
        self.ahead = ahead
