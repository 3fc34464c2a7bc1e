"""The one process-wide scheduler: `install` sets it, `llm_slot` uses it.

The law: no lock, since a forked child or a signal handler would wait for one for ever. Each change is one atomic operation on
a list whose first element counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Never

from llm_sched.config import Policy, policy_of
from llm_sched.scheduler import Scheduler, by_name

if TYPE_CHECKING:
    from llm_sched.observer import Observer
    from llm_sched.scheduler import SlotRequest

_installed: list[Scheduler] = []


def install(policy: Policy | None = None, *, observer: Observer | None = None, **knobs: Never) -> Policy:
    """Make `policy` the process's policy and return it as it holds now, with the environment's overrides.

    The last call wins. Slots that are held stay valid; an unchanged policy changes nothing.

    Args:
        policy: the knobs; None = the defaults.
        observer: hears what happens.
        knobs: none; they belong into the policy.

    Raises:
        ConfigError: an environment variable makes no sense, or that is no policy.
    """
    effective = policy_of("install", policy, knobs).with_environment()
    if observer is not None or not _installed or _installed[0].policy != effective:
        _installed[:] = [Scheduler(effective, observer=observer)]
    return effective


def install_scheduler(scheduler: Scheduler) -> None:
    """Make a scheduler of one's own the process's: `llm_slot` and every middleware use it until the next `install`."""
    _installed[:] = [scheduler]


def current() -> Scheduler:
    """The process's scheduler; without an `install`, one of the defaults and the environment."""
    if not _installed:
        # Behind what somebody else has put there meanwhile; unused, it holds nothing.
        _installed.append(Scheduler(Policy().with_environment()))
    return _installed[0]


def llm_slot(
    *labels: Never, provider: str | None = None, model: str | None = None, timeout_s: float | None = None
) -> SlotRequest:
    """Take a slot of the process's scheduler around one live call; enter it with `with` or `async with`.

    Args:
        labels: none; provider and model are given by name.
        provider: label of the provider, e.g. `openai`; None = the policy's, else `default`.
        model: name of the model; None = `default`.
        timeout_s: longest wait in seconds, 0 = try once, `inf` = for ever; None = the policy's.

    Raises:
        TypeError: labels without names.
        ConfigError: nothing was installed and an environment variable makes no sense; on entering, when the bucket's name
            is in use for other keys.
        SlotTimeout: on entering, when no slot came in time.
        LedgerError: on entering, when the ledger cannot be used.
    """
    by_name("llm_slot", labels)
    return current().slot(provider=provider, model=model, timeout_s=timeout_s)
