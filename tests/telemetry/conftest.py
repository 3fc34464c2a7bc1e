"""What every telemetry test has: an environment without variables that change it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from telemetry_stage import Stage

if TYPE_CHECKING:
    from collections.abc import Iterator

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
