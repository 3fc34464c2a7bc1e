"""Errors as values: one family, facts as attributes, unharmed by pickling."""

from __future__ import annotations

import copy
import pickle

import pytest

from llm_sched import ConfigError, LedgerError, SchedulerError, SlotTimeout

ERRORS = [
    SchedulerError("what"),
    ConfigError("what", knob="burst", value="0", source="argument"),
    LedgerError("what", path="/somewhere/x.json"),
    SlotTimeout("what", bucket="p/m", waited_s=1.5, in_flight=4, limit=4, ahead=2),
    SlotTimeout("no facts"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_survives_pickling_with_its_facts(error: SchedulerError, protocol: int) -> None:
    """As when a worker process reports it."""
    again = pickle.loads(pickle.dumps(error, protocol))  # noqa: S301 - ours
    assert (type(again), again.args, vars(again)) == (type(error), error.args, vars(error))


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_survives_copying(error: SchedulerError) -> None:
    """With its facts."""
    again = copy.copy(error)
    assert (str(again), vars(again)) == (str(error), vars(error))


@pytest.mark.parametrize(
    ("kind", "bases"),
    [
        (SlotTimeout, (SchedulerError, TimeoutError)),
        (ConfigError, (SchedulerError, ValueError)),
        (LedgerError, (SchedulerError,)),
    ],
)
def test_every_error_is_of_the_family_and_of_the_kind_that_python_users_expect(
    kind: type[SchedulerError], bases: tuple[type[Exception], ...]
) -> None:
    """`except TimeoutError` catches a slot's timeout."""
    assert all(issubclass(kind, base) for base in bases)
