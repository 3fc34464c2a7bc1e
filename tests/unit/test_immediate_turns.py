"""A loop is never blocked for longer than a transaction, also when every call is granted at once."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from test_loop_turns import CALLS, Heartbeat

if TYPE_CHECKING:
    from unit_support import Stage


def test_a_heartbeat_beside_500_calls_that_are_granted_at_once_sees_one_transaction_a_turn(stage: Stage) -> None:
    """Nobody has to wait, and nobody has to wait for nobody."""
    scheduler = stage.scheduler(max_in_flight=0)

    async def main() -> Heartbeat:
        heart = Heartbeat(stage)
        beating = asyncio.create_task(heart.beat())
        slots = await asyncio.gather(*(scheduler.acquire_async() for _ in range(CALLS)))
        beating.cancel()
        for slot in slots:
            slot.release()
        return heart

    assert asyncio.run(main()).most == 1
