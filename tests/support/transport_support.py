"""The two libraries, the clients on them, and how to wait for what must happen."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import httpx
import httpx2
import openai

from llm_sched import read_snapshot
from llm_sched.transports import httpx as paced_httpx
from llm_sched.transports import httpx2 as paced_httpx2

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

    from openai.types.chat import ChatCompletionMessageParam

    from llm_sched import Scheduler

PATIENCE_S = 30.0
"""How long to wait for what must happen; reached only by a test that fails."""

MODEL = "gpt-strict"
QUESTION: list[ChatCompletionMessageParam] = [{"role": "user", "content": "hello there"}]
BODY = {"model": MODEL, "messages": QUESTION}
STREAM_BODY = {**BODY, "stream": True}
CHAT = "/chat/completions"

OPENAI_MAJOR = int(openai.__version__.partition(".")[0])


class Flavour(NamedTuple):
    """One of the libraries, and our transports for it."""

    lib: Any
    paced: ModuleType

    def client(self, transport: Any, **options: Any) -> Any:
        """A client of the library itself."""
        return self.lib.Client(transport=transport, **options)

    def async_client(self, transport: Any, **options: Any) -> Any:
        """A client of the library itself, for asyncio."""
        return self.lib.AsyncClient(transport=transport, **options)

    def sdk(self, base_url: str, transport: Any, **options: Any) -> openai.OpenAI:
        """The real SDK on that library."""
        web = self.client(transport, follow_redirects=True)
        return openai.OpenAI(base_url=base_url, api_key="any", http_client=web, **options)

    def async_sdk(self, base_url: str, transport: Any, **options: Any) -> openai.AsyncOpenAI:
        """The real SDK on that library, for asyncio."""
        web = self.async_client(transport, follow_redirects=True)
        return openai.AsyncOpenAI(base_url=base_url, api_key="any", http_client=web, **options)


FLAVOURS = {"httpx": Flavour(httpx, paced_httpx), "httpx2": Flavour(httpx2, paced_httpx2)}

SDK_FLAVOURS = ["httpx", "httpx2"] if OPENAI_MAJOR >= 3 else ["httpx"]
"""openai 2 knows httpx alone; openai 3 takes either."""


def until(condition: Callable[[], object]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it has not happened"
        time.sleep(0.001)


async def until_async(condition: Callable[[], object]) -> None:
    """Wait until something holds, while the loop goes on."""
    end = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < end, "it has not happened"
        await asyncio.sleep(0.001)


class Ledger:
    """What the ledger says."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._path = scheduler.policy.path

    def held(self) -> int:
        """How many slots are held, in all buckets."""
        return sum(bucket.in_flight for bucket in read_snapshot(self._path).buckets)

    def waiting(self) -> int:
        """How many calls wait, in all buckets."""
        return sum(bucket.waiting for bucket in read_snapshot(self._path).buckets)

    def granted(self) -> int:
        """How many slots were ever given."""
        return sum(bucket.totals.granted for bucket in read_snapshot(self._path).buckets)

    def longest_wait_s(self) -> float:
        """How long the oldest waiter has been waiting, in seconds."""
        return max((bucket.oldest_wait_s for bucket in read_snapshot(self._path).buckets), default=0.0)

    def buckets(self) -> set[str]:
        """The names of all buckets."""
        return {bucket.name for bucket in read_snapshot(self._path).buckets}

    def is_free(self) -> bool:
        """Nobody holds, nobody waits."""
        return not self.held() and not self.waiting()
