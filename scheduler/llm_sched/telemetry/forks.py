"""What the SDK keeps over a fork that belongs to the parent alone.

The law: the only file that touches the SDK's inside, and it survives the inside being another. Since 1.45 the SDK gives a
forked child an instance id of its own and starts its threads again, but leaves it what the parent has counted, under the
child's name (5 + 1 came out as 6), and locks that a thread of the parent may have held. What is not found here is left alone:
then histograms of a forked child include its parent's, everything else stays right.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress
from typing import Any

from llm_sched.telemetry.names import SERVICE_INSTANCE_ID


def forget(meter_provider: object, scope: str) -> None:
    """In a forked child: drop what the parent recorded with the instruments of `scope`, and make the locks anew."""
    provider: Any = meter_provider
    with suppress(AttributeError):
        consumer = provider._measurement_consumer  # noqa: SLF001 - see the law
        consumer._lock = threading.Lock()  # noqa: SLF001 - likewise
        for reader, storage in consumer._reader_storages.items():  # noqa: SLF001 - likewise
            storage._lock = threading.RLock()  # noqa: SLF001 - likewise
            if hasattr(reader, "_export_lock"):
                reader._export_lock = threading.Lock()  # noqa: SLF001 - likewise
            matches = storage._instrument_view_instrument_matches  # noqa: SLF001 - likewise
            for instrument in [each for each in matches if each.instrumentation_scope.name == scope]:
                del matches[instrument]


def merge(provider: object, resource: object) -> None:
    """Merge `resource` over that of a provider: a forked child has its parent's `process.pid`."""
    target: Any = provider
    with suppress(AttributeError):
        target._update_resource(resource)  # noqa: SLF001 - see the law


def identify(provider: object, resource: object) -> None:
    """Merge `resource` over that of a provider if it has no instance id: without one, processes cannot be told apart."""
    target: Any = provider
    with suppress(AttributeError):
        own = getattr(target, "resource", None) or target._sdk_config.resource  # noqa: SLF001 - see the law
        if SERVICE_INSTANCE_ID not in own.attributes:
            merge(provider, resource)


def pid_attribute() -> dict[str, int]:
    """The resource attribute that tells processes apart for people."""
    return {"process.pid": os.getpid()}
