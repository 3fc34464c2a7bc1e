"""`llm-sched reset` and `llm-sched doctor`."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from cli_support import Command

from llm_sched import Policy, Scheduler, checks, read_snapshot


def test_reset_refuses_while_the_living_hold(llm_sched: Command, ledger: Path) -> None:
    """Held slots are not forgotten without `--force`, and the holder is named."""
    with Scheduler(Policy(state_path=ledger)).slot(model="m"):
        result = llm_sched("reset", "--yes")
        assert read_snapshot(ledger).buckets[0].in_flight == 1
    assert result.returncode == 1
    assert str(os.getpid()) in result.stderr


def test_reset_with_force_empties_it_and_the_holder_goes_on(llm_sched: Command, ledger: Path) -> None:
    """With `--force` the ledger is empty; a later release of the old slot does no harm."""
    scheduler = Scheduler(Policy(state_path=ledger))
    with scheduler.slot(model="m"):
        assert llm_sched("reset", "--yes", "--force").returncode == 0
        assert read_snapshot(ledger).buckets == []
    with scheduler.slot(model="m"):
        assert read_snapshot(ledger).buckets[0].in_flight == 1


def test_reset_of_what_only_the_dead_hold(llm_sched: Command, ledger: Path) -> None:
    """Nobody alive: emptied, totals included."""
    llm_sched("run", "--", "true")
    result = llm_sched("reset", "--yes")
    assert result.returncode == 0
    assert read_snapshot(ledger).buckets == []


def test_reset_asks(llm_sched: Command, ledger: Path) -> None:
    """Without `--yes` and without an answer nothing happens."""
    llm_sched("run", "--", "true")
    before = ledger.read_bytes()
    assert llm_sched("reset").returncode != 0
    assert ledger.read_bytes() == before


def test_reset_leaves_foreign_files_alone(llm_sched: Command, ledger: Path) -> None:
    """Somebody else's JSON is not emptied."""
    ledger.write_text("[1]")
    result = llm_sched("reset", "--yes", "--force")
    assert result.returncode == 1
    assert "JSON, but no ledger of llm-sched, which does not touch it. Delete it yourself" in result.stderr
    assert ledger.read_text() == "[1]"


def test_reset_without_a_ledger(llm_sched: Command) -> None:
    """Nothing to do is no error."""
    assert llm_sched("reset", "--yes").returncode == 0


def test_doctor_is_content_with_a_good_place(llm_sched: Command) -> None:
    """A local folder passes; the policy and its sources are shown."""
    result = llm_sched("doctor", MAS_LLM_RPM="30")
    assert result.returncode == 0, result.stdout
    assert "all is well" in result.stdout
    assert "environment variable MAS_LLM_RPM" in result.stdout
    assert "the lock shuts a second process out" in result.stdout


def test_doctor_names_a_place_that_cannot_be_written(llm_sched: Command, tmp_path: Path) -> None:
    """A path below a file is bad: exit code 1 and what to do."""
    (tmp_path / "file").write_text("")
    result = llm_sched("doctor", "--state", str(tmp_path / "file" / "ledger.json"))
    assert result.returncode == 1
    assert "BAD" in result.stdout
    assert "MAS_LLM_SCHEDULER_STATE" in result.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc, in which nobody can make a folder")
def test_a_folder_that_cannot_be_made_is_said_to_be_one(llm_sched: Command) -> None:
    """By the doctor and by those who need it."""
    for command in (["doctor"], ["run", "true"]):
        result = llm_sched(*command, MAS_LLM_SCHEDULER_STATE="/proc/no-such-folder/ledger.json")
        assert result.returncode == 1
        assert "/proc/no-such-folder): a folder of that path is not there and cannot be made" in result.stdout + result.stderr


def test_doctor_sees_a_ledger_of_somebody_else(llm_sched: Command, ledger: Path) -> None:
    """Foreign JSON at the path is bad."""
    ledger.write_text("{}")
    result = llm_sched("doctor")
    assert result.returncode == 1
    assert f"{ledger}: JSON, but no ledger of llm-sched" in result.stdout
    assert "-> set MAS_LLM_SCHEDULER_STATE to another file" in result.stdout


def test_doctor_finds_a_lock_that_does_not_exclude(ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a second process gets the lock as well, that is said."""
    monkeypatch.setattr(checks, "_CHILD", "print(True)")
    finding = checks.check_lock(ledger)
    assert finding.verdict == "bad"
    assert "does NOT" in finding.text


def test_doctor_names_a_network_file_system(ledger: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A network file system is bad, with the advice to use a local disk."""
    monkeypatch.setattr("llm_sched.host.file_system", lambda _path: "nfs4")
    finding = checks.check_file_system(ledger)
    assert (finding.verdict, "nfs4" in finding.text) == ("bad", True)


def test_doctor_counts_the_dead(llm_sched: Command, ledger: Path) -> None:
    """Owners that were killed are named, with what becomes of their slots."""
    script = "import os, signal\nfrom llm_sched import llm_slot\nllm_slot(model='m').__enter__()\nos.kill(os.getpid(), 9)"
    llm_sched("run", "--model", "other", "--", "python", "-c", script)
    result = llm_sched("doctor")
    assert result.returncode == 0
    assert "1 dead" in result.stdout
    assert read_snapshot(ledger).owners[0].alive is False


@pytest.mark.parametrize(
    ("typed", "hint"),
    [("stauts", "Did you mean 'status'?"), ("docter", "Did you mean 'doctor'?"), ("xyz", "No such command 'xyz'.")],
)
def test_a_mistyped_command_is_guessed(llm_sched: Command, typed: str, hint: str) -> None:
    """A usage error, as ever; what is like nothing is not guessed."""
    result = llm_sched(typed)
    assert result.returncode == 2
    assert hint in result.stderr
    assert ("Did you mean" in result.stderr) == hint.startswith("Did")


def test_help_lists_every_command(llm_sched: Command) -> None:
    """`--help` alone tells what there is."""
    text = llm_sched("--help").stdout
    assert all(name in text for name in ("demo", "doctor", "reset", "run", "status", "verify"))
