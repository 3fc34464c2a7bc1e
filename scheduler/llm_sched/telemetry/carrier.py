"""Spans around what our own commands do, and their parent.

The parent is what `TRACEPARENT` names, as OpenTelemetry's carriers in environment variables have it.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from opentelemetry import context, propagate, trace

from llm_sched.telemetry import names

if TYPE_CHECKING:
    from collections.abc import Generator
    from contextlib import AbstractContextManager

_VARIABLES = ("TRACEPARENT", "TRACESTATE")


@contextlib.contextmanager
def inherited_parent() -> Generator[None]:
    """Make what the environment names the current span's parent within the block."""
    carrier = {name.lower(): os.environ[name] for name in _VARIABLES if name in os.environ}
    token = context.attach(propagate.extract(carrier))
    try:
        yield
    finally:
        context.detach(token)


def span(name: str) -> AbstractContextManager[object]:
    """A span of that name, current within its block."""
    return trace.get_tracer(names.SCOPE).start_as_current_span(name)
