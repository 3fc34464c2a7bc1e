"""What child processes do: call a provider that counts, under telemetry, and end in every way there is."""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import os
import sys
import threading
import time
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llm_sched import Policy, Scheduler, Slot, SlotTimeout, install, llm_slot, read_snapshot
from llm_sched.telemetry import setup

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext


OPENAI = {"provider": "openai", "model": "gpt-4o"}
QUESTION: list[Any] = [{"role": "user", "content": "Why?"}]


def program_span(name: str) -> Any:
    """A span of the program's own."""
    from opentelemetry import trace  # noqa: PLC0415 - some bodies must not load it before the SDK is configured

    return trace.get_tracer("program").start_as_current_span(name)


class Place:
    """A ledger and the provider that is called: a file that gets one byte a call, whoever makes it."""

    def __init__(self, folder: str, cap: int) -> None:
        self._provider = Path(folder) / "provider"
        self.scheduler = Scheduler(Policy(max_in_flight=cap, state_path=Path(folder) / "ledger.json"))

    def call(self, times: int = 1) -> None:
        """Call the provider, each time in a slot."""
        for _ in range(times):
            with self.scheduler.slot(**OPENAI), self._provider.open("ab") as file:
                file.write(b".")


_place: list[Place] = []


def place_in(folder: str, cap: int = 2) -> Place:
    """The process's place; a forked child goes on with its parent's."""
    if not _place:
        _place.append(Place(folder, cap))
    return _place[0]


def say(word: str) -> None:
    """Tell the test, and wait for its answer."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()
    sys.stdin.readline()


def work(folder: str, times: int) -> None:
    """A worker that just ends."""
    setup()
    place_in(folder).call(times)


def hold(folder: str, times: int) -> None:
    """A worker that holds one slot until it is told to go on, or is killed."""
    telemetry = setup()
    place = place_in(folder)
    place.call(times)
    with place.scheduler.slot(**OPENAI):
        telemetry.flush()
        say("holds")


def hold_quietly(folder: str) -> None:
    """Holds a slot, without telemetry, until it is told to go on, or is killed."""
    with place_in(folder).scheduler.slot(**OPENAI):
        say("holds")


def fork(folder: str, times: int, children: int) -> None:
    """Calls, forks children that call, and calls again."""
    telemetry = setup()
    place = place_in(folder)
    place.call(times)
    telemetry.flush()
    pids = []
    for _ in range(children):
        pid = os.fork()
        if not pid:
            place.call(times)
            sys.exit()
        pids.append(pid)
    place.call(times)
    for pid in pids:
        assert os.waitpid(pid, 0)[1] == 0


def _task(folder: str, times: int) -> int:
    setup()
    place_in(folder).call(times)
    return os.getpid()


def pool(folder: str, times: int, children: int, method: str) -> None:
    """A pool, which ends its workers with SIGTERM."""
    setup()
    place_in(folder).call(times)
    with multiprocessing.get_context(method).Pool(children) as workers:
        workers.starmap(_task, [(folder, times)] * children * 2)
    place_in(folder).call(times)


def processes(folder: str, times: int, children: int, method: str) -> None:
    """Children of multiprocessing, which run no exit handlers."""
    setup()
    place_in(folder).call(times)
    context: BaseContext = multiprocessing.get_context(method)
    started: list[Any] = [context.Process(target=_task, args=(folder, times)) for _ in range(children)]  # type: ignore[attr-defined]
    for each in started:
        each.start()
    for each in started:
        each.join()
        assert each.exitcode == 0


def own_sdk(folder: str, times: int, children: int, endpoint: str) -> None:
    """A program that has configured the SDK itself, and knows nothing of our telemetry; it forks, too."""
    from opentelemetry import metrics, trace  # noqa: PLC0415
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
    from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader  # noqa: PLC0415
    from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415

    tracers = TracerProvider()
    tracers.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{endpoint}/v1/traces")))
    trace.set_tracer_provider(tracers)
    metrics.set_meter_provider(
        MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter(f"{endpoint}/v1/metrics"), 60_000)])
    )
    place = place_in(folder)
    place.call(times)
    context: Any = multiprocessing.get_context("fork")
    started = [context.Process(target=place.call, args=(times,)) for _ in range(children)]
    for each in started:
        each.start()
    for each in started:
        each.join()
        assert each.exitcode == 0
    place.call(times)


def contend(folder: str, times: int, name: str) -> None:
    """Several threads that want one slot, each under a span of the program's own; then one request that times out."""
    telemetry = setup(service_name=name)
    place = place_in(folder, cap=1)
    say("ready")

    def lane() -> None:
        for _ in range(times):
            with program_span("chat"):
                place.call()

    threads = [threading.Thread(target=lane) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with program_span("hold"), place.scheduler.slot(**OPENAI), contextlib.suppress(SlotTimeout):
        place.scheduler.acquire(**OPENAI, timeout_s=0)
    telemetry.flush()


def scraped(folder: str) -> None:
    """A program with an SDK of its own that Prometheus asks; it makes every metric move until it is told to end."""
    from opentelemetry import metrics  # noqa: PLC0415
    from opentelemetry.exporter.prometheus import PrometheusMetricReader  # noqa: PLC0415
    from opentelemetry.sdk.metrics import MeterProvider  # noqa: PLC0415
    from prometheus_client import CollectorRegistry, start_http_server  # noqa: PLC0415

    registry = CollectorRegistry()
    metrics.set_meter_provider(MeterProvider([PrometheusMetricReader(scope_info_enabled=False, registry=registry)]))
    server, _ = start_http_server(0, "127.0.0.1", registry)
    ended = threading.Event()
    threads = [threading.Thread(target=_contend, args=(folder, ended, lane)) for lane in range(4)]
    for thread in threads:
        thread.start()
    say(str(server.server_port))
    ended.set()
    for thread in threads:
        thread.join()


def _contend(folder: str, ended: threading.Event, lane: int) -> None:
    state = Path(folder) / "ledger.json"
    capped = Scheduler(Policy(max_in_flight=2, state_path=state))
    rated = Scheduler(Policy(max_in_flight=2, requests_per_minute=600, burst=1, state_path=state))
    while not ended.is_set():
        with contextlib.suppress(SlotTimeout, ZeroDivisionError), capped.slot(**OPENAI):
            ended.wait(0.02)
            if not lane:
                raise ZeroDivisionError
            capped.acquire(**OPENAI, timeout_s=0.001).release()
        with rated.slot(provider="rated", model="m"):
            pass


def instrumented(folder: str, style: str) -> None:
    """A chat call through the openai SDK with the instrumentations of openai and httpx, which has to wait for its slot."""
    from opentelemetry.instrumentation.genai.openai import OpenAIInstrumentor  # noqa: PLC0415
    from opentelemetry.instrumentation.httpx import HTTPX2ClientInstrumentor, HTTPXClientInstrumentor  # noqa: PLC0415

    from llm_sched.demo.provider import StubProvider  # noqa: PLC0415

    setup()
    OpenAIInstrumentor().instrument()
    for name, instrumentor in (("httpx", HTTPXClientInstrumentor), ("httpx2", HTTPX2ClientInstrumentor)):
        if find_spec(name):  # whichever this version of openai uses
            instrumentor().instrument()
    state = Path(folder) / "ledger.json"
    install(Policy(max_in_flight=1, state_path=state))
    holder = Scheduler(Policy(max_in_flight=1, state_path=state)).acquire(**OPENAI)
    opener = threading.Thread(target=_release_when_somebody_waits, args=(holder, state))
    opener.start()
    with StubProvider(latency_s=0.01) as provider:
        if style == "asyncio":
            asyncio.run(_ask_async(provider.base_url))
        else:
            _ask(provider.base_url)
    opener.join()


def _release_when_somebody_waits(holder: Slot, state: Path) -> None:
    while not any(bucket.waiting for bucket in read_snapshot(state).buckets):
        time.sleep(0.001)
    holder.release()


def _ask(base_url: str) -> None:
    import openai  # noqa: PLC0415

    client = openai.OpenAI(base_url=base_url, api_key="any", max_retries=0)
    with program_span("caller"), llm_slot(**OPENAI), llm_slot(**OPENAI):
        client.chat.completions.create(model="gpt-4o", messages=QUESTION)
    client.close()


async def _ask_async(base_url: str) -> None:
    import openai  # noqa: PLC0415

    async with openai.AsyncOpenAI(base_url=base_url, api_key="any", max_retries=0) as client:
        with program_span("caller"):
            async with llm_slot(**OPENAI), llm_slot(**OPENAI):
                await client.chat.completions.create(model="gpt-4o", messages=QUESTION)


def fork_in_a_storm(folder: str, times: int, children: int) -> None:
    """Forks again and again while its own threads call; each child calls, too."""
    setup()
    place = place_in(folder)
    ended = threading.Event()

    def call_on() -> None:
        while not ended.is_set():
            place.call()

    threads = [threading.Thread(target=call_on) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(children):
        pid = os.fork()
        if not pid:
            place.call(times)
            sys.exit()
        assert os.waitpid(pid, 0)[1] == 0
    ended.set()
    for thread in threads:
        thread.join()
