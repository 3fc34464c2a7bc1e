"""A program that has configured OpenTelemetry gets everything without a line of ours; one that has not pays nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """
import sys
from llm_sched import Policy, Scheduler, install, llm_slot
policy = Policy(state_path=sys.argv[1])

def call(scheduler):
    scheduler.acquire(provider="openai", model="gpt-4o").release()

def configure():
    from opentelemetry import metrics
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    reader = InMemoryMetricReader()
    metrics.set_meter_provider(MeterProvider([reader]))
    return reader

def requests(reader):
    data = reader.get_metrics_data()
    if data is None:
        return 0
    found = [metric for resource in data.resource_metrics for scope in resource.scope_metrics for metric in scope.metrics]
    wanted = [metric for metric in found if metric.name == "llm_scheduler.slot.requests"]
    return sum(point.value for metric in wanted for point in metric.data.data_points)
"""


def run(tmp_path: Path, body: str, **environment: str) -> str:
    """Run a program; its output, on both channels."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", HEAD + body, str(tmp_path / "s.json")],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize(
    ("name", "body"),
    [
        (
            "without OpenTelemetry nothing of it is loaded",
            """
call(Scheduler(policy))
assert not [name for name in sys.modules if name.startswith("opentelemetry")]
assert "llm_sched.telemetry.otel" not in sys.modules
""",
        ),
        (
            "an API that nobody has configured is left alone",
            """
from opentelemetry import metrics, trace
call(Scheduler(policy))
assert "llm_sched.telemetry.otel" not in sys.modules
""",
        ),
        (
            "configured before the first scheduler",
            """
reader = configure()
call(Scheduler(policy))
assert requests(reader) == 1
""",
        ),
        (
            "configured after the first call: from then on",
            """
scheduler = Scheduler(policy)
call(scheduler)
reader = configure()
call(scheduler)
assert requests(reader) == 1
""",
        ),
        (
            "the process-wide scheduler, too, and after another install",
            """
reader = configure()
install(policy)
with llm_slot(provider="openai"):
    pass
install(Policy(max_in_flight=2, state_path=sys.argv[1]))
with llm_slot(provider="openai"):
    pass
assert requests(reader) == 2
""",
        ),
        (
            "an observer of the program's own hears events besides",
            """
from llm_sched.testing import RecordingObserver
reader, observer = configure(), RecordingObserver()
call(Scheduler(policy, observer=observer))
assert (requests(reader), observer.kinds()) == (1, ["queued", "granted", "released"])
""",
        ),
        (
            "a null observer keeps it out",
            """
from llm_sched.observer import NullObserver
reader = configure()
call(Scheduler(policy, observer=NullObserver()))
assert requests(reader) == 0
""",
        ),
        (
            "an observer of ours with options is not doubled by the one that comes by itself",
            """
from llm_sched.telemetry.otel import OTelObserver
reader = configure()
call(Scheduler(policy, observer=OTelObserver(every_span=True)))
call(Scheduler(policy))
assert requests(reader) == 2
""",
        ),
        (
            "only traces configured: metrics cost nothing and do not matter",
            """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from llm_sched.telemetry import setup
spans = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(spans))
trace.set_tracer_provider(provider)
setup(every_span=True)
call(Scheduler(policy))
assert [span.name for span in spans.get_finished_spans()] == ["llm_scheduler.acquire"]
""",
        ),
        (
            "set-up leaves the program's providers alone, and once is enough",
            """
from opentelemetry import metrics, trace
from llm_sched.telemetry import setup
reader = configure()
provider = metrics.get_meter_provider()
assert setup() is setup("http://127.0.0.1:1")
assert metrics.get_meter_provider() is provider
assert type(trace.get_tracer_provider()).__name__ == "ProxyTracerProvider"
call(Scheduler(policy))
assert requests(reader) == 1
assert setup().flush() and setup().shutdown()
""",
        ),
    ],
)
def test_a_program_(tmp_path: Path, name: str, body: str) -> None:
    """Says nothing in any case."""
    assert run(tmp_path, body) == "", name


def test_a_disabled_sdk_stays_out(tmp_path: Path) -> None:
    """`OTEL_SDK_DISABLED`, also for `setup`."""
    body = """
reader = configure()
call(Scheduler(policy))
from llm_sched.telemetry import setup
assert setup().flush()
call(Scheduler(policy))
assert "llm_sched.telemetry.otel" not in sys.modules
"""
    assert run(tmp_path, body, OTEL_SDK_DISABLED="true") == ""
