"""A private redis-server on a Unix socket: started, asked for its CPU time, and stopped."""

from __future__ import annotations

import shutil
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import redis

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_START_S = 10.0


class RedisServer:
    """At most one server process, with no persistence and no TCP port."""

    def __init__(self) -> None:
        """Start nothing yet."""
        self._client: redis.Redis | None = None
        self.socket = ""

    def missing(self) -> str | None:
        """Why there can be no server, or None."""
        return None if shutil.which("redis-server") else "redis-server is not installed"

    @contextmanager
    def running(self, folder: Path) -> Iterator[None]:
        """Run it with its socket in `folder`; `RuntimeError` when it does not answer."""
        self.socket = str(folder / "redis.sock")
        command = ["redis-server", "--port", "0", "--unixsocket", self.socket, "--dir", str(folder)]
        command += ["--save", "", "--appendonly", "no"]
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            self._client = redis.Redis(unix_socket_path=self.socket)
            self._wait(process)
            yield
        finally:
            process.kill()
            process.wait()
            self._client = None

    def cpu_s(self) -> float:
        """CPU seconds used so far, by the server's own count in microseconds."""
        info = self._connected().info("cpu")
        return float(info["used_cpu_user"]) + float(info["used_cpu_sys"])

    def length(self, key: str) -> int:
        """Length of the list at `key`."""
        return int(self._connected().llen(key))

    def _wait(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _START_S
        while not self._answers():
            if time.monotonic() > deadline or process.poll() is not None:
                message = f"redis-server did not answer on {self.socket} within {_START_S:g} s"
                raise RuntimeError(message)
            time.sleep(0.02)

    def _connected(self) -> redis.Redis:
        if self._client is None:
            message = "the server has not been started"
            raise RuntimeError(message)
        return self._client

    def _answers(self) -> bool:
        try:
            return bool(self._connected().ping())
        except redis.ConnectionError:
            return False
