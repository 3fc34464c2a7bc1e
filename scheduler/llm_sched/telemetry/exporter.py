"""The one process that reports a ledger: to an OTLP endpoint, to Prometheus, or both.

The law: one for each ledger, kept by a kernel lock on `<ledger>.export`, which goes with the process. It reads the ledger and
nothing else, and a dead endpoint or a lost ledger does not end it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from prometheus_client import CollectorRegistry, start_http_server

from llm_sched import host
from llm_sched.errors import ConfigError, SchedulerError
from llm_sched.store.file import explain
from llm_sched.telemetry import forks, names
from llm_sched.telemetry.endings import bounded
from llm_sched.telemetry.ledger import LedgerMetrics
from llm_sched.telemetry.providers import otlp_exporter
from llm_sched.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from pathlib import Path

SERVICE = "llm-sched-export"


class Exporting(msgspec.Struct, frozen=True):
    """Who exports a ledger, as it stands in the lock file."""

    pid: int
    command: str


class Address(NamedTuple):
    """Where Prometheus may ask."""

    host: str
    port: int

    @property
    def url(self) -> str:
        """For people."""
        shown = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{shown}:{self.port}/metrics"


@contextlib.contextmanager
def the_only_one(path: Path) -> Generator[None]:
    """Be the one exporter of the ledger at `path`.

    Raises:
        SchedulerError: another process is.
        LedgerError: its folder cannot be used.
    """
    guard = path.with_name(f"{path.name}.export")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(guard, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600)
    except OSError as error:
        raise explain(error, path) from error
    try:
        if not host.try_lock(fd):
            raise SchedulerError(f"{path} is already exported by {_who(fd)}; one for each ledger is enough")
        os.ftruncate(fd, 0)
        os.pwrite(fd, msgspec.json.encode(Exporting(os.getpid(), host.command_line())), 0)
        yield
    finally:
        os.close(fd)


def _who(fd: int) -> str:
    with contextlib.suppress(msgspec.DecodeError):
        other = msgspec.json.decode(os.pread(fd, 4096, 0), type=Exporting)
        return f"process {other.pid} ({other.command})"
    return "another process"


class Exporter:
    """Reports a ledger until it is stopped.

    Args:
        path: the ledger.
        tell: is given lines for people.
        otlp: base URL of an OTLP endpoint; empty = what the `OTEL_*` variables say; None = none.
        prometheus: where to listen, port 0 = a free one; None = nowhere.
        interval_s: how often to send to OTLP, in seconds.

    Attributes:
        listening: where Prometheus may ask; None = nowhere.

    Raises:
        ConfigError: the endpoint or the address cannot be used.
    """

    def __init__(
        self, path: Path, tell: Callable[[str], None], *, otlp: str | None, prometheus: Address | None, interval_s: float
    ) -> None:
        readers: list[MetricReader] = []
        self._stop: list[Callable[[], Any]] = []
        self.listening: Address | None = None
        if prometheus:
            registry = CollectorRegistry()
            readers.append(PrometheusMetricReader(scope_info_enabled=False, registry=registry))
            self.listening = self._listen(prometheus, registry)
        if otlp is not None:
            exporter = otlp_exporter("metrics", otlp or None)
            readers.append(PeriodicExportingMetricReader(exporter, interval_s * 1000))
        provider = MeterProvider(readers, _resource(path), shutdown_on_exit=False)
        self._stop.append(provider.shutdown)
        LedgerMetrics(provider.get_meter(names.SCOPE, __version__), path, tell)

    def _listen(self, wanted: Address, registry: CollectorRegistry) -> Address:
        try:
            server, thread = start_http_server(wanted.port, wanted.host, registry)
        except OSError as error:
            reason = f"cannot listen there: {error.strerror or error}"
            knob = "--prometheus"
            raise ConfigError(f"{knob} {wanted.host}:{wanted.port}: {reason}", knob=knob, value=str(wanted.port)) from error
        self._stop += [server.shutdown, server.server_close, thread.join]
        return Address(wanted.host, server.server_port)

    def close(self, timeout_s: float) -> None:
        """Send a last time and stop, within `timeout_s` seconds."""

        def stop() -> None:
            for each in self._stop:
                each()

        bounded([stop], timeout_s)


def _resource(path: Path) -> Resource:
    """One name for the ledger, so that a new exporter goes on with the series of the one before."""
    ident = hashlib.sha256(f"{host.machine_id()}:{path}".encode()).hexdigest()[:16]
    return Resource.create({SERVICE_NAME: SERVICE, names.SERVICE_INSTANCE_ID: f"ledger-{ident}", **forks.pid_attribute()})
