"""Processes that really contend for slots, as evaluations, judges and agents on one machine do.

The law: a child ends when its standard input does, so none outlives whoever started it. Calls are made of sleeping: the
slots are real, the provider is not.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

_ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Run:
    """One process: `callers` threads that call `model` again and again, each for `hold_s` (least, most) seconds.

    `pauses`: (from, until) seconds after its begin in which it makes no new calls.
    """

    user: str
    provider: str
    model: str
    callers: int
    hold_s: tuple[float, float]
    cap: int = 8
    rpm: float = 0.0
    burst: float | None = None
    timeout_s: float = 300.0
    rest_s: tuple[float, float] = (0.0, 0.05)
    pauses: tuple[tuple[float, float], ...] = ()


def start(run: Run, state: Path, seed: int) -> subprocess.Popen[bytes]:
    """Start one run."""
    code = "from tests.monitor.crowd import main; main()"
    command = [sys.executable, "-c", code, run.user, json.dumps({**asdict(run), "state": str(state), "seed": seed})]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(command, stdin=subprocess.PIPE, env=environment, cwd=_ROOT)


@contextlib.contextmanager
def crowd(runs: Sequence[Run], state: Path) -> Generator[list[subprocess.Popen[bytes]]]:
    """Runs that are all gone when the block ends."""
    children: list[subprocess.Popen[bytes]] = []
    try:
        for number, run in enumerate(runs):
            children.append(start(run, state, number))
        yield children
    finally:
        for child in children:
            end(child)


def end(child: subprocess.Popen[bytes]) -> None:
    """End one run, and wait until it is gone."""
    if child.stdin is not None:
        with contextlib.suppress(OSError):
            child.stdin.close()
    try:
        child.wait(10)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()


def main() -> None:
    """In a child: call until standard input ends."""
    from llm_sched import Policy, Scheduler  # noqa: PLC0415 - the parent has no use for it

    known = json.loads(sys.argv.pop())
    sys.argv[0] = "run.py"
    policy = Policy(
        max_in_flight=known["cap"],
        requests_per_minute=known["rpm"],
        burst=known["burst"],
        timeout_s=known["timeout_s"],
        user=known["user"],
        state_path=known["state"],
        sources={"max_in_flight": "run.yaml"},
    )
    scheduler = Scheduler(policy)
    begun = time.monotonic()
    for number in range(known["callers"]):
        chance = random.Random(known["seed"] * 1000 + number)
        threading.Thread(target=_call, args=(scheduler, known, begun, chance), daemon=True).start()
    sys.stdin.read()
    os._exit(0)  # as a run that is interrupted: what it held comes back by itself


def _call(scheduler: object, known: dict[str, object], begun: float, chance: random.Random) -> None:
    from llm_sched import Scheduler, SlotTimeout  # noqa: PLC0415 - see above

    assert isinstance(scheduler, Scheduler)
    hold, rest, pauses = known["hold_s"], known["rest_s"], known["pauses"]
    while True:
        passed = time.monotonic() - begun
        pause = next((until - passed for since, until in pauses if since <= passed < until), 0.0)  # type: ignore[attr-defined]
        time.sleep(pause + chance.uniform(*rest))  # type: ignore[misc]
        with contextlib.suppress(SlotTimeout), scheduler.slot(provider=str(known["provider"]), model=str(known["model"])):
            time.sleep(chance.uniform(*hold))  # type: ignore[misc]
