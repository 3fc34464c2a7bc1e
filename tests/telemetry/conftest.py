"""What every telemetry test has: an environment without variables that change it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from telemetry_crew import Crew
from telemetry_rotel import Collector
from telemetry_sink import Sink
from telemetry_stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PREFIXES = ("OTEL_", "MAS_LLM_", "LLM_SCHED_", "XDG_CACHE", "TRACEPARENT", "TRACESTATE", "http_proxy", "HTTP_PROXY")


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(PREFIXES)]:
        monkeypatch.delenv(name)


@pytest.fixture
def stage() -> Iterator[Stage]:
    """Schedulers on a ledger in memory, and what they report; closed afterwards."""
    stage = Stage()
    yield stage
    stage.close()


@pytest.fixture
def sink() -> Iterator[Sink]:
    """Where telemetry arrives."""
    sink = Sink()
    yield sink
    sink.close()


@pytest.fixture
def crew(tmp_path: Path, sink: Sink) -> Iterator[Crew]:
    """Children that send to the sink; ended and reaped afterwards."""
    environment = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": sink.endpoint,
        "OTEL_METRIC_EXPORT_INTERVAL": "150",
        "OTEL_BSP_SCHEDULE_DELAY": "100",
    }
    crew = Crew(tmp_path, environment)
    yield crew
    crew.clear_away()


@pytest.fixture
def collector(tmp_path: Path, sink: Sink) -> Iterator[Collector]:
    """A real collector in front of the sink."""
    collector = Collector(tmp_path, sink.endpoint)
    yield collector
    collector.close()
