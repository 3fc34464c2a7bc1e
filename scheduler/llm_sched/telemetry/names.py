"""Every name, unit and boundary that telemetry uses: the promises to whoever builds dashboards.

The law: a metric, span, event or attribute name stands here and nowhere else; dashboards and rules are made from this table.
A new metric is one line here, one branch where it is observed, one panel, one test. May not know OpenTelemetry.

The nearest precedents: ASP.NET's `aspnetcore.rate_limiting.*` and OpenTelemetry's `db.client.connection.*`. `gen_ai.*` belongs
to OpenTelemetry and has nothing for waiting on the client's side, hence a prefix of our own.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from llm_sched.model import WAIT_BOUNDARIES

SCOPE = "llm_sched"
"""Name of the instrumentation scope."""

Kind = Literal["histogram", "counter", "up_down", "gauge"]

BUCKET = "llm_scheduler.bucket"
RESULT = "llm_scheduler.result"
LIMIT_KIND = "llm_scheduler.limit.kind"
USER = "llm_scheduler.user"
QUEUE_POSITION = "llm_scheduler.queue.position"
OCCUPANCY_IN_FLIGHT = "llm_scheduler.occupancy.in_flight"
OCCUPANCY_LIMIT = "llm_scheduler.occupancy.limit"
ERROR_TYPE = "error.type"
PROVIDER = "gen_ai.provider.name"
MODEL = "gen_ai.request.model"
SERVER_ADDRESS = "server.address"
SERVER_PORT = "server.port"

SERVICE_INSTANCE_ID = "service.instance.id"
"""OpenTelemetry's resource attribute that tells processes apart."""

SPAN_ACQUIRE = "llm_scheduler.acquire"
SPAN_DEMO_CALL = "llm_scheduler.demo.call"
"""Around each call of `llm-sched demo`, so that its traces show the wait beside the call."""
EVENT_QUEUED = "queued"
EVENT_GRANTED = "granted"
EVENT_RATE_LIMITED = "rate_limited"
EVENT_RECLAIMED = "reclaimed"

ACQUIRED = "acquired"
TIMEOUT = "timeout"
CANCELED = "canceled"
ERROR = "error"
RESULTS = (ACQUIRED, TIMEOUT, CANCELED, ERROR)

LIMIT_KINDS = {"none": "none", "in_flight": "in_flight", "rate": "rate", "policy": "in_flight"}
"""What made a call wait, as the ledger says it -> as telemetry says it: another's stricter policy is a cap like any other."""

OTHER = "other"
"""Attribute value of all buckets beyond the first `MOST_BUCKETS` of a process."""

MOST_BUCKETS = 100
"""Buckets of a process that become attribute values; so 10,000 users make no 10,000 series."""

FINE_BOUNDARIES = (*(round(step * 10.0**power, 9) for power in range(-5, 0) for step in (1, 2.5, 5)), 1.0)
"""Upper bounds (s) for what takes microseconds: 1, 2.5, 5 x 10^-5 ... 10^-1, and 1."""


class Instrument(NamedTuple):
    """One metric. `attributes` are all keys that a point of it can have."""

    name: str
    kind: Kind
    unit: str
    description: str
    attributes: tuple[str, ...] = (BUCKET,)
    boundaries: tuple[float, ...] = ()

    @property
    def prometheus(self) -> str:
        """The name in Prometheus, by OpenTelemetry's rules: dots to underscores, the unit, `_total` for counters."""
        unit = "_seconds" if self.unit == "s" else ""
        return label(self.name) + unit + ("_total" if self.kind == "counter" else "")


def label(attribute: str) -> str:
    """The name of an attribute as a Prometheus label."""
    return attribute.replace(".", "_")


WAIT_DURATION = Instrument(
    "llm_scheduler.slot.wait.duration",
    "histogram",
    "s",
    "Time from asking for a slot to the answer.",
    (BUCKET, RESULT, LIMIT_KIND),
    WAIT_BOUNDARIES,
)
HOLD_DURATION = Instrument(
    "llm_scheduler.slot.hold.duration",
    "histogram",
    "s",
    "Time for which a slot was held.",
    (BUCKET, ERROR_TYPE),
    WAIT_BOUNDARIES,
)
REQUESTS = Instrument(
    "llm_scheduler.slot.requests", "counter", "{request}", "Requests for a slot that were answered.", (BUCKET, RESULT)
)
TIMEOUTS = Instrument("llm_scheduler.slot.timeouts", "counter", "{request}", "Requests for which no slot came in time.")
IN_FLIGHT = Instrument("llm_scheduler.slot.in_flight", "up_down", "{slot}", "Slots held by this process.")
WAITING = Instrument("llm_scheduler.slot.waiting", "up_down", "{request}", "Requests of this process that wait for a slot.")
LIMIT = Instrument(
    "llm_scheduler.slot.limit", "gauge", "{slot}", "This process's cap on the slots of all processes; aggregate with max."
)
RECLAIMED = Instrument(
    "llm_scheduler.slot.reclaimed",
    "counter",
    "{slot}",
    "Slots that this process took back from owners that are gone or too late.",
)
LOCK_WAIT_DURATION = Instrument(
    "llm_scheduler.lock.wait.duration",
    "histogram",
    "s",
    "Time from wanting the ledger to having its lock and content; one transaction in sixteen is measured.",
    (),
    FINE_BOUNDARIES,
)
TRANSACTION_DURATION = Instrument(
    "llm_scheduler.transaction.duration",
    "histogram",
    "s",
    "Time of a whole transaction on the ledger, waiting for its lock included; one in sixteen is measured.",
    (),
    FINE_BOUNDARIES,
)

SLOT_INSTRUMENTS = (
    WAIT_DURATION,
    HOLD_DURATION,
    REQUESTS,
    TIMEOUTS,
    IN_FLIGHT,
    WAITING,
    LIMIT,
    RECLAIMED,
    LOCK_WAIT_DURATION,
    TRANSACTION_DURATION,
)
"""Facts about a process: each reports its own, and their sum over `service.instance.id` is the truth."""

LEDGER_IN_FLIGHT = Instrument("llm_scheduler.ledger.in_flight", "gauge", "{slot}", "Slots held, by all processes.")
LEDGER_WAITING = Instrument("llm_scheduler.ledger.waiting", "gauge", "{request}", "Requests that wait, of all processes.")
LEDGER_LIMIT = Instrument("llm_scheduler.ledger.limit", "gauge", "{slot}", "The cap in force.")
LEDGER_OLDEST_WAIT = Instrument(
    "llm_scheduler.ledger.oldest_wait", "gauge", "s", "For how long the oldest request has been waiting."
)
LEDGER_RATE_AVAILABLE = Instrument(
    "llm_scheduler.ledger.rate.available", "gauge", "{request}", "Requests that the rate limit would let go at once."
)
LEDGER_RATE_LIMIT = Instrument("llm_scheduler.ledger.rate.limit", "gauge", "{request}", "Requests per minute in force.")
LEDGER_OWNERS = Instrument("llm_scheduler.ledger.owners", "gauge", "{process}", "Living processes that take part.", ())

LEDGER_INSTRUMENTS = (
    LEDGER_IN_FLIGHT,
    LEDGER_WAITING,
    LEDGER_LIMIT,
    LEDGER_OLDEST_WAIT,
    LEDGER_RATE_AVAILABLE,
    LEDGER_RATE_LIMIT,
    LEDGER_OWNERS,
)
"""Facts about the ledger: reported by the one `llm-sched export`, never summed over processes."""

INSTRUMENTS = SLOT_INSTRUMENTS + LEDGER_INSTRUMENTS

SPAN_ATTRIBUTES = (
    BUCKET,
    RESULT,
    LIMIT_KIND,
    USER,
    QUEUE_POSITION,
    OCCUPANCY_IN_FLIGHT,
    OCCUPANCY_LIMIT,
    ERROR_TYPE,
    PROVIDER,
    MODEL,
    SERVER_ADDRESS,
    SERVER_PORT,
)
"""All keys that an acquire span can have."""
