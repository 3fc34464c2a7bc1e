"""Where OTLP goes, by the standard variables, and whether anybody answers there.

The law: reads the environment and may open one connection; imports nothing of OpenTelemetry. Never shows a secret.
"""

from __future__ import annotations

import http.client
import os
import socket
from typing import Literal
from urllib.parse import urlsplit

from llm_sched.errors import ConfigError

Signal = Literal["traces", "metrics"]

GRPC_PORT = 4317
"""OTLP over gRPC; 4318 is OTLP over HTTP (OpenTelemetry's protocol specification)."""

HTTP = "http/protobuf"
GRPC = "grpc"
_REFUSED = 400


def endpoint_of(signal: Signal) -> str:
    """Where the variables send a signal: a URL, for HTTP with its path."""
    own = os.environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT")
    if own:
        return own
    base = os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    if protocol_of(signal, None) == GRPC:
        return base or f"http://localhost:{GRPC_PORT}"
    return f"{(base or 'http://localhost:4318').rstrip('/')}/v1/{signal}"


def protocol_of(signal: Signal, endpoint: str | None) -> str:
    """`grpc` or `http/protobuf`: what the variables say, else what the port says, else HTTP, the specification's default."""
    named = os.environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_PROTOCOL") or os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    if named and endpoint is None:
        return named.strip()
    specific = os.environ.get(f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT")
    where = endpoint or specific or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or ""
    return GRPC if where.rstrip("/").endswith(f":{GRPC_PORT}") else HTTP


def checked(endpoint: str) -> str:
    """An endpoint without its last slash.

    Raises:
        ConfigError: it is no URL of a server.
    """
    try:
        parts = urlsplit(endpoint)
        good = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        shown = repr(without_secrets(endpoint))
        raise ConfigError(
            f"endpoint={shown}: must be a URL such as http://localhost:4318", knob="endpoint", value=shown, source="argument"
        )
    return endpoint.rstrip("/")


def without_secrets(endpoint: str) -> str:
    """An endpoint as it may be shown: without user, password and query."""
    front, _, rest = endpoint.partition("?")[0].rpartition("://")
    server, slash, path = rest.partition("/")
    return f"{front}{'://' if front else ''}{server.rpartition('@')[2]}{slash}{path}"


def problem_at(url: str, *, grpc: bool, timeout_s: float) -> str:
    """Ask whether an OTLP endpoint answers.

    Args:
        url: with the path, for HTTP.
        grpc: it speaks gRPC: then only whether somebody listens is asked.
        timeout_s: how long to wait, in seconds.

    Returns:
        What is wrong; empty if nothing is.
    """
    try:
        parts = urlsplit(checked(url))
        port = parts.port or (443 if parts.scheme == "https" else GRPC_PORT if grpc else 80)
        if grpc:
            with socket.create_connection((parts.hostname or "", port), timeout_s):
                return ""
        return _post_nothing(parts.scheme, parts.hostname or "", port, parts.path, timeout_s)
    except ConfigError as error:
        return str(error)
    except TimeoutError:
        return f"no answer within {timeout_s:g} s"
    except (OSError, http.client.HTTPException) as error:
        return getattr(error, "strerror", None) or str(error) or type(error).__name__


def _post_nothing(scheme: str, host: str, port: int, path: str, timeout_s: float) -> str:
    """An empty request is a valid one of zero spans or points."""
    kind = http.client.HTTPSConnection if scheme == "https" else http.client.HTTPConnection
    connection = kind(host, port, timeout=timeout_s)
    try:
        connection.request("POST", path, b"", {"content-type": "application/x-protobuf"})
        answer = connection.getresponse()
        return f"it answers {answer.status} {answer.reason}" if answer.status >= _REFUSED else ""
    finally:
        connection.close()
