"""From records to calls: when each surely waited and surely held.

The law: a bound is never better than what is known. A hold counts from after its grant to before its release; of a killed
process to the instant just before the kill was sent; of an interrupted call to the interrupt's handler; where none of these
is known, to the last thing heard of the process. So whoever is counted as holding did hold, and too many of them are proof.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from llm_sched.verify.journal import Record, RecordKind

End = Literal["released", "timed_out", "canceled", "interrupted", "killed", "unknown"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One call as the witness knows it. All times are seconds of CLOCK_MONOTONIC.

    Attributes:
        process: the journal in which it stands.
        bucket: name of the bucket.
        asked: before it asked.
        timeout_s: how long it was ready to wait.
        queued: when it surely was in the queue; None if that was never seen.
        granted: when it surely held; None if it never got its slot.
        held_until: until when it surely held; not before `granted`. None without a grant.
        waited_until: until when it surely waited, for a call without a grant.
        gave_up: when it had returned without a slot, for a call that timed out.
        end: how it ended.
    """

    process: str
    bucket: str
    asked: float
    timeout_s: float
    queued: float | None = None
    granted: float | None = None
    held_until: float | None = None
    waited_until: float | None = None
    gave_up: float | None = None
    end: End = "unknown"


def calls_of(process: str, records: Sequence[Record], killed_at: float | None) -> list[Call]:
    """The calls of one process.

    Args:
        process: its name.
        records: its journal.
        killed_at: just before it was sent SIGKILL; None: it was not.
    """
    killed_at = next((record.at for record in records if record.kind == "dying"), killed_at)
    last = max((record.at for record in records), default=0.0)
    by_call: defaultdict[int, dict[RecordKind, Record]] = defaultdict(dict)
    for record in records:
        by_call[record.call].setdefault(record.kind, record)
    return [_call(process, told, killed_at, last) for told in by_call.values() if "asked" in told]


def _call(process: str, told: Mapping[RecordKind, Record], killed_at: float | None, last: float) -> Call:
    bucket, timeout_s = told["asked"].text.split(" ")
    asked, queued = told["asked"].at, told.get("queued")
    common = Call(
        process=process,
        bucket=bucket,
        asked=asked,
        timeout_s=float(timeout_s),
        queued=queued.at if queued else None,
    )
    if "granted" in told:
        return _held(common, told, killed_at, last)
    return _waited(common, told, killed_at)


def _held(call: Call, told: Mapping[RecordKind, Record], killed_at: float | None, last: float) -> Call:
    granted = told["granted"].at
    ends: list[tuple[float, End]] = []
    if "ended" in told:
        ends.append((told["ended"].at, "released"))
    if "interrupted" in told:
        ends.append((told["interrupted"].at, "interrupted"))
    if not ends:
        ends.append((killed_at, "killed") if killed_at is not None else (last, "unknown"))
    until, end = min(ends)
    return replace(call, granted=granted, held_until=max(granted, until), end=end)


def _waited(call: Call, told: Mapping[RecordKind, Record], killed_at: float | None) -> Call:
    gave_up = told["timed_out"].at if "timed_out" in told else None
    ends: list[tuple[float, End]] = []
    if gave_up is not None:
        due = call.asked + call.timeout_s
        ends.append((due if due <= gave_up else call.asked, "timed_out"))
    if "interrupted" in told:
        ends.append((told["interrupted"].at, "interrupted"))
    if "canceling" in told:
        ends.append((told["canceling"].at, "canceled"))
    if not ends:
        known = killed_at is not None and "left" not in told
        ends.append((killed_at, "killed") if known and killed_at is not None else (call.asked, "unknown"))
    until, end = min(ends)
    return replace(call, waited_until=max(call.asked, until), gave_up=gave_up, end=end)
