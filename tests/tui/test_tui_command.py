"""`llm-sched-tui` where it prints, and what it refuses."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from tui_support import CONTENTION, model, reading, snapshot

from llm_sched import Policy, Scheduler
from llm_sched_tui.cli import command
from llm_sched_tui.once import print_once
from llm_sched_tui.view_model.values import Query

if TYPE_CHECKING:
    from collections.abc import Iterator

REAL = str(Path(__file__).with_name("contention.rec.gz"))


@pytest.fixture
def ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A ledger in which a slot is held."""
    for name in [name for name in os.environ if name.startswith(("MAS_LLM_", "LLM_SCHED_"))]:
        monkeypatch.delenv(name)
    path = tmp_path / "ledger.json"
    scheduler = Scheduler(Policy(max_in_flight=3, user="ann", state_path=path))
    with scheduler.slot(provider="p", model="m"):
        yield path
    scheduler.close()


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, without a terminal."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "120", **environment}
    line = [sys.executable, "-m", "llm_sched_tui", *arguments]
    return subprocess.run(line, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_once_prints_the_overview(ledger: Path) -> None:
    """In flight, limit, waiting; and a bucket, if asked, with its holders."""
    result = run(str(ledger), "--once", "--bucket", "p/m")
    assert (result.returncode, result.stderr) == (0, "")
    assert "● p/m" in result.stdout
    assert "1/3" in result.stdout
    assert "live" in result.stdout
    assert "ann" in result.stdout.partition("holds")[2]
    assert "nobody waits" in result.stdout
    assert "\x1b" not in result.stdout


def test_without_a_terminal_it_prints_once(ledger: Path) -> None:
    """So that a pipe is no trap; and the path may come from the environment."""
    result = run(MAS_LLM_SCHEDULER_STATE=str(ledger))
    assert result.returncode == 0
    assert "1/3" in result.stdout


def test_once_where_there_is_no_ledger(tmp_path: Path) -> None:
    """No error: it says so."""
    result = run(str(tmp_path / "none.json"), "--once")
    assert result.returncode == 0
    assert "no file yet" in result.stdout
    assert list(tmp_path.iterdir()) == []


def test_once_in_ascii(ledger: Path) -> None:
    """Where the terminal knows no other characters."""
    result = run(str(ledger), "--once", PYTHONIOENCODING="ascii", PYTHONUTF8="0", LC_ALL="C")
    assert result.returncode == 0
    assert "* p/m" in result.stdout
    assert "##" in result.stdout


def test_once_of_a_recording_shows_its_end() -> None:
    """With what was counted by then."""
    result = run("--replay", REAL, "--once")
    assert result.returncode == 0
    assert "openai/text-embedding-3-small" in result.stdout
    assert "8/8" in result.stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("--refresh", "0"), "--refresh"),
        (("--refresh", "nan"), "--refresh"),
        (("--speed", "2"), "--speed goes with --replay"),
        (("--replay", REAL, "--speed", "inf"), "--speed"),
        (("--replay", REAL, "--speed", "0"), "--speed"),
        (("x.json", "--replay", REAL), "--replay"),
        (("--replay", REAL, "--record", "x.gz"), "--replay"),
        (("--once", "--record", "x.gz"), "--record"),
        (("--window", "7"), "--window"),
        (("--unknown",), "--unknown"),
        (("one", "two"), "two"),
    ],
)
def test_options_that_make_no_sense(arguments: tuple[str, ...], complaint: str) -> None:
    """Usage errors, exit code 2, nothing printed."""
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(("content", "complaint"), [(None, "No such file"), (b"no gzip", "no recording")])
def test_a_recording_that_cannot_be_played(tmp_path: Path, content: bytes | None, complaint: str) -> None:
    """One line that names the file."""
    path = tmp_path / "r.gz"
    if content is not None:
        path.write_bytes(content)
    result = run("--replay", str(path), "--once")
    assert result.returncode == 1
    assert len(result.stderr.splitlines()) == 1
    assert "r.gz" in result.stderr
    assert complaint in result.stderr


def test_a_folder_is_no_ledger(tmp_path: Path) -> None:
    """What may not be read is said; no traceback."""
    result = run(str(tmp_path), "--once")
    assert "unreadable" in result.stdout
    assert "it is a folder" in result.stdout
    assert "Traceback" not in result.stderr


def test_printing_loads_no_textual(ledger: Path) -> None:
    """It is for scripts."""
    code = (
        f"import sys; from llm_sched_tui.cli import command; command(['{ledger}', '--once'], standalone_mode=False); "
        "assert 'textual' not in sys.modules"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_colours_only_where_there_are_some() -> None:
    """A terminal gets them, one that wants none does not."""
    from rich.console import Console  # noqa: PLC0415 - only here

    known = model()
    known.take(reading(snapshot(*CONTENTION)))
    view = known.view(Query(), 0.0, 0.0)
    assert view is not None
    for options, coloured in (({}, True), ({"no_color": True}, False)):
        console = Console(force_terminal=True, color_system="truecolor", width=100, **options)  # type: ignore[arg-type]
        with console.capture() as captured:
            print_once(console, [view])
        assert ("\x1b[32m" in captured.get()) == coloured


def test_a_browser_is_served(ledger: Path) -> None:
    """As `textual-serve` starts it: no terminal, Textual's web driver, and what is drawn on standard output."""
    env = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "TEXTUAL_DRIVER": "textual.drivers.web_driver:WebDriver",
        "COLUMNS": "100",
        "ROWS": "30",
    }
    line = [sys.executable, "-m", "llm_sched_tui", str(ledger)]
    with subprocess.Popen(line, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        seen = b""
        while b"p/m" not in seen:
            data = process.stdout.read1(65536)
            assert data, f"it ended after {seen!r}"
            seen += data
        quit_it = b'{"type": "quit"}'
        process.stdin.write(b"M" + len(quit_it).to_bytes(4, "big") + quit_it)
        process.stdin.close()
        process.stdout.read()
    assert process.returncode == 0
