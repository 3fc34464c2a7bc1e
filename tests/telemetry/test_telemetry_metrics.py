"""Each metric: its exact name, unit, kind, boundaries, attributes and value, for every way a request can end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from opentelemetry.sdk.metrics.export import AggregationTemporality, Gauge, Histogram, Sum
from telemetry_stage import BUCKET, Caller, until

from llm_sched import SlotTimeout
from llm_sched.telemetry import names

if TYPE_CHECKING:
    from telemetry_stage import Stage

OPENAI = {"provider": "openai", "model": "gpt-4o"}
WAIT_BOUNDARIES = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
FINE_BOUNDARIES = (
    *(1e-5, 2.5e-5, 5e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 1e-1, 2.5e-1, 5e-1),
    1.0,
)


def use_everything(stage: Stage) -> None:
    """Every metric of a process gets a point."""
    dead = stage.scheduler(max_in_flight=1)
    lost = dead.acquire(**OPENAI)
    stage.kill(dead)
    scheduler = stage.scheduler(max_in_flight=1)
    with scheduler.slot(**OPENAI), pytest.raises(SlotTimeout):
        scheduler.acquire(**OPENAI, timeout_s=0)
    assert not lost.released


@pytest.mark.parametrize(
    ("name", "unit", "kind", "boundaries", "keys"),
    [
        (
            "llm_scheduler.slot.wait.duration",
            "s",
            Histogram,
            WAIT_BOUNDARIES,
            {"llm_scheduler.bucket", "llm_scheduler.result", "llm_scheduler.limit.kind"},
        ),
        ("llm_scheduler.slot.hold.duration", "s", Histogram, WAIT_BOUNDARIES, {"llm_scheduler.bucket"}),
        ("llm_scheduler.slot.requests", "{request}", "counter", (), {"llm_scheduler.bucket", "llm_scheduler.result"}),
        ("llm_scheduler.slot.timeouts", "{request}", "counter", (), {"llm_scheduler.bucket"}),
        ("llm_scheduler.slot.in_flight", "{slot}", "up_down", (), {"llm_scheduler.bucket"}),
        ("llm_scheduler.slot.waiting", "{request}", "up_down", (), {"llm_scheduler.bucket"}),
        ("llm_scheduler.slot.limit", "{slot}", Gauge, (), {"llm_scheduler.bucket"}),
        ("llm_scheduler.slot.reclaimed", "{slot}", "counter", (), {"llm_scheduler.bucket"}),
        ("llm_scheduler.lock.wait.duration", "s", Histogram, FINE_BOUNDARIES, set()),
        ("llm_scheduler.transaction.duration", "s", Histogram, FINE_BOUNDARIES, set()),
    ],
)
def test_a_metric_is_as_promised(
    stage: Stage, name: str, unit: str, kind: type | str, boundaries: tuple[float, ...], keys: set[str]
) -> None:
    """Name, unit, kind, boundaries, attribute keys and value types."""
    use_everything(stage)
    metric = stage.report.metrics()[name]
    data = metric.data
    if isinstance(kind, str):
        assert isinstance(data, Sum)
        assert data.is_monotonic is (kind == "counter")
        assert data.aggregation_temporality is AggregationTemporality.CUMULATIVE
    else:
        assert isinstance(data, kind)
    assert metric.unit == unit
    assert metric.description.endswith(".")
    for point in data.data_points:
        assert set(point.attributes or {}) == keys
        assert all(type(value) is str for value in (point.attributes or {}).values())
        assert tuple(getattr(point, "explicit_bounds", ())) == boundaries


def test_the_table_has_what_is_reported(stage: Stage) -> None:
    """No metric outside `names.py`, and none in it that is never reported."""
    use_everything(stage)
    assert set(stage.report.metrics()) == {instrument.name for instrument in names.SLOT_INSTRUMENTS}


def test_an_acquired_slot(stage: Stage) -> None:
    """Wait and hold are the caller's; a slot granted at once was limited by nothing."""
    slot = stage.scheduler().acquire(**OPENAI)
    stage.clock.advance(3)
    slot.release()
    report = stage.report
    assert report.values(names.REQUESTS) == {(BUCKET, "acquired"): 1}
    assert report.values(names.WAIT_DURATION) == {(BUCKET, "none", "acquired"): 1}
    ((_, hold),) = report.points(names.HOLD_DURATION).items()
    assert (hold.count, hold.sum) == (1, pytest.approx(3))
    assert report.values(names.TIMEOUTS) == {(BUCKET,): 0}


def test_a_wait_for_a_slot(stage: Stage) -> None:
    """Its seconds fall into the promised cell, with what made it wait."""
    scheduler = stage.scheduler(max_in_flight=1)
    first = scheduler.acquire(**OPENAI)
    caller = Caller(scheduler)
    stage.until_waiting(1)
    stage.clock.advance(7)
    first.release()
    caller.ended().release()
    points = stage.report.points(names.WAIT_DURATION)
    wait = next(point for attributes, point in points.items() if (names.LIMIT_KIND, "in_flight") in attributes)
    assert (wait.count, wait.sum) == (1, pytest.approx(7))
    assert wait.bucket_counts[WAIT_BOUNDARIES.index(10)] == 1


def test_a_wait_for_a_rate_token(stage: Stage) -> None:
    """It was the rate that made it wait."""
    scheduler = stage.scheduler(requests_per_minute=60, burst=1)
    scheduler.acquire(**OPENAI).release()
    caller = Caller(scheduler)
    stage.until_waiting(1)
    stage.clock.advance(1.1)
    caller.ended().release()
    assert stage.report.values(names.WAIT_DURATION)[BUCKET, "rate", "acquired"] == 1


def test_a_stricter_policy_of_another_counts_as_a_cap(stage: Stage) -> None:
    """There is no fourth kind of limit."""
    strict = stage.scheduler(stage.another_report(), max_in_flight=1).acquire(**OPENAI)
    with pytest.raises(SlotTimeout):
        stage.scheduler(max_in_flight=5).acquire(**OPENAI, timeout_s=0)
    strict.release()
    assert stage.report.values(names.WAIT_DURATION) == {(BUCKET, "in_flight", "timeout"): 1}


def test_a_timeout(stage: Stage) -> None:
    """Is a request with a result, and is counted as a timeout."""
    scheduler = stage.scheduler(max_in_flight=1)
    slot = scheduler.acquire(**OPENAI)
    caller = Caller(scheduler, timeout_s=4)
    stage.until_waiting(1)
    stage.clock.advance(5)
    assert isinstance(caller.ended(), SlotTimeout)
    slot.release()
    assert stage.report.values(names.REQUESTS) == {(BUCKET, "acquired"): 1, (BUCKET, "timeout"): 1}
    assert stage.report.values(names.TIMEOUTS) == {(BUCKET,): 1}
    wait = next(point for key, point in stage.report.points(names.WAIT_DURATION).items() if (names.RESULT, "timeout") in key)
    assert wait.sum == pytest.approx(5)


def test_a_cancelled_wait(stage: Stage) -> None:
    """The specification's word is `canceled`."""
    scheduler = stage.scheduler(max_in_flight=1)

    async def body() -> None:
        async with scheduler.slot(**OPENAI):
            task = asyncio.create_task(scheduler.acquire_async(**OPENAI))
            await stage.until_waiting_async(1)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(body())
    assert stage.report.values(names.REQUESTS) == {(BUCKET, "acquired"): 1, (BUCKET, "canceled"): 1}


def test_an_error(stage: Stage) -> None:
    """The scheduler was closed while the call waited."""
    holder = stage.scheduler(stage.another_report(), max_in_flight=1).acquire(**OPENAI)
    scheduler = stage.scheduler(max_in_flight=1)
    caller = Caller(scheduler)
    stage.until_waiting(1)
    scheduler.close()
    assert "closed" in str(caller.ended())
    holder.release()
    assert stage.report.values(names.REQUESTS) == {(BUCKET, "error"): 1}


def test_what_was_taken_back_is_counted_by_whoever_took_it(stage: Stage) -> None:
    """Once, though everybody sees it."""
    dead = stage.scheduler(stage.another_report(), max_in_flight=1)
    lost = dead.acquire(**OPENAI)
    stage.kill(dead)
    other = stage.another_report()
    stage.scheduler(max_in_flight=1).acquire(**OPENAI, timeout_s=0).release()
    stage.scheduler(other, max_in_flight=1).acquire(**OPENAI, timeout_s=0).release()
    assert (stage.report.values(names.RECLAIMED), other.values(names.RECLAIMED)) == ({(BUCKET,): 1}, {(BUCKET,): 0})
    assert not lost.released


def test_what_went_wrong_while_a_slot_was_held(stage: Stage) -> None:
    """`error.type` is there on failure only."""
    scheduler = stage.scheduler()
    with pytest.raises(ZeroDivisionError), scheduler.slot(**OPENAI):
        raise ZeroDivisionError
    with scheduler.slot(**OPENAI):
        pass
    assert stage.report.values(names.HOLD_DURATION) == {(BUCKET,): 1, ("ZeroDivisionError", BUCKET): 1}
    keys = {tuple(key for key, _ in attributes) for attributes in stage.report.points(names.HOLD_DURATION)}
    assert keys == {("llm_scheduler.bucket",), ("error.type", "llm_scheduler.bucket")}


def test_what_is_held_and_waiting_is_looked_up_when_asked(stage: Stage) -> None:
    """And a bucket that is idle again says 0: a series that just ends would stand at its last value."""
    scheduler = stage.scheduler(max_in_flight=2)
    slots = [scheduler.acquire(**OPENAI) for _ in range(2)]
    callers = [Caller(scheduler) for _ in range(3)]
    stage.until_waiting(3)
    seen = [stage.report.values(each) for each in (names.IN_FLIGHT, names.WAITING, names.LIMIT)]
    assert seen == [{(BUCKET,): 2}, {(BUCKET,): 3}, {(BUCKET,): 2}]
    for slot in slots:
        slot.release()
    for caller in callers:
        caller.ended().release()
    assert [stage.report.values(each) for each in (names.IN_FLIGHT, names.WAITING)] == [{(BUCKET,): 0}, {(BUCKET,): 0}]


def test_no_cap_is_no_limit_of_zero(stage: Stage) -> None:
    """A bucket without a cap has no limit at all."""
    stage.scheduler(max_in_flight=0).acquire(**OPENAI).release()
    assert stage.report.points(names.LIMIT) == {}


def test_a_slot_that_was_taken_back_as_overdue_is_not_held(stage: Stage) -> None:
    """So the sum over processes equals the ledger."""
    scheduler = stage.scheduler(max_in_flight=1, max_hold_s=5)
    late = scheduler.acquire(**OPENAI)
    stage.clock.advance(6)
    other = stage.another_report()
    slot = stage.scheduler(other, max_in_flight=1).acquire(**OPENAI, timeout_s=0)
    assert (stage.report.values(names.IN_FLIGHT), other.values(names.IN_FLIGHT)) == ({(BUCKET,): 0}, {(BUCKET,): 1})
    assert other.values(names.RECLAIMED) == {(BUCKET,): 1}
    slot.release()
    late.release()


def test_a_nested_layer_counts_nothing(stage: Stage) -> None:
    """It borrows: one request, one hold."""
    scheduler = stage.scheduler(max_in_flight=1)
    with scheduler.slot(**OPENAI), scheduler.slot(**OPENAI):
        assert stage.report.values(names.IN_FLIGHT) == {(BUCKET,): 1}
    assert stage.report.values(names.REQUESTS) == {(BUCKET, "acquired"): 1}
    assert stage.report.values(names.HOLD_DURATION) == {(BUCKET,): 1}


def test_a_dropped_slot_is_a_hold_too(stage: Stage) -> None:
    """Recorded by the helper thread that gives it back, not in the finalizer."""
    scheduler = stage.scheduler(max_in_flight=1)
    scheduler.acquire(**OPENAI)
    with scheduler.slot(**OPENAI, timeout_s=30):
        pass
    until(lambda: stage.report.values(names.HOLD_DURATION) == {(BUCKET,): 2})


def test_users_are_no_attribute_unless_asked_for(stage: Stage) -> None:
    """Their number is nobody's to bound."""
    stage.scheduler(user="ann").acquire(**OPENAI).release()
    asked = stage.another_report(user_on_metrics=True)
    stage.scheduler(asked, user="ann").acquire(**OPENAI).release()
    assert stage.report.values(names.REQUESTS) == {(BUCKET, "acquired"): 1}
    assert asked.values(names.REQUESTS) == {(BUCKET, "acquired", "ann"): 1}
    assert asked.values(names.HOLD_DURATION) == {(BUCKET, "ann"): 1}


def test_two_schedulers_of_one_process_are_summed(stage: Stage) -> None:
    """They may have the same bucket; the stricter cap is the limit."""
    slots = [stage.scheduler(max_in_flight=cap).acquire(**OPENAI) for cap in (5, 3)]
    assert stage.report.values(names.IN_FLIGHT) == {(BUCKET,): 2}
    assert stage.report.values(names.LIMIT) == {(BUCKET,): 3}
    for slot in slots:
        slot.release()
