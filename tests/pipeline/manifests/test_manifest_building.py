"""From refs to engines: the order of the layers, the policy that is installed, faults on purpose, and the judge's endpoint."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import pytest
from manifest_support import Folder
from pipeline_provider import Provider

from llm_sched import Policy, default, read_snapshot
from llm_sched.pipeline import endpoint
from llm_sched.pipeline.engine_mock import MockEngine
from llm_sched.pipeline.engine_openai import OpenAiEngine
from llm_sched.pipeline.exchange import LlmRequest, ProviderError, RetryableError, layers, leaf
from llm_sched.pipeline.faults import FaultMiddleware
from llm_sched.pipeline.infra import Infra
from llm_sched.pipeline.judge import complete_json, install_openai_llm_service
from llm_sched.pipeline.loading import load_infra
from llm_sched.pipeline.problems import ManifestError
from llm_sched.pipeline.registry import build

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def ledger(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The ledger of the process's policy, and a key."""
    path = folder.path / "ledger.json"
    monkeypatch.setenv("MAS_LLM_SCHEDULER_STATE", str(path))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-of-the-test")
    return path


def stack(*refs: str, model: str | None = "gpt-4o") -> Any:
    """The engines of refs."""
    return build(load_infra(refs), model)


def ids(engine: Any) -> list[str]:
    """The layers' names, outermost first, and the leaf's class."""
    return [getattr(layer, "middleware_id", "") or type(layer).__name__ for layer in layers(engine)]


def test_the_first_ref_is_the_outermost_engine(ledger: Path) -> None:
    """Cache, scheduler, provider: as listed, as one bundle, as the other bundle."""
    expected = ["llm_cache", "llm_scheduler", "OpenAiEngine"]
    assert ids(stack("standard:llm-cache", "standard:llm-scheduler", "standard:openai")) == expected
    assert ids(stack("standard:llm-proxy-paced")) == expected
    assert ids(stack("standard:llm-scheduler", "standard:llm-cache", "standard:openai")) == [
        "llm_scheduler", "llm_cache", "OpenAiEngine",
    ]  # fmt: skip
    assert ids(stack("standard:llm-scheduler", "standard:chaos-lite", "standard:mock-llm")) == [
        "llm_scheduler", "fault_inject", "MockEngine",
    ]  # fmt: skip


def test_two_schedulers_pace_once(ledger: Path) -> None:
    """A stack that names the scheduler twice has it once, with the outer one's policy."""
    engine = stack("standard:llm-scheduler", "standard:llm-scheduler", "standard:mock-llm")
    assert ids(engine) == ["llm_scheduler", "MockEngine"]


def test_the_policy_is_the_processs(folder: Folder, ledger: Path) -> None:
    """What the manifest says holds for `llm_slot` too, and says where it came from."""
    path = folder.middleware("s.yaml", "{middleware: llm_scheduler, params: {max_in_flight: 3, keys: [provider]}}")
    stack("s.yaml", "standard:openai")
    policy = default.current().policy
    assert (policy.max_in_flight, policy.keys) == (3, ("provider",))
    assert policy.sources["max_in_flight"] == f"{path}:3:7"


def test_the_leaf_is_as_the_provider_says(folder: Folder, ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """URL, key's name and model after mappings."""
    folder.provider("p.yaml", "{proxy: {api_base: 'http://h:1/v1', api_key_env: MINE}, models: {mappings: {small: tiny}}}")
    engine = leaf(stack("p.yaml", model="small"))
    assert isinstance(engine, OpenAiEngine)
    assert (engine.model, engine.api_base, engine.api_key_env) == ("tiny", "http://h:1/v1", "MINE")
    assert leaf(stack("http://127.0.0.1:9/v1")).api_key_env == "OPENAI_API_KEY"
    monkeypatch.delenv("OPENAI_API_KEY")
    assert leaf(stack("http://127.0.0.1:9/v1")).api_key_env is None


def test_the_default_model(ledger: Path) -> None:
    """`default` of the shipped providers, mapped."""
    assert leaf(stack("standard:openai", model=None)).model == "gpt-4o-mini"
    assert leaf(stack("standard:ollama", model=None)).model == "llama3.2"


def test_a_mock_with_replies(folder: Folder, ledger: Path) -> None:
    """`model_access.params.replies`: question -> answer."""
    folder.provider("m.yaml", "{model_access: {provider: mock, params: {replies: {hi: ho}}}}", "LLMLocal")
    engine = stack("m.yaml")
    leaf(engine).messages = [{"role": "user", "content": "hi"}]
    assert engine.invoke(LlmRequest()).text == "ho"


def test_nothing_to_build_from() -> None:
    """Without a provider, or without a model."""
    with pytest.raises(ManifestError, match="no provider"):
        build(Infra(), "m")
    with pytest.raises(ManifestError, match="MAS_CTL_MODEL"):
        build(load_infra(["http://localhost:9/v1"]))


@pytest.mark.parametrize("refs", [("standard:llm-proxy-paced",), ("standard:llm-proxy",)])
def test_the_judge_calls_the_pipelines_endpoint(
    ledger: Path, provider: Provider, monkeypatch: pytest.MonkeyPatch, refs: tuple[str, ...]
) -> None:
    """With a scheduler in the pipeline or without: endpoint, model and buckets are the agents'."""
    monkeypatch.setenv("LLM_PROXY_API_BASE", provider.url)
    provider.reply = provider.reply.__class__(text='{"score": 1}')
    stack(*refs)
    install_openai_llm_service()
    assert complete_json("How good?") == {"score": 1}
    assert provider.bodies[0]["model"] == "gpt-4o"
    assert [bucket.name for bucket in read_snapshot(ledger).buckets] == [f"{provider.host}/gpt-4o"]
    assert endpoint.resolved()


def faulty(rate: float, *status_codes: int) -> FaultMiddleware:
    """A layer that fails at a known sequence."""
    return FaultMiddleware(MockEngine(), rate=rate, status_codes=status_codes or (503,), dice=random.Random(1))


def test_how_many_calls_fail() -> None:
    """None, all, or about the share that is asked for; other operations never."""
    assert all(faulty(0.0).invoke(LlmRequest()).text for _ in range(50))
    broken = faulty(1.0)
    for _ in range(5):
        with pytest.raises(RetryableError, match=r"injected fault \(HTTP 503\)"):
            broken.invoke(LlmRequest())
    assert broken.invoke(LlmRequest(op="TOOL_CALL"))
    failed, some = 0, faulty(0.25)
    for _ in range(400):
        try:
            some.invoke(LlmRequest())
        except ProviderError:
            failed += 1
    assert 70 < failed < 130


@pytest.mark.parametrize(
    ("status", "kind"), [(429, RetryableError), (500, RetryableError), (400, ProviderError), (401, ProviderError)]
)
def test_which_faults_may_pass(status: int, kind: type[ProviderError]) -> None:
    """As with a real provider, 4xx are final but for those that mean later."""
    with pytest.raises(ProviderError) as caught:
        faulty(1.0, status).invoke(LlmRequest())
    assert type(caught.value) is kind
    assert caught.value.status == status


def test_every_way_to_call_can_fail() -> None:
    """Streams and tasks as well."""
    with pytest.raises(RetryableError):
        faulty(1.0).stream(LlmRequest())
    for call in (faulty(1.0).ainvoke, faulty(1.0).astream):
        with pytest.raises(RetryableError):
            asyncio.run(call(LlmRequest()))  # type: ignore[arg-type] # either

    async def both() -> list[str]:
        good = faulty(0.0)
        good.messages.append({"role": "user", "content": "hi"})
        answer = await good.ainvoke(LlmRequest())
        stream = await good.astream(LlmRequest())
        return [answer.text, (await stream.result()).text, good.stream(LlmRequest()).result().text]

    assert asyncio.run(both()) == ["mock: hi"] * 3


def test_faults_inside_the_scheduler_are_tried_again(folder: Folder, ledger: Path) -> None:
    """Each attempt has a slot; when all fail, the last failure is raised with their number."""
    folder.middleware("s.yaml", "{middleware: llm_scheduler, params: {max_retries: 2, max_backoff_s: 0}}")
    folder.middleware("f.yaml", "{middleware: fault_inject, params: {rate: 1, message: chaos}}")
    with pytest.raises(RetryableError, match=r"chaos \(HTTP 503\) \(gave up after 3 attempts\)"):
        stack("s.yaml", "f.yaml", "standard:mock-llm", model="m").invoke(LlmRequest())
    (bucket,) = read_snapshot(ledger).buckets
    assert (bucket.name, bucket.totals.granted, bucket.in_flight) == ("mock/m", 3, 0)


def test_a_scheduler_of_ones_own_becomes_the_processs(ledger: Path) -> None:
    """`install_scheduler`: until the next `install` with another policy."""
    own = default.Scheduler(Policy(max_in_flight=2, state_path=ledger))
    default.install_scheduler(own)
    assert default.current() is own
    default.install(Policy(max_in_flight=3))
    assert default.current() is not own
    own.close()
