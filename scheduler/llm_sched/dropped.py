"""What Python collects while it holds a slot and a connection: both are given up, the connection first.

The law: nothing here blocks or raises in a finalizer. Python collects anywhere, so the thread that runs one may hold the very
locks that closing needs; what may block is done by a helper thread, or by the event loop that the connection belongs to.
"""

from __future__ import annotations

import _thread
import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


def close_in_a_thread(close: Callable[[], object], end: Callable[[], object] | None = None) -> None:
    """Close something in a helper thread; then do what is due after that. Neither is heard of when it fails."""
    with suppress(RuntimeError):  # the interpreter ends, and with it all that this process holds
        _thread.start_new_thread(_close, (close, end))


def close_on_its_loop(
    loop: asyncio.AbstractEventLoop, close: Callable[[], Awaitable[object]], end: Callable[[], object] | None = None
) -> None:
    """Close something as soon as its loop runs; then do what is due after that. Neither is heard of when it fails.

    Raises:
        RuntimeError: the loop is closed.
    """
    loop.call_soon_threadsafe(_begin_to_close, loop, close, end)


def _close(close: Callable[[], object], end: Callable[[], object] | None) -> None:
    with suppress(Exception):  # nobody is left who could hear of it
        close()
    if end is not None:
        end()


_closing: set[asyncio.Task[None]] = set()
"""A loop keeps only weak references to its tasks."""


def _begin_to_close(
    loop: asyncio.AbstractEventLoop, close: Callable[[], Awaitable[object]], end: Callable[[], object] | None
) -> None:
    task = loop.create_task(_close_async(close, end))
    _closing.add(task)
    task.add_done_callback(_closing.discard)


async def _close_async(close: Callable[[], Awaitable[object]], end: Callable[[], object] | None) -> None:
    try:
        with suppress(Exception):  # nobody is left who could hear of it
            await close()
    finally:
        if end is not None:
            end()
