"""Is OpenTelemetry configured in this program? Then the scheduler reports to it, without a line of the user's.

The law: asked at the start of every call, so it costs next to nothing, and imports nothing before somebody else has: a program
that does not use OpenTelemetry never loads it. What the API itself provides while no SDK is configured does nothing.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llm_sched.telemetry.otel import OTelObserver

_SIGNALS = (("opentelemetry.trace", "get_tracer_provider"), ("opentelemetry.metrics", "get_meter_provider"))
_LOOK_EVERY_S = 0.01
"""Where the API is loaded and not configured, a look costs a tenth of a call; so not at every one of a hot loop."""

_looked_at = [float("-inf")]
_attached: list[OTelObserver] = []


def configured(*, at_once: bool = False) -> OTelObserver | None:
    """The process's observer that reports to OpenTelemetry's global providers; None while nobody has set any.

    Args:
        at_once: look even if that was done just now.
    """
    if _attached:
        return _attached[0]
    if _SIGNALS[0][0] not in sys.modules and _SIGNALS[1][0] not in sys.modules:
        return None
    now = time.monotonic()
    if now - _looked_at[0] < _LOOK_EVERY_S and not at_once:
        return None
    _looked_at[0] = now
    if not is_configured() or os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    from llm_sched.telemetry import endings  # noqa: PLC0415 - it imports the API
    from llm_sched.telemetry.otel import OTelObserver  # noqa: PLC0415 - likewise

    _attached.append(OTelObserver())  # two threads may, and then the second is not used: no lock, which a fork could catch
    endings.at_children_s_ends()
    return _attached[0]


def is_configured() -> bool:
    """Whether somebody has set a tracer or meter provider."""
    return any(map(_is_configured, _SIGNALS))


def _is_configured(signal: tuple[str, str]) -> bool:
    name, getter = signal
    api = sys.modules.get(name)
    if api is None or not hasattr(api, getter):  # it is just being imported
        return False
    provider = getattr(api, getter)()
    return not type(provider).__module__.startswith(name)
