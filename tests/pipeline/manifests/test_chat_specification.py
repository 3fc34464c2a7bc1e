"""The two chat commands of the specification, word for word, as real processes against a strict local provider."""

from __future__ import annotations

import json

import pytest
from chat_support import KEY, SYSTEM, Shell
from manifest_support import Folder
from pipeline_provider import Provider, Reply

from llm_sched import Policy, Scheduler, read_snapshot

BUNDLE = "mas-ctl chat agent.yaml --infra-ref standard:llm-proxy-paced"
STACK = r"""mas-ctl chat agent.yaml \
  --infra-ref standard:llm-cache \
  --infra-ref standard:llm-scheduler \
  --infra-ref standard:openai
"""
COMMANDS = pytest.mark.parametrize("command", [BUNDLE, STACK], ids=["bundle", "stack"])


def granted(shell: Shell) -> dict[str, int]:
    """Grants by bucket."""
    return {bucket.name: bucket.totals.granted for bucket in read_snapshot(shell.ledger).buckets}


@COMMANDS
def test_the_command_of_the_specification(shell: Shell, provider: Provider, command: str) -> None:
    """It asks the provider once, through one slot of the default bucket, and prints question and answer."""
    result = shell.run(command, "What is 2+2?\n", LLM_PROXY_API_BASE=provider.url)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == "You: What is 2+2?\nAgent: four \n"
    (body,) = provider.bodies
    assert body["messages"] == [{"role": "system", "content": SYSTEM}, {"role": "user", "content": "What is 2+2?"}]
    assert (body["model"], body["temperature"], body["max_tokens"], body["stream"]) == ("gpt-4o", 0.5, 64, True)
    assert provider.keys == [f"Bearer {KEY}"]
    assert granted(shell) == {f"{provider.host}/gpt-4o": 1}


@COMMANDS
def test_the_second_time_the_answer_comes_from_the_cache(shell: Shell, provider: Provider, command: str) -> None:
    """The same question again: no request, no slot; the other command shares the cache."""
    first = shell.run(command, "What is 2+2?", LLM_PROXY_API_BASE=provider.url)
    for again in (BUNDLE, STACK):
        assert shell.call(again.replace("\\", ""), "What is 2+2?", LLM_PROXY_API_BASE=provider.url).stdout == first.stdout
    assert provider.count == 1
    assert granted(shell) == {f"{provider.host}/gpt-4o": 1}


def test_a_local_ref_in_place_of_the_real_host(shell: Shell, folder: Folder, provider: Provider) -> None:
    """The last provider wins: a file of one's own, or a bare URL, takes the place of OpenAI."""
    folder.provider("local.yaml", f"{{proxy: {{api_base: '{provider.url}'}}}}")
    for ref in ("local.yaml", provider.url):
        result = shell.call(f"{BUNDLE} --infra-ref {ref} -q {ref}")
        assert result.stdout == f"You: {ref}\nAgent: four \n", result.stderr
    assert provider.count == 2


@COMMANDS
def test_cache_hits_while_another_process_holds_every_slot(shell: Shell, provider: Provider, command: str) -> None:
    """What is known is answered at once; what is not waits for its slot, and says who has it when there is none."""
    environment = {"LLM_PROXY_API_BASE": provider.url, "MAS_LLM_MAX_IN_FLIGHT": "1"}
    shell.run(command, "What is 2+2?", **environment)
    holder = Scheduler(Policy(max_in_flight=1, state_path=shell.ledger))
    with holder.slot(provider=provider.host, model="gpt-4o"):
        before = granted(shell)
        assert shell.run(command, "What is 2+2?", **environment).stdout == "You: What is 2+2?\nAgent: four \n"
        assert granted(shell) == before
        assert provider.count == 1
    holder.close()


def test_no_slot_in_time_is_one_line(shell: Shell, folder: Folder, provider: Provider) -> None:
    """The wait's end names the bucket and exits with 1; the provider was not asked."""
    folder.middleware("pace.yaml", "{middleware: llm_scheduler, params: {max_in_flight: 1, timeout_s: 0.05}}")
    holder = Scheduler(Policy(max_in_flight=1, state_path=shell.ledger))
    with holder.slot(provider=provider.host, model="gpt-4o"):
        result = shell.run(f"llm-sched chat agent.yaml --infra-ref pace.yaml --infra-ref {provider.url} -q hello")
    holder.close()
    assert result.returncode == 1
    assert result.stderr.startswith("llm-sched: ")
    assert f"{provider.host}/gpt-4o" in result.stderr
    assert result.stderr.count("\n") == 1
    assert provider.count == 0


def test_parallel_chats_never_exceed_the_cap(shell: Shell, provider: Provider) -> None:
    """Four processes, a cap of two: the provider never sees more than two at once, and all are answered."""
    provider.reply = Reply(pieces=[f"{n} " for n in range(20)])
    chats = [
        shell.start(
            "mas-ctl", "chat", "agent.yaml", "--infra-ref", "standard:llm-proxy-paced", "-q", f"Question {number}",
            environment={"LLM_PROXY_API_BASE": provider.url, "MAS_LLM_MAX_IN_FLIGHT": "2"},
        )
        for number in range(4)
    ]  # fmt: skip
    assert [chat.wait(60) for chat in chats] == [0] * 4
    assert provider.count == 4
    assert provider.peak <= 2


def test_the_key_is_neither_in_the_ledger_nor_in_the_cache(shell: Shell, provider: Provider) -> None:
    """After a call no file of ours holds the key."""
    shell.call(BUNDLE, "What is 2+2?", LLM_PROXY_API_BASE=provider.url)
    files = [path for path in shell.folder.parent.rglob("*") if path.is_file()]
    assert len(files) > 3
    assert not [path for path in files if KEY.encode() in path.read_bytes()]
    assert json.loads(shell.ledger.read_bytes())
