"""`llm-sched reset`: empty the ledger."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from llm_sched import host
from llm_sched.cli.options import state_option
from llm_sched.errors import LedgerError
from llm_sched.mailroom import FileMailroom
from llm_sched.model import State, Transition
from llm_sched.recovery import recover
from llm_sched.rules import transitions
from llm_sched.snapshot import EXPLAINED, read_snapshot
from llm_sched.store import BusyError
from llm_sched.store.file import FileStore, folder_of

_PATIENCE_S = 5.0


@click.command()
@state_option
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.option("--force", is_flag=True, help="Even while living processes hold slots; the cap may be exceeded until they end.")
def reset(state: Path | None, *, yes: bool, force: bool) -> None:
    """Empty the ledger: slots, queue, totals.

    Seldom needed: what the dead held comes back by itself. Refuses while living processes hold slots. Whoever waits
    goes on waiting, and rate limits start without tokens.
    """
    snapshot = read_snapshot(state)
    if snapshot.state == "absent":
        click.echo(f"{snapshot.path}: no ledger, nothing to do")
        return
    if snapshot.state in {"newer", "foreign"}:
        raise LedgerError(
            f"{snapshot.path}: {EXPLAINED[snapshot.state]}. Delete it yourself if you mean it", path=snapshot.path
        )
    if not yes:
        held = sum(bucket.in_flight for bucket in snapshot.buckets)
        click.confirm(f"Empty {snapshot.path} ({len(snapshot.buckets)} buckets, {held} slots held)?", abort=True)
    holders = _reset(Path(snapshot.path), force=force)
    if holders:
        click.echo(
            f"llm-sched: living processes hold slots (pid {', '.join(map(str, holders))}); nothing was changed. "
            "End them, or use --force and accept that the cap may be exceeded until they end",
            err=True,
        )
        sys.exit(1)
    click.echo(f"{snapshot.path}: emptied")


def _reset(path: Path, *, force: bool) -> list[int]:
    clock = host.Clock()
    mailroom = FileMailroom(folder_of(path))
    store = FileStore(path, clock, lambda state: recover(state, mailroom, clock.now()))
    holders: list[int] = []

    def change(state: State) -> Transition:
        out = Transition()
        gone = [owner for owner in state.owners if not mailroom.is_alive(owner, state.owners[owner])]
        transitions.reap(state, gone, out)
        holding = {lease.owner for name in state.buckets for lease in state.buckets[name].leases}
        holders.extend(state.owners[owner].pid for owner in holding if owner in state.owners)
        if force or not holders:
            transitions.clear(state, host.new_id())
            holders.clear()
            mailroom.forget(gone)
            return Transition(changed=True)
        return Transition()

    try:
        store.transact(change, lambda _out, _seq: None, time.monotonic() + _PATIENCE_S)
    except BusyError as error:
        who = f"process {error.holder}" if error.holder else "another process"
        raise LedgerError(f"{path}: {who} holds the lock and does not let go (stopped?)", path=str(path)) from None
    finally:
        mailroom.drop()
        store.close()
    return holders
