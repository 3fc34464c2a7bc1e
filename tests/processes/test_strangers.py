"""Owners who only seem to live: reused pids, another boot, left-behind files, other pid namespaces, other users."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from process_crew import until
from process_ledger import in_flight, left_behind, owners, waiting

from llm_sched import read_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable

    from process_crew import Crew

SOON_S = 5.0
STRANGER = 23456
GROUP = 23457

linux = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
root_only = pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can start a child as another user"
)


def rewrite(ledger: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the document of a ledger by hand, with a good checksum."""
    document = json.loads(ledger.read_text(encoding="utf-8"))
    change(document)
    del document["crc"]
    body = json.dumps(document, separators=(",", ":")).encode()[:-1]
    ledger.write_bytes(body + b',"crc":"%08x"}\n' % zlib.crc32(body))


def rename_owner(document: dict[str, Any], owner: str, other: str) -> None:
    """Give an owner, and what it holds, another id."""
    document["owners"][other] = document["owners"].pop(owner)
    for bucket in document["buckets"].values():
        bucket["members"][other] = bucket["members"].pop(owner)
        for lease in bucket["leases"]:
            lease["owner"] = other


def start_time(pid: int) -> int:
    """When the kernel started a process."""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return int(stat[stat.rindex(")") + 2 :].split()[19])


def dead_owners_ledger(crew: Crew, ledger: Path) -> str:
    """Make a ledger in which a dead process holds the only slot; return the owner's id."""
    dead = crew.puppet(ledger, max_in_flight=1)
    assert dead.ask("held", do="acquire")["got"]
    dead.kill()
    owner: str = next(iter(json.loads(ledger.read_text(encoding="utf-8"))["owners"]))
    return owner


@linux
@pytest.mark.parametrize("mailbox", [True, False], ids=["with mailbox", "without mailbox"])
def test_a_reused_pid_is_no_sign_of_life(crew: Crew, ledger: Path, *, mailbox: bool) -> None:
    """An owner whose pid now belongs to an unrelated living process is dead: its slot goes to the next call."""
    owner = dead_owners_ledger(crew, ledger)
    living = crew.start("process_bodies", "stay", state=ledger)
    living.hear("ready")
    other = f"{living.pid}-{owner.partition('-')[2]}"

    def change(document: dict[str, Any]) -> None:
        rename_owner(document, owner, other)
        document["owners"][other]["pid"] = living.pid

    rewrite(ledger, change)
    folder = ledger.with_name(ledger.name + ".d")
    (folder / f"{owner}.box").rename(folder / f"{other}.box")
    if not mailbox:
        (folder / f"{other}.box").unlink()
    newcomer = crew.puppet(ledger, max_in_flight=1)
    assert newcomer.ask("wanted", do="acquire", timeout_s=0)["got"]
    assert owners(ledger) == [newcomer.pid]
    assert all(name.startswith(f"{newcomer.pid}-") for name in left_behind(ledger))


@linux
def test_a_living_owner_without_mailbox_is_known_by_its_start_time(crew: Crew, ledger: Path) -> None:
    """Where the mailbox was deleted, the same pid with the same start time is alive, and keeps its slot."""
    holder, newcomer = (crew.puppet(ledger, max_in_flight=1) for _ in range(2))
    assert holder.ask("held", do="acquire")["got"]
    for file in ledger.with_name(ledger.name + ".d").glob("*.box"):
        file.unlink()
    assert json.loads(ledger.read_text(encoding="utf-8"))["owners"].popitem()[1]["started"] == start_time(holder.pid)
    assert not newcomer.ask("too early", do="acquire", timeout_s=0)["got"]
    holder.kill(reap=False)
    assert newcomer.ask("wanted", do="acquire", timeout_s=0)["got"]


def test_nobody_of_another_boot_lives(crew: Crew, ledger: Path) -> None:
    """After a reboot the slots are free, the totals are kept, and the token buckets start empty."""
    policy: dict[str, Any] = {"max_in_flight": 1, "requests_per_minute": 60, "burst": 5}
    before = crew.puppet(ledger, **policy)
    for number in range(2):
        assert before.ask(f"call {number}", do="acquire")["got"]
        if not number:
            before.ask("release call 0", do="release")
    before.kill()

    def change(document: dict[str, Any]) -> None:
        document["boot"] = "another boot"
        document["clock"] += 1e6

    rewrite(ledger, change)
    assert not any(owner.alive for owner in read_snapshot(ledger).owners)
    after = crew.puppet(ledger, **policy)
    answer = after.ask("too early", do="acquire", timeout_s=0)
    assert answer["error"] == "SlotTimeout"
    assert "requests per minute" in answer["text"]
    bucket = read_snapshot(ledger).buckets[0]
    assert bucket.in_flight == 0
    assert (bucket.totals.granted, bucket.totals.reclaimed) == (2, 1)
    assert after.ask("wanted", do="acquire", timeout_s=30)["got"]
    assert [owner.pid for owner in read_snapshot(ledger).owners] == [after.pid]


def test_what_killed_processes_left_is_swept(crew: Crew, ledger: Path) -> None:
    """Files of owners that the ledger does not even know go when the next process joins."""
    dead_owners_ledger(crew, ledger)
    folder = ledger.with_name(ledger.name + ".d")
    shutil.copy(next(folder.glob("*.box")), folder / "1-00000000.box")
    os.mkfifo(folder / "1-00000000.1.fifo")
    newcomer = crew.puppet(ledger, max_in_flight=1)
    assert newcomer.ask("wanted", do="acquire", timeout_s=0)["got"]
    assert all(name.startswith(f"{newcomer.pid}-") for name in left_behind(ledger))


UNSHARE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")


def may_unshare() -> bool:
    """Whether pid namespaces can be made here."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*UNSHARE, "true"], capture_output=True, check=False, timeout=30).returncode == 0


@pytest.mark.skipif(sys.platform != "linux" or not may_unshare(), reason="making pid namespaces is not allowed here")
def test_pid_namespaces_share_a_cap(crew: Crew, ledger: Path) -> None:
    """Processes of different pid namespaces, with the same pids, share one cap; a killed one's slot goes to the other."""
    inside = crew.puppet(ledger, through=UNSHARE, max_in_flight=2)
    other = crew.puppet(ledger, through=UNSHARE, max_in_flight=2)
    outside = crew.puppet(ledger, max_in_flight=2)
    assert inside.ask("held", do="acquire")["got"]
    assert other.ask("held", do="acquire")["got"]
    assert sorted(owners(ledger)) == [1, 1]
    for each in (outside, other, inside):
        assert not each.ask("too many", do="acquire", timeout_s=0)["got"]
    outside.tell(name="wanted", do="begin")
    until(lambda: waiting(ledger) == 1, "it waits")
    os.killpg(inside.pid, signal.SIGKILL)
    assert outside.hear("wanted", SOON_S)["got"]
    inside.process.wait(SOON_S)
    other.tell(name="wanted", do="begin_task")
    until(lambda: waiting(ledger) == 1, "it waits")
    outside.kill()
    assert other.hear("wanted", SOON_S)["got"]
    assert in_flight(ledger) == 2


@root_only
def test_a_second_user_gets_one_clear_error(crew: Crew, ledger: Path) -> None:
    """A ledger is its user's own: another user's call ends in a LedgerError that says what to do; nothing changes."""
    open_the_way(ledger.parent)
    own = crew.puppet(ledger, max_in_flight=1)
    assert own.ask("held", do="acquire")["got"]
    ledger.parent.chmod(0o755)
    before = ledger.read_bytes()
    stranger = crew.start("process_bodies", "serve_as", uid=STRANGER, gid=STRANGER, state=ledger, max_in_flight=1)
    stranger.hear("ready")
    for name in ("first", "second"):
        answer = stranger.ask(name, do="acquire", timeout_s=1)
        assert answer["error"] == "LedgerError"
        assert str(ledger) in answer["text"]
        assert "permission" in answer["text"]
        assert "MAS_LLM_SCHEDULER_STATE" in answer["text"]
    assert ledger.read_bytes() == before
    for file in (ledger, Path(f"{ledger}.lock"), Path(f"{ledger}.copy"), *Path(f"{ledger}.d").iterdir()):
        assert file.stat().st_mode & 0o077 == 0


@root_only
def test_two_users_share_a_setgid_folder(crew: Crew, ledger: Path) -> None:
    """In a setgid folder that their group may write, users share one cap, and ring, reap and outlive each other."""
    folder = ledger.parent / "shared"
    folder.mkdir()
    os.chown(folder, 0, GROUP)
    folder.chmod(0o2770)
    open_the_way(ledger.parent)
    shared = folder / "state.json"
    users = [
        crew.start("process_bodies", "serve_as", uid=uid, gid=GROUP, state=shared, max_in_flight=1)
        for uid in (STRANGER, STRANGER + 1, STRANGER)
    ]
    for user in users:
        user.hear("ready")
    first, second, third = users
    assert first.ask("held", do="acquire")["got"]
    for place, (user, how) in enumerate(((second, "begin"), (third, "begin_task"), (second, "begin_task")), 1):
        user.tell(name=f"wanted {place}", do=how)
        until(lambda place=place: waiting(shared) == place, "it waits")  # type: ignore[misc]
    first.ask("release held", do="release")
    assert second.hear("wanted 1", SOON_S)["got"]
    second.ask("release wanted 1", do="release")
    assert third.hear("wanted 2", SOON_S)["got"]
    third.kill()
    assert second.hear("wanted 3", SOON_S)["got"]
    assert sorted(owners(shared)) == sorted([first.pid, second.pid])
    second.end()
    first.end()
    assert left_behind(shared) == []


def open_the_way(folder: Path) -> None:
    """Let other users come as far as this folder of the test's own."""
    for parent in (folder, *folder.parents):
        if parent.owner() != "root" or parent == Path("/"):
            break
        if not parent.stat().st_mode & 0o001:
            parent.chmod(parent.stat().st_mode | 0o011)


@linux
def test_a_living_owner_with_a_zombies_pid_costs_no_processor(crew: Crew, ledger: Path) -> None:
    """Where an owner of another pid namespace has the number of a zombie here, those who wait sleep all the same."""
    holder = crew.puppet(ledger, max_in_flight=1)
    assert holder.ask("held", do="acquire")["got"]
    zombie = crew.start("process_bodies", "stay", state=ledger)
    zombie.hear("ready")
    zombie.kill(reap=False)
    owner: str = next(iter(json.loads(ledger.read_text(encoding="utf-8"))["owners"]))
    other = f"{zombie.pid}-{owner.partition('-')[2]}"
    rewrite(ledger, lambda document: rename_owner(document, owner, other))
    folder = ledger.with_name(ledger.name + ".d")
    (folder / f"{owner}.box").rename(folder / f"{other}.box")
    waiter = crew.puppet(ledger, max_in_flight=1)
    waiter.tell(name="wanted", do="begin")
    until(lambda: waiting(ledger) == 1, "it waits")
    before = processor_ticks(waiter.pid)
    assert not waiter.ask("also", do="acquire", timeout_s=3)["got"]
    assert processor_ticks(waiter.pid) - before < 1.5 * os.sysconf("SC_CLK_TCK")
    holder.kill()
    assert waiter.hear("wanted", SOON_S)["got"]


def processor_ticks(pid: int) -> int:
    """Processor time that a process has used."""
    stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    return sum(map(int, stat[stat.rindex(")") + 2 :].split()[11:13]))
