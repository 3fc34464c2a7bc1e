"""Requests per minute, as the generic cell rate algorithm (GCRA, ITU-T I.371).

The law: one number, the theoretical arrival time `tat`, is the whole state under a rate and burst. A token exists at
`due(tat)`; spending moves `tat` on by one interval; nothing but time gives tokens back, no change of the terms either: it
keeps the tokens that are there, at most the new burst. May not know who asks, or why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from llm_sched.model import Terms

SLACK_S = 0.005
"""A grant that comes late by up to this much does not shift the grid (I.371's delay tolerance): else `burst: 1`
would lose every wake-up's latency. Capped at half an interval, so it is never worth a token."""


def interval(terms: Terms) -> float:
    """Seconds from one token to the next; `requests_per_minute` must be above 0."""
    return 60.0 / terms.requests_per_minute


def due(tat: float, terms: Terms) -> float:
    """When the next token is there; it is there now if that is not in the future."""
    return tat - (terms.burst - 1.0) * interval(terms)


def spend(tat: float, terms: Terms, now: float) -> float:
    """Return `tat` after one token was taken at `now`."""
    step = interval(terms)
    return max(tat, now - min(SLACK_S, step / 2)) + step


def refund(tat: float, terms: Terms) -> float:
    """Return `tat` after a token is given back that a withdrawn call never used."""
    return tat - interval(terms)


def available(tat: float, terms: Terms, now: float) -> float:
    """Tokens left at `now`, from 0 to `burst`."""
    return min(max((now - tat) / interval(terms) + terms.burst, 0.0), terms.burst)


def empty(terms: Terms, now: float) -> float:
    """Return the `tat` of a bucket without a single token at `now`."""
    return now + terms.burst * interval(terms)


def restate(tat: float, old: Terms, new: Terms, now: float) -> float:
    """Return the `tat` under `new` terms that says as many tokens as `tat` said under the `old`, at most the new burst."""
    if not old.requests_per_minute:
        return min(tat, empty(new, now))
    return now + (new.burst - min(available(tat, old, now), new.burst)) * interval(new)
