"""One run: a folder, the phases in it, and nothing left of either."""

# Law: composes. Any way out, Ctrl-C included, ends the processes first and removes the folder then.

from __future__ import annotations

import contextlib
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from llm_sched import host
from llm_sched.errors import LedgerError
from llm_sched.verify import account, journal, leftovers, plan
from llm_sched.verify.storm import Storm
from llm_sched.verify.summary import Summary, figures_of
from llm_sched.verify.verdict import Evidence, promises

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from llm_sched.verify.plan import Phase

_REMOVE_WITHIN_S = 5.0


def verify(beside: Path, seconds: float, seed: int, progress: Callable[[str, float], None]) -> Summary:
    """Run all phases and judge.

    Args:
        beside: the ledger that is used for real; it is not touched, and need not exist.
        seconds: how long the whole run should take.
        seed: of everything that is random, as far as the machine lets it repeat.
        progress: told the phase's name and how much of everything is over, from 0 to 1.

    Raises:
        LedgerError: no folder can be made there.
        SchedulerError: the workers did not start.
    """
    began = time.monotonic()
    evidence: list[Evidence] = []
    with _folder(beside) as folder:
        phases = plan.phases(seconds, can_interrupt=sys.platform != "win32")
        whole, over = sum(phase.seconds for phase in phases), 0.0
        for phase in phases:

            def tell(share: float, phase: Phase = phase, over: float = over) -> None:
                progress(phase.name, (over + share * phase.seconds) / whole)

            evidence.append(observe(phase, folder, seed, tell))
            over += phase.seconds
        kind = host.file_system(folder)
    return Summary(beside.parent, kind, time.monotonic() - began, tuple(promises(evidence)), figures_of(evidence))


def observe(phase: Phase, folder: Path, seed: int, progress: Callable[[float], None]) -> Evidence:
    """Run one phase in a folder, and return what is known of it.

    Args:
        phase: what to do.
        folder: gets a folder for the ledger and one for the journals.
        seed: of everything that is random.
        progress: told how much of the phase is over, from 0 to 1.

    Raises:
        LedgerError: the ledger cannot be read.
        SchedulerError: the workers did not start.
    """
    place, journals = folder / phase.name, folder / f"{phase.name}-journals"
    place.mkdir(mode=0o700)
    journals.mkdir(mode=0o700)
    state = place / "ledger.json"
    aftermath = Storm(phase, state, journals, seed, progress).run()
    left = leftovers.look(state, phase.buckets)
    told = journal.read_all(journals)
    calls = [call for name in told for call in account.calls_of(name, told[name], aftermath.killed.get(name))]
    records = [(name, record) for name in told for record in told[name]]
    return Evidence(
        phase=phase.name,
        buckets=phase.buckets,
        calls=tuple(calls),
        aftermath=aftermath,
        leftovers=left,
        failures=tuple(f"{name}: {record.text}" for name, record in records if record.kind == "failed"),
        unclean=tuple(f"{name}: {record.text}" for name, record in records if record.kind == "unclean"),
        clean=sum(record.kind == "clean" for _, record in records),
        forks=sum(record.kind == "forked" for _, record in records),
    )


@contextlib.contextmanager
def _folder(beside: Path) -> Generator[Path]:
    """A new folder on the same file system, with the folders above it that are missing; all of it goes again."""
    missing = [parent for parent in beside.parents if not parent.exists()]
    try:
        beside.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix="llm-sched-verify-", dir=beside.parent))
    except OSError as error:
        message = f"cannot make a folder in {beside.parent}: {error.strerror}; name a writable place with --state"
        raise LedgerError(message, path=str(beside.parent)) from error
    try:
        yield folder
    finally:
        _remove(folder)
        for parent in missing:
            with contextlib.suppress(OSError):  # somebody else uses it by now
                parent.rmdir()


def _remove(folder: Path) -> None:
    deadline = time.monotonic() + _REMOVE_WITHIN_S
    while folder.exists():
        # A forked grandchild that is just going may still write something.
        shutil.rmtree(folder, ignore_errors=True)
        if time.monotonic() > deadline:
            return
        time.sleep(0.01)
