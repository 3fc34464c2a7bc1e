"""`chat` and its flags, at a prompt and without one."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
import threading
import time

import pytest
from chat_support import LONGEST_S, Shell
from manifest_support import Folder
from pipeline_provider import Provider, Reply, until

from llm_sched import read_snapshot

CHAT = "llm-sched chat agent.yaml"


def users(body: dict[str, object]) -> list[str]:
    """What the user said, as one request has it."""
    messages = body["messages"]
    assert isinstance(messages, list)
    return [message["content"] for message in messages if message["role"] == "user"]


def asks(shell: Shell, provider: Provider, flags: str, stdin: str = "", **environment: str) -> str:
    """Run `chat` against the provider without cache and scheduler; return what it printed."""
    result = shell.call(f"{CHAT} --infra-ref {provider.url} {flags}", stdin, **environment)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def test_several_queries_are_one_conversation(shell: Shell, provider: Provider) -> None:
    """Each question sees what was said before; -p comes first."""
    output = asks(shell, provider, "-q two -q three -p one")
    assert output == "You: one\nAgent: four \nYou: two\nAgent: four \nYou: three\nAgent: four \n"
    assert [users(body) for body in provider.bodies] == [["one"], ["one", "two"], ["one", "two", "three"]]
    assert [message["role"] for message in provider.bodies[2]["messages"]] == [
        "system", "user", "assistant", "user", "assistant", "user",
    ]  # fmt: skip


def test_single_turn_ends_after_the_first_answer(shell: Shell, provider: Provider) -> None:
    """Also at a prompt, and also when there is more to ask."""
    assert asks(shell, provider, "--single-turn -q one -q two") == "You: one\nAgent: four \n"
    assert asks(shell, provider, "--single-turn -i", "one\ntwo\n") == "You: Agent: four \n"
    assert provider.count == 2


@pytest.mark.parametrize("end", ["/quit", "/exit", "/q", ""])
def test_at_the_prompt(shell: Shell, provider: Provider, end: str) -> None:
    """A prompt goes on until it is told to end, or the input does; empty lines ask nothing."""
    more = f"{end}\nnever asked\n" if end else ""
    asks(shell, provider, "-i", f"one\n\n  two\n{more}")
    assert [users(body) for body in provider.bodies] == [["one"], ["one", "two"]]


def test_reset_forgets_what_was_said(shell: Shell, provider: Provider) -> None:
    """After /reset the conversation begins anew, with its system message."""
    asks(shell, provider, "-i", "one\n/reset\ntwo\n")
    first, second = provider.bodies
    assert first["messages"][0] == second["messages"][0]
    assert users(second) == ["two"]


def test_prompt_then_interactive(shell: Shell, provider: Provider) -> None:
    """-p with -i asks first, then the prompt takes over."""
    asks(shell, provider, "-i -p zero", "one\n/q\n")
    assert users(provider.bodies[1]) == ["zero", "one"]


def test_not_interactive_reads_one_question_from_a_pipe(shell: Shell, provider: Provider) -> None:
    """Without a terminal standard input is one question, lines and all; -I says so explicitly."""
    for flags in ("", "-I"):
        asks(shell, provider, flags, "one\ntwo\n")
    assert [users(body) for body in provider.bodies] == [["one\ntwo"]] * 2


def test_a_failed_turn_at_the_prompt_is_told_and_the_next_goes_on(shell: Shell, provider: Provider) -> None:
    """The failed question is not kept, so the conversation stays well formed."""
    provider.reply = lambda body: Reply(status=400) if users(body)[-1] == "bad" else Reply()
    result = shell.call(f"{CHAT} --infra-ref {provider.url} -i", "one\nbad\ntwo\n")
    assert result.exit_code == 0
    assert result.stderr.count("llm-sched: gpt-4o at ") == 1
    assert users(provider.bodies[-1]) == ["one", "two"]


@pytest.mark.parametrize(
    ("flags", "environment", "model"),
    [
        ("", {"MAS_CTL_MODEL": "a"}, "a"),
        ("", {"MAS_LLM_MODEL": "b"}, "b"),
        ("", {"MAS_CTL_MODEL": "a", "MAS_LLM_MODEL": "b"}, "a"),
        ("", {"MAS_CTL_MODEL": ""}, "gpt-4o"),
        ("--model c", {"MAS_CTL_MODEL": "a"}, "c"),
        ("--model small", {}, "tiny-1"),
    ],
)
def test_which_model(
    shell: Shell, folder: Folder, provider: Provider, flags: str, environment: dict[str, str], model: str
) -> None:
    """Flag beats MAS_CTL_MODEL beats MAS_LLM_MODEL beats manifest; then the infra's mappings."""
    folder.provider("map.yaml", "{models: {mappings: {small: tiny-1}}}")
    asks(shell, provider, f"--infra-ref map.yaml -q hi {flags}", **environment)
    assert provider.bodies[0]["model"] == model


def test_refs_from_the_environment_and_the_workspace(shell: Shell, folder: Folder, provider: Provider) -> None:
    """Without --infra-ref: MAS_INFRA_REFS, else the workspace's config.yaml."""
    folder.write("config.yaml", f"infra_refs: ['standard:llm-scheduler', '{provider.url}']\n")
    assert shell.call(f"{CHAT} -q hi").exit_code == 0
    assert shell.call(f"{CHAT} -q hi", MAS_INFRA_REFS=f"standard:llm-cache, {provider.url} ,").exit_code == 0
    assert provider.count == 2
    assert read_snapshot(shell.ledger).buckets[0].totals.granted == 1


def test_an_answer_that_was_cut_off_is_printed_and_said(shell: Shell, provider: Provider) -> None:
    """What arrived is shown; that it is not all goes to standard error."""
    provider.reply = Reply(finish_reason="length")
    result = shell.call(f"{CHAT} --infra-ref {provider.url} -q hi")
    assert (result.exit_code, result.stdout) == (0, "You: hi\nAgent: four \n")
    assert "max_tokens" in result.stderr


def test_the_warning_about_the_order(shell: Shell) -> None:
    """It goes to standard error; the answer is not disturbed."""
    refs = "--infra-ref standard:llm-scheduler --infra-ref standard:llm-cache --infra-ref standard:mock-llm"
    result = shell.call(f"{CHAT} {refs} -q hi")
    assert result.stdout == "You: hi\nAgent: mock: hi\n"
    assert result.stderr.startswith("llm-sched: warning: llm_scheduler (standard:llm-scheduler) stands outside llm_cache")


def test_the_answer_is_printed_while_it_arrives(shell: Shell, provider: Provider) -> None:
    """The first words are there before the provider has sent the last ones."""
    gate = threading.Event()
    provider.reply = Reply(pieces=["one ", "two"], gate=gate)
    process = shell.start(*CHAT.split(), "--infra-ref", provider.url, "-q", "hi", stdout=subprocess.PIPE)
    try:
        assert process.stdout
        seen = _read_until(process.stdout.fileno(), b"Agent: one two")
        assert provider.inside == 1
        gate.set()
        assert (seen + process.stdout.read().encode()).decode() == "You: hi\nAgent: one two\n"
        assert process.wait(LONGEST_S) == 0
    finally:
        gate.set()
        process.kill()
        process.wait()
        process.stdout.close()


def test_ctrl_c_in_the_middle_of_an_answer(shell: Shell, provider: Provider) -> None:
    """Exit code 130, no traceback, the connection and the slot are given up."""
    gate = threading.Event()
    provider.reply = Reply(pieces=["one ", "two"], gate=gate)
    command = [*CHAT.split(), "--infra-ref", "standard:llm-scheduler", "--infra-ref", provider.url, "-q", "hi"]
    process = shell.start(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout
        _read_until(process.stdout.fileno(), b"Agent: one")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=LONGEST_S)
        assert (process.returncode, errors) == (130, "Interrupted.\n")
        until(lambda: provider.inside == 0, "the provider hears that the client is gone")
        assert read_snapshot(shell.ledger).owners == []
    finally:
        gate.set()
        process.kill()
        process.wait()


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_on_a_terminal_it_is_interactive(shell: Shell, provider: Provider) -> None:
    """Without flags, a terminal gets a prompt; ^D ends it."""
    mine, theirs = os.openpty()
    command = [*CHAT.split(), "--infra-ref", provider.url]
    process = shell.start(*command, stdin=theirs, stdout=theirs, stderr=theirs, environment={"TERM": "dumb"})
    os.close(theirs)
    try:
        _read_until(mine, b"You: ")
        os.write(mine, b"hello\n")
        _read_until(mine, rb"Agent: four.*You: ")
        os.write(mine, b"\x04")
        assert process.wait(LONGEST_S) == 0
    finally:
        process.kill()
        process.wait()
        os.close(mine)
    assert users(provider.bodies[0]) == ["hello"]


def _read_until(descriptor: int, wanted: bytes) -> bytes:
    """Read until something has been written; `wanted` is a pattern."""
    seen = b""
    end = time.monotonic() + LONGEST_S
    while not re.search(wanted, seen, re.DOTALL):
        ready, _, _ = select.select([descriptor], [], [], max(0.0, end - time.monotonic()))
        assert ready, seen
        data = os.read(descriptor, 4096)
        assert data, seen
        seen += data
    return seen
