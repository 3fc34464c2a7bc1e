"""`lab execute` as real processes against a provider that counts: done once, at one pace, whatever ends it."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from chat_support import LONGEST_S, Shell
from lab_support import (
    EXPERIMENT,
    JUDGE,
    PACE,
    TASKS,
    agent_and_judge,
    every_key_once,
    is_judge,
    keys,
    questions,
    results,
)
from manifest_support import Folder
from pipeline_provider import Provider, Reply, until

from llm_sched import read_snapshot

EXECUTE = "llm-sched lab execute experiment.yaml"


@pytest.fixture
def lab(shell: Shell, folder: Folder, provider: Provider) -> Shell:
    """A shell with an experiment in its folder."""
    folder.write("experiment.yaml", EXPERIMENT)
    folder.write("questions.jsonl", questions())
    folder.middleware("pace.yaml", PACE)
    shell.environment["PROVIDER"] = provider.url
    return shell


class Execution:
    """A running execution; of its process group nothing is left after the test."""

    def __init__(self, shell: Shell, *flags: str) -> None:
        self.process = shell.start(
            *EXECUTE.split(), *flags, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )

    def end(self) -> tuple[int, str, str]:
        """Wait for its end."""
        output, errors = self.process.communicate(timeout=LONGEST_S)
        return self.process.returncode, output, errors


@pytest.fixture
def start(lab: Shell) -> Iterator[type[Execution]]:
    """Start executions."""
    started: list[Execution] = []

    def begin(*flags: str) -> Execution:
        started.append(Execution(lab, *flags))
        return started[-1]

    yield begin  # type: ignore[misc]
    for execution in started:
        if execution.process.poll() is None:
            execution.process.kill()
        execution.process.communicate()


def workers_of(pid: int) -> list[int]:
    """The worker processes of an execution; Python's resource tracker is none."""
    found: list[int] = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            command = (folder / "cmdline").read_bytes()
        except (OSError, IndexError):
            continue
        if parent == pid and b"spawn_main" in command:
            found.append(int(folder.name))
    return found


def test_every_task_once_judged_and_summed_up(lab: Shell, folder: Folder, provider: Provider) -> None:
    """Answers, scores, one bucket for the experiment, the cap kept by agents and judge together; then nothing is left to do."""
    folder.write("experiment.yaml", EXPERIMENT + JUDGE)
    provider.reply = agent_and_judge
    result = lab.run(f"{EXECUTE} --json")
    assert result.returncode == 0, result.stderr
    assert keys(results(folder.path)) == every_key_once()
    assert provider.peak <= 2
    summary = json.loads(result.stdout)
    assert [(row["name"], row["answers"], row["tasks"], row["score"], row["errors"]) for row in summary["scenarios"]] == [
        ("plain", 12, 12, 0.5, 0),
        ("warm", 12, 12, 0.5, 0),
    ]
    # The judge's cache answers what it was asked before; each live call had a slot in the experiment's own bucket.
    live = sum(row["live"] for row in summary["scenarios"])
    assert provider.count == live
    snapshot = read_snapshot(lab.ledger)
    assert snapshot.owners == []  # the workers have left the ledger
    (bucket,) = snapshot.buckets
    assert (bucket.name, bucket.totals.granted) == (f"{provider.host}/gpt-4o/capitals", live)
    assert {line["verdict"]["reason"] for line in results(folder.path)} == {"because"}
    assert {body.get("temperature") for body in provider.bodies if not is_judge(body)} == {0.5, 1.5}
    again = lab.run(EXECUTE)
    assert again.returncode == 0
    assert "12/12" in again.stdout
    assert "0.50 ± 0.52" in again.stdout
    assert provider.count == live


def test_two_experiments_have_a_bucket_each(lab: Shell, folder: Folder, provider: Provider) -> None:
    """With `user` in the keys: an experiment's name is its user."""
    short = EXPERIMENT.replace("n_runs: 2", "n_runs: 1")
    for name in ("capitals", "rivers"):
        folder.write("experiment.yaml", short.replace("name: capitals", f"name: {name}"))
        result = lab.run(EXECUTE)
        assert result.returncode == 0, result.stderr
    granted = {bucket.name: bucket.totals.granted for bucket in read_snapshot(lab.ledger).buckets}
    assert granted == {f"{provider.host}/gpt-4o/{name}": TASKS // 2 for name in ("capitals", "rivers")}


@pytest.mark.soak
def test_repeats_are_new_answers_and_the_first_comes_from_the_cache(lab: Shell, folder: Folder, provider: Provider) -> None:
    """With a cache, a second execution from scratch asks only for the repeats; `distinct_runs: false` asks for nothing."""
    refs = "--infra-ref standard:llm-cache --infra-ref pace.yaml --infra-ref $PROVIDER"
    assert lab.run(f"{EXECUTE} {refs}").returncode == 0
    assert provider.count == TASKS
    result = lab.run(f"{EXECUTE} {refs} --fresh --json")
    assert provider.count == TASKS + TASKS // 2
    assert [row["cached"] for row in json.loads(result.stdout)["scenarios"]] == [6, 6]
    folder.write("experiment.yaml", f"{EXPERIMENT}  distinct_runs: false\n")
    result = lab.run(f"{EXECUTE} {refs} --fresh --json")
    assert [row["cached"] for row in json.loads(result.stdout)["scenarios"]] == [12, 12]
    assert provider.count == TASKS + TASKS // 2
    assert len(list((folder.path / "results").glob("capitals.jsonl.old-*"))) == 2


def test_killed_half_way_and_resumed_every_row_is_there_once(
    lab: Shell, folder: Folder, provider: Provider, start: type[Execution]
) -> None:
    """`kill -9` of the parent, a torn last line on top: the same command does what is missing, and only that."""
    gate, half = threading.Event(), TASKS // 2
    provider.reply = lambda _body: Reply(gate=None if provider.count <= half else gate)
    execution = start()
    until(lambda: len(results(folder.path)) == half and provider.inside == 2, "half of it is on disk, two are under way")
    execution.process.kill()
    execution.end()
    until(lambda: provider.inside == 0, "the workers are gone with their parent")
    gate.set()
    with (folder.path / "results" / "capitals.jsonl").open("ab") as file:
        file.write(b'{"scenario": "plain", "row": "q5", "ru')
    before = results(folder.path)
    resumed = start()
    code, _, errors = resumed.end()
    assert (code, keys(results(folder.path))) == (0, every_key_once()), errors
    assert results(folder.path)[:half] == before
    assert provider.count == TASKS + 2
    assert f"{half} done before" in errors


@pytest.mark.soak
def test_killed_again_and_again_every_row_is_there_once(
    lab: Shell, folder: Folder, provider: Provider, start: type[Execution]
) -> None:
    """`kill -9` at whatever instant, until it is done: no row is lost, none is there twice, little is asked twice."""
    dice, kills = random.Random(7), 0
    while keys(results(folder.path)) != every_key_once():
        execution = start()
        enough = len(results(folder.path)) + dice.randint(3, 8)
        until(lambda: len(results(folder.path)) >= enough or execution.process.poll() is not None)  # noqa: B023 - at once
        kills += execution.process.poll() is None
        execution.process.kill()
        execution.end()
        until(lambda: provider.inside == 0)
    assert kills >= 2
    assert provider.peak <= 2
    assert lab.run(EXECUTE).returncode == 0
    assert keys(results(folder.path)) == every_key_once()
    # Asked twice is only what was under way in a slot, or about to be written down, when an end came.
    assert provider.count <= TASKS + kills * 6


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), pytest.param(signal.SIGTERM, 143, marks=pytest.mark.soak)])
def test_ended_by_a_signal_and_resumed(
    lab: Shell, folder: Folder, provider: Provider, start: type[Execution], number: int, code: int
) -> None:
    """Ctrl-C and SIGTERM end workers and slots; what is done stays done."""
    gate = threading.Event()
    provider.reply = lambda _body: Reply(gate=None if provider.count <= 5 else gate)
    execution = start()
    until(lambda: len(results(folder.path)) == 5 and provider.inside == 2)
    execution.process.send_signal(number)
    ended, _, errors = execution.end()
    assert (ended, "Traceback" in errors) == (code, False), errors
    assert (f"5 of {TASKS} are done" in errors) == (number == signal.SIGINT)
    until(lambda: provider.inside == 0)
    gate.set()
    assert lab.run(EXECUTE).returncode == 0
    assert keys(results(folder.path)) == every_key_once()
    # What was in flight is asked again; and the slots of whoever ends first may pass to a worker that has not heard yet.
    assert TASKS + 2 <= provider.count <= TASKS + 2 + 2


@pytest.mark.soak
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="needs /proc to find the workers")
def test_a_killed_worker_is_replaced_and_its_tasks_done(
    lab: Shell, folder: Folder, provider: Provider, start: type[Execution]
) -> None:
    """One worker dies by `kill -9` with a call in flight: the execution goes on and is complete."""
    gate = threading.Event()
    provider.reply = lambda _body: Reply(gate=gate)
    execution = start()
    until(lambda: provider.inside == 2, "both slots are in use")
    (bucket,) = read_snapshot(lab.ledger).buckets
    victim = bucket.holders[0].pid
    assert victim in workers_of(execution.process.pid)
    os.kill(victim, signal.SIGKILL)
    until(lambda: victim not in workers_of(execution.process.pid))
    gate.set()
    code, _, errors = execution.end()
    assert (code, keys(results(folder.path))) == (0, every_key_once()), errors


@pytest.mark.soak
def test_failures_are_counted_told_and_tried_again(lab: Shell, folder: Folder, provider: Provider) -> None:
    """A failed task is in the table, not among the done; the next execution asks only that."""
    provider.reply = lambda body: (
        Reply(status=400, body=b'{"error": {"message": "no threes"}}') if "3" in str(body) else Reply()
    )
    result = lab.run(EXECUTE)
    assert result.returncode == 1
    assert "no threes" in result.stdout
    assert "Traceback" not in result.stderr
    assert sum(bool(line.get("error")) for line in results(folder.path)) == 4
    provider.reply = Reply()
    before = provider.count
    assert lab.run(EXECUTE).returncode == 0
    assert provider.count == before + 4
    assert keys(results(folder.path)) == every_key_once()


@pytest.mark.soak
def test_when_nothing_works_it_stops(lab: Shell, folder: Folder, provider: Provider) -> None:
    """After twenty failures without one success no more is spent, and the reason is one line."""
    folder.write("questions.jsonl", questions(60))
    provider.reply = Reply(status=401, body=b'{"error": {"message": "bad key"}}')
    result = lab.run(EXECUTE)
    assert result.returncode == 1
    assert "answers failed; most often: gpt-4o at " in result.stderr
    assert "Traceback" not in result.stderr
    assert provider.count < 60


def test_two_executions_do_not_write_one_file(lab: Shell, folder: Folder, provider: Provider, start: type[Execution]) -> None:
    """The second one is told; the first one is not disturbed."""
    gate = threading.Event()
    provider.reply = Reply(gate=gate)
    first = start()
    until(lambda: provider.inside == 2)
    second = lab.run(EXECUTE)
    gate.set()
    assert second.returncode == 1
    assert "is being written by another execution" in second.stderr
    assert first.end()[0] == 0
    assert keys(results(folder.path)) == every_key_once()


def test_a_missing_key_is_one_line(lab: Shell, provider: Provider) -> None:
    """What no task could do without ends the work at once, with the variable's name."""
    refs = "--infra-ref standard:llm-scheduler --infra-ref standard:llm-proxy"
    result = lab.run(f"{EXECUTE} {refs}", OPENAI_API_KEY=None, LLM_PROXY_API_BASE=provider.url)
    assert result.returncode == 1
    assert result.stderr.splitlines()[-1].startswith("llm-sched: the API key is missing: set the environment variable OPENAI")
    assert "Traceback" not in result.stderr
    assert provider.count == 0


@pytest.mark.soak
def test_a_user_that_is_set_stays(lab: Shell, provider: Provider) -> None:
    """MAS_LLM_SCHEDULER_USER is the experiment's name only when it is unset."""
    assert lab.run(EXECUTE, MAS_LLM_SCHEDULER_USER="eve").returncode == 0
    assert [bucket.name for bucket in read_snapshot(lab.ledger).buckets] == [f"{provider.host}/gpt-4o/eve"]


@pytest.mark.soak
def test_a_changed_experiment_does_not_mix_with_old_results(lab: Shell, folder: Folder, provider: Provider) -> None:
    """Another question under the same name: refused, with the way out; --fresh keeps the old file."""
    assert lab.run(EXECUTE).returncode == 0
    folder.write("questions.jsonl", questions().replace("Question 3", "Frage 3"))
    result = lab.run(EXECUTE)
    assert result.returncode == 1
    assert "another version of this experiment" in result.stderr
    assert "--fresh" in result.stderr
    assert provider.count == TASKS
    assert lab.run(f"{EXECUTE} --fresh").returncode == 0
    assert provider.count == 2 * TASKS
