"""What the children of the transports' tests do."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from transport_support import BODY, CHAT, FLAVOURS, STREAM_BODY

from llm_sched import Policy, install
from llm_sched.demo.lifeline import exit_with_parent

if TYPE_CHECKING:
    from multiprocessing.connection import Connection
    from pathlib import Path


def call_often(connection: Connection[Any, Any], name: str, state: Path, cap: int, url: str, calls: int) -> None:
    """Make calls from eight threads, or from eight tasks in a process that is named `async`, and report their statuses."""
    exit_with_parent(connection, on_message=lambda _: None)
    install(Policy(max_in_flight=cap, state_path=state))
    if name == "async":
        connection.send(asyncio.run(_in_tasks(url + CHAT, calls)))
    else:
        connection.send(_in_threads(name, url + CHAT, calls))


def _in_threads(name: str, url: str, calls: int) -> set[int]:
    flavour = FLAVOURS[name]
    with flavour.client(flavour.paced.PacedTransport(), timeout=60) as client, ThreadPoolExecutor(8) as pool:
        return set(pool.map(lambda odd: client.post(url, json=_body(odd)).status_code, range(calls)))


async def _in_tasks(url: str, calls: int) -> set[int]:
    flavour = FLAVOURS["httpx2"]
    async with flavour.async_client(flavour.paced.AsyncPacedTransport(), timeout=60) as client:
        answers = await asyncio.gather(*(client.post(url, json=_body(odd)) for odd in range(calls)))
    return {answer.status_code for answer in answers}


def _body(number: int) -> dict[str, Any]:
    return STREAM_BODY if number % 2 else BODY
