"""From the options of the command to the tasks of the workers."""

# Law: pure. Who does what is decided here; nothing is started.

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from llm_sched.demo.messages import Pace, Style, Target, Task
from llm_sched.labels import provider_label

if TYPE_CHECKING:
    from pathlib import Path

LANES = 4
"""Concurrent calls of one worker, at least."""

PRESSURE = 2
"""Callers for each slot, at least: with fewer nobody would wait, and nothing could be seen."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the user asked for.

    `endpoint` None means the embedded stub, `latency_s` is the stub's, `state` None a temporary ledger,
    `scheduled` False calls without slots, `requests_per_minute` 0 no limit, `otlp` where the ledger is reported
    (empty: as the variables say; None: nowhere).
    """

    workers: int
    calls: int
    max_in_flight: int
    requests_per_minute: float
    latency_s: float
    scheduled: bool
    endpoint: Target | None
    stub_model: str
    state: Path | None
    otlp: str | None = None


def tasks(options: Options, target: Target, state_path: Path) -> tuple[Task, ...]:
    """The workers' tasks: every call belongs to exactly one, threads and asyncio alternate."""
    pace = Pace(options.max_in_flight, options.requests_per_minute, state_path) if options.scheduled else None
    share, rest = divmod(options.calls, options.workers)
    callers = max(LANES, math.ceil(PRESSURE * options.max_in_flight / options.workers))
    planned: list[Task] = []
    for number in range(options.workers):
        calls = share + (number < rest)
        style: Style = "asyncio" if number % 2 else "threads"
        planned.append(Task(f"worker-{number + 1}", style, calls, min(callers, calls), target, pace))
    return tuple(planned)


def title(options: Options) -> str:
    """The first line of what is shown."""
    whom = "the embedded provider" if options.endpoint is None else options.endpoint.base_url
    cap = f"at most {options.max_in_flight} at once" if options.scheduled else "without a scheduler"
    rate = f", {options.requests_per_minute:g} a minute" if options.scheduled and options.requests_per_minute else ""
    return f"llm-sched demo: {processes(options.workers)} calling {whom}, {cap}{rate}"


def processes(count: int) -> str:
    """A number of processes, in words."""
    return "1 process" if count == 1 else f"{count} processes"


def endpoint(base_url: str, model: str) -> Target:
    """A real endpoint, labelled by its host as a policy labels it: `api.openai.com` is `openai`.

    Raises:
        ValueError: `base_url` isn't an http(s) URL with a host.
    """
    parts = urlsplit(base_url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        message = f"{base_url!r} is not an http:// or https:// URL"
        raise ValueError(message)
    return Target(base_url, provider_label(base_url), model, is_stub=False)
