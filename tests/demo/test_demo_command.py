"""`llm-sched demo` as it is used: real processes, and what is left of them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner, Result

from llm_sched.cli.demo import demo
from llm_sched.demo.provider import StubProvider

if TYPE_CHECKING:
    from pathlib import Path

OURS = ("MAS_LLM_MAX_IN_FLIGHT", "MAS_LLM_RPM", "MAS_LLM_SCHEDULER_STATE", "OPENAI_API_KEY")
SMALL = ("--workers", "2", "--calls", "12", "--latency", "0.02")


@pytest.fixture(autouse=True)
def clean(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No settings of the machine, and a folder of its own for temporary files, which is returned."""
    for name in OURS:
        monkeypatch.delenv(name, raising=False)
    temporary = tmp_path / "t"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr("tempfile.tempdir", None)
    return temporary


def run(*arguments: str) -> Result:
    """The command, in this process; its workers are processes."""
    return CliRunner().invoke(demo, arguments, prog_name="llm-sched demo")


def summary_of(result: Result) -> dict[str, Any]:
    """What it printed on stdout, which is JSON and nothing else."""
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    summary: dict[str, Any] = json.loads(result.stdout)
    return summary


def test_the_provider_never_sees_more_than_the_cap(clean: Path) -> None:
    """Exit code 0, all calls answered, nobody refused, and no file left."""
    result = run("--json", "--max-in-flight", "2", *SMALL)
    summary = summary_of(result)
    assert result.exit_code == 0, result.output
    assert (summary["completed"], summary["failed"], summary["errors"], summary["refused"]) == (12, 0, {}, 0)
    assert 1 <= summary["peak"] <= summary["max_in_flight"] == 2
    assert (summary["witness"], summary["bucket"]) == ("provider", "stub/gpt-demo")
    assert summary["wait_s"]["max"] > 0
    assert summary["slot_handoff_s"]["count"] > 0
    assert list(clean.iterdir()) == []


def test_for_humans() -> None:
    """Progress lines where there is no terminal, and the summary with its verdict."""
    result = run("--max-in-flight", "2", *SMALL)
    assert result.exit_code == 0, result.output
    assert "12/12 calls" in result.stderr
    assert "stub/gpt-demo: " in result.stderr
    assert "OK: never more than 2 at once" in result.stdout
    assert "slot hand-off" in result.stdout


def test_without_a_scheduler_there_are_refusals() -> None:
    """Which is what one gets without it; the exit code tells."""
    result = run("--json", "--no-scheduler", "--max-in-flight", "1", *SMALL[:-1], "0.3")
    summary = summary_of(result)
    assert result.exit_code == 1
    assert summary["peak"] > 1
    assert summary["refused"] == summary["errors"]["429 RateLimitError"] == summary["failed"] > 0
    assert summary["bucket"] == ""


def test_a_given_ledger_is_used_and_kept(tmp_path: Path) -> None:
    """`--state` names it; it isn't the demo's to delete."""
    state = tmp_path / "ledger.json"
    result = run("--json", "--state", str(state), *SMALL)
    assert result.exit_code == 0, result.output
    assert state.exists()


def test_the_environment_is_asked_before_the_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its cap and its ledger hold where no option is given."""
    monkeypatch.setenv("MAS_LLM_MAX_IN_FLIGHT", "1")
    monkeypatch.setenv("MAS_LLM_SCHEDULER_STATE", str(tmp_path / "ledger.json"))
    summary = summary_of(run("--json", *SMALL))
    assert (summary["max_in_flight"], summary["peak"], summary["ok"]) == (1, 1, True)
    assert (tmp_path / "ledger.json").exists()


def test_no_cap_in_the_environment_is_for_other_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """The demo says so and shows its own cap; as an option it makes no sense."""
    monkeypatch.setenv("MAS_LLM_MAX_IN_FLIGHT", "0")
    result = run("--json", *SMALL)
    assert summary_of(result)["max_in_flight"] == 4
    assert "MAS_LLM_MAX_IN_FLIGHT=0 is no cap" in result.stderr
    refused = run("--max-in-flight", "0")
    assert refused.exit_code == 2
    assert "'--max-in-flight'" in refused.stderr


def test_an_option_beats_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in the workers, whose policies look at the environment again."""
    monkeypatch.setenv("MAS_LLM_MAX_IN_FLIGHT", "7")
    result = run("--json", "--max-in-flight", "1", *SMALL)
    assert result.exit_code == 0, result.output
    assert summary_of(result)["peak"] == 1


def test_another_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """No stub is started; the peak is the workers' own, and says so. The endpoint agrees."""
    monkeypatch.setenv("OPENAI_API_KEY", "secret-key")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with StubProvider(limit=2, latency_s=0.02) as endpoint:
        arguments = ("--base-url", endpoint.base_url, "--model", "some/model", "--max-in-flight", "2")
        result = run("--json", *arguments, "--workers", "2", "--calls", "12")
        stats = endpoint.stats()
    summary = summary_of(result)
    assert result.exit_code == 0, result.output
    assert summary["witness"] == "workers"
    assert summary["bucket"].endswith("/some/model")
    assert (stats.answered, stats.refused, stats.requests) == (12, 0, 12)
    assert stats.peak <= 2
    assert "secret-key" not in result.output


def test_another_endpoint_that_does_not_know_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives up at once: exit code 1, and every call that was asked for has failed."""
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with StubProvider(latency_s=0) as endpoint:
        arguments = ("--base-url", endpoint.base_url + "/nowhere", "--model", "m", "--workers", "1", "--calls", "500")
        result = run("--json", *arguments)
    assert result.exit_code == 1
    assert summary_of(result)["errors"] == {"404 NotFoundError": 500}


def test_a_ledger_that_cannot_be_used(tmp_path: Path) -> None:
    """Every worker gives up at once, and the summary says why."""
    (tmp_path / "file").write_text("")
    result = run("--state", str(tmp_path / "file" / "ledger.json"), *SMALL)
    assert result.exit_code == 1
    assert "ledger" in result.output
    assert result.exception is None or isinstance(result.exception, SystemExit)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--workers", "0"),
        ("--workers", "many"),
        ("--calls", "0"),
        ("--max-in-flight", "0"),
        ("--rpm", "-1"),
        ("--rpm", "inf"),
        ("--latency", "-0.1"),
        ("--latency", "nan"),
        ("--unknown",),
        ("--base-url", "http://127.0.0.1:1/v1"),
        ("--base-url", "http://127.0.0.1:1/v1", "--model", " "),
        ("--base-url", "127.0.0.1:1", "--model", "m"),
        ("--base-url", "http://127.0.0.1:1/v1", "--model", "m", "--latency", "1"),
    ],
)
def test_options_that_make_no_sense(arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Are usage errors, and nothing is started."""
    monkeypatch.setenv("OPENAI_API_KEY", "any")
    result = run(*arguments)
    assert result.exit_code == 2
    assert "Usage:" in result.stderr
    assert result.stdout == ""


def test_another_endpoint_needs_a_key() -> None:
    """One clear line."""
    result = run("--base-url", "http://127.0.0.1:1/v1", "--model", "m")
    assert result.exit_code == 2
    assert len(result.stderr.splitlines()) == 1
    assert "OPENAI_API_KEY" in result.stderr


def started(*arguments: str) -> subprocess.Popen[str]:
    """The command in a process and a session of its own, once its calls have begun."""
    code = "from llm_sched.cli.demo import demo; demo()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        start_new_session=True,
    )
    assert process.stderr is not None
    for text in process.stderr:
        if " calls | " in text:
            return process
    pytest.fail(f"ended before its calls began: {process.communicate()}")


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_demo_leaves_nothing(number: signal.Signals, code: int, clean: Path) -> None:
    """Ctrl-C reaches the whole group, SIGTERM only the parent. All processes hold our pipe: its end is theirs."""
    with started("--latency", "600") as process:
        (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
        out, err = process.communicate(timeout=30)
    assert (process.returncode, out) == (code, "")
    assert "Traceback" not in err
    assert list(clean.iterdir()) == []


@pytest.mark.skipif(os.name == "nt", reason="needs SIGKILL")
def test_a_killed_demo_takes_its_processes_with_it() -> None:
    """They notice that their parent is gone, although nobody could tell them."""
    with started("--latency", "600") as process:
        process.kill()
        process.communicate(timeout=30)  # returns when nobody holds the pipe any more


def test_the_package_does_not_load_the_demo() -> None:
    """Nor what only the demo needs."""
    code = "import sys, llm_sched; print([n for n in ('llm_sched.demo', 'openai', 'rich') if n in sys.modules])"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.strip() == "[]"
