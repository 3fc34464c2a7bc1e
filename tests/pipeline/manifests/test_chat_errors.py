"""What goes wrong is one line on standard error: exit code 2 for how it was called, 1 for what failed; no secrets."""

from __future__ import annotations

import socket

import pytest
from chat_support import AGENT, KEY, Shell, failure
from manifest_support import Folder
from pipeline_provider import Provider, Reply

CHAT = "llm-sched chat agent.yaml"


def test_no_infra_says_what_to_pass(shell: Shell) -> None:
    """Nobody names a provider: how the command was called, so 2."""
    line = failure(shell.call(f"{CHAT} -q hi"), 2)
    assert line.startswith("llm-sched: no infra: pass --infra-ref (e.g. --infra-ref standard:llm-proxy-paced)")


@pytest.mark.parametrize("command", ["llm-sched", "mas-ctl"])
def test_a_missing_key_names_its_variable(shell: Shell, command: str) -> None:
    """The variable is named, nothing is sent."""
    result = shell.call(f"{command} chat agent.yaml --infra-ref standard:openai -q hi", OPENAI_API_KEY=None)
    assert failure(result) == f"{command}: the API key is missing: set the environment variable OPENAI_API_KEY"


@pytest.mark.parametrize("ref", ["standard:opnai", "samples:x", "nowhere.yaml"])
def test_a_misspelt_ref_is_usage(shell: Shell, folder: Folder, ref: str) -> None:
    """How the command was called, so 2; what is broken in a file is 1, also when it names nothing."""
    folder.bundle("b.yaml", f"{{includes: ['{ref}']}}")
    assert ref in failure(shell.call(f"{CHAT} --infra-ref {ref} -q hi"), 2)
    assert ref in failure(shell.call(f"{CHAT} --infra-ref b.yaml -q hi"), 1)


def test_the_key_of_the_proxy_has_the_name_that_a_variable_gives_it(shell: Shell, provider: Provider) -> None:
    """LLM_PROXY_API_KEY_ENV names the variable, as its own name says; the key is read from there."""
    environment = {"LLM_PROXY_API_BASE": provider.url, "LLM_PROXY_API_KEY_ENV": "GATEWAY_KEY", "OPENAI_API_KEY": None}
    line = f"{CHAT} --infra-ref standard:llm-proxy -q hi"
    assert "GATEWAY_KEY" in failure(shell.call(line, **environment))
    assert shell.call(line, GATEWAY_KEY="sk-gateway", **environment).exit_code == 0
    assert provider.keys == ["Bearer sk-gateway"]


def test_the_key_of_a_gateway_has_the_name_it_is_given(shell: Shell, folder: Folder, provider: Provider) -> None:
    """`api_key_env` names the variable; the key is read from there."""
    folder.provider("gateway.yaml", f"{{proxy: {{api_base: '{provider.url}', api_key_env: GATEWAY_KEY}}}}")
    line = f"{CHAT} --infra-ref gateway.yaml -q hi"
    assert "GATEWAY_KEY" in failure(shell.call(line, OPENAI_API_KEY=None))
    assert shell.call(line, GATEWAY_KEY="sk-gateway", OPENAI_API_KEY=None).exit_code == 0
    assert provider.keys == ["Bearer sk-gateway"]


def test_a_local_endpoint_needs_no_key(shell: Shell, provider: Provider) -> None:
    """Ollama and its like: nothing to set."""
    line = f"{CHAT} --infra-ref standard:ollama -q hi"
    assert shell.call(line, OLLAMA_API_BASE=provider.url, OPENAI_API_KEY=None).exit_code == 0
    assert shell.call(f"{CHAT} --infra-ref {provider.url} -q hi", OPENAI_API_KEY=None).exit_code == 0
    assert provider.count == 2
    assert KEY not in str(provider.keys)


def test_nobody_listens(shell: Shell) -> None:
    """An unreachable endpoint is named."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    line = failure(shell.call(f"{CHAT} --infra-ref http://127.0.0.1:{port}/v1 -q hi"))
    assert f"gpt-4o at 127.0.0.1:{port} cannot be reached" in line


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(status=401, body=b'{"error": {"message": "Incorrect key: sk-secret-of-the-test"}}'), "is the key right?"),
        (Reply(status=404, body=b'{"error": {"message": "The model does not exist"}}'), "are base URL and model right?"),
        (Reply(status=400, body=b'{"error": {"message": "context too long"}}'), "context too long"),
        (Reply(body=b"<html>", status=200), "the provider sent no answer"),
    ],
)
def test_a_provider_that_refuses(shell: Shell, provider: Provider, reply: Reply, said: str) -> None:
    """What the provider says is passed on in one line; a key that it repeats is not."""
    provider.reply = reply
    assert said in failure(shell.call(f"{CHAT} --infra-ref {provider.url} -q hi"))


def test_a_refusing_provider_with_debug(shell: Shell, provider: Provider) -> None:
    """--debug adds the traceback; the key is not in that either."""
    provider.reply = Reply(status=401, body=b'{"error": {"message": "Incorrect key: sk-secret-of-the-test"}}')
    result = shell.run(f"{CHAT} --infra-ref {provider.url} -q hi --debug")
    assert result.returncode == 1
    assert "Traceback" in result.stderr
    assert KEY not in result.stderr


def test_a_model_that_is_not_allowed(shell: Shell, folder: Folder) -> None:
    """Refused before anything is sent, with a suggestion."""
    folder.provider("p.yaml", "{proxy: {api_base: 'http://localhost:9/v1'}, models: {allowed: [gpt-4o-mini, gpt-4.1]}}")
    line = failure(shell.call(f"{CHAT} --infra-ref p.yaml -q hi"))
    assert line == "llm-sched: model 'gpt-4o' is not allowed by the infra refs; did you mean 'gpt-4.1'?"


def test_no_model_at_all(shell: Shell, folder: Folder) -> None:
    """An agent without a model needs one from the infra or the environment."""
    folder.write("agent.yaml", "apiVersion: mas/v1\nkind: Agent\nspec: {}\n")
    assert "MAS_CTL_MODEL" in failure(shell.call(f"{CHAT} --infra-ref http://localhost:9/v1 -q hi"))
    assert shell.call(f"{CHAT} --infra-ref standard:mock-llm -q hi").stdout == "You: hi\nAgent: mock: hi\n"


def test_a_senseless_knob_in_the_environment(shell: Shell) -> None:
    """The variable and its value are named."""
    line = f"{CHAT} --infra-ref standard:llm-scheduler --infra-ref standard:mock-llm -q hi"
    assert "requests_per_minute='fast' (environment variable MAS_LLM_RPM)" in failure(shell.call(line, MAS_LLM_RPM="fast"))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("llm-sched chat gone.yaml", "gone.yaml"),
        ("llm-sched chat", "MANIFEST"),
        (f"{CHAT} --infra-reff x", "--infra-ref"),
        (f"{CHAT} --infra-ref standard:mock-llm", "nothing to ask"),
        ("mas-ctl run agent.yaml", "run"),
    ],
)
def test_how_it_was_called(shell: Shell, line: str, said: str) -> None:
    """Usage errors exit with 2."""
    result = shell.call(line)
    assert result.exit_code == 2
    assert said in result.stderr


def test_all_problems_of_the_refs_at_once(shell: Shell) -> None:
    """Several problems are several lines, in one message."""
    result = shell.call(f"{CHAT} --infra-ref gone.yaml --infra-ref standard:opnai -q hi")
    assert result.exit_code == 2
    assert result.stderr.splitlines()[0] == "llm-sched: infra refs: 2 problems"
    assert "did you mean 'standard:openai'?" in result.stderr


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "agent.yaml:1:5: no valid YAML"),
        ("apiVersion: mas/v1\nkind: MAS\nspec: {}\n", "kind: is 'MAS', not 'Agent'"),
        ("apiVersion: mas/v1\nkind: Agent\n", "spec: is missing"),
        (AGENT.replace("[{model: gpt-4o", "[{model: [gpt-4o]"), "spec.models[0].model: must be a text, not list"),
        (AGENT.replace("temperature: 0.5", "temperature: warm"), "spec.models[0].temperature: must be a number, not text"),
        (AGENT.replace("max_tokens: 64", "max_tokens: 0"), "spec.models[0].max_tokens: must be greater than or equal to 1"),
        (AGENT.replace("You are brief.", "{ref: gone.md}"), "spec.context.role.ref: no such file: gone.md"),
        (AGENT.replace("You are brief.", "[a]"), "spec.context.role: must be a mapping of names to values, not list"),
        (AGENT.replace("You are brief.", "{file: x}"), "spec.context.role.ref: is missing"),
        ("", "is no manifest"),
    ],
)
def test_broken_agent_files(shell: Shell, folder: Folder, text: str, said: str) -> None:
    """File, line, column, path and reason."""
    folder.write("agent.yaml", text)
    line = failure(shell.call(f"{CHAT} --infra-ref standard:mock-llm -q hi"))
    assert line.startswith("llm-sched: agent.yaml")
    assert said in line


def test_a_bug_is_one_line_too(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even what nobody expected has no traceback unless it is asked for."""

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oops")

    monkeypatch.setattr("llm_sched.pipeline.registry.build", broken)
    line = failure(shell.call(f"{CHAT} --infra-ref standard:mock-llm -q hi"))
    assert line == "llm-sched: unexpected ZeroDivisionError: oops (--debug shows where)"
