"""The limits of a bucket as lines of text: what holds, where it comes from, who disagrees."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from llm_sched_tui.view_model import text
from llm_sched_tui.view_model.cells import Chunk, Line
from llm_sched_tui.view_model.overview import BucketRecord, tokens_now

if TYPE_CHECKING:
    from llm_sched.snapshot import BucketView, PolicyView
    from llm_sched_tui.view_model.cells import Span

_MOST_GROUPS = 4


def facts(bucket: BucketView, record: BucketRecord, elapsed_s: float) -> tuple[Line, ...]:
    """What to know of a bucket, `elapsed_s` after it was read."""
    lines = [_state(record), _limits(bucket, record, elapsed_s)]
    if bucket.policies:
        lines.append(_sources(bucket))
    if len(_groups(bucket)) > 1:
        lines.append(_disagreement(bucket))
    return tuple(lines)


def _state(record: BucketRecord) -> Line:
    severity = record.severity
    limit = f"/{record.limit}" if record.limit else ""
    chunks = [
        Chunk(((f"{severity.sign} {severity.role}", severity.role),)),
        Chunk(((f"{record.in_flight}{limit} in flight", "strong"),)),
        Chunk(_waiting(record)),
    ]
    if record.waits.p50 is not None:
        p50, p95 = text.short(record.waits.p50), text.short(record.waits.p95)
        chunks.append(Chunk((("wait p50 ", "dim"), (p50, "plain"), (" p95 ", "dim"), (p95, "plain"), (" s", "dim"))))
    if record.per_minute is not None:
        chunks.append(Chunk(((f"{text.count(record.per_minute)} grants/min", "plain"),)))
    chunks.append(Chunk(((f"{record.timed_out} timed out", "starving" if record.timed_out else "dim"),)))
    chunks.append(Chunk(((f"{record.reclaimed} reclaimed", "saturated" if record.reclaimed else "dim"),)))
    return tuple(chunks)


def _waiting(record: BucketRecord) -> tuple[Span, ...]:
    if not record.waiting:
        return (("nobody waits", "dim"),)
    calls = text.plural(record.waiting, "call waits", "calls wait")
    processes = text.plural(record.processes, "process", "processes")
    return (calls, "strong"), (f" from {processes}, oldest ", "dim"), (text.seconds(record.oldest_s), record.severity.role)


def _limits(bucket: BucketView, record: BucketRecord, elapsed_s: float) -> Line:
    if not bucket.policies:
        return (Chunk((("limits  ", "dim"), ("none while nobody is here: they come with whoever calls", "dim"))),)
    cap = f"at most {record.limit} in flight" if record.limit else "no cap"
    chunks = [Chunk((("limits  ", "dim"), (cap, "plain")))]
    tokens, token_in_s = tokens_now(bucket, elapsed_s)
    if tokens is None:
        chunks.append(Chunk((("no rate limit", "dim"),)))
        return tuple(chunks)
    chunks.append(Chunk(((f"{bucket.requests_per_minute:g} a minute, burst {bucket.burst:g}", "plain"),)))
    left: list[Span] = [(f"{text.plural(int(tokens), 'token')} left", "plain" if tokens >= 1 else "saturated")]
    if token_in_s > 0:
        left.append((f", the next in {text.seconds(token_in_s)}", "saturated"))
    chunks.append(Chunk(tuple(left)))
    return tuple(chunks)


def _sources(bucket: BucketView) -> Line:
    sources: dict[str, int] = {}
    for policy in bucket.policies:
        sources[policy.source] = sources.get(policy.source, 0) + 1
    told = [f"{text.printable(name)} ({text.plural(number, 'process', 'processes')})" for name, number in sources.items()]
    timeouts = sorted({math.inf if policy.timeout_s is None else policy.timeout_s for policy in bucket.policies})
    patience = " / ".join("for ever" if value == math.inf else f"up to {text.seconds(value)}" for value in timeouts[:3])
    chunks = [
        Chunk((("" if number else "from    ", "dim"), (each, "plain"))) for number, each in enumerate(told[:_MOST_GROUPS])
    ]
    return (*chunks, Chunk(((f"a call waits {patience}", "dim"),)))


_Terms = tuple[int, float, float]


def _groups(bucket: BucketView) -> dict[_Terms, list[PolicyView]]:
    groups: dict[_Terms, list[PolicyView]] = {}
    for policy in bucket.policies:
        groups.setdefault((policy.max_in_flight, policy.requests_per_minute, policy.burst), []).append(policy)
    return groups


def _disagreement(bucket: BucketView) -> Line:
    chunks = [Chunk((("▲ policies disagree, the strictest holds", "saturated"),))]
    for terms, same in list(_groups(bucket).items())[:_MOST_GROUPS]:
        pids = ", ".join(str(each.pid) for each in same[:3])
        chunks.append(Chunk(((f"{_wish(terms)}: pid {pids}{_more(same)}", "plain"),)))
    return tuple(chunks)


def _wish(terms: _Terms) -> str:
    cap, rate, _burst = terms
    return f"{cap or 'no cap'}{f' at {rate:g}/min' if rate else ''}"


def _more(policies: list[PolicyView]) -> str:
    return f" and {len(policies) - 3} more" if len(policies) > 3 else ""  # noqa: PLR2004 - as many as are named
