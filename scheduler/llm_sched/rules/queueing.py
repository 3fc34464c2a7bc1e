"""Who is next?

The law: first come, first served, by the time of the call; nobody overtakes. With `fair_by: user` the users take turns
and each user's calls stay in order. May not know whether the next may go.
"""

from __future__ import annotations

from bisect import insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llm_sched.model import Bucket, State, Terms, Ticket


def order(ticket: Ticket) -> tuple[float, str, int]:
    """The queue's order: call time, then an arbitrary but stable tie-break."""
    return (ticket.at, ticket.owner, ticket.number)


def insert(queue: list[Ticket], ticket: Ticket) -> None:
    """Put a ticket where its call time belongs."""
    if not queue or order(queue[-1]) < order(ticket):
        queue.append(ticket)
    else:
        insort(queue, ticket, key=order)


def find(queue: list[Ticket], owner: str, number: int) -> int:
    """Index of a ticket, or -1. From the end: most who are looked for have just come."""
    for index in range(len(queue) - 1, -1, -1):
        ticket = queue[index]
        if ticket.number == number and ticket.owner == owner:
            return index
    return -1


def head(state: State, bucket: Bucket, terms: Terms) -> int:
    """Index of the ticket whose turn it is; the queue must not be empty."""
    if terms.fair_by != "user":
        return 0
    oldest: dict[str, int] = {}
    for index, ticket in enumerate(bucket.queue):
        oldest.setdefault(user_of(state, ticket), index)
    return min(oldest.items(), key=lambda item: (bucket.turns.get(item[0], 0), item[1]))[1]


def user_of(state: State, ticket: Ticket) -> str:
    """The user on whose behalf a ticket waits."""
    owner = state.owners.get(ticket.owner)
    return owner.user if owner else "default"
