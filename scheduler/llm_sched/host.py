"""The only module that asks the machine: clocks, process identity, kernel locks, file systems.

An owner lives as long as the kernel holds its lock on its mailbox: the kernel drops it with the process,
zombie or not, whatever becomes of the pid, in whatever pid namespace.
"""

from __future__ import annotations

import os
import sys
import time
from functools import cache
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows; the only place that asks
    fcntl = None  # type: ignore[assignment]

NETWORK_FILE_SYSTEMS = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "coda", "ncpfs"),
        *("ceph", "glusterfs", "lustre", "gpfs", "beegfs", "pvfs2", "panfs", "wekafs"),  # of clusters
        *("gfs2", "ocfs2"),  # on one disk that several machines share
        *("9p", "virtiofs", "vboxsf", "prl_fs", "fuse.vmhgfs-fuse"),  # a virtual machine's view of its host's folder
        *("fuse.sshfs", "fuse.glusterfs", "fuse.ceph", "fuse.ceph-fuse", "fuse.juicefs", "fuse.mfs", "fuse.seaweedfs"),
        *("fuse.rclone", "fuse.s3fs", "fuse.gcsfuse", "fuse.blobfuse2"),
    )
)
"""Kinds on which a lock, a memory map or a clock of one machine may not be seen by another, as the kernel names them."""

_COMMAND_LENGTH = 80


class Clock:
    """The machine's clocks; tests pass a jumpable one instead."""

    def now(self) -> float:
        """Seconds since some time in this boot; the same for all processes of the boot; never steps."""
        return time.monotonic()

    def wall(self) -> float:
        """Seconds since the epoch, for people to read; no decision depends on it."""
        return time.time()


@cache
def boot_id() -> str:
    """What tells this boot from every other; empty where the platform has no such thing."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_bytes().decode().strip()
    except OSError:
        return ""


@cache
def machine_id() -> str:
    """What tells this machine from others that share a file system."""
    for name in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        try:
            text = Path(name).read_bytes().decode().strip()
        except OSError:
            continue
        if text:
            return text
    import platform  # noqa: PLC0415 - rare, and slow to import

    return platform.node() or "unknown"


def new_id() -> str:
    """Eight random hexadecimal digits, different in each forked child."""
    return os.urandom(4).hex()


def pid_namespace() -> int:
    """Inode of this process's pid namespace; 0 where there are none."""
    try:
        return Path("/proc/self/ns/pid").stat().st_ino
    except OSError:
        return 0


def start_time(pid: int) -> int:
    """Kernel start time of a process in clock ticks since boot; 0 if it cannot be told."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return 0
    # The command in parentheses may itself contain spaces and parentheses; field 22 counts from the last one.
    return int(stat[stat.rindex(b")") + 2 :].split()[19])


def command_line() -> str:
    """What this process runs, shortened, without the interpreter's path: `worker.py --fast`."""
    argv = [*sys.argv] or ["python"]
    if argv[0] in {"-c", "-m", ""}:
        argv = [Path(sys.executable or "python").name, *argv]
    else:
        argv[0] = Path(argv[0]).name
    text = " ".join(argv).encode(errors="replace").decode()
    return text if len(text) <= _COMMAND_LENGTH else text[: _COMMAND_LENGTH - 1] + "…"


def lock_alive(fd: int) -> None:
    """Take the lock that proves that this process lives, on its own mailbox."""
    if fcntl:
        fcntl.flock(fd, fcntl.LOCK_EX)
    else:
        from filelock import lock_descriptor  # noqa: PLC0415 - slow to import

        lock_descriptor(fd)


def try_lock(fd: int) -> bool:
    """Take an exclusive kernel lock on a file if nobody has it."""
    from filelock import lock_descriptor  # noqa: PLC0415 - slow to import

    return lock_descriptor(fd, blocking=False)


def unlock(fd: int) -> None:
    """Free a lock that `try_lock` took."""
    from filelock import unlock_descriptor  # noqa: PLC0415 - slow to import

    unlock_descriptor(fd)


def is_locked(fd: int) -> bool:
    """Whether some other open file description holds that lock, so its owner lives. Leaves nothing locked."""
    if fcntl:
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
        fcntl.flock(fd, fcntl.LOCK_UN)
        return False
    from filelock import lock_descriptor, unlock_descriptor  # noqa: PLC0415 - slow to import

    if not lock_descriptor(fd, blocking=False):
        return True
    unlock_descriptor(fd)
    return False


def lock_holder(path: Path) -> int:
    """Pid of the process that holds the lock on `path`, from the kernel's own list; 0 if it cannot be told."""
    try:
        status = path.stat()
        listing = Path("/proc/locks").read_bytes().decode()
    except OSError:
        return 0
    wanted = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    for line in listing.splitlines():
        fields = line.split()
        if fields[1] == "FLOCK" and wanted in fields:
            return max(0, int(fields[4]))
    return 0


def file_system(path: Path) -> str:
    """Kind of the file system that holds `path` or its nearest existing parent, e.g. `ext4`; empty if unknown."""
    try:
        mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return ""
    existing = path.absolute()
    while not os.path.exists(existing) and existing != existing.parent:  # noqa: PTH110 - never raises
        existing = existing.parent
    target = str(existing.resolve())
    best, kind = "", ""
    for line in mounts:
        left, _, right = line.partition(" - ")
        point = left.split()[4].replace("\\040", " ")
        inside = target == point or target.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, right.split()[0]
    return kind


def process_alive(pid: int, started: int) -> bool:
    """Whether a process of this pid namespace lives and is no zombie: the fallback where its mailbox was deleted."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return not started or (start_time(pid) == started and not _is_zombie(pid))


def _is_zombie(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return True
    return stat[stat.rindex(b")") + 2 :][:1] in b"ZX"
