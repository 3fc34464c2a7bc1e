"""Our commands and `setup` by the standard `OTEL_*` variables; bad ones are one clear line."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from typing import TYPE_CHECKING

import pytest
from telemetry_commands import MAIN, llm_sched
from telemetry_stage import until

from llm_sched import ConfigError
from llm_sched.telemetry import endpoint, names, setup

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from telemetry_sink import Sink

TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = "b7ad6b7169203331"


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A ledger of the test's own."""
    return {"MAS_LLM_SCHEDULER_STATE": str(tmp_path / "ledger.json")}


@pytest.fixture
def nowhere() -> Iterator[str]:
    """An endpoint where nobody listens: the port is taken, and refuses."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_run_reports_its_wait_under_the_caller_s_trace(sink: Sink, environment: dict[str, str]) -> None:
    """`TRACEPARENT` is the parent; a short-lived command loses nothing."""
    environment |= {"OTEL_EXPORTER_OTLP_ENDPOINT": sink.endpoint, "MAS_LLM_MAX_IN_FLIGHT": "1"}
    environment["TRACEPARENT"] = f"00-{TRACE}-{PARENT}-01"
    inner = [*MAIN, "run", "--timeout", "0", "--provider", "openai", "--", "true"]
    # The inner one has another bucket's lease in its environment, so it is refused a slot of the outer's bucket.
    done = llm_sched("run", "--provider", "openai", "--", "env", "-u", "LLM_SCHED_LEASE", *inner, **environment)
    assert done.returncode == 75, done.stderr
    assert sink.total(names.REQUESTS, result="acquired") == 1
    assert sink.total(names.REQUESTS, result="timeout") == sink.total(names.TIMEOUTS) == 1
    assert sink.total(names.HOLD_DURATION) == 1
    (wait,) = sink.spans(names.SPAN_ACQUIRE)
    assert (wait.raw.trace_id.hex(), wait.raw.parent_span_id.hex()) == (TRACE, PARENT)
    assert wait.resource["service.name"] == "llm-sched-run"
    assert wait.attributes[names.RESULT] == "timeout"


def test_run_that_is_ended_while_it_waits_reports_that(sink: Sink, environment: dict[str, str]) -> None:
    """SIGTERM, and what it had is sent."""
    environment |= {"OTEL_EXPORTER_OTLP_ENDPOINT": sink.endpoint, "OTEL_METRIC_EXPORT_INTERVAL": "100"}
    process = subprocess.Popen(
        [*MAIN, "run", "--", "sleep", "60"], env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    until(lambda: sink.total(names.IN_FLIGHT) == 1)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert sink.total(names.IN_FLIGHT) == 0
    assert sink.total(names.HOLD_DURATION) == 1


def test_commands_say_nothing_when_nothing_is_asked_for(environment: dict[str, str]) -> None:
    """And load nothing."""
    done = llm_sched("run", "--", "true", **environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.soak
def test_a_dead_endpoint_is_one_line_and_changes_no_exit_code(environment: dict[str, str], nowhere: str) -> None:
    """What it is about, once."""
    done = llm_sched("run", "--", "sh", "-c", "exit 7", OTEL_EXPORTER_OTLP_ENDPOINT=nowhere, **environment)
    assert done.returncode == 7
    assert done.stderr.count("llm-sched: telemetry:") == 1
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "smoke"},
            "OTEL_EXPORTER_OTLP_PROTOCOL='smoke'",
        ),
        ({"OTEL_TRACES_EXPORTER": "pigeon"}, "OTEL_TRACES_EXPORTER='pigeon': no exporter of that name is installed"),
        ({"OTEL_CONFIG_FILE": "/nowhere/otel.yaml"}, "OTEL_CONFIG_FILE='/nowhere/otel.yaml'"),
    ],
)
def test_a_bad_variable_is_one_clear_line(environment: dict[str, str], variables: dict[str, str], words: str) -> None:
    """Which, and what is wrong with it."""
    done = llm_sched("run", "--", "true", **environment, **variables)
    assert done.returncode == 1
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_other_exporters_can_be_named(environment: dict[str, str]) -> None:
    """Whatever is installed; here the SDK's own for the console."""
    done = llm_sched("run", "--", "true", OTEL_TRACES_EXPORTER="none", OTEL_METRICS_EXPORTER="console", **environment)
    assert done.returncode == 0
    assert '"name": "llm_scheduler.slot.requests"' in done.stdout


def test_a_configuration_file_counts(sink: Sink, environment: dict[str, str], tmp_path: Path) -> None:
    """`OTEL_CONFIG_FILE`, OpenTelemetry's declarative configuration."""
    path = tmp_path / "otel.yaml"
    path.write_text(
        f"""
file_format: "1.0"
resource:
  attributes:
    - name: service.name
      value: from-the-file
meter_provider:
  readers:
    - periodic:
        exporter:
          otlp_http:
            endpoint: {sink.endpoint}/v1/metrics
"""
    )
    done = llm_sched("run", "--", "true", OTEL_CONFIG_FILE=str(path), **environment)
    assert done.returncode == 0, done.stderr
    assert sink.total(names.REQUESTS, result="acquired") == 1


def test_doctor_tells_whether_the_endpoint_answers(sink: Sink, environment: dict[str, str], nowhere: str) -> None:
    """Or what is wrong; without a secret, and without failing: no promise depends on it."""
    good = llm_sched("doctor", OTEL_EXPORTER_OTLP_ENDPOINT=sink.endpoint, **environment)
    assert f"telemetry arrives: {sink.endpoint}/v1/traces, {sink.endpoint}/v1/metrics" in good.stdout
    secret = nowhere.replace("http://", "http://me:secret@")
    bad = llm_sched("doctor", OTEL_EXPORTER_OTLP_ENDPOINT=secret, **environment)
    assert f"telemetry does not arrive: {nowhere}/v1/traces: Connection refused" in bad.stdout
    assert "secret" not in bad.stdout + bad.stderr
    none = llm_sched("doctor", **environment)
    assert "no telemetry is asked for" in none.stdout
    assert (good.returncode, bad.returncode, none.returncode) == (0, 0, 0)
    grpc = llm_sched("doctor", OTEL_EXPORTER_OTLP_ENDPOINT=nowhere, OTEL_EXPORTER_OTLP_PROTOCOL="grpc", **environment)
    assert f"telemetry does not arrive: {nowhere}: Connection refused" in grpc.stdout


def test_demo_needs_somebody_who_answers(nowhere: str, environment: dict[str, str]) -> None:
    """Before anything starts."""
    done = llm_sched("demo", "--otlp", nowhere, **environment)
    assert done.returncode == 2
    assert f"--otlp: {nowhere}/v1/traces: Connection refused. Start a collector there" in done.stderr


def test_set_up_refuses_what_is_no_endpoint() -> None:
    """It names the value, and pickles like all our errors."""
    with pytest.raises(ConfigError, match="endpoint='nonsense': must be a URL such as http://localhost:4318"):
        setup("nonsense")


@pytest.mark.parametrize(
    ("variables", "url", "protocol"),
    [
        ({}, "http://localhost:4318/v1/traces", "http/protobuf"),
        ({"ENDPOINT": "http://c:4318/"}, "http://c:4318/v1/traces", "http/protobuf"),
        ({"ENDPOINT": "http://c:4317"}, "http://c:4317", "grpc"),
        ({"ENDPOINT": "http://c:9", "PROTOCOL": "grpc"}, "http://c:9", "grpc"),
        ({"PROTOCOL": "grpc"}, "http://localhost:4317", "grpc"),
        ({"ENDPOINT": "http://c:1", "TRACES_ENDPOINT": "http://t:2/mine"}, "http://t:2/mine", "http/protobuf"),
        ({"PROTOCOL": "grpc", "TRACES_PROTOCOL": "http/protobuf"}, "http://localhost:4318/v1/traces", "http/protobuf"),
    ],
)
def test_where_otlp_goes(monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], url: str, protocol: str) -> None:
    """As OpenTelemetry's specification of exporters has it; the port of gRPC means gRPC."""
    for name, value in variables.items():
        monkeypatch.setenv(f"OTEL_EXPORTER_OTLP_{name}", value)
    assert (endpoint.endpoint_of("traces"), endpoint.protocol_of("traces", None)) == (url, protocol)


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("http://me:pw@host:1/v1?key=1", "http://host:1/v1"),
        ("https://host", "https://host"),
        ("me:pw@host", "host"),
        ("http://[::1]:4318", "http://[::1]:4318"),
    ],
)
def test_no_secret_is_shown(given: str, shown: str) -> None:
    """Neither user and password nor query."""
    assert endpoint.without_secrets(given) == shown
