"""Each kind of manifest, both forms of bundles, and how they merge."""

from __future__ import annotations

from pathlib import Path

import pytest
from manifest_support import Folder, names

from llm_sched.pipeline.infra import Infra
from llm_sched.pipeline.libraries import library_names
from llm_sched.pipeline.loading import load_infra


def layer_params(infra: Infra) -> dict[str, object]:
    (layer,) = infra.layers
    return dict(layer.params)


def test_a_middleware_is_named_after_its_file_when_it_names_none(folder: Folder) -> None:
    """The default registry id is the file's stem with - as _."""
    folder.middleware("llm-cache.yaml", "{}")
    folder.provider("p.yaml")
    assert names(load_infra(["llm-cache.yaml", "p.yaml"])) == ["llm_cache"]


def test_a_middleware_without_a_spec_has_defaults(folder: Folder) -> None:
    """`spec` may be left out: id from the file, no parameters."""
    folder.write("llm-cache.yaml", "apiVersion: infra/v1\nkind: InfraMiddleware\n")
    assert names(load_infra(["llm-cache.yaml", "standard:mock-llm"])) == ["llm_cache"]


def test_entries_keep_their_order_and_their_inner_pipeline(folder: Folder) -> None:
    """Form one: typed slots; an entry's own layers come after what its ref brings."""
    folder.provider("p.yaml")
    folder.bundle(
        "b.yaml",
        """
  entries:
    - {id: cache, type: infra_middleware, ref: 'standard:llm-cache', applies_to: [llm]}
    - {id: llm, type: llm_provider, ref: ./p.yaml, pipeline: ['standard:llm-scheduler', {middleware: fault_inject}]}
""",
    )
    infra = load_infra(["b.yaml"])
    assert names(infra) == ["llm_cache", "llm_scheduler", "fault_inject"]
    assert infra.provider
    assert infra.provider.api_base == "http://localhost:9/v1"


def test_includes_come_before_interceptors(folder: Folder) -> None:
    """Form two: refs merged in order, then layers given as refs or in place."""
    folder.bundle(
        "b.yaml",
        """
  includes: ['standard:llm-cache', 'standard:openai']
  interceptors: ['standard:llm-scheduler', {middleware: fault-inject, params: {rate: 1}}, {ref: 'standard:chaos-lite'}]
""",
    )
    infra = load_infra(["b.yaml"])
    assert names(infra) == ["llm_cache", "llm_scheduler", "fault_inject", "fault_inject"]
    assert infra.layers[2].params == {"rate": 1}
    assert infra.layers[3].params["rate"] == 0.05


def test_the_hosts_other_spellings(folder: Folder) -> None:
    """`pipeline` for `interceptors`, and one operation that is no list."""
    folder.middleware("c.yaml", "{middleware: llm_cache, applies_to: LLM_CALL}")
    folder.bundle(
        "b.yaml", "{includes: ['standard:mock-llm'], pipeline: [c.yaml, {middleware: fault_inject, applies_to: llm}]}"
    )
    assert names(load_infra(["b.yaml"])) == ["llm_cache", "fault_inject"]


def test_bundles_of_bundles(folder: Folder) -> None:
    """A bundle may hold bundles, and the same file twice where that is no circle."""
    folder.middleware("cache.yaml")
    folder.bundle("inner.yaml", "{includes: [cache.yaml]}")
    folder.bundle("outer.yaml", "{includes: [inner.yaml, cache.yaml, 'standard:mock-llm']}")
    assert names(load_infra(["outer.yaml"])) == ["llm_cache", "llm_cache"]


def test_the_first_ref_is_outermost_and_the_last_provider_wins(folder: Folder) -> None:
    """Layers are concatenated; the last provider with an `api_base` counts."""
    folder.provider("one.yaml", "{proxy: {api_base: 'http://one/v1', api_key_env: ONE}}")
    folder.provider("two.yaml", "{server: {api_base: 'http://two/v1', api_key_env: ''}}")
    folder.provider("none.yaml", "{proxy: {api_base: ''}}")
    infra = load_infra(["one.yaml", "standard:llm-scheduler", "two.yaml", "standard:chaos-lite", "none.yaml"])
    assert names(infra) == ["llm_scheduler", "fault_inject"]
    assert infra.provider
    assert (infra.provider.api_base, infra.provider.api_key_env, infra.provider.key_required) == ("http://two/v1", "", False)


def test_mappings_and_allowed_models_are_united(folder: Folder) -> None:
    """All refs' models count; a later mapping or default replaces an earlier one of the same name."""
    folder.provider("a.yaml", "{models: {allowed: [x, y], mappings: {small: x, big: y}, defaults: {llm: small}}}")
    folder.provider("b.yaml", "{models: {available: [y, z], mappings: {big: z}}, defaults: {llm: big}}")
    models = load_infra(["a.yaml", "b.yaml", "standard:mock-llm"]).models
    assert models.allowed == ("x", "y", "z")
    assert {"small": "x", "big": "z"}.items() <= models.mappings.items()
    assert load_infra(["a.yaml", "b.yaml", "http://localhost/v1"]).models.default == "big"


@pytest.mark.parametrize(
    ("kind", "spec", "variable", "required"),
    [
        ("LLMProxy", "{proxy: {api_base: 'http://far/v1'}}", "OPENAI_API_KEY", True),
        ("LLMProxy", "{proxy: {api_base: 'http://far/v1', api_key_env: MINE}}", "MINE", True),
        ("LLMLocal", "{server: {api_base: 'http://near/v1'}}", "", False),
        ("LLMLocal", "{proxy: {api_base: 'http://near/v1', api_key_env: MINE}}", "MINE", True),
    ],
)
def test_which_key_a_provider_gets(folder: Folder, kind: str, spec: str, variable: str, required: bool) -> None:  # noqa: FBT001 - a case
    """A remote one needs OPENAI_API_KEY unless it names another; a local one needs none unless it names one."""
    folder.provider("p.yaml", spec, kind)
    provider = load_infra(["p.yaml"]).provider
    assert provider
    assert (provider.api_key_env, provider.key_required) == (variable, required)


@pytest.mark.parametrize(("url", "required"), [("http://127.0.0.1:8000/v1", False), ("https://llm.example/v1", True)])
def test_a_url_is_a_bare_endpoint(folder: Folder, url: str, required: bool) -> None:  # noqa: FBT001 - a case
    """An http(s) ref is a provider; only on this machine the key may be missing."""
    provider = load_infra([url]).provider
    assert provider
    assert (provider.api_base, provider.api_key_env, provider.key_required) == (url, "OPENAI_API_KEY", required)


def test_env_values_are_read_when_loading(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """`env:NAME|default` everywhere, also for numbers."""
    folder.provider("p.yaml", "{proxy: {api_base: 'env:BASE|http://default/v1', api_key_env: MINE}}")
    folder.middleware("s.yaml", "{middleware: llm_scheduler, params: {max_in_flight: 'env:CAP|3', timeout_s: 'env:WAIT|'}}")
    monkeypatch.setenv("WAIT", "1.5")
    infra = load_infra(["s.yaml", "p.yaml"])
    assert infra.provider
    assert infra.provider.api_base == "http://default/v1"
    assert layer_params(infra) == {"max_in_flight": 3, "timeout_s": 1.5}
    for variable, value in (("BASE", "http://set/v1"), ("CAP", "5")):
        monkeypatch.setenv(variable, value)
    infra = load_infra(["s.yaml", "p.yaml"])
    assert infra.provider
    assert infra.provider.api_base == "http://set/v1"
    assert layer_params(infra)["max_in_flight"] == 5


def test_no_key_is_read_when_loading(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a load returns holds the key's name; the key itself is nowhere in it."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-value")
    assert "sk-secret-value" not in repr(load_infra(["standard:llm-proxy-paced"]))


def test_paths_in_parameters_are_relative_to_their_file(folder: Folder) -> None:
    """Two commands in different folders share one cache and one ledger."""
    folder.middleware("infra/s.yaml", "{middleware: llm_scheduler, params: {state_path: ledger.json}}")
    assert layer_params(load_infra(["infra/s.yaml", "standard:mock-llm"])) == {
        "state_path": str(folder.path / "infra/ledger.json")
    }


def test_a_layer_for_other_operations_is_left_out_and_said(folder: Folder) -> None:
    """Only LLM_CALL goes through the pipeline; a layer that is not for it says so instead of doing nothing silently."""
    folder.middleware("t.yaml", "{middleware: llm_cache, applies_to: [TOOL_CALL]}")
    infra = load_infra(["t.yaml", "standard:mock-llm"])
    assert names(infra) == []
    assert "t.yaml: llm_cache does not apply to LLM_CALL" in infra.notes[0]


def test_a_scheduler_outside_a_cache_works_and_is_told_what_it_costs(folder: Folder) -> None:
    """The order is kept as written; the warning names the cost and the cure."""
    infra = load_infra(["standard:llm-scheduler", "standard:llm-cache", "standard:mock-llm"])
    assert names(infra) == ["llm_scheduler", "llm_cache"]
    (note,) = infra.notes
    assert "every cache hit takes a slot" in note
    assert "list standard:llm-cache before standard:llm-scheduler" in note


def test_a_cache_outside_a_scheduler_is_not_commented_on(folder: Folder) -> None:
    """The usual order has nothing to say."""
    assert load_infra(["standard:llm-cache", "standard:llm-scheduler", "standard:mock-llm"]).notes == ()


@pytest.mark.parametrize("ref", [*library_names("standard"), *library_names("llm-sched")])
def test_every_shipped_manifest_loads(folder: Folder, ref: str) -> None:
    """What is shipped is right, alone or with a provider."""
    load_infra([ref, "standard:mock-llm"])


def test_what_is_shipped(folder: Folder) -> None:
    """The refs that the documentation promises."""
    promised = "chaos-lite llm-cache llm-proxy llm-proxy-cached llm-proxy-paced llm-scheduler mock-llm ollama openai"
    assert library_names("standard") == [f"standard:{name}" for name in promised.split()]
    scheduler = load_infra(["standard:llm-scheduler", "standard:mock-llm"])
    assert layer_params(scheduler) == {"max_in_flight": 8, "requests_per_minute": 0, "keys": ["provider", "model"]}


@pytest.mark.parametrize("ref", ["standard:llm-proxy-paced", "llm-sched:llm-proxy-paced"])
def test_the_paced_proxy_is_cache_then_scheduler_then_openai(folder: Folder, ref: str) -> None:
    """The bundle of the specification's page, in our library and in the one for the host."""
    infra = load_infra([ref])
    assert names(infra) == ["llm_cache", "llm_scheduler"]
    assert infra.provider
    assert infra.provider.api_base == "https://api.openai.com/v1"


def test_anchors_that_multiply_do_not(folder: Folder) -> None:
    """A few lines of YAML that stand for billions of values are read once each."""
    lines = ["x0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"x{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    folder.write("bomb.yaml", "\n".join(["apiVersion: infra/v1", "kind: LLMLocal", "spec: {}", *lines]))
    assert load_infra(["bomb.yaml", "standard:mock-llm"]).provider


def test_recursive_anchors_are_harmless(folder: Folder) -> None:
    """A value that holds itself is kept, not followed for ever."""
    folder.write("loop.yaml", "apiVersion: infra/v1\nkind: LLMLocal\nspec: {}\nx: &x [*x]\n")
    assert load_infra(["loop.yaml", "standard:mock-llm"]).provider


def test_unknown_keys_are_kept_quiet(folder: Folder) -> None:
    """Documents carry what other tools know."""
    folder.provider("p.yaml", "{protocol: openai, proxy: {api_base: 'http://x/v1', region: eu}, quota: {a: 1}}")
    assert load_infra([str(Path("p.yaml"))]).notes == ()
