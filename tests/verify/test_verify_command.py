"""`llm-sched verify` as it is used: real processes, and what is left of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from llm_sched.cli.verify import verify
from llm_sched.verify import plan
from llm_sched.verify.run import observe
from llm_sched.verify.verdict import promises

if TYPE_CHECKING:
    from pathlib import Path

DEADLINE_S = 60.0
pytestmark = pytest.mark.timeout(300)


def test_a_short_run_keeps_every_promise_and_leaves_nothing(tmp_path: Path) -> None:
    """Durations aside, which depend on who else is busy on this machine."""
    state = tmp_path / "not" / "there" / "ledger.json"
    result = CliRunner().invoke(verify, ["--json", "--seconds", "4", "--state", str(state)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    told = json.loads(result.stdout)
    timed = ("crash:", "timeout:")
    assert [each for each in told["promises"] if not each["ok"] and not each["name"].startswith(timed)] == []
    assert result.exit_code == (0 if told["ok"] else 1)
    assert told["figures"]["granted"] > 0
    assert list(tmp_path.iterdir()) == []


def test_a_cap_that_does_not_hold_is_found(tmp_path: Path) -> None:
    """The workers pace themselves to 4; judged by 3, that is a broken promise."""
    bucket = replace(plan.WIDE, max_in_flight=4)
    phase = plan.Phase("cap", 1.5, (bucket,), (("threads", 6), ("tasks", 6)), kill_every_s=60.0)
    seen = observe(phase, tmp_path, seed=1, progress=lambda _share: None)
    told = replace(seen, buckets=(replace(bucket, max_in_flight=3),))
    assert [promise.ok for promise in promises([seen]) if promise.name == "cap: verify/wide"] == [True]
    assert [promise.ok for promise in promises([told]) if promise.name == "cap: verify/wide"] == [False]


@pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_it_can_be_ended_at_any_time(tmp_path: Path, number: int, code: int) -> None:
    """By Ctrl-C or a supervisor; neither files nor processes stay."""
    program = "from llm_sched.cli import main; main()"
    arguments = ["verify", "--seconds", "300", "--state", str(tmp_path / "ledger.json")]
    command = [sys.executable, "-c", program, *arguments]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, start_new_session=True)
    deadline = time.monotonic() + DEADLINE_S
    while not list(tmp_path.glob("llm-sched-verify-*/cap/ledger.json")) and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(number)
    _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == code, errors.decode()
    assert b"Traceback" not in errors
    assert list(tmp_path.iterdir()) == []
    while time.monotonic() < deadline:
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("a process is still there")


def test_a_place_that_cannot_be_used_is_one_line(tmp_path: Path) -> None:
    """Which says what to do."""
    (tmp_path / "file").touch()
    result = CliRunner().invoke(verify, ["--state", str(tmp_path / "file" / "ledger.json")])
    assert result.exit_code == 1
    assert "--state" in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_seconds_have_bounds() -> None:
    """Too short proves nothing."""
    assert CliRunner().invoke(verify, ["--seconds", "1"]).exit_code == 2


def test_the_plan_spends_the_seconds() -> None:
    """Most of them in the two phases; without SIGINT where there is none."""
    cap, rate = plan.phases(30, can_interrupt=True)
    assert 25 <= cap.seconds + rate.seconds < 30
    assert "interrupted" in {kind for kind, _ in cap.workers}
    assert "interrupted" not in {kind for kind, _ in plan.phases(30, can_interrupt=False)[0].workers}
    assert not any(bucket.requests_per_minute for bucket in cap.buckets)
    assert all(bucket.requests_per_minute for bucket in rate.buckets)
