"""What `llm-sched doctor` looks at, one function a question. Changes nothing that is there; may create the ledger's folder."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Literal, NamedTuple

from llm_sched import host, wakeup
from llm_sched.errors import LedgerError
from llm_sched.mailroom import FileMailroom
from llm_sched.snapshot import EXPLAINED, Snapshot, read_snapshot
from llm_sched.store import BusyError
from llm_sched.store.file import explain, folder_of, lock_path, shared_mode
from llm_sched.store.lock import FileLock
from llm_sched.telemetry.endpoint import GRPC, Signal, endpoint_of, problem_at, protocol_of, without_secrets
from llm_sched.telemetry.setup import is_asked_for

_PATIENCE_S = 2.0
_CHILD = """
import os, sys
from filelock import lock_descriptor
print(lock_descriptor(os.open(sys.argv[1], os.O_RDWR), blocking=False))
"""


class Finding(NamedTuple):
    """One answer: `bad` means a promise cannot be kept here, `note` that something is worth knowing."""

    verdict: Literal["ok", "note", "bad"]
    text: str
    advice: str = ""


def check_all(path: Path) -> list[Finding]:
    """Ask everything about the ledger at `path`; later questions are left out when the folder cannot be used."""
    findings = [check_folder(path)]
    if findings[0].verdict == "bad":
        return findings
    findings += [check_file_system(path), check_lock(path), check_wakeup(path)]
    return [*findings, *check_ledger(path)]


def check_folder(path: Path) -> Finding:
    """Can files be made beside the ledger?"""
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent) as file:
            file.write(b"x" * 4096)
            file.flush()
            os.fsync(file.fileno())
        if path.is_dir():
            raise IsADirectoryError(21, os.strerror(21), str(path))
        if path.exists():
            os.close(os.open(path, os.O_RDWR))
    except OSError as error:
        return Finding("bad", f"the ledger {path} cannot be written", str(explain(error, path)))
    mode = shared_mode(path.parent)
    whom = "you and its group" if mode & 0o060 else "you alone"
    return Finding("ok", f"the ledger {path} can be written; it is for {whom} (mode {mode:04o})")


def check_file_system(path: Path) -> Finding:
    """Is it local?"""
    kind = host.file_system(path)
    if kind in host.NETWORK_FILE_SYSTEMS:
        return Finding(
            "bad",
            f"{path.parent} is on a network file system ({kind}): each machine gets a ledger of its own",
            "set MAS_LLM_SCHEDULER_STATE to a file on a local disk",
        )
    return Finding("ok", f"{path.parent} is on a local file system ({kind or 'kind unknown'})")


def check_lock(path: Path) -> Finding:
    """Does the lock shut a second process out?"""
    lock = FileLock(lock_path(path), lambda name: os.open(name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    try:
        lock.acquire(time.monotonic() + _PATIENCE_S)
    except BusyError as error:
        who = f"process {error.holder}" if error.holder else "a process"
        advice = f"look at that process (`ps -o stat,cmd {error.holder or 'PID'}`); continue it (`kill -CONT`) or end it"
        return Finding("bad", f"{who} has held the lock for more than {_PATIENCE_S:g} s", advice)
    try:
        command = [sys.executable, "-c", _CHILD, str(lock_path(path))]
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)  # noqa: S603 - ours
    finally:
        lock.release()
        lock.reset()
    if answer.stdout.strip() == "False":
        return Finding("ok", "the lock shuts a second process out")
    if answer.stdout.strip() == "True":
        return Finding("bad", "the lock does NOT shut a second process out", "use a file on a local disk")
    return Finding("bad", "a second process could not try the lock", answer.stderr.strip()[-200:])


def check_wakeup(path: Path) -> Finding:
    """How are waiters woken here?"""
    threads = "futex" if isinstance(wakeup.thread_bell(), wakeup.FutexBell) else "looking every 1 to 20 ms"
    loops = "FIFO" if wakeup.has_fifos() else "looking every 10 ms"
    deaths = "at once (pidfd)" if hasattr(os, "pidfd_open") else "within a second"
    text = f"threads are woken by {threads}, event loops by {loops}; deaths are noticed {deaths}"
    if wakeup.has_fifos() and not _fifo_works(path):
        return Finding("note", text + "; but no FIFO can be made beside the ledger", "waiting tasks find out within a second")
    return Finding("ok", text)


def _fifo_works(path: Path) -> bool:
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        try:
            os.close(wakeup.listen(Path(folder) / "doctor.box", 1, 0o600))
        except OSError:
            return False
    return True


def check_ledger(path: Path) -> list[Finding]:
    """Is the ledger itself in order, and who is in it?"""
    try:
        snapshot = read_snapshot(path)
    except LedgerError as error:
        return [Finding("bad", "the ledger cannot be read", str(error))]
    if snapshot.state == "absent":
        return [Finding("ok", "no ledger yet; the first call makes it")]
    if snapshot.state == "corrupt":
        return [Finding("note", "the ledger is damaged", "the next call sets it aside and makes it again; nothing to do")]
    if snapshot.state in {"newer", "foreign"}:
        advice = "upgrade this llm-sched, or " if snapshot.state == "newer" else ""
        return [Finding("bad", f"{path}: {EXPLAINED[snapshot.state]}", advice + "set MAS_LLM_SCHEDULER_STATE to another file")]
    return [_owners(snapshot), *_overdue(snapshot), *_rebuildable(path)]


def _owners(snapshot: Snapshot) -> Finding:
    dead = [str(owner.pid) for owner in snapshot.owners if not owner.alive]
    living = len(snapshot.owners) - len(dead)
    if not dead:
        return Finding("ok", f"the ledger is in order; {living} living owners, none dead")
    advice = "what they hold goes to the next who asks; `llm-sched reset` removes it now"
    return Finding("note", f"{living} living owners, {len(dead)} dead (pid {', '.join(dead)})", advice)


def _overdue(snapshot: Snapshot) -> list[Finding]:
    return [
        Finding(
            "note",
            f"pid {holder.pid} has held a slot of {bucket.name} for {holder.held_s:.0f} s",
            "is it stuck? see max_hold_s",
        )
        for bucket in snapshot.buckets
        for holder in bucket.holders
        if holder.overdue
    ]


def _rebuildable(path: Path) -> list[Finding]:
    mailroom = FileMailroom(folder_of(path))
    try:
        missing = [owner.pid for owner in read_snapshot(path).owners if owner.alive]
        found = [header.owner.pid for _, header in mailroom.headers()]
    finally:
        mailroom.drop()
    lost = sorted(set(missing) - set(found))
    if lost:
        pids = ", ".join(map(str, lost))
        return [
            Finding("note", f"the mailbox of pid {pids} is gone from {folder_of(path)}", "it comes back with its next wait")
        ]
    return []


def check_telemetry() -> Finding:
    """Does the OTLP endpoint answer that the `OTEL_*` variables name?"""
    if not is_asked_for():
        return Finding("ok", "no telemetry is asked for (OTEL_EXPORTER_OTLP_ENDPOINT and its like are not set)")
    if os.environ.get("OTEL_CONFIG_FILE"):
        return Finding("ok", f"telemetry is configured by {os.environ['OTEL_CONFIG_FILE']}")
    signals: tuple[Signal, ...] = ("traces", "metrics")
    answers: dict[str, str] = {}
    for signal in signals:
        if (os.environ.get(f"OTEL_{signal.upper()}_EXPORTER") or "otlp") == "otlp":
            url = endpoint_of(signal)
            grpc = protocol_of(signal, None) == GRPC
            answers[without_secrets(url)] = problem_at(url, grpc=grpc, timeout_s=_PATIENCE_S)
    wrong = [f"{where}: {problem}" for where, problem in answers.items() if problem]
    if wrong:
        return Finding(
            "note", f"telemetry does not arrive: {'; '.join(wrong)}", "start a collector there, or set another endpoint"
        )
    return Finding("ok", f"telemetry arrives: {', '.join(answers)}" if answers else "telemetry goes to no OTLP endpoint")
