"""`mas-ctl` and `llm-sched` as a user runs them: real processes, a shell, a folder of their own."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from llm_sched.cli import llm_sched
from llm_sched.cli.mas_ctl import mas_ctl

AGENT = """
apiVersion: mas/v1
kind: Agent
metadata: {name: qa-agent}
spec:
  models: [{model: gpt-4o, temperature: 0.5, max_tokens: 64}]
  description: Answer general knowledge questions.
  context: {intent: Answer questions., role: You are brief.}
  tools: [{ref: ../tools/calc.tool.yaml}]
x-canvas: {a: b}
"""
SYSTEM = "[intent] Answer questions.\n\n[role] You are brief."
KEY = "sk-secret-of-the-test"
LONGEST_S = 60

_MAINS = {"mas-ctl": "llm_sched.cli.mas_ctl", "llm-sched": "llm_sched.cli"}


class Shell:
    """Runs command lines in a folder where the commands are found by name, as after an installation."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ledger = folder.parent / "ledger.json"
        scripts = folder.parent / "bin"
        scripts.mkdir(exist_ok=True)
        for name, module in _MAINS.items():
            script = scripts / name
            code = f"import sys; sys.argv[0] = {name!r}; from {module} import main; sys.exit(main())"
            script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{code}" "$@"\n')
            script.chmod(0o755)
        self.environment = {
            "PATH": f"{scripts}:{os.environ['PATH']}",
            "OPENAI_API_KEY": KEY,
            "MAS_LLM_SCHEDULER_STATE": str(self.ledger),
            "COLUMNS": "200",
        }

    def run(self, line: str, stdin: str = "", **environment: str | None) -> subprocess.CompletedProcess[str]:
        """Run one line of shell; a variable given as None is unset."""
        return subprocess.run(
            ["/bin/sh", "-c", line],
            cwd=self.folder,
            env=self._environment(environment),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )

    def call(self, line: str, stdin: str = "", **environment: str | None) -> Result:
        """Run a command line of ours in this process, which is much faster than a new one."""
        words = shlex.split(line)
        group = {"llm-sched": llm_sched, "mas-ctl": mas_ctl}[words[0]]
        return CliRunner().invoke(group, words[1:], input=stdin, env={**self.environment, **environment}, prog_name=words[0])

    def start(self, *command: str, **options: Any) -> subprocess.Popen[str]:
        """Start a command and leave it running; the caller ends it."""
        environment = self._environment(options.pop("environment", {}))
        return subprocess.Popen(command, cwd=self.folder, env=environment, text=True, **options)

    def _environment(self, more: dict[str, str | None]) -> dict[str, str]:
        merged = {**os.environ, **self.environment, **more}
        return {name: value for name, value in merged.items() if value is not None}


def failure(result: Result, code: int = 1) -> str:
    """The one line that a failed command wrote; there is no traceback, and no key."""
    assert result.exit_code == code, (result.stdout, result.stderr)
    assert "Traceback" not in result.stderr
    assert KEY not in result.stderr + result.stdout
    lines = [line for line in result.stderr.splitlines() if line]
    assert len(lines) == 1, result.stderr
    return lines[0]
