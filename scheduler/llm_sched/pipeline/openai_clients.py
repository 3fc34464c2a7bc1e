"""The SDK's clients of one endpoint: one for all threads of a process, one for each event loop.

The law: connections belong to the process and the loop that opened them; a forked child opens its own. A client whose key is
out of date is closed when the last call that uses it is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary, finalize, ref

from llm_sched.dropped import close_in_a_thread, close_on_its_loop
from llm_sched.pipeline.openai_http import read_to_end, read_to_end_async

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

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
                finalize(self._threads, _close_unused, self._pid, web.close).atexit = False
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
                finalize(client, _close_unused_async, self._pid, ref(loop), web.aclose).atexit = False
            return client

    def __del__(self) -> None:
        # Nobody calls any more, so there is no need to wait until the clients are collected.
        if getattr(self, "_pid", 0) != os.getpid():
            return
        if self._threads is not None:
            close_in_a_thread(self._threads.close)
        for loop, client in list(self._loops.items()):
            _close_unused_async(self._pid, ref(loop), client.close)

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


def _close_unused(pid: int, close: Callable[[], None]) -> None:
    if pid == os.getpid():
        close_in_a_thread(close)


def _close_unused_async(pid: int, loop: ref[asyncio.AbstractEventLoop], close: Callable[[], Awaitable[None]]) -> None:
    its = loop()
    if its is not None and pid == os.getpid():
        with contextlib.suppress(RuntimeError):  # it is closed
            close_on_its_loop(its, close)
