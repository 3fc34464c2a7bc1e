"""`llm-sched run`: one slot around any command."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_support import Command

from llm_sched import Policy, Scheduler, read_snapshot

STATUS = f"{sys.executable} -c 'from llm_sched.cli import main; main()' status"
BORROW = "from llm_sched import llm_slot\nwith llm_slot(model='m', timeout_s=0) as slot: print(slot)"


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137), ("kill -15 $$", 143)])
def test_exits_as_the_command_does(llm_sched: Command, script: str, code: int) -> None:
    """The command's exit code or signal comes through."""
    assert llm_sched("run", "--", "sh", "-c", script).returncode == code


def test_no_such_command(llm_sched: Command, ledger: Path) -> None:
    """A missing command is one line and 127, as in a shell; the slot is given back."""
    result = llm_sched("run", "no-such-command-here")
    assert result.returncode == 127
    assert result.stderr.strip() == "llm-sched: no such command: no-such-command-here"
    assert read_snapshot(ledger).buckets[0].in_flight == 0


def test_holds_a_slot_while_the_command_runs(llm_sched: Command, ledger: Path) -> None:
    """Inside, the ledger shows one slot held for the user given; afterwards nobody is in it."""
    result = llm_sched("run", "--provider", "p", "--model", "m", "--user", "ann", "--", "sh", "-c", STATUS)
    assert "p/m  1/8 in flight" in result.stdout
    assert "ann" in result.stdout
    assert read_snapshot(ledger).owners == []


def test_timeout_is_75_and_says_why(llm_sched: Command, ledger: Path) -> None:
    """No slot in time: exit code 75, and who holds it."""
    with Scheduler(Policy(max_in_flight=1, state_path=ledger)).slot(model="m"):
        result = llm_sched("run", "--model", "m", "--timeout", "0.1", "--", "true", MAS_LLM_MAX_IN_FLIGHT="1")
    assert result.returncode == 75
    assert "1 of 1 slots were in use" in result.stderr


def test_programs_inside_borrow_the_slot(llm_sched: Command) -> None:
    """With a cap of one, a program inside does not wait for its own wrapper."""
    result = llm_sched("run", "--model", "m", "--", sys.executable, "-c", BORROW, MAS_LLM_MAX_IN_FLIGHT="1")
    assert "<Slot default/m borrowed" in result.stdout


def test_one_borrower_at_a_time(llm_sched: Command) -> None:
    """Two programs inside at once: one borrows, the other finds no slot."""
    script = (
        "import subprocess, sys\nfrom llm_sched import llm_slot\n"
        "with llm_slot(model='m'): sys.exit(subprocess.run([sys.executable, '-c', sys.argv[1]]).returncode)"
    )
    result = llm_sched("run", "--model", "m", "--", sys.executable, "-c", script, BORROW, MAS_LLM_MAX_IN_FLIGHT="1")
    assert result.returncode == 1
    assert "SlotTimeout" in result.stderr


def test_another_bucket_is_not_borrowed(llm_sched: Command) -> None:
    """The wrapper's slot of one model says nothing about another model."""
    result = llm_sched("run", "--model", "other", "--", sys.executable, "-c", BORROW, MAS_LLM_MAX_IN_FLIGHT="1")
    assert "<Slot default/m held" in result.stdout


def test_a_run_inside_a_run_lends_on(llm_sched: Command) -> None:
    """Nested wrappers and the program inside share one slot."""
    inner = f"{sys.executable} -c 'from llm_sched.cli import main; main()' run --model m -- {sys.executable} -c \"$1\""
    result = llm_sched("run", "--model", "m", "--", "sh", "-c", inner, "sh", BORROW, MAS_LLM_MAX_IN_FLIGHT="1")
    assert "<Slot default/m borrowed" in result.stdout


def test_the_user_of_the_environment_wins(llm_sched: Command) -> None:
    """`--user` is for when the variable is unset."""
    result = llm_sched("run", "--user", "ann", "--", "sh", "-c", "echo $MAS_LLM_SCHEDULER_USER", MAS_LLM_SCHEDULER_USER="eve")
    assert result.stdout.strip() == "eve"


def test_state_option_reaches_the_command(llm_sched: Command, tmp_path: Path) -> None:
    """Programs inside use the ledger that `--state` names."""
    other = tmp_path / "other.json"
    result = llm_sched("run", "--state", str(other), "--", "sh", "-c", "echo $MAS_LLM_SCHEDULER_STATE")
    assert result.stdout.strip() == str(other)
    assert other.exists()


def test_a_bad_knob_is_one_line(llm_sched: Command) -> None:
    """A senseless environment variable is named, without a traceback."""
    result = llm_sched("run", "true", MAS_LLM_RPM="fast")
    assert result.returncode == 1
    assert result.stderr.strip() == (
        "llm-sched: requests_per_minute='fast' (environment variable MAS_LLM_RPM): must be a number"
    )


@pytest.mark.parametrize("value", ["-1", "nan", "soon"])
def test_a_bad_timeout_is_named_as_it_was_typed(llm_sched: Command, ledger: Path, value: str) -> None:
    """A usage error; nothing is run."""
    result = llm_sched("run", "--timeout", value, "--", "echo", "ran")
    assert (result.returncode, result.stdout, ledger.exists()) == (2, "", False)
    assert "Invalid value for '--timeout'" in result.stderr


def test_a_timeout_can_be_for_ever(llm_sched: Command) -> None:
    """`inf`, as everywhere."""
    assert llm_sched("run", "--timeout", "inf", "--", "echo", "ran").stdout == "ran\n"


def test_an_interrupted_wait_says_what_became_of_the_command(ledger: Path) -> None:
    """Ctrl-C: exit code 130, as shells have it, and one line."""
    arguments = ["-c", "from llm_sched.cli import main; main()", "run", "--model", "m", "--", "echo", "ran"]
    environment = {**os.environ, "MAS_LLM_MAX_IN_FLIGHT": "1"}
    with Scheduler(Policy(max_in_flight=1, state_path=ledger)).acquire(model="m"):
        waiter = subprocess.Popen(
            [sys.executable, *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            deadline = time.monotonic() + 30
            while not read_snapshot(ledger).buckets[0].waiting:
                assert time.monotonic() < deadline, "it does not wait"
                time.sleep(0.005)
            waiter.send_signal(signal.SIGINT)
            said, complained = waiter.communicate(timeout=30)
        finally:
            waiter.kill()
            waiter.wait()
    assert (waiter.returncode, said) == (130, "")
    assert complained == "llm-sched: interrupted while waiting for a slot; the command was not run\n"
