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


class CacheParams(_Params):
    """`llm_cache`: answers that are known already."""

    enabled: bool = Field(default=True, description="False: every call passes through.")
    cache_path: str | None = Field(default=None, description="The store; default: $MAS_LLM_CACHE, else $XDG_CACHE_HOME/mas.")


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
    content, problems = checked(PARAMS[middleware], params, document, (*keys, "params"))
    if content is None:
        return {}, problems
    values = content.model_dump(exclude_unset=True, exclude_none=True)
    for name in PATHS:
        if name in values:
            values[name] = str(folder / Path(values[name]).expanduser())
    if middleware == "llm_scheduler":
        try:
            Policy(**values)
        except ConfigError as error:
            reason = str(error).partition("): ")[2]
            return {}, [document.problem((*keys, "params", error.knob), reason)]
    return values, []
