"""A ledger that was lost is made again from the mailboxes of the living. May not decide who is admitted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llm_sched.config import bucket_name
from llm_sched.rules import transitions

if TYPE_CHECKING:
    from llm_sched.mailroom import FileMailroom
    from llm_sched.model import State


def recover(state: State, mailroom: FileMailroom, now: float) -> bool:
    """Fill an empty state with the living owners and what they hold and wait for; False if nobody lives.

    Args:
        state: to be filled in place.
        mailroom: where to look; the caller holds the ledger's lock.
        now: the ledger's time.
    """
    transitions.advance(state, now)
    for owner_id, header in mailroom.headers():
        state.owners[owner_id] = header.owner
        for claim in mailroom.claims(owner_id, header.terms):
            transitions.adopt(state, bucket_name(claim.keys), claim)
    return bool(state.owners)
