"""Our commands as a user types them."""

from __future__ import annotations

import os
import subprocess
import sys

MAIN = [sys.executable, "-c", "from llm_sched.cli import main; main()"]


def llm_sched(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `llm-sched ARGUMENTS` to its end, with that in the environment."""
    env = {**os.environ, "COLUMNS": "200", **environment}
    return subprocess.run([*MAIN, *arguments], env=env, capture_output=True, text=True, timeout=90, check=False)
