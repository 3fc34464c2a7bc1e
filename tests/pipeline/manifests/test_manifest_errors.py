"""What a broken manifest gets: one line for each problem, with its place, and all of them together."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
from manifest_support import Folder, refusal

from llm_sched import SchedulerError

SECRET = "sk-proj-abcdefghijklmnop"  # noqa: S105 - it opens nothing


def test_broken_yaml_names_file_line_and_column(folder: Folder) -> None:
    """A person can jump to the place."""
    path = folder.write("m.yaml", "apiVersion: infra/v1\nkind: LLMProxy\nspec: {proxy: [}\n")
    assert str(refusal("m.yaml")).startswith(f"{path}:3:16: no valid YAML: ")


@pytest.mark.parametrize(
    ("text", "place", "reason"),
    [
        ("a: 1\nb: 2\na: 3\n", ":3:1", "the key 'a' stands twice"),
        ("a: 1\n\tb: 2\n", ":2:1", "no valid YAML"),
        ("a: *nobody\n", ":1:4", "no valid YAML"),
        ("a: !!python/object:os.system x\n", ":1:4", "no valid YAML"),
        ("a: 1\n--- \nb: 2\n", ":2:1", "no valid YAML"),
        ("ab: \x00\n", ":1:5", "a character that may not stand there"),
        ("[" * 5000, ":1:101", "nests too deeply"),
        ("{a: " * 400 + "1" + "}" * 400, ":1:398", "nests too deeply"),
        ("a: 2020-99-99\n", "", "no valid YAML"),
        ("", "", "is no manifest"),
        ("- a\n", ":1:1", "is no manifest"),
        ("just text\n", ":1:1", "is no manifest"),
    ],
)
def test_what_is_no_manifest(folder: Folder, text: str, place: str, reason: str) -> None:
    """Any text at all gives one line; nothing in it is executed."""
    path = folder.write("m.yaml", text)
    message = str(refusal("m.yaml"))
    assert message.startswith(f"{path}{place}: ")
    assert reason in message
    assert "\n" not in message


def test_bytes_that_are_no_text(folder: Folder) -> None:
    """A binary file is named as such."""
    (folder.path / "m.yaml").write_bytes(b"kind: \xff\xfe")
    assert "is no UTF-8 text (byte 6)" in str(refusal("m.yaml"))


def test_an_enormous_file_is_not_read(folder: Folder) -> None:
    """A data set given as a manifest is refused by its size."""
    with (folder.path / "m.yaml").open("wb") as file:
        file.truncate(5 * 1024 * 1024)
    assert "larger than 4 MB" in str(refusal("m.yaml"))


@pytest.mark.parametrize(
    ("kind", "hint"),
    [("InfraMiddelware", "did you mean 'InfraMiddleware'?"), ("Agent", "known are"), ("{}", "unknown kind none")],
)
def test_unknown_kinds(folder: Folder, kind: str, hint: str) -> None:
    """A kind that nobody knows gets a suggestion and the place."""
    path = folder.write("m.yaml", f"apiVersion: infra/v1\nkind: {kind}\nspec: {{}}\n")
    message = str(refusal("m.yaml"))
    assert message.startswith(f"{path}:2:7: kind: unknown kind")
    assert hint in message


@pytest.mark.parametrize(
    ("spec", "path", "reason"),
    [
        ("{proxy: {api_base: 5}}", "spec.proxy.api_base", "must be a text, not number"),
        ("{proxy: [x]}", "spec.proxy", "must be a mapping of names to values, not list"),
        ("{models: {allowed: gpt-4o}}", "spec.models.allowed", "must be a list, not text"),
        ("{models: {allowed: [a, {b: c}]}}", "spec.models.allowed[1]", "must be a text, not mapping"),
        ("{models: {mappings: {a: [1]}}}", "spec.models.mappings.a", "must be a text, not list"),
        ("{proxy: {api_base: 'http://x/v1', timeout: soon}}", "spec.proxy.timeout", "must be a number, not text"),
        ("{proxy: {api_base: 'http://x/v1', timeout: 0}}", "spec.proxy.timeout", "must be greater than 0"),
        ("{proxy: {api_base: 'ftp://x'}}", "spec.proxy.api_base", "must be a URL such as https://api.openai.com/v1"),
        ("{proxy: {api_base: 'http://[x/v1'}}", "spec.proxy.api_base", "is no valid URL"),
    ],
)
def test_wrong_types_in_a_provider(folder: Folder, spec: str, path: str, reason: str) -> None:
    """The path in the document and what should be there."""
    folder.provider("m.yaml", spec)
    assert f": {path}: {reason}" in str(refusal("m.yaml"))


def test_a_wrong_type_has_its_line_and_column(folder: Folder) -> None:
    """The place of the value itself, not of the document."""
    path = folder.write(
        "m.yaml",
        """
        apiVersion: infra/v1
        kind: LLMProxy
        spec:
          proxy:
            api_base: 5
        """,
    )
    assert str(refusal("m.yaml")) == f"{path}:5:15: spec.proxy.api_base: must be a text, not number"


@pytest.mark.parametrize(
    ("text", "path", "reason"),
    [
        ("kind: LLMProxy\nspec: {}\n", "apiVersion", "is missing"),
        ("apiVersion: infra/v2\nkind: LLMProxy\nspec: {}\n", "apiVersion", "must be 'infra/v1'"),
        ("apiVersion: infra/v1\nkind: LLMProxy\n", "spec", "is missing"),
        ("apiVersion: infra/v1\nkind: InfraBundle\nspec:\n", "spec", "must be a mapping of names to values, not nothing"),
        ("apiVersion: infra/v1\nkind: LLMProxy\nmetadata: x\nspec: {}\n", "metadata", "must be a mapping"),
    ],
)
def test_wrong_heads(folder: Folder, text: str, path: str, reason: str) -> None:
    """Version and spec are checked as everything else."""
    folder.write("m.yaml", text)
    assert f": {path}: {reason}" in str(refusal("m.yaml"))


@pytest.mark.parametrize(
    ("spec", "path", "reason"),
    [
        ("{}", "spec", "an InfraBundle needs `entries`"),
        ("{entries: [], includes: ['standard:openai']}", "spec", "use one form"),
        ("{entries: [{id: a}]}", "spec.entries[0]", "needs a `ref`"),
        ("{entries: [{ref: 'standard:openai', type: llm_providr}]}", "spec.entries[0].type", "did you mean 'llm_provider'?"),
        ("{entries: [{ref: 'standard:openai', applies_to: [llms]}]}", "spec.entries[0].applies_to[0]", "unknown operation"),
        ("{entries: {a: b}}", "spec.entries", "must be a list, not mapping"),
        ("{entries: ['standard:openai']}", "spec.entries[0]", "must be a mapping of names to values, not text"),
        ("{includes: [5]}", "spec.includes[0]", "must be a text, not number"),
        ("{interceptors: [{params: {}}]}", "spec.interceptors[0]", "needs a `ref` or a `middleware`"),
        ("{interceptors: [{middleware: llm_cach}]}", "spec.interceptors[0].middleware", "did you mean 'llm_cache'?"),
        ("{interceptors: [{middleware: llm_cache, params: [1]}]}", "spec.interceptors[0].params", "must be a mapping"),
        ("{interceptors: [5]}", "spec.interceptors[0]", "must be a mapping of names to values, not number"),
    ],
)
def test_wrong_bundles(folder: Folder, spec: str, path: str, reason: str) -> None:
    """Each mistake in a bundle is found where it is."""
    folder.bundle("m.yaml", spec)
    message = str(refusal("m.yaml"))
    assert f": {path}: " in message
    assert reason in message


@pytest.mark.parametrize(
    ("middleware", "params", "path", "reason"),
    [
        ("llm_scheduler", "{max_inflight: 3}", "max_inflight", "unknown; did you mean 'max_in_flight'?"),
        ("llm_scheduler", "{zzz: 3}", "zzz", "unknown; known are"),
        ("llm_scheduler", "{max_in_flight: many}", "max_in_flight", "must be a whole number, not text"),
        ("llm_scheduler", "{max_in_flight: -1}", "max_in_flight", "must be greater than or equal to 0"),
        ("llm_scheduler", "{max_in_flight: 1.5}", "max_in_flight", "must be a whole number"),
        ("llm_scheduler", "{requests_per_minute: .nan}", "requests_per_minute", "must be"),
        ("llm_scheduler", "{requests_per_minute: .inf}", "requests_per_minute", "must be a number of at most"),
        ("llm_scheduler", "{keys: []}", "keys", "must be a list of at least one of"),
        ("llm_scheduler", "{keys: [model, model]}", "keys", "names a dimension twice"),
        ("llm_scheduler", "{keys: [modl]}", "keys[0]", "must be 'provider', 'model' or 'user'"),
        ("llm_scheduler", "{fair_by: model}", "fair_by", "must be 'user'"),
        ("llm_cache", "{enable: true}", "enable", "unknown; did you mean 'enabled'?"),
        ("llm_cache", "{enabled: maybe}", "enabled", "must be true or false, not text"),
        ("fault_inject", "{rate: 2}", "rate", "must be less than or equal to 1"),
    ],
)
def test_wrong_parameters_of_ours(folder: Folder, middleware: str, params: str, path: str, reason: str) -> None:
    """A typo gets a suggestion, a value its meaning; nothing is ignored."""
    folder.middleware("m.yaml", f"{{middleware: {middleware}, params: {params}}}")
    message = str(refusal("m.yaml", "standard:mock-llm"))
    assert f": spec.params.{path}: " in message
    assert reason in message


def test_all_wrong_parameters_of_one_layer_are_told(folder: Folder) -> None:
    """A wrong type does not hide a value that makes no sense."""
    folder.middleware("m.yaml", "{middleware: llm_scheduler, params: {keys: [], max_in_flight: many, zzz: 1}}")
    text = str(refusal("m.yaml", "standard:mock-llm"))
    assert all(f": spec.params.{name}: " in text for name in ("keys", "max_in_flight", "zzz"))


def test_an_unknown_middleware_is_no_silence(folder: Folder) -> None:
    """A layer that we do not have would be missing: an error with a suggestion."""
    folder.middleware("m.yaml", "{middleware: llm_schedular}")
    message = str(refusal("m.yaml", "standard:mock-llm"))
    assert "spec.middleware: unknown middleware 'llm_schedular'; did you mean 'llm_scheduler'?" in message


def test_circles_are_found_and_shown(folder: Folder) -> None:
    """The way round is in the message."""
    folder.bundle("a.yaml", "{includes: [b.yaml]}")
    folder.bundle("b.yaml", "{entries: [{ref: ./a.yaml}]}")
    assert "circular bundle: a.yaml -> b.yaml -> ./a.yaml" in str(refusal("a.yaml"))


def test_a_bundle_that_holds_itself(folder: Folder) -> None:
    """The smallest circle."""
    folder.bundle("a.yaml", "{interceptors: [a.yaml]}")
    assert "circular bundle: a.yaml -> a.yaml" in str(refusal("a.yaml"))


def test_all_bad_refs_are_reported_together(folder: Folder) -> None:
    """One run shows everything there is to mend, also inside bundles."""
    folder.bundle("b.yaml", "{includes: [gone.yaml, 'standard:opnai']}")
    folder.middleware("m.yaml", "{middleware: llm_scheduler, params: {a: 1, b: 2}}")
    folder.write("broken.yaml", "a: [")
    error = refusal("b.yaml", "nowhere.yaml", "m.yaml", "broken.yaml", "samples:x", "standard:openai")
    text = str(error)
    assert text.startswith("infra refs: 7 problems\n")
    for part in (
        "gone.yaml: no such file",
        f"(in {folder.path / 'b.yaml'})",
        "standard:opnai: library 'standard' has no such manifest; did you mean 'standard:openai'?",
        "nowhere.yaml: no such file in",
        "spec.params.a: unknown",
        "spec.params.b: unknown",
        "broken.yaml:1:5",
        "samples:x: no library 'samples' is installed",
    ):
        assert part in text
    assert len(error.problems) == 7


def test_nobody_to_call(folder: Folder) -> None:
    """Layers alone call nobody; the message says what to add."""
    text = str(refusal("standard:llm-cache", "standard:llm-scheduler"))
    assert text == "no provider in standard:llm-cache, standard:llm-scheduler: add one, e.g. standard:openai"


def test_nobody_to_call_because_of_an_unset_variable(folder: Folder) -> None:
    """The variable that would have named the endpoint is named."""
    path = folder.provider("p.yaml", "{proxy: {api_base: 'env:SOME_BASE'}}")
    assert f"({path}:3:26: SOME_BASE not set)" in str(refusal("p.yaml"))


@pytest.mark.parametrize(
    "spec",
    [
        f"{{proxy: {{api_base: 'http://x/v1', api_key_env: {SECRET}}}}}",
        f"{{proxy: {{api_base: 'http://x/v1', api_key: {SECRET}}}}}",
        f"{{proxy: {{api_base: 'http://user:{SECRET}@x/v1'}}}}",
        f"{{proxy: {{api_base: [{SECRET}]}}}}",
    ],
)
def test_a_secret_in_the_wrong_place_is_refused_and_not_repeated(folder: Folder, spec: str) -> None:
    """The message says where keys belong, and does not show the key."""
    folder.provider("p.yaml", spec)
    assert SECRET not in str(refusal("p.yaml"))


@pytest.mark.parametrize("text", ["env:GROQ_API_KEY", "env:UNSET|env:GROQ_API_KEY"])
def test_a_key_that_is_looked_up_as_its_own_name(folder: Folder, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Some keys could be names of variables: the one that holds it is named, what it holds is not."""
    monkeypatch.setenv("GROQ_API_KEY", "gsk_0123456789abcdef")
    path = folder.provider("p.yaml", f"{{proxy: {{api_base: 'http://x/v1', api_key_env: '{text}'}}}}")
    message = str(refusal("p.yaml"))
    assert message.startswith(f"{path}:3:54: spec.proxy.api_key_env: must be the NAME of an environment variable")
    assert "GROQ_API_KEY" in message
    assert "gsk_" not in message


def test_a_secret_in_a_ref_is_not_repeated(folder: Folder) -> None:
    """A URL with a password is refused without showing it."""
    text = str(refusal(f"https://me:{SECRET}@llm.example/v1"))
    assert SECRET not in text
    assert "api_key_env" in text


def test_a_folder_is_no_manifest(folder: Folder) -> None:
    """Only files count."""
    (folder.path / "infra").mkdir()
    assert "no such file" in str(refusal("./infra"))


def test_the_error_is_of_the_family_and_pickles(folder: Folder) -> None:
    """Worker processes can hand it on."""
    error = refusal("a.yaml", "b.yaml")
    copy = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own bytes
    assert isinstance(copy, SchedulerError)
    assert (str(copy), copy.problems) == (str(error), error.problems)


def test_a_file_that_may_not_be_read(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system's reason is told."""
    folder.provider("p.yaml")

    def refuse(_path: Path, **_options: object) -> str:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_text", refuse)
    assert str(refusal("p.yaml")).endswith("p.yaml: cannot be read: Permission denied")
