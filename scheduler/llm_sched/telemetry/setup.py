"""Set-up for programs that have none: providers from the standard `OTEL_*` variables, right over fork, flushed at every end.

The law: a program that has configured the SDK is left alone. Nothing is imported before it is needed, nothing is printed when
nothing is configured, and every wait at the end is bounded: a dead endpoint must not keep a program from ending.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llm_sched.telemetry.providers import Providers

DISABLED = "OTEL_SDK_DISABLED"
CONFIG_FILE = "OTEL_CONFIG_FILE"
ASKS_FOR_IT = (
    CONFIG_FILE,
    "OTEL_TRACES_EXPORTER",
    "OTEL_METRICS_EXPORTER",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
)
"""Variables of which one, not empty, makes our commands set up the SDK."""

PATIENCE_S = 5.0
"""How long the end of a program waits for what was recorded to be sent."""


class Telemetry:
    """What `setup` has set up.

    Args:
        providers: ours; None = the program's own, or telemetry is disabled.

    """

    def __init__(self, providers: Providers | None) -> None:
        self._providers = providers

    def flush(self, timeout_s: float = PATIENCE_S) -> bool:
        """Send what was recorded; False if that took longer than `timeout_s` seconds or failed. Never raises."""
        return self._providers.flush(timeout_s) if self._providers else True

    def shutdown(self, timeout_s: float = PATIENCE_S) -> bool:
        """Send what was recorded and stop, within `timeout_s` seconds; also done when the program ends. Never raises."""
        return self._providers.shutdown(timeout_s) if self._providers else True


_done: list[Telemetry] = []


def setup(
    endpoint: str | None = None,
    *,
    service_name: str | None = None,
    every_span: bool = False,
    user_on_metrics: bool = False,
) -> Telemetry:
    """Set up OpenTelemetry for this process and those that it forks, from the standard `OTEL_*` variables. Once is enough.

    Without any of them it sends to a collector on this machine, `http://localhost:4318`. Where the program has set a tracer
    or meter provider of its own, that is used and only the options apply. A process that is ended by SIGTERM sends what it
    has first, unless the program handles SIGTERM itself.

    Args:
        endpoint: base URL of an OTLP endpoint, e.g. `http://localhost:4318` or, over gRPC, `http://localhost:4317`; None = the
            variables'.
        service_name: the resource's `service.name`; None = `OTEL_SERVICE_NAME`, else the program's name.
        every_span: make a wait span also for slots that were granted without a wait.
        user_on_metrics: put the user's label on the slot metrics; one series for each user that a process calls for.

    Raises:
        ConfigError: a value makes no sense, or what it names is not installed.

    """
    if os.environ.get(DISABLED, "").strip().lower() == "true":
        return Telemetry(None)
    from llm_sched.telemetry import attach  # noqa: PLC0415 - nothing is imported before it is needed

    if not _done:
        _done.append(Telemetry(None if attach.is_configured() else _providers(endpoint, service_name)))
    listener = attach.configured(at_once=True)
    if listener:
        listener.choose(every_span=every_span, user_on_metrics=user_on_metrics)
    return _done[0]


def _providers(endpoint: str | None, service_name: str | None) -> Providers | None:
    from llm_sched.telemetry import providers  # noqa: PLC0415 - it imports the SDK

    path = os.environ.get(CONFIG_FILE)
    if path and endpoint is None:
        return providers.from_config_file(path)
    return providers.from_environment(endpoint, service_name or program_name())


def program_name() -> str:
    """What this program is called."""
    return Path(sys.argv[0]).stem if sys.argv and sys.argv[0] not in {"", "-c", "-m"} else "python"


def is_asked_for() -> bool:
    """Whether the environment asks for telemetry."""
    disabled = os.environ.get(DISABLED, "").strip().lower() == "true"
    return not disabled and any(os.environ.get(name) for name in ASKS_FOR_IT)
