"""The user's knobs: defaults, manifest parameters, environment -> one `Policy` that knows where each value came from.

The law: environment beats manifest beats default; a value that makes no sense, or a name nobody knows, is a `ConfigError`
that names the knob, the value and its source. Nothing is guessed and nothing ignored.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

import msgspec

from llm_sched.errors import ConfigError
from llm_sched.mailbox import KEYS_LENGTH
from llm_sched.model import FOREVER_S, Terms

DIMENSIONS = ("provider", "model", "user")
"""Possible `keys`, in the order in which they stand in a bucket's name."""

ENVIRONMENT = {
    "MAS_LLM_MAX_IN_FLIGHT": "max_in_flight",
    "MAS_LLM_RPM": "requests_per_minute",
    "MAS_LLM_SCHEDULER_USER": "user",
    "MAS_LLM_SCHEDULER_PROVIDER": "provider",
    "MAS_LLM_SCHEDULER_STATE": "state_path",
}
"""Variables that override knobs; an empty one counts as unset."""

_LARGEST = 1e12

OVERDUE_S = 600.0
"""With `max_hold_s: 0`, what is held longer is shown as overdue: openai's default request timeout."""


class Target(NamedTuple):
    """The bucket of a call: its key/value pairs, its name, the pairs as JSON; and all labels that are known, for telemetry."""

    keys: dict[str, str]
    bucket: str
    data: bytes
    labels: Mapping[str, str]


class _Explained(msgspec.StructMeta):
    """Says what is wrong with a call of `Policy` where msgspec would only refuse it."""

    if not TYPE_CHECKING:  # type checkers go by the fields

        def __call__(cls, *values: object, **knobs: object) -> Policy:  # noqa: N805 - the instance is a class
            if values:
                raise ConfigError("Policy takes its knobs by name, e.g. Policy(max_in_flight=4)", source="argument")
            for knob in knobs.keys() - {"sources"}:
                _known(knob, "argument")
            return super().__call__(**knobs)


class Policy(msgspec.Struct, frozen=True, kw_only=True, metaclass=_Explained):
    """What is limited, how much, and where the ledger is.

    Args:
        max_in_flight: concurrent live requests per bucket; 0 = no cap.
        requests_per_minute: refill of the token bucket; 0 = no rate limit.
        burst: capacity of that token bucket in requests; None = `requests_per_minute`, 1 = evenly spaced.
        keys: dimensions of a bucket, out of `provider`, `model`, `user`.
        user: label used when `keys` has `user`, and shown everywhere.
        provider: label used where a call names no provider; None = `default`.
        timeout_s: longest wait for a slot in seconds; 0 = try once, `inf` = for ever.
        max_hold_s: a lease older than this many seconds is taken back; 0 = never.
        fair_by: `user` = the users of one bucket take turns; None = first come, first served.
        state_path: the ledger; None = `$XDG_CACHE_HOME/mas/llm_scheduler.json`.
        sources: where each value that is no default came from; filled by `from_params`.

    Raises:
        ConfigError: a value makes no sense.
    """

    max_in_flight: int = 8
    requests_per_minute: float = 0.0
    burst: float | None = None
    keys: Sequence[str] = ("provider", "model")
    user: str = "default"
    provider: str | None = None
    timeout_s: float = 300.0
    max_hold_s: float = 0.0
    fair_by: str | None = None
    state_path: str | os.PathLike[str] | None = None
    sources: Mapping[str, str] = {}

    def __post_init__(self) -> None:
        """Check every knob and bring the values into one form."""
        put = msgspec.structs.force_setattr
        put(self, "max_in_flight", int(self._number("max_in_flight", whole=True)))
        put(self, "requests_per_minute", self._number("requests_per_minute"))
        if self.burst is not None:
            put(self, "burst", self._number("burst", least=1.0))
        put(self, "timeout_s", self._number("timeout_s", infinite=True))
        put(self, "max_hold_s", self._number("max_hold_s"))
        put(self, "keys", self._dimensions())
        for knob in ("user", "provider"):
            self._label(knob)
        if self.fair_by not in {None, "user"}:
            raise self._error("fair_by", "must be `user` or left out")
        if self.state_path is not None:
            put(self, "state_path", self._path())

    def _error(self, knob: str, reason: str) -> ConfigError:
        value, source = repr(getattr(self, knob)), self.sources.get(knob, "argument")
        return ConfigError(f"{knob}={value} ({source}): {reason}", knob=knob, value=value, source=source)

    def _number(self, knob: str, *, least: float = 0.0, whole: bool = False, infinite: bool = False) -> float:
        value: object = getattr(self, knob)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self._error(knob, "must be a number")
        if abs(value) > _LARGEST and not (infinite and value == math.inf):
            raise self._error(knob, f"must be a number of at most {_LARGEST:g}")
        if math.isnan(value) or value < least:
            raise self._error(knob, f"must be a number of at least {least:g}")
        if whole and value != int(value):
            raise self._error(knob, "must be a whole number")
        return float(value)

    def _dimensions(self) -> tuple[str, ...]:
        keys: Any = self.keys
        if isinstance(keys, str) or not isinstance(keys, Sequence) or not keys:
            raise self._error("keys", f"must be a list of at least one of {', '.join(DIMENSIONS)}")
        for key in self.keys:
            if key not in DIMENSIONS:
                raise self._error("keys", f"{key!r} is none of {', '.join(DIMENSIONS)}")
        if len(set(self.keys)) < len(self.keys):
            raise self._error("keys", "names a dimension twice")
        return tuple(key for key in DIMENSIONS if key in self.keys)

    def _label(self, knob: str) -> None:
        value: object = getattr(self, knob)
        if value is None and knob == "provider":
            return
        if not isinstance(value, str) or not value.strip() or not value.isprintable():
            raise self._error(knob, "must be a printable, non-empty text")

    def _path(self) -> Path:
        value: object = self.state_path
        if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
            raise self._error("state_path", "must be the path of a file")
        return Path(os.fspath(value)).expanduser().absolute()  # a later `chdir` must not move the ledger

    @property
    def path(self) -> Path:
        """The ledger's path, resolved."""
        return default_state_path() if self.state_path is None else Path(self.state_path)

    def terms(self) -> Terms:
        """The part of the policy that other processes must obey in a shared bucket."""
        return Terms(
            max_in_flight=self.max_in_flight,
            requests_per_minute=self.requests_per_minute,
            burst=max(1.0, self.requests_per_minute) if self.burst is None else self.burst,
            max_hold_s=self.max_hold_s,
            fair_by=self.fair_by or "",
            timeout_s=min(self.timeout_s, FOREVER_S),
            source=", ".join(sorted(set(self.sources.values()))) or "default",
        )

    def target(self, provider: str | None, model: str | None) -> Target:
        """The bucket of a call; what is not given is the policy's provider label, else `default`.

        Raises:
            ConfigError: the names are no text, or too long.
        """
        values = {"provider": provider or self.provider or "default", "model": model or "default", "user": self.user}
        for name, value in values.items():
            if not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance] # callers are not all typed
                raise ConfigError(f"{name}={value!r} (call): must be a text", knob=name, value=repr(value), source="call")
        keys = {key: values[key] for key in self.keys}
        known = {"provider": provider or self.provider, "model": model, "user": self.user}
        labels = {name: value for name, value in known.items() if value}
        return Target(keys, bucket_name(keys), keys_bytes(keys), labels)

    @classmethod
    def from_params(cls, params: Mapping[str, Any] | None = None, *, source: str = "manifest") -> Self:
        """Make a policy from manifest parameters (same names as the knobs) and the environment, which wins.

        Args:
            params: knob -> value; None values count as not given.
            source: what to call the parameters' origin in messages, e.g. the manifest's path.

        Raises:
            ConfigError: an unknown name, with a suggestion, or a value that makes no sense.
        """
        values: dict[str, Any] = {}
        sources: dict[str, str] = {}
        for knob, value in (params or {}).items():
            _known(knob, source)
            if value is not None:
                values[knob], sources[knob] = value, source
        return _overridden(cls, values, sources)

    def with_environment(self) -> Self:
        """Return this policy with the environment's overrides."""
        values = {knob: getattr(self, knob) for knob in _KNOBS}
        sources = dict(self.sources)
        for field in msgspec.structs.fields(type(self)):
            if field.name in values and field.default != values[field.name]:
                sources.setdefault(field.name, "argument")
        return _overridden(type(self), values, sources)


def policy_of(what: str, policy: object, knobs: Mapping[str, object]) -> Policy:
    """The policy that `what` was called with; None = the defaults.

    Raises:
        ConfigError: that was no policy, or the knobs were given instead of one.
    """
    for knob in knobs:
        _known(knob, "argument")
    if knobs:
        shown = ", ".join(f"{knob}={value!r}" for knob, value in knobs.items())
        message = f"{what} takes a Policy, not its knobs: {what}(Policy({shown}))"
        raise ConfigError(message, knob=next(iter(knobs)), source="argument")
    if isinstance(policy, Mapping):
        raise ConfigError(f"{what} takes a Policy, not a mapping: {what}(Policy.from_params(mapping))", source="argument")
    if policy is not None and not isinstance(policy, Policy):
        raise ConfigError(f"{what} takes a Policy, not {policy!r}: e.g. {what}(Policy(max_in_flight=4))", source="argument")
    return policy or Policy()


PolicyT = TypeVar("PolicyT", bound=Policy)

_KNOBS = tuple(name for name in Policy.__struct_fields__ if name != "sources")
_INTEGERS = {"max_in_flight"}
_TEXTS = {"user", "provider", "state_path"}


def _known(knob: object, source: str) -> None:
    if knob in _KNOBS:
        return
    close = get_close_matches(str(knob), _KNOBS, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"the knobs are {', '.join(_KNOBS)}"
    message = f"unknown knob {knob!r} ({source}): {hint}"
    raise ConfigError(message, knob=str(knob), source=source)


def _overridden(cls: type[PolicyT], values: dict[str, Any], sources: dict[str, str]) -> PolicyT:
    for variable, knob in ENVIRONMENT.items():
        text = os.environ.get(variable)
        if text:
            origin = f"environment variable {variable}"
            values[knob], sources[knob] = _parsed(knob, text, origin), origin
    return cls(**values, sources=sources)


def _parsed(knob: str, text: str, origin: str) -> str | int | float:
    if knob in _TEXTS:
        return text
    try:
        return int(text) if knob in _INTEGERS else float(text)
    except ValueError:
        message = f"{knob}={text!r} ({origin}): must be a {'whole ' if knob in _INTEGERS else ''}number"
        raise ConfigError(message, knob=knob, value=repr(text), source=origin) from None


def default_state_path() -> Path:
    """`$XDG_CACHE_HOME/mas/llm_scheduler.json`; `~/.cache` where that is not set."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache).absolute() if cache else Path.home() / ".cache") / "mas" / "llm_scheduler.json"


def resolved_state_path(path: str | os.PathLike[str] | None = None) -> Path:
    """The path a monitor should look at: the given one, else the environment's, else the default."""
    return Path(path or os.environ.get("MAS_LLM_SCHEDULER_STATE") or default_state_path()).expanduser().absolute()


def bucket_name(keys: Mapping[str, str]) -> str:
    """A bucket's name: its values joined with `/`; `%` and `/` are percent-encoded, except in the model."""
    return "/".join(value if key == "model" else _encoded(value) for key, value in keys.items())


def _encoded(value: str) -> str:
    return value.replace("%", "%25").replace("/", "%2F")


def clash_error(name: str, wanted: Mapping[str, str], found: Mapping[str, str]) -> ConfigError:
    """Say that a bucket's name is in use for other keys: policies with different `keys` share one ledger."""
    here, there = (", ".join(f"{key}={value}" for key, value in keys.items()) for keys in (wanted, found))
    message = (
        f"bucket {name} stands for {there} in this ledger, but for {here} in this call: the `keys` of two policies differ. "
        "Give both the same `keys`, or one of them another state_path"
    )
    return ConfigError(message, knob="keys", value=repr(list(wanted)), source="call")


def keys_bytes(keys: Mapping[str, str]) -> bytes:
    """The keys as JSON, as they stand in a mailbox.

    Raises:
        ConfigError: too long to be anybody's provider and model.
    """
    try:
        data = msgspec.json.encode(keys)
    except UnicodeEncodeError:
        message = f"the names of bucket {bucket_name(keys)[:60]!r} are no valid Unicode"
        raise ConfigError(message, knob="keys", value=repr(dict(keys)), source="call") from None
    if len(data) > KEYS_LENGTH:
        message = f"the names of bucket {bucket_name(keys)[:60]}... are too long: together at most {KEYS_LENGTH} bytes as JSON"
        raise ConfigError(message, knob="keys", value=repr(dict(keys)), source="call")
    return data
