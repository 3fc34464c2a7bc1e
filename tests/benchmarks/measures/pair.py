"""What a slot costs when nobody else wants one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.benchmarks.commands import Connect, Pairs
from tests.benchmarks.fleet import Fleet

if TYPE_CHECKING:
    from tests.benchmarks.bench import Bench
    from tests.benchmarks.peers.base import Backend


class Pair:
    """Acquire and release in a hot loop, one thread: median over batches of the time per pair.

    One thread holds one slot, so there is nothing for the witness to see.
    """

    name = "pair"
    about = "acquire + release, uncontended"

    def applies(self, backend: Backend) -> bool:
        """Everybody."""
        del backend
        return True

    def run(self, bench: Bench, backend: Backend) -> dict[str, float]:
        """Measure in one worker."""
        scale = bench.scale
        with bench.place(backend, waiters=1) as place, Fleet(1) as fleet:
            fleet.tell(Connect(backend.name, place))
            return {"pair.us": fleet.tell(Pairs(scale.pair_batches, scale.pair_batch_s))[0]}
