"""What the dashboards and rules show, as data. Every metric and label comes from `llm_sched.telemetry.names`.

The law: expressions and words only; `generate.py` makes Grafana's and Prometheus's files of them. A fact about the ledger is
taken with `max` from the one exporter; where none runs, the sum over the processes' own figures stands in. A fact about
processes is summed.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_sched.observer import MEASURED_ONE_IN
from llm_sched.telemetry import names
from llm_sched.telemetry.names import Instrument, label

BUCKET = label(names.BUCKET)
RESULT = label(names.RESULT)
KIND = label(names.LIMIT_KIND)
ERROR = label(names.ERROR_TYPE)
INSTANCE = "instance"
"""Prometheus's own label: the process, that is OpenTelemetry's `service.instance.id` behind a collector."""

WINDOW = "$__rate_interval"
SHOWN = f'{BUCKET}=~"$bucket"'
CHOSEN = f'{SHOWN}, {INSTANCE}=~"$instance"'
INSTANCES = f'{INSTANCE}=~"$instance"'


@dataclass(frozen=True)
class Series:
    """One expression, and what its lines are called."""

    expr: str
    legend: str


@dataclass(frozen=True)
class Panel:
    """One picture; `kind` is `timeseries` or `stat`, `width` of 24."""

    title: str
    description: str
    series: tuple[Series, ...]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 12
    stacked: bool = False


@dataclass(frozen=True)
class Page:
    """One dashboard: rows of panels; `by_instance` gives it a variable for the instances."""

    uid: str
    title: str
    description: str
    rows: tuple[tuple[str, tuple[Panel, ...]], ...]
    by_instance: bool = False


def all_of(instrument: Instrument, by: str = BUCKET, where: str = SHOWN) -> str:
    """The sum over all processes."""
    return f"sum by ({by}) ({instrument.prometheus}{{{where}}})"


def ledger(instrument: Instrument, own: Instrument | None = None, join: str = "sum") -> str:
    """The ledger's fact; without an exporter what the processes' own figures come to."""
    fact = f"max by ({BUCKET}) ({instrument.prometheus}{{{SHOWN}}})"
    return f"{fact} or {join} by ({BUCKET}) ({own.prometheus}{{{SHOWN}}})" if own else fact


def total(expr: str) -> str:
    """All buckets together."""
    return f"sum({expr})"


def rate(instrument: Instrument, by: str, where: str = SHOWN, window: str = WINDOW, part: str = "") -> str:
    """Per second, over all processes."""
    return f"sum by ({by}) (rate({instrument.prometheus}{part}{{{where}}}[{window}]))"


def quantile(share: float, instrument: Instrument, by: str = "", where: str = SHOWN, window: str = WINDOW) -> str:
    """A quantile of a histogram, over all processes."""
    groups = f"le, {by}" if by else "le"
    return f"histogram_quantile({share:g}, {rate(instrument, groups, where, window, '_bucket')})"


def quantiles(instrument: Instrument, by: str = BUCKET, where: str = SHOWN) -> tuple[Series, ...]:
    """Half, nearly all, and all but the worst."""
    name = f" {{{{{by}}}}}" if by else ""
    return tuple(Series(quantile(share, instrument, by, where), f"p{share * 100:g}{name}") for share in (0.5, 0.95, 0.99))


GRANTED = f'{SHOWN}, {RESULT}="{names.ACQUIRED}"'
IN_FLIGHT = ledger(names.LEDGER_IN_FLIGHT, names.IN_FLIGHT)
WAITING = ledger(names.LEDGER_WAITING, names.WAITING)
LIMIT = ledger(names.LEDGER_LIMIT, names.LIMIT, "max")

OVERVIEW = Page(
    "llm-sched-overview",
    "LLM scheduler / Overview",
    "Who may call the provider, who waits, and for how long. By bucket: provider and model, unless the policy says otherwise.",
    (
        (
            "Now",
            (
                Panel("In flight", "Slots held.", (Series(total(IN_FLIGHT), "in flight"),), kind="stat", width=4),
                Panel("Limit", "Slots there are; none without a cap.", (Series(total(LIMIT), "limit"),), kind="stat", width=4),
                Panel("Waiting", "Requests that wait.", (Series(total(WAITING), "waiting"),), kind="stat", width=4),
                Panel(
                    "Oldest wait",
                    "For how long the oldest request has been waiting; needs `llm-sched export`.",
                    (Series(f"max({ledger(names.LEDGER_OLDEST_WAIT)})", "oldest"),),
                    "s",
                    "stat",
                    4,
                ),
                Panel(
                    "Processes",
                    "Living processes that take part; needs `llm-sched export`.",
                    (Series(f"max({names.LEDGER_OWNERS.prometheus})", "processes"),),
                    kind="stat",
                    width=4,
                ),
                Panel(
                    "Timeouts, last hour",
                    "Requests for which no slot came in time.",
                    (Series(f"sum(increase({names.TIMEOUTS.prometheus}{{{SHOWN}}}[1h]))", "timeouts"),),
                    kind="stat",
                    width=4,
                ),
            ),
        ),
        (
            "Slots",
            (
                Panel(
                    "In flight and limit",
                    "A bucket at its limit is used fully; that alone is no trouble.",
                    (Series(IN_FLIGHT, f"{{{{{BUCKET}}}}}"), Series(LIMIT, f"limit {{{{{BUCKET}}}}}")),
                ),
                Panel(
                    "Waiting",
                    "A queue that never empties: more is wanted than the limit gives.",
                    (Series(WAITING, f"{{{{{BUCKET}}}}}"),),
                    stacked=True,
                ),
                Panel(
                    "Wait for a slot",
                    "Of requests that got one.",
                    quantiles(names.WAIT_DURATION, where=GRANTED),
                    "s",
                ),
                Panel("Hold of a slot", "How long the provider was busy with a request.", quantiles(names.HOLD_DURATION), "s"),
            ),
        ),
        (
            "Requests",
            (
                Panel(
                    "Requests by result",
                    "Answered requests for a slot, a second.",
                    (Series(rate(names.REQUESTS, RESULT), f"{{{{{RESULT}}}}}"),),
                    "reqps",
                    stacked=True,
                ),
                Panel(
                    "Timeouts",
                    "Requests a minute for which no slot came in time.",
                    (Series(f"60 * {rate(names.TIMEOUTS, BUCKET)}", f"{{{{{BUCKET}}}}}"),),
                ),
                Panel(
                    "Slots taken back",
                    "From owners that died, or held longer than their policy allows: a minute.",
                    (Series(f"60 * {rate(names.RECLAIMED, BUCKET)}", f"{{{{{BUCKET}}}}}"),),
                ),
                Panel(
                    "Requests per minute left",
                    "Tokens of the rate limit, and their refill a minute; only with a rate limit. Needs `llm-sched export`.",
                    (
                        Series(ledger(names.LEDGER_RATE_AVAILABLE), f"left {{{{{BUCKET}}}}}"),
                        Series(ledger(names.LEDGER_RATE_LIMIT), f"a minute {{{{{BUCKET}}}}}"),
                    ),
                ),
            ),
        ),
    ),
)

GRANTED_HERE = f'{CHOSEN}, {RESULT}="{names.ACQUIRED}"'
_LOCKED = " - ".join(
    f"sum(rate({each.prometheus}_sum{{{INSTANCES}}}[{WINDOW}]))"
    for each in (names.TRANSACTION_DURATION, names.LOCK_WAIT_DURATION)
)

CONTENTION = Page(
    "llm-sched-contention",
    "LLM scheduler / Contention",
    "Who holds and who waits, what makes them wait, and whether the scheduler itself is ever the bottleneck. By process.",
    (
        (
            "Processes",
            (
                Panel(
                    "Who holds",
                    "Slots held, by process.",
                    (Series(all_of(names.IN_FLIGHT, INSTANCE, CHOSEN), f"{{{{{INSTANCE}}}}}"),),
                    stacked=True,
                ),
                Panel(
                    "Who waits",
                    "Requests that wait, by process.",
                    (Series(all_of(names.WAITING, INSTANCE, CHOSEN), f"{{{{{INSTANCE}}}}}"),),
                    stacked=True,
                ),
                Panel(
                    "Share of grants",
                    "Of all slots granted, by process. Uneven shares are unfair only between processes that all wait.",
                    (
                        Series(
                            f"{rate(names.REQUESTS, INSTANCE, GRANTED_HERE)} / on () group_left () "
                            f"sum(rate({names.REQUESTS.prometheus}{{{GRANTED}}}[{WINDOW}]))",
                            f"{{{{{INSTANCE}}}}}",
                        ),
                    ),
                    "percentunit",
                    stacked=True,
                ),
                Panel(
                    "Calls that failed while they held a slot",
                    "A second, by error.",
                    (Series(rate(names.HOLD_DURATION, ERROR, f'{CHOSEN}, {ERROR}!=""', part="_count"), f"{{{{{ERROR}}}}}"),),
                    "reqps",
                ),
            ),
        ),
        (
            "What made them wait",
            (
                Panel(
                    "Requests by what limited them",
                    "`none`: granted at once. `in_flight`: all slots were in use. `rate`: no token was left.",
                    (Series(rate(names.WAIT_DURATION, KIND, CHOSEN, part="_count"), f"{{{{{KIND}}}}}"),),
                    "reqps",
                    stacked=True,
                ),
                Panel(
                    "Wait, p95, by what limited it",
                    "Of all requests, with or without success.",
                    (Series(quantile(0.95, names.WAIT_DURATION, KIND, CHOSEN), f"{{{{{KIND}}}}}"),),
                    "s",
                ),
            ),
        ),
        (
            "Is the scheduler the bottleneck?",
            (
                Panel(
                    "Time to get the ledger",
                    "Its lock and its content. Above a few milliseconds: very many small calls, or a slow or stopped process.",
                    quantiles(names.LOCK_WAIT_DURATION, "", INSTANCES),
                    "s",
                ),
                Panel(
                    "Time of a transaction",
                    "Waiting for the lock included.",
                    quantiles(names.TRANSACTION_DURATION, "", INSTANCES),
                    "s",
                ),
                Panel(
                    "Transactions",
                    f"A second; one in {MEASURED_ONE_IN} is measured.",
                    (
                        Series(
                            f"{MEASURED_ONE_IN} * "
                            f"sum(rate({names.TRANSACTION_DURATION.prometheus}_count{{{INSTANCES}}}[{WINDOW}]))",
                            "transactions",
                        ),
                    ),
                    "ops",
                ),
                Panel(
                    "Share of the time in which the ledger is in use",
                    "Towards 100 % the scheduler itself is the bottleneck.",
                    (Series(f"{MEASURED_ONE_IN} * ({_LOCKED})", "in use"),),
                    "percentunit",
                ),
            ),
        ),
    ),
    by_instance=True,
)

PAGES = (OVERVIEW, CONTENTION)

P95_RULE = "llm_scheduler:slot_wait_duration_seconds:p95_5m"
USED_RULE = "llm_scheduler:ledger_in_flight:ratio"
RATE_RULE = "llm_scheduler:slot_requests:rate5m"

RECORDED = {
    P95_RULE: f"histogram_quantile(0.95, sum by (le, {BUCKET}) "
    f'(rate({names.WAIT_DURATION.prometheus}_bucket{{{RESULT}="{names.ACQUIRED}"}}[5m])))',
    USED_RULE: f"max by ({BUCKET}) ({names.LEDGER_IN_FLIGHT.prometheus}) / max by ({BUCKET}) ({names.LEDGER_LIMIT.prometheus})",
    RATE_RULE: f"sum by ({BUCKET}, {RESULT}) (rate({names.REQUESTS.prometheus}[5m]))",
}
"""Recording rules: name -> expression."""


@dataclass(frozen=True)
class Alert:
    """An alert: `lasting` is how long it must hold, `summary` what it says, `advice` what to do."""

    name: str
    expr: str
    lasting: str
    severity: str
    summary: str
    advice: str


ON = f"{{{{ $labels.{BUCKET} }}}}"

ALERTS = (
    Alert(
        "LlmSchedulerSaturated",
        f"{USED_RULE} >= 1 and on ({BUCKET}) max by ({BUCKET}) ({names.LEDGER_WAITING.prometheus}) > 0",
        "15m",
        "warning",
        f"All slots of {ON} have been in use for 15 minutes, and requests wait.",
        "Raise max_in_flight if the provider allows it, or start fewer callers; `llm-sched status` shows who they are.",
    ),
    Alert(
        "LlmSchedulerQueueGrows",
        f"60 * max by ({BUCKET}) (deriv({names.LEDGER_WAITING.prometheus}[15m])) > 0 "
        f"and on ({BUCKET}) max by ({BUCKET}) ({names.LEDGER_WAITING.prometheus}) > 10",
        "10m",
        "warning",
        f"More and more requests wait for {ON}: {{{{ $value | humanize }}}} more a minute.",
        "More is asked for than the limits let through.",
    ),
    Alert(
        "LlmSchedulerTimeouts",
        f"sum by ({BUCKET}) (increase({names.TIMEOUTS.prometheus}[5m])) > 0",
        "0m",
        "warning",
        f"Requests for {ON} got no slot in time.",
        "Raise timeout_s or max_in_flight, or start fewer callers.",
    ),
    Alert(
        "LlmSchedulerSlotsReclaimed",
        f"sum by ({BUCKET}) (increase({names.RECLAIMED.prometheus}[15m])) > 0",
        "0m",
        "info",
        f"Slots of {ON} were taken back from processes that died or held them too long.",
        "Nothing is lost; look why they died (out of memory?).",
    ),
    Alert(
        "LlmSchedulerExporterGone",
        f"absent({names.LEDGER_OWNERS.prometheus})",
        "5m",
        "warning",
        "Nobody reports the ledger.",
        "Start `llm-sched export`, or look at what it says: perhaps the ledger cannot be read.",
    ),
    Alert(
        "LlmSchedulerWaitAbovePolicy",
        f"{P95_RULE} > 120",
        "10m",
        "warning",
        f"One in twenty requests for {ON} waits longer than {{{{ $value | humanizeDuration }}}}.",
        "The default policy gives up after 300 s; set this rule's 120 s to what your callers can bear.",
    ),
)
