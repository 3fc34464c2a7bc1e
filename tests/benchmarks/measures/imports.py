"""What `import llm_sched` costs."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from tests.benchmarks.peers import OURS

if TYPE_CHECKING:
    from tests.benchmarks.bench import Bench
    from tests.benchmarks.peers.base import Backend

_LIMIT_S = 30.0


class Imports:
    """A fresh Python that imports us against one that does nothing, in turn: difference of the medians."""

    name = "import"
    about = "import llm_sched, over bare Python"

    def applies(self, backend: Backend) -> bool:
        """Only ours."""
        return backend.name == OURS

    def run(self, bench: Bench, backend: Backend) -> dict[str, float]:
        """Measure several starts."""
        del backend
        bare, ours = [], []
        _start("import llm_sched")  # the first one may still have to write bytecode
        for _ in range(bench.scale.imports):
            bare.append(_start("pass"))
            ours.append(_start("import llm_sched"))
        return {"import.ms": 1e3 * (statistics.median(ours) - statistics.median(bare))}


def _start(code: str) -> float:
    begin = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, timeout=_LIMIT_S)
    return time.perf_counter() - begin
