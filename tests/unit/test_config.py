"""Knobs: what they accept, what they refuse, and whose word counts."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from llm_sched import ConfigError, Policy
from llm_sched.config import resolved_state_path
from llm_sched.model import Terms

BAD = [
    ("max_in_flight", -1),
    ("max_in_flight", 2.5),
    ("max_in_flight", "8"),
    ("max_in_flight", True),
    ("max_in_flight", math.inf),
    ("max_in_flight", math.nan),
    ("max_in_flight", None),
    ("requests_per_minute", -0.1),
    ("requests_per_minute", math.nan),
    ("requests_per_minute", math.inf),
    ("requests_per_minute", "fast"),
    ("burst", 0),
    ("burst", 0.5),
    ("burst", math.inf),
    ("keys", []),
    ("keys", "provider"),
    ("keys", ["provider", "region"]),
    ("keys", ["model", "model"]),
    ("keys", 3),
    ("user", ""),
    ("user", "  "),
    ("user", "a\nb"),
    ("user", 7),
    ("provider", ""),
    ("provider", "\x1b[31m"),
    ("timeout_s", -1),
    ("timeout_s", math.nan),
    ("max_hold_s", -1),
    ("max_hold_s", math.inf),
    ("fair_by", "model"),
    ("fair_by", True),
    ("state_path", ""),
    ("state_path", 3),
]


def given(knob: str, value: object) -> Policy:
    """A policy with one knob as an argument."""
    arguments: Any = {knob: value}
    return Policy(**arguments)


@pytest.mark.parametrize(("knob", "value"), BAD)
def test_a_value_that_makes_no_sense_is_refused_by_name_value_and_source(knob: str, value: object) -> None:
    """As an argument."""
    with pytest.raises(ConfigError) as caught:
        given(knob, value)
    error = caught.value
    assert (error.knob, error.value, error.source) == (knob, repr(value), "argument")
    assert f"{knob}={value!r} (argument)" in str(error)


@pytest.mark.parametrize(("knob", "value"), [bad for bad in BAD if bad[1] is not None])
def test_a_manifests_mistake_names_the_manifest(knob: str, value: object) -> None:
    """By the name it was given."""
    with pytest.raises(ConfigError) as caught:
        Policy.from_params({knob: value}, source="team.yaml")
    assert (caught.value.knob, caught.value.source, "team.yaml" in str(caught.value)) == (knob, "team.yaml", True)


@pytest.mark.parametrize(
    ("variable", "text", "knob"),
    [
        ("MAS_LLM_MAX_IN_FLIGHT", "-1", "max_in_flight"),
        ("MAS_LLM_MAX_IN_FLIGHT", "4.5", "max_in_flight"),
        ("MAS_LLM_MAX_IN_FLIGHT", "many", "max_in_flight"),
        ("MAS_LLM_RPM", "nan", "requests_per_minute"),
        ("MAS_LLM_RPM", "60/min", "requests_per_minute"),
        ("MAS_LLM_SCHEDULER_USER", "  ", "user"),
        ("MAS_LLM_SCHEDULER_PROVIDER", "\t", "provider"),
    ],
)
def test_an_environment_variables_mistake_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, variable: str, text: str, knob: str
) -> None:
    """And the knob, and the value."""
    monkeypatch.setenv(variable, text)
    with pytest.raises(ConfigError, match=f"environment variable {variable}") as caught:
        Policy.from_params()
    assert (caught.value.knob, repr(text)[1:-1] in str(caught.value)) == (knob, True)


@pytest.mark.parametrize(
    ("knob", "value"),
    [
        ("max_in_flight", 0),
        ("max_in_flight", 4.0),
        ("requests_per_minute", 0),
        ("requests_per_minute", 0.5),
        ("burst", 1),
        ("burst", None),
        ("keys", ("user",)),
        ("timeout_s", 0),
        ("timeout_s", math.inf),
        ("fair_by", "user"),
        ("fair_by", None),
        ("provider", None),
        ("state_path", None),
    ],
)
def test_each_knob_accepts_its_edges(knob: str, value: object) -> None:
    """0 is off, `inf` is for ever, None is the default."""
    assert getattr(given(knob, value), knob) == value


def test_a_typo_in_a_knobs_name_is_refused_with_a_suggestion() -> None:
    """Nothing is ignored."""
    with pytest.raises(ConfigError, match=r"unknown knob 'max_inflight' \(manifest\): did you mean 'max_in_flight'\?"):
        Policy.from_params({"max_inflight": 3})


def test_a_name_like_none_of_the_knobs_is_refused_with_the_list() -> None:
    """Also one that is a field but no knob."""
    for name in ("zzz", 3, "sources"):
        with pytest.raises(ConfigError, match="the knobs are max_in_flight, ") as caught:
            Policy.from_params({name: 1})  # type: ignore[dict-item] # users write anything
        assert caught.value.knob == str(name)


def test_environment_beats_manifest_beats_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each knob by itself."""
    monkeypatch.setenv("MAS_LLM_MAX_IN_FLIGHT", "2")
    policy = Policy.from_params({"max_in_flight": 3, "requests_per_minute": 30})
    assert (policy.max_in_flight, policy.requests_per_minute, policy.timeout_s) == (2, 30.0, 300.0)


def test_a_policy_knows_where_each_value_came_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not named is a default."""
    monkeypatch.setenv("MAS_LLM_RPM", "7")
    policy = Policy.from_params({"max_in_flight": 3, "requests_per_minute": 30}, source="team.yaml")
    assert policy.sources == {"max_in_flight": "team.yaml", "requests_per_minute": "environment variable MAS_LLM_RPM"}


def test_the_environment_overrides_arguments_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """`install` asks for it; a bare `Policy` does not."""
    monkeypatch.setenv("MAS_LLM_SCHEDULER_USER", "ann")
    policy = Policy(max_in_flight=2)
    assert (policy.user, policy.with_environment().user, policy.with_environment().max_in_flight) == ("default", "ann", 2)
    assert policy.with_environment().sources == {
        "max_in_flight": "argument",
        "user": "environment variable MAS_LLM_SCHEDULER_USER",
    }


def test_every_variable_of_the_environment_has_its_knob(monkeypatch: pytest.MonkeyPatch) -> None:
    """All five."""
    for name, value in {
        "MAX_IN_FLIGHT": "3",
        "RPM": "1.5",
        "SCHEDULER_USER": "ann",
        "SCHEDULER_PROVIDER": "p",
        "SCHEDULER_STATE": "/somewhere/x.json",
    }.items():
        monkeypatch.setenv(f"MAS_LLM_{name}", value)
    policy = Policy.from_params()
    assert (policy.max_in_flight, policy.requests_per_minute, policy.user, policy.provider) == (3, 1.5, "ann", "p")
    assert policy.path == Path("/somewhere/x.json")


def test_an_empty_variable_counts_as_unset(monkeypatch: pytest.MonkeyPatch) -> None:
    """As shells leave them."""
    monkeypatch.setenv("MAS_LLM_MAX_IN_FLIGHT", "")
    assert Policy.from_params({"max_in_flight": 3}).max_in_flight == 3


def test_a_parameter_that_is_none_counts_as_not_given() -> None:
    """As in YAML."""
    assert Policy.from_params({"max_in_flight": None, "user": None}) == Policy()


def test_keys_stand_in_one_order_whatever_order_they_were_given_in() -> None:
    """So that one bucket has one name."""
    assert Policy(keys=["user", "model", "provider"]).keys == ("provider", "model", "user")


def test_the_default_path_follows_xdg(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`~/.cache` where XDG_CACHE_HOME is not set or empty."""
    monkeypatch.setenv("HOME", str(tmp_path))
    below_home = tmp_path / ".cache" / "mas" / "llm_scheduler.json"
    assert Policy().path == below_home
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert Policy().path == below_home
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert Policy().path == tmp_path / "xdg" / "mas" / "llm_scheduler.json"


def test_a_path_with_a_tilde_is_the_home_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Manifests and variables know no shell."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Policy(state_path="~/a.json").path == tmp_path / "a.json"


def test_a_monitor_looks_where_the_policy_would(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An explicit path first, then the environment's, then the default."""
    monkeypatch.setenv("HOME", str(tmp_path))
    default = resolved_state_path()
    monkeypatch.setenv("MAS_LLM_SCHEDULER_STATE", "~/env.json")
    assert (default, resolved_state_path(), resolved_state_path("~/x.json")) == (
        tmp_path / ".cache" / "mas" / "llm_scheduler.json",
        tmp_path / "env.json",
        tmp_path / "x.json",
    )


@pytest.mark.parametrize(("rpm", "burst", "capacity"), [(60, None, 60.0), (0.5, None, 1.0), (60, 1, 1.0), (0, None, 1.0)])
def test_burst_is_the_rate_unless_it_is_given(rpm: float, burst: float | None, capacity: float) -> None:
    """But at least one request."""
    assert Policy(requests_per_minute=rpm, burst=burst).terms().burst == capacity


def test_the_terms_that_others_obey_are_the_policys() -> None:
    """With where they came from; `inf` becomes a number that JSON has."""
    policy = Policy.from_params({"max_in_flight": 2, "timeout_s": math.inf, "fair_by": "user", "max_hold_s": 9}, source="m")
    assert policy.terms() == Terms(2, 0.0, 1.0, 9.0, "user", 1e12, "m")
