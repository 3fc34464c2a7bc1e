"""The scheduler as a layer: what takes a slot, for how long, and under which name."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from pipeline_provider import until, until_later
from pipeline_support import CALL, Leaf, foreign, granted, in_flight, waiting

import llm_sched
from llm_sched import ConfigError, LlmSchedulerMiddleware, Policy, SlotTimeout, install, llm_slot
from llm_sched.pipeline import endpoint
from llm_sched.pipeline.exchange import LlmRequest
from llm_sched.pipeline.layer import Layer
from llm_sched.pipeline.retry import Backoff


def test_the_public_name_is_the_class() -> None:
    """`llm_sched.LlmSchedulerMiddleware` is loaded when it is asked for."""
    assert llm_sched.LlmSchedulerMiddleware.middleware_id == "llm_scheduler"
    with pytest.raises(AttributeError, match="no attribute 'LlmSchedulerMiddlewear'"):
        _ = llm_sched.LlmSchedulerMiddlewear  # type: ignore[attr-defined]


@pytest.mark.parametrize("op", ["TOOL_CALL", "MEMORY_OP", "TRANSPORT_MSG"])
def test_other_operations_take_no_slot(op: str) -> None:
    """Only `LLM_CALL` is paced: everything else passes while all slots are taken."""
    engine = LlmSchedulerMiddleware.wrap(Leaf(), {"max_in_flight": 1, "timeout_s": 0})
    with llm_slot(provider="p", model="m"):
        for io in (LlmRequest(op=op), SimpleNamespace(op=op, correlation_id=3)):
            assert engine.invoke(io).text == "four"
            assert asyncio.run(engine.ainvoke(io)).text == "four"
            assert engine.stream(io).result().text == "four"
    assert granted() == {"p/m": 1}


def test_a_call_holds_one_slot_while_it_runs() -> None:
    """The slot is there while the engine works, and back afterwards."""
    gate = threading.Event()
    engine = LlmSchedulerMiddleware.wrap(Leaf(gate=gate), {"max_in_flight": 4})
    with ThreadPoolExecutor() as pool:
        calls = [pool.submit(engine.invoke, CALL) for _ in range(3)]
        until(lambda: in_flight() == 3)
        gate.set()
        assert [call.result().text for call in calls] == ["four"] * 3
    assert in_flight() == 0
    assert granted() == {"p/m": 3}


@pytest.mark.parametrize("error", [RuntimeError("broken"), KeyboardInterrupt(), SystemExit(3)])
def test_the_slot_comes_back_whatever_the_engine_raises(error: BaseException) -> None:
    """Also after Ctrl-C."""
    engine = LlmSchedulerMiddleware.wrap(Leaf(error), {"max_in_flight": 1})
    for _ in range(3):
        with pytest.raises(type(error)):
            engine.invoke(CALL)
        with pytest.raises(type(error)):
            engine.stream(CALL)
    assert in_flight() == 0


def test_an_error_that_is_returned_is_passed_on() -> None:
    """A foreign engine may report its failure as a result; whether to repeat it nobody can tell."""
    leaf = Leaf(foreign(response_kind="ERROR", text="no"))
    engine = LlmSchedulerMiddleware.wrap(leaf)
    assert engine.invoke(CALL).response_kind == "ERROR"
    assert leaf.begun == 1


def test_a_full_bucket_ends_in_a_slot_timeout() -> None:
    """Nothing was sent then."""
    leaf = Leaf()
    engine = LlmSchedulerMiddleware.wrap(leaf, {"max_in_flight": 1, "timeout_s": 0})
    gate, held = threading.Event(), threading.Event()

    def hold() -> None:
        with llm_slot(provider="p", model="m"):
            held.set()
            gate.wait(30)

    with ThreadPoolExecutor() as pool:
        holder = pool.submit(hold)
        assert held.wait(30)
        for call in (engine.invoke, engine.stream, lambda io: asyncio.run(engine.ainvoke(io))):
            with pytest.raises(SlotTimeout, match="p/m"):
                call(CALL)
        gate.set()
        holder.result()
    assert leaf.begun == 0


def test_members_are_forwarded_when_the_inner_engine_has_them() -> None:
    """`exchange_preview` and `reset_turn_state` are optional: a layer has them when its inner engine does."""
    heard: list[str] = []
    rich = LlmSchedulerMiddleware.wrap(
        Leaf(exchange_preview=lambda op: f"preview of {op}", reset_turn_state=lambda: heard.append("reset"))
    )
    assert rich.exchange_preview("LLM_CALL") == "preview of LLM_CALL"
    rich.reset_turn_state()
    assert heard == ["reset"]
    poor = LlmSchedulerMiddleware.wrap(Leaf())
    assert not hasattr(poor, "exchange_preview")
    assert not hasattr(poor, "reset_turn_state")


def test_wrap_makes_the_policy_the_process_s(monkeypatch: pytest.MonkeyPatch) -> None:
    """Environment beats parameters, and `llm_slot` obeys from then on."""
    monkeypatch.setenv("MAS_LLM_MAX_IN_FLIGHT", "3")
    LlmSchedulerMiddleware.wrap(Leaf(), {"max_in_flight": 7, "requests_per_minute": 600, "user": None})
    policy = llm_sched.default.current().policy
    assert (policy.max_in_flight, policy.requests_per_minute, policy.user) == (3, 600, "default")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"max_inflight": 3}, "unknown knob 'max_inflight' .here.yaml.: did you mean 'max_in_flight'?"),
        ({"max_retrys": 3}, "did you mean 'max_retries'?"),
        ({"zzz": 3}, "the knobs are max_in_flight, .*max_backoff_s"),
        ({"max_in_flight": -1}, r"max_in_flight=-1 \(here.yaml\)"),
        ({"max_retries": -1}, "max_retries=-1 .*whole number of at least 0"),
        ({"max_retries": True}, "max_retries=True"),
        ({"max_backoff_s": "long"}, "max_backoff_s='long' .*a number"),
    ],
)
def test_bad_parameters_are_named(params: dict[str, Any], message: str) -> None:
    """One clear error: which knob, which value, where from."""
    with pytest.raises(ConfigError, match=message):
        LlmSchedulerMiddleware.wrap(Leaf(), params, source="here.yaml")


@pytest.mark.parametrize(
    ("leaf", "options", "knob", "bucket"),
    [
        ({"api_base": "https://api.openai.com/v1", "model": "gpt-4o"}, {}, None, "openai/gpt-4o"),
        ({"api_base": "http://user:pw@GPU.Local:8080/v1", "model": "l"}, {}, None, "gpu.local:8080/l"),
        ({"api_base": "http://localhost:11434/v1", "model": "l"}, {"provider": "box", "model": "n"}, "knob", "box/n"),
        ({"api_base": "http://localhost:11434/v1", "model": "l"}, {}, "knob", "knob/l"),
        ({"api_base": "", "provider": None, "model": None}, {}, None, "default/default"),
    ],
)
def test_labels_come_from_the_leaf(leaf: dict[str, Any], options: dict[str, Any], knob: str | None, bucket: str) -> None:
    """Argument beats policy beats the leaf's base URL and model, through any number of layers."""
    engine = LlmSchedulerMiddleware.wrap(Layer(Layer(Leaf(**leaf))), {"provider": knob}, **options)
    engine.invoke(CALL)
    assert granted() == {bucket: 1}


def test_a_base_url_that_is_none_is_an_error() -> None:
    """At once, not with the first call."""
    for bad in ("localhost:11434", "ftp://x/", "http://", "http://x:port/"):
        with pytest.raises(ConfigError, match=r"api_base=.*is no http:// or https:// URL"):
            LlmSchedulerMiddleware.wrap(Leaf(api_base=bad))


def test_a_pipeline_that_wraps_itself_is_an_error() -> None:
    """Not an endless loop."""
    layer = Layer(None)
    layer.inner = layer
    with pytest.raises(ConfigError, match="wraps itself"):
        LlmSchedulerMiddleware.wrap(layer)


def test_wrapping_twice_paces_once() -> None:
    """One slot a call, one loop of retries, also with a layer in between; the last labels and the last policy hold."""
    once = LlmSchedulerMiddleware.wrap(Leaf(), {"max_in_flight": 1, "timeout_s": 0})
    assert LlmSchedulerMiddleware.wrap(once, {"max_in_flight": 1, "timeout_s": 0}) is once
    outer = Layer(once)
    assert LlmSchedulerMiddleware.wrap(outer, {"max_in_flight": 1, "timeout_s": 0}, model="n") is outer
    outer.invoke(CALL)
    assert granted() == {"p/n": 1}


def test_nested_layers_share_a_slot() -> None:
    """Two middlewares put together by hand cannot deadlock at a cap of one."""
    install(Policy(max_in_flight=1, timeout_s=0))
    engine = LlmSchedulerMiddleware(LlmSchedulerMiddleware(Leaf()))
    assert engine.invoke(CALL).text == "four"
    assert asyncio.run(engine.ainvoke(CALL)).text == "four"
    with llm_slot(provider="p", model="m"):
        assert engine.invoke(CALL).text == "four"
        assert engine.stream(CALL).result().text == "four"


def test_wrap_resolves_the_process_s_endpoint() -> None:
    """A judge calls whom the pipeline calls, under the same label."""
    LlmSchedulerMiddleware.wrap(Leaf(api_base="http://h:1/v1", api_key_env="K"), provider="label")
    assert endpoint.resolved() == endpoint.Endpoint("label", "m", "http://h:1/v1", "K", Backoff())


def test_a_blocking_engine_works_in_a_task() -> None:
    """It runs in a thread; the loop goes on."""
    gate = threading.Event()
    engine = LlmSchedulerMiddleware.wrap(Leaf(gate=gate))

    async def main() -> Any:
        call = asyncio.create_task(engine.ainvoke(CALL))
        await until_later(in_flight)
        gate.set()
        return await call

    assert asyncio.run(main()).text == "four"
    assert in_flight() == 0


def test_a_cancelled_task_keeps_its_slot_while_its_thread_calls_on() -> None:
    """A thread cannot be cancelled, so the provider is busy until it ends."""
    gate = threading.Event()
    leaf = Leaf(RuntimeError("late"), gate=gate)
    engine = LlmSchedulerMiddleware.wrap(leaf)

    async def main() -> None:
        call = asyncio.create_task(engine.ainvoke(CALL))
        await until_later(lambda: leaf.begun)
        for _ in range(3):
            call.cancel()
            await asyncio.sleep(0.005)
            assert in_flight() == 1
        gate.set()
        with pytest.raises(asyncio.CancelledError):
            await call

    asyncio.run(main())
    assert in_flight() == 0


def test_a_cancelled_wait_leaves_the_queue() -> None:
    """And was never sent."""
    leaf = Leaf()
    engine = LlmSchedulerMiddleware.wrap(leaf, {"max_in_flight": 1})

    async def main() -> None:
        async with llm_slot(provider="p", model="m"):
            call = asyncio.create_task(engine.ainvoke(CALL))
            await until_later(waiting)
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            assert waiting() == 0

    asyncio.run(main())
    assert leaf.begun == 0
