"""The stub provider in a process of its own, so that neither its threads nor its GIL are the workers'."""

# Law: starts the provider elsewhere and fetches its counters. It may not count anything itself.

from __future__ import annotations

import contextlib
import http.client
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import msgspec

from llm_sched.demo.lifeline import Child, exit_with_parent
from llm_sched.demo.provider import StubProvider
from llm_sched.demo.witness import ProviderStats

if TYPE_CHECKING:
    from collections.abc import Generator
    from multiprocessing.connection import Connection

STATS_TIMEOUT_S = 10.0


class RemoteProvider:
    """A provider that runs elsewhere, seen through its HTTP interface."""

    def __init__(self, base_url: str) -> None:
        """Take the provider's `base_url`, ending in `/v1`."""
        self.base_url = base_url
        # http.client and not urllib: proxies from the environment must not come between us and the loopback
        self._http = http.client.HTTPConnection(urlsplit(base_url).netloc, timeout=STATS_TIMEOUT_S)

    def counters(self) -> ProviderStats:
        """The counters as they are now, without single requests.

        Raises:
            OSError: the provider doesn't answer.
        """
        return self._fetch("/stats")

    def stats(self) -> ProviderStats:
        """The counters and every request.

        Raises:
            OSError: the provider doesn't answer.
        """
        return self._fetch("/stats?records=1")

    def close(self) -> None:
        """Close the connection to the provider."""
        self._http.close()

    def _fetch(self, path: str) -> ProviderStats:
        try:
            self._http.request("GET", path)
            return msgspec.json.decode(self._http.getresponse().read(), type=ProviderStats)
        except http.client.HTTPException as error:
            self._http.close()
            message = f"the stub provider gave no answer to {path}: {error!r}"
            raise OSError(message) from error


@contextlib.contextmanager
def provider_process(*, limit: int, latency_s: float) -> Generator[RemoteProvider]:
    """Run a `StubProvider(limit, latency_s)` in its own process; gone when the context ends.

    Raises:
        RuntimeError: the process ended before it listened.
    """
    child = Child(_serve, limit, latency_s, name="stub-provider")
    try:
        try:
            base_url = str(child.connection.recv())
        except EOFError:
            message = f"the stub provider's process ended at once (exit code {child.exit_code()})"
            raise RuntimeError(message) from None
        with contextlib.closing(RemoteProvider(base_url)) as provider:
            yield provider
    finally:
        child.stop()


def _serve(connection: Connection[Any, Any], limit: int, latency_s: float) -> None:
    with StubProvider(limit=limit, latency_s=latency_s) as provider:
        connection.send(provider.base_url)
        exit_with_parent(connection, on_message=lambda _: None)
        threading.Event().wait()  # until the lifeline ends this process
