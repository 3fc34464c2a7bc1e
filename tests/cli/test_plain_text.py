"""Names are anybody's text: what looks like markup is shown as it is, and nothing breaks."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_support import Command

from llm_sched import Policy, Scheduler

ODD = "m[/b]:100:[red]fast[/red]"
USER = "ann[/]:smile:"


@pytest.mark.parametrize("columns", ["80", "200"])
def test_status_shows_names_as_they_are(llm_sched: Command, ledger: Path, columns: str) -> None:
    """Buckets and users; closing tags that close nothing, emoji codes."""
    with Scheduler(Policy(state_path=ledger, user=USER)).acquire(model=ODD):
        result = llm_sched("status", COLUMNS=columns)
    assert (result.returncode, result.stderr) == (0, "")
    assert f"default/{ODD}  1/8 in flight" in result.stdout
    assert USER in result.stdout


def test_status_keeps_each_caller_on_one_line(llm_sched: Command, ledger: Path) -> None:
    """In 80 columns too: what does not fit is cut, with an ellipsis; what counts is not."""
    with Scheduler(Policy(state_path=ledger, user="an experiment with a very long name " * 3)).acquire(model="m"):
        lines = llm_sched("status", COLUMNS="80").stdout.splitlines()
    (line,) = [line for line in lines if line.strip().startswith("holds")]
    assert "an experiment" in line
    assert "…" in line
    assert all(len(line) <= 80 for line in lines[2:])
    assert lines[lines.index(line) + 1].strip() == ""


def test_doctor_shows_paths_and_labels_as_they_are(llm_sched: Command, tmp_path: Path) -> None:
    """In 80 columns too, and in one piece: paths are there to be copied."""
    path = tmp_path / "a[/b]:100:c" / ("long " * 12) / "ledger.json"
    result = llm_sched("doctor", "--state", str(path), COLUMNS="80", MAS_LLM_SCHEDULER_USER=USER)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.count(str(path)) == 2
    assert USER in result.stdout


def test_doctor_says_what_is_off(llm_sched: Command) -> None:
    """Zeros are words there."""
    words = {line.split("  ")[0]: " ".join(line.split()[1:]) for line in llm_sched("doctor").stdout.splitlines()}
    assert words["requests_per_minute"] == "0 (off) default"
    assert words["burst"] == "off (no requests_per_minute) default"
    assert words["max_hold_s"] == "0 (never taken back) default"
    rated = llm_sched("doctor", MAS_LLM_RPM="30", MAS_LLM_MAX_IN_FLIGHT="0").stdout
    assert "0 (no cap)" in rated
    assert "= requests_per_minute" in rated
