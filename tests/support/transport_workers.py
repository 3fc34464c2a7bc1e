"""What the children do in tests with several processes: calls through paced transports."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from transport_support import BODY, CHAT, FLAVOURS, STREAM_BODY

from llm_sched import Policy, install
from llm_sched.demo.lifeline import exit_with_parent

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


def call_often(
    connection: Connection[Any, Any],
    name: str,
    knobs: dict[str, Any],
    url: str,
    calls: int,
    *,
    headers: dict[str, str] | None = None,
    **extra: Any,
) -> None:
    """Make calls from eight threads, or from as many tasks in a process that is named `async`, and report their statuses.

    Args:
        connection: to the parent.
        name: of the library.
        knobs: of the policy.
        url: of the provider, ending in `/v1`.
        calls: how many; every second is streamed.
        headers: of each.
        extra: more for the body of each.
    """
    exit_with_parent(connection, on_message=lambda _: None)
    install(Policy(**knobs))
    bodies = [{**(STREAM_BODY if odd % 2 else BODY), **extra} for odd in range(calls)]
    if name == "async":
        connection.send(asyncio.run(_in_tasks(url + CHAT, bodies, headers)))
    else:
        connection.send(_in_threads(name, url + CHAT, bodies, headers))


def _in_threads(name: str, url: str, bodies: list[dict[str, Any]], headers: dict[str, str] | None) -> set[int]:
    flavour = FLAVOURS[name]
    with flavour.client(flavour.paced.PacedTransport(), timeout=60, headers=headers) as client, ThreadPoolExecutor(8) as pool:
        return set(pool.map(lambda body: client.post(url, json=body).status_code, bodies))


async def _in_tasks(url: str, bodies: list[dict[str, Any]], headers: dict[str, str] | None) -> set[int]:
    flavour = FLAVOURS["httpx2"]
    async with flavour.async_client(flavour.paced.AsyncPacedTransport(), timeout=60, headers=headers) as client:
        answers = await asyncio.gather(*(client.post(url, json=body) for body in bodies))
    return {answer.status_code for answer in answers}
