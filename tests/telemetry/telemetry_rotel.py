"""A real collector, `rotel`, between the programs and the sink."""

from __future__ import annotations

import socket
import subprocess
import time
from pathlib import Path

import pytest

PATIENCE_S = 30.0
_TRIES = 5


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


class Collector:
    """One that takes OTLP over gRPC and HTTP and passes it on; `grpc` and `http` are its endpoints.

    Args:
        folder: for its log.
        sink: base URL of where it sends to.
    """

    def __init__(self, folder: Path, sink: str) -> None:
        self._folder = folder
        self._sink = sink
        for _ in range(_TRIES):  # a port that was free may be taken before it listens; then it ends at once
            ports = (_free_port(), _free_port())
            self._process = self._start(*ports)
            if self._is_ready(*ports):
                self.grpc, self.http = (f"http://127.0.0.1:{port}" for port in ports)
                return
            self.close()
        raise AssertionError((folder / "rotel.out").read_text())

    def _start(self, grpc: int, http: int) -> subprocess.Popen[bytes]:
        rotel = pytest.importorskip("rotel", reason="needs rotel, a collector from PyPI: pip install '.[test]' on Linux")
        command = [
            str(Path(rotel.__file__).with_name("rotel-agent")),
            "start",
            *("--otlp-grpc-endpoint", f"127.0.0.1:{grpc}", "--otlp-http-endpoint", f"127.0.0.1:{http}"),
            *("--exporter", "otlp", "--otlp-exporter-protocol", "http", "--otlp-exporter-endpoint", self._sink),
        ]
        with (self._folder / "rotel.out").open("ab") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, cwd=self._folder)

    def _is_ready(self, *ports: int) -> bool:
        end = time.monotonic() + PATIENCE_S
        while self._process.poll() is None and time.monotonic() < end:
            if all(map(_answers, ports)):
                return True
            time.sleep(0.01)
        return False

    def close(self) -> None:
        """Stop; what it has is sent first."""
        if self._process.poll() is None:
            self._process.terminate()
        try:
            self._process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
