"""A real Prometheus, unprivileged, on a free port."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import threading
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from telemetry_stage import until

PATIENCE_S = 60.0
NOBODY = 65534
MISSING = "needs Prometheus: apt-get install prometheus"


def program(name: str) -> str:
    """The path of `prometheus` or `promtool`; without it the test is skipped."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(MISSING)
    return path


class Prometheus:
    """One that scrapes `targets` every second and evaluates our rules; ask it with `query`."""

    def __init__(self, targets: dict[str, list[str]], rules: Path) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="llm-sched-prometheus-"))
        shutil.copy(rules, self._folder / "rules.yaml")
        (self._folder / "prometheus.yaml").write_text(json.dumps(_config(targets)))
        command = [
            program("prometheus"),
            "--web.listen-address=127.0.0.1:0",
            f"--config.file={self._folder / 'prometheus.yaml'}",
            f"--storage.tsdb.path={self._folder / 'data'}",
        ]
        if os.getuid() == 0:
            command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *command]
            self._give_away()
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.url = f"http://{self._address()}"
        # Its log goes on; nobody must have to wait for a reader.
        self._reader = threading.Thread(target=self._read_on)
        self._reader.start()
        until(self._is_ready)

    def _give_away(self) -> None:
        for path in (self._folder, *self._folder.iterdir()):
            os.chown(path, NOBODY, NOBODY)

    def _address(self) -> str:
        assert self._process.stderr
        said: list[str] = []
        for line in self._process.stderr:
            said.append(line)
            found = re.search(r'"Listening on" address=(\S+)', line)
            if found:
                return found.group(1)
        raise AssertionError("".join(said))

    def _read_on(self) -> None:
        assert self._process.stderr
        for _ in self._process.stderr:
            pass

    def _is_ready(self) -> bool:
        try:
            urllib.request.urlopen(f"{self.url}/-/ready", timeout=PATIENCE_S).close()  # noqa: S310 - our own address
        except urllib.error.HTTPError as error:
            error.close()
            return False
        return True

    def get(self, path: str, **arguments: str) -> Any:
        """The `data` of an answer of its API."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(arguments)}"
        try:
            with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:  # noqa: S310 - our own address
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{arguments}: {error.read().decode()}") from error

    def query(self, expr: str) -> dict[tuple[tuple[str, str], ...], float]:
        """Evaluate now: labels -> value."""
        return {
            tuple(sorted(result["metric"].items())): float(result["value"][1])
            for result in self.get("query", query=expr)["result"]
        }

    def close(self) -> None:
        """Stop, and leave nothing."""
        self._process.terminate()
        self._process.wait(PATIENCE_S)
        self._reader.join()
        if self._process.stderr:
            self._process.stderr.close()
        shutil.rmtree(self._folder)


def _config(targets: dict[str, list[str]]) -> dict[str, Any]:
    jobs = [{"job_name": name, "static_configs": [{"targets": addresses}]} for name, addresses in targets.items()]
    return {
        "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": jobs,
    }
