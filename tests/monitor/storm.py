"""A writer that changes a large ledger a thousand times a second: `python -m tests.monitor.storm FILE`.

The ledger, its copy and its mailboxes are real ones; what is in them is made up. It ends when its standard input does,
and prints how many times it wrote, and in how many seconds.
"""

from __future__ import annotations

import os
import select
import sys
import time
from pathlib import Path

from llm_sched import codec, host
from llm_sched.mailroom import FileMailroom, Header
from llm_sched.model import Bucket, Lease, Member, Owner, State, Terms, Ticket, Totals
from llm_sched.store.file import folder_of
from llm_sched.store.files import TwinFile

BUCKETS, PEOPLE, OWNERS, WRITES_PER_S = 8, 500, 40, 1000


def build(path: Path) -> tuple[State, list[FileMailroom]]:
    """A ledger with 8 buckets, and 500 holders and waiters of 40 owners who live as long as their mailrooms are open."""
    folder_of(path).mkdir(parents=True, exist_ok=True)
    state = codec.new_state(host.new_id(), host.boot_id(), host.machine_id())
    names = [f"{os.getpid()}-{number:08x}" for number in range(OWNERS)]
    rooms: list[FileMailroom] = []
    for number, name in enumerate(names):
        owner = Owner(os.getpid() + number, f"user-{number % 7}", f"run.py --shard {number}", host.pid_namespace())
        state.owners[name] = owner
        rooms.append(FileMailroom(folder_of(path)))
        rooms[-1].join(name, Header(owner, Terms()), names)
    for number in range(BUCKETS):
        state.buckets[f"provider/model-{number}"] = _bucket(number, names)
    return state, rooms


def _bucket(number: int, names: list[str]) -> Bucket:
    now, half = time.monotonic(), PEOPLE // BUCKETS // 2
    bucket = Bucket({"provider": "provider", "model": f"model-{number}"}, terms=[Terms(max_in_flight=half)])
    bucket.members = {name: Member() for name in names}
    bucket.totals = Totals(waits=[0] * 16)
    for index in range(half):
        name = names[(index + number) % OWNERS]
        bucket.leases.append(Lease(name, index, now - index, 0.5, index))
        bucket.queue.append(Ticket(name, 1000 + index, now - index / 10, index, deadline=now + 3000))
        bucket.members[name].held += 1
        bucket.members[name].waiting += 1
    return bucket


def change(state: State, turn: int) -> None:
    """One hand-off: the longest holder of one bucket gives back, the head of its queue gets the slot and asks again."""
    now = time.monotonic()
    bucket = state.buckets[f"provider/model-{turn % BUCKETS}"]
    done, head = bucket.leases.pop(0), bucket.queue.pop(0)
    bucket.members[done.owner].held -= 1
    bucket.leases.append(Lease(head.owner, head.number, now, now - head.at, head.cell))
    bucket.members[head.owner].held += 1
    bucket.members[head.owner].granted += 1
    bucket.queue.append(Ticket(head.owner, 2000 + turn, now, head.cell, deadline=now + 3000))
    bucket.totals.granted += 1
    bucket.totals.wait_s += now - head.at
    bucket.totals.waits[9] += 1
    state.seq += 1
    state.clock, state.updated_at = now, time.time()


def main() -> None:
    """Write until standard input ends."""
    path = Path(sys.argv[1])
    state, rooms = build(path)
    file = TwinFile(path, 0o600)
    begun, turn = time.monotonic(), 0
    while not select.select([sys.stdin], [], [], 0)[0]:
        change(state, turn)
        file.write(codec.encode(state))
        turn += 1
        time.sleep(max(0.0, begun + turn / WRITES_PER_S - time.monotonic()))
    sys.stdout.write(f"{turn} {time.monotonic() - begun}\n")
    sys.stdout.flush()
    sys.stdin.readline()
    sys.stdin.read()  # the owners live on, until there is no more to come
    for room in rooms:
        room.leave()


if __name__ == "__main__":
    main()
