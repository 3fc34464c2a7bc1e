"""What the demo's processes tell each other: frozen values, nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Style = Literal["threads", "asyncio"]


@dataclass(frozen=True, slots=True)
class Target:
    """Whom to call: the provider's label and model name the bucket, `is_stub` says that it is our own."""

    base_url: str
    provider: str
    model: str
    is_stub: bool


@dataclass(frozen=True, slots=True)
class Pace:
    """The policy the workers install: requests at once, requests per minute (0 = off), and where the ledger is."""

    max_in_flight: int
    requests_per_minute: float
    state_path: Path


@dataclass(frozen=True, slots=True)
class Task:
    """What one worker does: `calls` calls from `lanes` threads or tasks. `pace` None: unscheduled."""

    worker: str
    style: Style
    calls: int
    lanes: int
    target: Target
    pace: Pace | None


@dataclass(frozen=True, slots=True)
class Ready:
    """A worker has loaded everything and waits for `Go`."""

    worker: str


@dataclass(frozen=True, slots=True)
class Go:
    """The parent's word to begin, so that no worker begins while others still load."""


@dataclass(frozen=True, slots=True)
class Failure:
    """Why something failed: `kind` is short and countable, `detail` one line for a human."""

    kind: str
    detail: str


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call. Times are seconds of CLOCK_MONOTONIC, which is one clock for all processes of a boot.

    `asked_s` before the slot was asked for, `granted_s` when it was there (None: never), `ended_s` when the answer
    had arrived completely and the slot was still held. `waited_s` is the slot's own figure.
    """

    worker: str
    asked_s: float
    granted_s: float | None
    ended_s: float
    waited_s: float
    bucket: str
    failure: Failure | None


@dataclass(frozen=True, slots=True)
class Finished:
    """A worker is done. `failure` says why it gave up before all its calls were made."""

    worker: str
    failure: Failure | None = None
