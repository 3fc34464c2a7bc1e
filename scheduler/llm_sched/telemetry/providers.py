"""The SDK's providers and exporters, made from the standard `OTEL_*` variables.

The law: public classes of the SDK only, and exporters found by their entry points, so whatever is installed can be named. An
exporter is made anew in each process: a forked child may not use its parent's connections.
"""

from __future__ import annotations

import os
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from llm_sched.errors import ConfigError
from llm_sched.telemetry import forks, names
from llm_sched.telemetry.endings import at_every_end, bounded
from llm_sched.telemetry.endpoint import GRPC, HTTP, checked, protocol_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from llm_sched.telemetry.endpoint import Signal


class Providers:
    """What we have set up: spans and metrics, flushed together.

    Args:
        tracers: has our spans.
        meters: has our metrics.

    """

    def __init__(self, tracers: TracerProvider | None, meters: MeterProvider | None) -> None:
        self._tracers = tracers
        self._meters = meters
        self._over = False

    def flush(self, timeout_s: float) -> bool:
        """Send what was recorded, within `timeout_s`."""
        return self._over or bounded([each.force_flush for each in (self._tracers, self._meters) if each], timeout_s)

    def shutdown(self, timeout_s: float) -> bool:
        """Send what was recorded and stop, within `timeout_s`."""
        if self._over:
            return True
        self._over = True
        return bounded([each.shutdown for each in (self._tracers, self._meters) if each], timeout_s)

    def after_fork(self) -> None:
        """In a forked child: the SDK has given it an instance id of its own; its pid is its own, too."""
        self._over = False
        for each in (self._tracers, self._meters):
            forks.merge(each, Resource(forks.pid_attribute()))


def from_environment(endpoint: str | None, service_name: str) -> Providers:
    """Make and set the global providers.

    Args:
        endpoint: base URL for OTLP; None = the variables'.
        service_name: unless the variables name the service.

    Raises:
        ConfigError: a variable makes no sense, or what it names is not installed.

    """
    traces, measures = _exporters("traces", endpoint), _exporters("metrics", endpoint)
    resource = _resource(service_name)
    # Not at exit by themselves: that waits for 30 s for a dead endpoint.
    tracers = TracerProvider(resource=resource, shutdown_on_exit=False) if traces else None
    for exporter in traces:
        if tracers:
            tracers.add_span_processor(BatchSpanProcessor(exporter))
    meters = MeterProvider([_reader(each) for each in measures], resource, shutdown_on_exit=False) if measures else None
    return use(tracers, meters)


def use(tracers: TracerProvider | None, meters: MeterProvider | None) -> Providers:
    """Make these the global providers, and see that they are flushed whatever ends the process."""
    if tracers:
        trace.set_tracer_provider(tracers)
    if meters:
        metrics.set_meter_provider(meters)
    providers = Providers(tracers, meters)
    at_every_end(providers)
    return providers


def from_config_file(path: str) -> Providers | None:
    """Do as the declarative configuration in `path` says (`OTEL_CONFIG_FILE`).

    Raises:
        ConfigError: it cannot be read, or what reads it is not installed.

    """
    try:
        from opentelemetry.configuration import configure_sdk, load_config_file  # noqa: PLC0415 # pyright: ignore[reportMissingTypeStubs] - optional
    except ImportError:
        raise _error("OTEL_CONFIG_FILE", path, "reading it needs `pip install 'llm-sched[telemetry]'`") from None
    try:
        configure_sdk(load_config_file(path))
    except Exception as error:
        raise _error("OTEL_CONFIG_FILE", path, f"{type(error).__name__}: {error}") from error
    tracers, meters = trace.get_tracer_provider(), metrics.get_meter_provider()
    providers = Providers(
        tracers if isinstance(tracers, TracerProvider) else None, meters if isinstance(meters, MeterProvider) else None
    )
    ident = Resource.create(forks.pid_attribute()).attributes[names.SERVICE_INSTANCE_ID]
    for each in (tracers, meters):
        forks.identify(each, Resource({names.SERVICE_INSTANCE_ID: ident, **forks.pid_attribute()}))
    at_every_end(providers)
    return providers


def _error(variable: str, value: str, reason: str) -> ConfigError:
    source = f"environment variable {variable}"
    return ConfigError(f"{variable}={value!r}: {reason}", knob=variable, value=repr(value), source=source)


def _resource(service_name: str) -> Resource:
    resource = Resource.create(forks.pid_attribute())
    named = os.environ.get("OTEL_SERVICE_NAME") or "service.name=" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return resource if named else resource.merge(Resource({SERVICE_NAME: service_name}))


def _reader(exporter: Any) -> MetricReader:  # noqa: ANN401 - the SDK's two kinds have nothing in common
    return exporter if isinstance(exporter, MetricReader) else PeriodicExportingMetricReader(exporter)


def _exporters(signal: Signal, endpoint: str | None) -> Sequence[Any]:
    """The exporters of a signal: what the variables name, else OTLP; with an `endpoint`, that alone."""
    variable = f"OTEL_{signal.upper()}_EXPORTER"
    named = os.environ.get(variable, "").strip().lower() or "otlp"
    if endpoint is not None:
        return [otlp_exporter(signal, endpoint)]
    if named == "none":
        return []
    return [_exporter(signal, name.strip(), variable) for name in named.split(",")]


def _exporter(signal: Signal, name: str, variable: str) -> Any:  # noqa: ANN401 - whatever is installed
    if name == "otlp":
        return otlp_exporter(signal, None)
    found = _load(signal, name)
    if found is None:
        raise _error(variable, name, "no exporter of that name is installed")
    return found() if issubclass(found, MetricReader) else PerProcess(found)


def _load(signal: Signal, name: str) -> type[Any] | None:
    for entry in entry_points(group=f"opentelemetry_{signal}_exporter", name=name):
        loaded: type[Any] = entry.load()
        return loaded
    return None


def otlp_exporter(signal: Signal, endpoint: str | None) -> Any:  # noqa: ANN401 - found by name
    """An OTLP exporter over HTTP or gRPC; see `protocol_of`.

    Args:
        signal: of what.
        endpoint: base URL; None = the variables'.

    Raises:
        ConfigError: the endpoint is no URL, or gRPC is not installed.

    """
    base = checked(endpoint) if endpoint is not None else None
    protocol = protocol_of(signal, base)
    if protocol == GRPC:
        found = _load(signal, "otlp_proto_grpc")
        if found is None:
            reason = "OTLP over gRPC needs `pip install 'llm-sched[telemetry]'`; or use HTTP, usually port 4318"
            raise _error("OTEL_EXPORTER_OTLP_PROTOCOL", protocol, reason)
        return PerProcess(found, **({"endpoint": base} if base else {}))
    found = _load(signal, "otlp_proto_http")
    if found is None or protocol != HTTP:
        raise _error("OTEL_EXPORTER_OTLP_PROTOCOL", protocol, "must be `http/protobuf` or `grpc`")
    return PerProcess(found, **({"endpoint": f"{base}/v1/{signal}"} if base else {}))


class PerProcess:
    """An exporter, made anew in each process that uses it.

    Args:
        make: makes it.
        options: how.

    """

    def __init__(self, make: Callable[..., Any], **options: object) -> None:
        self._make = make
        self._options = options
        self._pid = 0
        self._exporter: Any = None
        self._current()

    def _current(self) -> Any:  # noqa: ANN401 - whatever is installed
        if self._pid != os.getpid():
            self._exporter, self._pid = self._make(**self._options), os.getpid()
        return self._exporter

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the exporter has
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self._current(), name)
