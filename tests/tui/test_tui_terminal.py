"""In a real terminal emulator, beside real processes that contend for slots."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.monitor.crowd import Run, crowd
from tui_support import PATIENCE_S
from tui_terminal import REASON, TMUX, Terminal

from llm_sched.snapshot import read_snapshot

pytestmark = pytest.mark.skipif(TMUX is None, reason=REASON)
MONITOR = [sys.executable, "-m", "llm_sched_tui"]
DEMO = [sys.executable, "-c", "from llm_sched.cli import main; main()", "demo"]
REAL = Path(__file__).with_name("contention.rec.gz")

SLOW = (
    Run("ann", "p", "slow", callers=3, hold_s=(120.0, 120.0), cap=4),
    Run("bob", "p", "slow", callers=5, hold_s=(120.0, 120.0), cap=4),
)
"""They take all four slots, and keep them: what is shown and what is told must agree."""

BUSY = tuple(Run(user, "p", "busy", callers=6, hold_s=(0.001, 0.01), cap=2) for user in ("cid", "dan"))
"""They write some hundred times a second."""


def status(path: Path) -> dict[str, Any]:
    """`llm-sched status --json`, in a process of its own."""
    code = "from llm_sched.cli import main; main()"
    command = [sys.executable, "-c", code, "status", "--state", str(path), "--json"]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=True, timeout=60)
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def row(screen: str, name: str) -> tuple[int, int, int, int] | None:
    """In flight, limit, waiting and processes of a bucket, as they stand on the screen; None where it is not there."""
    found = re.search(rf"{re.escape(name)}\s+[█▉▊▋▌▍▎▏░]*\s+(\d+)/(\d+)\s+(\d+)(?: \((\d+)\))?", screen)
    if not found:
        return None
    return int(found[1]), int(found[2]), int(found[3]), int(found[4] or 0)


def settled(path: Path) -> bool:
    """Whether all slow callers hold or wait."""
    return any(each.name == "p/slow" and each.in_flight + each.waiting == 8 for each in read_snapshot(path).buckets)


def test_the_screen_agrees_with_status_json_taken_in_the_same_second(tmp_path: Path) -> None:
    """Beside processes that write all the time: buckets, ages, runs. The screen may be one look behind, no more."""
    path = tmp_path / "ledger.json"
    with crowd([*SLOW, *BUSY], path), Terminal(tmp_path, [*MONITOR, str(path)], (160, 48)) as terminal:
        terminal.until(lambda _text: settled(path), "all slow callers hold or wait")
        terminal.until(lambda screen: same_buckets(screen, status(path)), "the overview agrees with status --json")
        terminal.press("3")
        terminal.until(lambda screen: same_runs(screen, status(path)), "the runs agree with status --json")


def same_buckets(screen: str, told: dict[str, Any]) -> bool:
    """Whether a screen shows the slow bucket as it is told, and the busy one within its cap."""
    slow = next(each for each in told["buckets"] if each["name"] == "p/slow")
    facts = (slow["in_flight"], slow["max_in_flight"], slow["waiting"], len(slow["waiters"]))
    busy = row(screen, "p/busy")
    assert busy is None or busy[0] <= busy[1] == 2, screen
    oldest = re.search(r"p/slow.*? \(\d+\)\s+(\d+(?:\.\d)?) s", screen)
    return (
        busy is not None
        and row(screen, "p/slow") == facts
        and bool(oldest)
        and abs(float(oldest[1]) - slow["oldest_wait_s"]) < 3
    )


def same_runs(screen: str, told: dict[str, Any]) -> bool:
    """Whether each run that keeps its slots stands there with what it holds and waits for."""
    slow = [owner for owner in told["owners"] if owner["user"] in {"ann", "bob"}]
    rows = [r"\s+".join(str(each[name]) for name in ("pid", "user", "in_flight", "waiting")) for each in slow]
    return len(rows) == len(SLOW) and all(re.search(f"{facts}\\s", screen) for facts in rows)


def test_a_ledger_that_appears_and_a_killed_holder(tmp_path: Path) -> None:
    """From no file yet to the slot that went on to the next; and nothing is left on the terminal."""
    path = tmp_path / "ledger.json"
    with Terminal(tmp_path, [*MONITOR, str(path)], (120, 30)) as terminal:
        terminal.shows("no file yet")
        with crowd([SLOW[0], Run("eve", "p", "slow", 2, (120.0, 120.0), cap=4)], path) as children:
            terminal.shows("p/slow", "4/4")
            terminal.press("4")
            terminal.shows("granted", "joined")
            victim = next(child for child in children if child.pid == holder_of(path))
            victim.kill()
            terminal.shows("reclaimed")
        terminal.press("q")
        assert terminal.code() == 0
        assert "llm-sched" not in terminal.text()


def holder_of(path: Path) -> int:
    """A process that holds a slot for which another one waits: a dead one's slot goes to who asks."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for each in read_snapshot(path).buckets:
            for holder in each.holders:
                if any(waiter.pid != holder.pid for waiter in each.waiters):
                    return holder.pid
        time.sleep(0.01)
    pytest.fail("nobody holds while others wait")


def test_it_records_what_it_shows_and_replays_it(tmp_path: Path) -> None:
    """Record beside a real run, end with Ctrl-C, replay at ten times the speed: the same bucket, and the end is told."""
    path, file = tmp_path / "ledger.json", tmp_path / "r.gz"
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    with crowd(BUSY, path), Terminal(tmp_path / "one", [*MONITOR, str(path), "--record", str(file)]) as terminal:
        terminal.shows("p/busy", "/2")
        terminal.press("C-c")
        assert terminal.code() == 130
    with Terminal(tmp_path / "two", [*MONITOR, "--replay", str(file), "--speed", "10"]) as terminal:
        terminal.shows("p/busy", "replay ended")
        terminal.press("q")
        assert terminal.code() == 0


def test_a_terminal_that_can_do_no_more_gets_text(tmp_path: Path) -> None:
    """`TERM=dumb`."""
    with Terminal(tmp_path, [*MONITOR, "--replay", str(REAL)], (100, 30), TERM="dumb") as terminal:
        assert terminal.code() == 0
        assert "openai/gpt-4o" in terminal.text()


def test_a_closed_terminal_ends_it(tmp_path: Path) -> None:
    """The process does not outlive its terminal."""
    pid_file = tmp_path / "pid"
    code = f"import os; open({str(pid_file)!r}, 'w').write(str(os.getpid())); from llm_sched_tui.cli import main; main()"
    with Terminal(tmp_path, [sys.executable, "-c", code, str(tmp_path / "ledger.json")]) as terminal:
        terminal.shows("no file yet")
    deadline = time.monotonic() + PATIENCE_S
    while Path(f"/proc/{pid_file.read_text()}").exists():
        assert time.monotonic() < deadline, "it goes on without a terminal"
        time.sleep(0.02)


def test_a_terminated_monitor_gives_the_terminal_back(tmp_path: Path) -> None:
    """And its recording has an end."""
    pid_file, file = tmp_path / "pid", tmp_path / "r.gz"
    code = f"import os; open({str(pid_file)!r}, 'w').write(str(os.getpid())); from llm_sched_tui.cli import main; main()"
    line = [sys.executable, "-c", code, str(tmp_path / "ledger.json"), "--record", str(file)]
    with Terminal(tmp_path, line) as terminal:
        terminal.shows("no file yet")
        os.kill(int(pid_file.read_text()), signal.SIGTERM)
        assert terminal.code() == 143
        assert "no file yet" not in terminal.text()
    assert len(gzip.decompress(file.read_bytes()).splitlines()) == 3


def test_the_demo_opens_the_monitor_and_ends_with_its_summary(tmp_path: Path) -> None:
    """The first command of the README is the first picture; q leads to the summary."""
    arguments = ("--workers", "2", "--calls", "24", "--latency", "0.1", "--max-in-flight", "2")
    with Terminal(tmp_path, [*DEMO, *arguments], TMPDIR=str(tmp_path)) as terminal:
        terminal.shows("stub/gpt-demo", "2/2", "worker-1")
        terminal.shows("done: 24 of 24 calls answered, at most 2 at once (cap 2). Press q")
        terminal.press("q")
        assert terminal.code() == 0
        assert "OK: never more than 2 at once" in terminal.text()
    assert not list(tmp_path.glob("llm-sched-demo-*"))


def test_ctrl_c_in_the_demos_monitor_ends_the_demo(tmp_path: Path) -> None:
    """Clean: one line, exit code 130, no folder left."""
    with Terminal(tmp_path, [*DEMO, "--latency", "30", "--workers", "1"], TMPDIR=str(tmp_path)) as terminal:
        terminal.shows("stub/gpt-demo", "4/4")
        terminal.press("C-c")
        assert terminal.code() == 130
        text = terminal.text()
    assert "Interrupted; the provider and the workers are gone." in text
    assert "Traceback" not in text
    assert not list(tmp_path.glob("llm-sched-demo-*"))


def test_who_leaves_the_demos_monitor_sees_the_table(tmp_path: Path) -> None:
    """And Ctrl-C still ends it."""
    with Terminal(tmp_path, [*DEMO, "--latency", "30", "--workers", "1"], TMPDIR=str(tmp_path)) as terminal:
        terminal.shows("stub/gpt-demo", "4/4", "1 Overview")
        terminal.press("q")
        terminal.shows("provider saw", "worker-1")
        terminal.press("C-c")
        assert terminal.code() == 130
        assert "Traceback" not in terminal.text()


@pytest.mark.parametrize("refusal", ["--no-monitor", "--plain"])
def test_the_demo_without_the_monitor(tmp_path: Path, refusal: str) -> None:
    """A way to say no."""
    arguments = (refusal, "--workers", "1", "--calls", "8", "--latency", "0.05")
    with Terminal(tmp_path, [*DEMO, *arguments], TMPDIR=str(tmp_path)) as terminal:
        assert terminal.code() == 0
        text = terminal.text()
    assert "provider saw" in text
    assert "verdict" in text
    assert "1 Overview" not in text
