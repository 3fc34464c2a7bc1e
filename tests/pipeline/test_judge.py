"""The judge: JSON that conforms, one repair, a cache of its own, the same buckets."""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pydantic
import pytest
from pipeline_provider import Provider, Reply, Script, until
from pipeline_support import granted, in_flight

from llm_sched import ConfigError, LlmSchedulerMiddleware, SlotTimeout, llm_slot
from llm_sched.pipeline.cache_store import cache_files
from llm_sched.pipeline.engine_mock import MockEngine
from llm_sched.pipeline.engine_openai import OpenAiEngine
from llm_sched.pipeline.exchange import RetryableError
from llm_sched.pipeline.judge import JudgeError, complete_json, install_openai_llm_service
from llm_sched.pipeline.schemas import json_in

if TYPE_CHECKING:
    from pipeline_crew import Crew


class Verdict(pydantic.BaseModel):
    """What a judge says."""

    score: int = pydantic.Field(ge=0, le=10)
    why: str = ""


SCHEMA = {"type": "object", "properties": {"score": {"type": "integer"}}, "required": ["score"]}


def says(*texts: str) -> Script:
    """A model that says these things, one after the other."""
    return Script(*(Reply(text=text) for text in texts))


def resolve(provider: Provider, **params: Any) -> None:
    """Put a pipeline together, as a manifest does."""
    LlmSchedulerMiddleware.wrap(OpenAiEngine("m", api_base=provider.url), {"max_in_flight": 2, "timeout_s": 20, **params})


def test_json_is_returned_as_it_is(provider: Provider) -> None:
    """Without a schema anything goes that is JSON; the prompt is text or a conversation."""
    resolve(provider)
    provider.reply = says('{"score": 3}', "[1]")
    assert complete_json("How good?") == {"score": 3}
    conversation = [{"role": "system", "content": "Be strict."}, {"role": "user", "content": "How good?"}]
    assert complete_json(conversation) == [1]
    assert [message["role"] for message in provider.bodies[1]["messages"]] == ["system", "user"]
    assert provider.bodies[1]["messages"][0]["content"].startswith("Be strict.\n\nAnswer with one JSON document")
    assert conversation[0]["content"] == "Be strict."


def test_a_pydantic_model_gives_its_instance(provider: Provider) -> None:
    """Out of the cache, too; the model sees the schema."""
    resolve(provider)
    provider.reply = says('{"score": 3, "why": "so"}')
    for _ in range(2):
        verdict = complete_json("How good?", Verdict)
        assert verdict == Verdict(score=3, why="so")
    assert provider.count == 1
    assert '"maximum": 10' in provider.bodies[0]["messages"][0]["content"]


@pytest.mark.parametrize("schema", [Verdict, SCHEMA])
def test_what_does_not_conform_is_repaired_once(provider: Provider, schema: Any) -> None:
    """The judge is told what is wrong; each of the two calls takes a slot, and only the good answer is cached."""
    resolve(provider)
    provider.reply = says('{"score": "many"}', '{"score": 4}', "never asked")
    values = [complete_json("How good?", schema) for _ in range(2)]
    assert [getattr(value, "score", None) or value["score"] for value in values] == [4, 4]
    assert provider.count == 2
    assert granted() == {f"{provider.host}/m": 2}
    repair = provider.bodies[1]["messages"]
    assert [message["role"] for message in repair] == ["system", "user", "assistant", "user"]
    assert repair[2]["content"] == '{"score": "many"}'
    assert "score" in repair[3]["content"]


def test_what_conforms_never_is_an_error(provider: Provider) -> None:
    """It says what is wrong, and is not cached."""
    resolve(provider)
    provider.reply = says("no idea", "really none", '{"score": 1}')
    with pytest.raises(JudgeError, match="after a repair either: the answer is no JSON") as caught:
        complete_json("How good?", SCHEMA)
    assert caught.value.answer == "really none"
    assert complete_json("How good?", SCHEMA) == {"score": 1}
    assert provider.count == 3


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        (' {"a": 1}\n', {"a": 1}),
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ("Sure:\n```\n[1, 2]\n```\nDone.", [1, 2]),
        ('The verdict is {"a": {"b": "}"}} as you see.', {"a": {"b": "}"}}),
        ("null", None),
    ],
)
def test_json_is_found(text: str, value: object) -> None:
    """Models wrap it in fences and words."""
    assert json_in(text) == value


@pytest.mark.parametrize("text", ["", "none", '{"a": ', "```json\nno\n```", '{"a": NaN}', "Infinity", "say {a} or {b}"])
def test_what_is_no_json_is_none(text: str) -> None:
    """Nor is what only Python takes for it."""
    with pytest.raises(ValueError, match="no JSON"):
        json_in(text)


@pytest.mark.parametrize("retries", [0, 2])
def test_it_tries_again_as_often_as_the_pipeline(provider: Provider, retries: int) -> None:
    """`max_retries` and `max_backoff_s` of the resolved pipeline are its own too."""
    resolve(provider, max_retries=retries, max_backoff_s=0)
    provider.reply = Reply(status=503, body=b"{}")
    with pytest.raises(RetryableError):
        complete_json("How good?")
    assert provider.count == retries + 1


def test_a_hit_takes_no_slot(provider: Provider) -> None:
    """While all slots are taken a judged question is answered, a new one waits."""
    resolve(provider, max_in_flight=1, timeout_s=0)
    provider.reply = says("1", "2")
    assert complete_json("old") == 1
    with llm_slot(provider=provider.host, model="m"), ThreadPoolExecutor(1) as pool:
        assert pool.submit(complete_json, "old").result() == 1
        with pytest.raises(SlotTimeout):
            pool.submit(complete_json, "new").result()
    assert complete_json("new") == 2
    assert provider.count == 2


def test_its_cache_is_its_own(provider: Provider) -> None:
    """Beside the pipeline's."""
    resolve(provider)
    provider.reply = says("1")
    complete_json("?")
    store, _ = cache_files()
    assert not store.exists()
    assert store.with_name("llm_cache_judge.sqlite3").exists()


def test_its_cache_has_the_same_knobs(provider: Provider) -> None:
    """Off means that every question is asked."""
    resolve(provider)
    provider.reply = says("1", "2")
    service = install_openai_llm_service(cache_params={"enabled": False})
    assert [service.complete_json("?"), complete_json("?")] == [1, 2]
    with pytest.raises(ConfigError, match=r"unknown knob 'enabld' \(judge\): did you mean 'enabled'"):
        install_openai_llm_service(cache_params={"enabld": False})


def test_installing_is_idempotent(provider: Provider) -> None:
    """The same arguments, the same service; others, another one."""
    resolve(provider)
    first = install_openai_llm_service()
    assert install_openai_llm_service() is first
    second = install_openai_llm_service("judge-model")
    assert second is not first
    provider.reply = says("1")
    complete_json("?")
    assert provider.bodies[0]["model"] == "judge-model"
    complete_json("?", model="another")
    assert provider.bodies[1]["model"] == "another"
    assert granted() == {f"{provider.host}/judge-model": 1, f"{provider.host}/another": 1}


def test_a_later_pipeline_counts(provider: Provider) -> None:
    """Installing again after another pipeline was resolved follows it."""
    first = install_openai_llm_service()
    resolve(provider)
    assert install_openai_llm_service() is not first


def test_without_a_pipeline_it_is_openai(monkeypatch: pytest.MonkeyPatch, provider: Provider) -> None:
    """With the default policy; base URL and key as the SDK reads them."""
    monkeypatch.setenv("OPENAI_BASE_URL", provider.url)
    provider.reply = says("1")
    with pytest.raises(ConfigError, match="the judge has no model: pass model_override"):
        complete_json("?")
    install_openai_llm_service("m", api_key_env="OTHER_KEY")
    with pytest.raises(ConfigError, match="OTHER_KEY"):
        complete_json("?")
    monkeypatch.setenv("OTHER_KEY", "sk-other")
    assert complete_json("?") == 1
    assert provider.keys == ["Bearer sk-other"]
    assert granted() == {f"{provider.host}/m": 1}


def test_a_pipeline_without_a_url_needs_an_engine() -> None:
    """A mock's judge would call OpenAI: that is refused, unless an engine is given."""
    LlmSchedulerMiddleware.wrap(MockEngine())
    with pytest.raises(ConfigError, match="the resolved pipeline calls 'mock', which has no api_base"):
        install_openai_llm_service()
    install_openai_llm_service(make_engine=lambda model: MockEngine(model, replies={"?": '{"score": 9}'}))
    assert complete_json("?", SCHEMA) == {"score": 9}
    assert granted() == {"mock/mock": 1}


def test_schemas_that_are_none_are_named(provider: Provider) -> None:
    """Before anything is sent."""
    resolve(provider)
    with pytest.raises(ConfigError, match="is no valid JSON Schema: 'objekt'"):
        complete_json("?", {"type": "objekt"})
    with pytest.raises(ConfigError, match="must be a pydantic model class or a JSON Schema"):
        complete_json("?", 5)  # type: ignore[arg-type]
    assert provider.count == 0


def test_it_sleeps_without_a_slot(provider: Provider) -> None:
    """A judge on its back-off keeps nobody waiting."""
    resolve(provider, max_in_flight=1)
    provider.reply = Script(Reply(status=429, headers={"retry-after-ms": "60"}, body=b"{}"), Reply(text="1"))
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(complete_json, "?")
        until(lambda: provider.count == 1 and (in_flight() == 0 or call.done()))
        assert call.result() == 1
    assert granted() == {f"{provider.host}/m": 2}


def test_threads_and_tasks_may_share_it(provider: Provider) -> None:
    """Each call has a conversation of its own; the cap holds."""
    resolve(provider)
    provider.reply = lambda body: Reply(text=json.dumps(body["messages"][-1]["content"]))

    async def main() -> list[Any]:
        return await asyncio.gather(*[asyncio.to_thread(complete_json, f"question {number}") for number in range(12)])

    assert asyncio.run(main()) == [f"question {number}" for number in range(12)]
    assert provider.peak <= 2


def test_a_failing_provider_is_its_error(provider: Provider) -> None:
    """Not the judge's."""
    resolve(provider)
    provider.reply = Reply(status=429, headers={"Retry-After": "3600"}, body=b"{}")
    with pytest.raises(RetryableError, match="status 429"):
        complete_json("?")


def test_judges_and_agents_share_one_cap(crew: Crew, provider: Provider) -> None:
    """Two processes of agents and two of judges, two slots: the provider never sees three, and sees two."""
    gate = threading.Event()
    provider.reply = Reply(text="5", gate=gate)
    children = [crew.start(body, url=provider.url, calls=10) for body in ("agent", "judge", "agent", "judge")]
    for child in children:
        assert child.hear() == "ready"
    for child in children:
        child.go()
    until(lambda: provider.inside == 2)
    gate.set()
    for child in children:
        assert child.hear() == "done"
        child.end()
    assert provider.count == 40
    assert provider.peak == 2
