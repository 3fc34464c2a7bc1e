"""The parameters of the middlewares that we have: their names, types and meanings."""

# Law: shapes and checks; what a value means for the scheduler is `Policy`'s decision, and asked here so that a
# senseless one is found with its place, before anything runs.

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from llm_sched.config import Policy
from llm_sched.errors import ConfigError
from llm_sched.pipeline.problems import suggestion
from llm_sched.pipeline.retry import Backoff
from llm_sched.pipeline.shapes import checked

if TYPE_CHECKING:
    from collections.abc import Mapping

    from llm_sched.pipeline.documents import Document, Keys

PATHS = ("cache_path", "state_path")
"""Parameters that are files; a relative one is relative to the manifest."""


class _Params(BaseModel):
    model_config = ConfigDict(extra="forbid")


class SchedulerParams(_Params):
    """`llm_scheduler`: see the knobs of `llm_sched.Policy`."""

    max_in_flight: int | None = Field(default=None, ge=0, description="Concurrent live requests per bucket; 0 = no cap.")
    requests_per_minute: float | None = Field(default=None, ge=0, description="Refill of the token bucket; 0 = no rate limit.")
    burst: float | None = Field(default=None, ge=1, description="Capacity of the token bucket; 1 = evenly spaced.")
    keys: list[Literal["provider", "model", "user"]] | None = Field(default=None, description="Dimensions of a bucket.")
    user: str | None = Field(default=None, description="Label used when `keys` has `user`.")
    provider: str | None = Field(default=None, description="Label of the provider; default: its host.")
    timeout_s: float | None = Field(default=None, ge=0, description="Longest wait for a slot in seconds.")
    max_hold_s: float | None = Field(default=None, ge=0, description="A slot held longer is taken back; 0 = never.")
    fair_by: Literal["user"] | None = Field(default=None, description="`user`: the users of a bucket take turns.")
    state_path: str | None = Field(default=None, description="The ledger.")
    max_retries: int | None = Field(default=None, ge=0, description="Attempts after the first; 0 = none.")
    max_backoff_s: float | None = Field(default=None, ge=0, description="Longest pause between attempts in seconds.")


class CacheParams(_Params):
    """`llm_cache`: answers that are known already."""

    enabled: bool = Field(default=True, description="False: every call passes through.")
    cache_path: str | None = Field(default=None, description="Default: $MAS_LLM_CACHE, else in $XDG_CACHE_HOME/mas.")
    cacheable: bool = Field(default=True, description="False: answers must be new; none is looked for or stored.")
    single_flight: bool = Field(default=True, description="Identical calls at the same time are made once.")
    flight_timeout_s: float = Field(default=300.0, ge=0, description="Longest wait for the one that is made, in seconds.")


class FaultParams(_Params):
    """`fault_inject`: some calls fail on purpose."""

    rate: float = Field(default=0.0, ge=0, le=1, description="Share of calls that fail.")
    status_codes: list[int] = Field(default=[503], min_length=1, description="HTTP statuses to fail with, one at random.")
    message: str = Field(default="injected fault", description="What the failure says.")


PARAMS: dict[str, type[_Params]] = {
    "llm_cache": CacheParams,
    "llm_scheduler": SchedulerParams,
    "fault_inject": FaultParams,
}
"""Registry id -> its parameters; the middlewares themselves are in `registry`."""

_POLICY = frozenset(Policy.__struct_fields__)


def checked_params(
    middleware: str, params: Mapping[str, Any], document: Document, keys: Keys, folder: Path
) -> tuple[dict[str, Any], list[str]]:
    """Check one middleware's parameters.

    Args:
        middleware: registry id.
        params: as they stand in the document.
        document: where they stand.
        keys: path of the layer in it.
        folder: of the document.

    Returns:
        What was given, in its type, and the problems, one line each.
    """
    if middleware not in PARAMS:
        text = f"unknown middleware {middleware!r}; {suggestion(middleware, PARAMS)}"
        return {}, [document.problem((*keys, "middleware"), text)]
    values: dict[str, Any] = {}
    problems: list[str] = []
    for name, value in params.items():  # each by itself, so that all that is wrong is found
        content, found = checked(PARAMS[middleware], {name: value}, document, (*keys, "params"))
        given = content.model_dump(exclude_unset=True, exclude_none=True) if content else {}
        if middleware == "llm_scheduler":
            found += _nonsense(given, document, (*keys, "params"))
        values |= given
        problems += found
    if problems:
        return {}, problems
    for name in PATHS:
        if name in values:
            values[name] = str(folder / Path(values[name]).expanduser())
    return values, _nonsense(values, document, (*keys, "params")) if middleware == "llm_scheduler" else []


def _nonsense(values: Mapping[str, Any], document: Document, keys: Keys) -> list[str]:
    """What has the right shape and makes no sense, e.g. infinity."""
    try:
        Policy(**{name: value for name, value in values.items() if name in _POLICY})
        Backoff(**{name: value for name, value in values.items() if name not in _POLICY})
    except ConfigError as error:
        return [document.problem((*keys, error.knob), str(error).partition("): ")[2])]
    return []
