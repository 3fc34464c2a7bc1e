"""The SDK's clients of one endpoint: one for all threads of a process, one for each event loop.

The law: connections belong to the process and the loop that opened them; a forked child opens its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from llm_sched.pipeline.openai_http import read_to_end, read_to_end_async

if TYPE_CHECKING:
    from openai import AsyncOpenAI, OpenAI


class Clients:
    """Makes clients when they are needed, without retries of their own.

    Args:
        api_base: base URL.
        timeout_s: how long the provider may keep silent, in seconds.
    """

    def __init__(self, api_base: str, timeout_s: float) -> None:
        self._options: dict[str, Any] = {"base_url": api_base, "timeout": timeout_s, "max_retries": 0}
        self._start_anew()

    def _start_anew(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._threads: OpenAI | None = None
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncOpenAI] = WeakKeyDictionary()

    def sync(self, key: str) -> OpenAI:
        """The client for threads."""
        if self._pid != os.getpid():
            self._start_anew()
        with self._lock:
            if self._threads is None or self._threads.api_key != key:
                from openai import DefaultHttpxClient, OpenAI  # noqa: PLC0415 - half a second that only live calls pay

                web = DefaultHttpxClient(event_hooks={"response": [read_to_end]})
                self._threads = OpenAI(api_key=key, http_client=web, **self._options)
            return self._threads

    def asynchronous(self, key: str) -> AsyncOpenAI:
        """The client for tasks of the running event loop."""
        if self._pid != os.getpid():
            self._start_anew()
        loop = asyncio.get_running_loop()
        with self._lock:
            client = self._loops.get(loop)
            if client is None or client.api_key != key:
                from openai import AsyncOpenAI, DefaultAsyncHttpxClient  # noqa: PLC0415 - likewise

                web = DefaultAsyncHttpxClient(event_hooks={"response": [read_to_end_async]})
                client = self._loops[loop] = AsyncOpenAI(api_key=key, http_client=web, **self._options)
            return client

    def __del__(self) -> None:
        # Nobody calls any more. The SDK does the same for clients whose HTTP client it has made itself.
        if getattr(self, "_pid", 0) != os.getpid():
            return
        self.close()
        for loop, client in list(self._loops.items()):
            if loop.is_running():
                with contextlib.suppress(RuntimeError):  # it was closed just now
                    loop.call_soon_threadsafe(_close_later, client)

    def close(self) -> None:
        """Close the threads' connections; a later call opens new ones."""
        with self._lock:
            client, self._threads = self._threads, None
        if client is not None and self._pid == os.getpid():
            client.close()

    async def aclose(self) -> None:
        """Close the running event loop's connections; a later call opens new ones."""
        with self._lock:
            client = self._loops.pop(asyncio.get_running_loop(), None)
        if client is not None and self._pid == os.getpid():
            await client.close()


_closing: set[asyncio.Task[None]] = set()
"""Tasks that close dropped clients; an event loop itself keeps them only weakly."""


def _close_later(client: AsyncOpenAI) -> None:
    task = asyncio.get_running_loop().create_task(client.close())
    _closing.add(task)
    task.add_done_callback(_closing.discard)
