"""Experiment files: what is read, and what is wrong with them, all at once and with its place."""

from __future__ import annotations

import pytest
from chat_support import Shell
from lab_support import EXPERIMENT, JUDGE, questions
from manifest_support import Folder

from llm_sched.lab import plan
from llm_sched.lab.experiment import Experiment, load_experiment
from llm_sched.lab.run import set_user
from llm_sched.pipeline.problems import ManifestError


@pytest.fixture
def files(shell: Shell, folder: Folder) -> Folder:
    """A folder with agent and data set."""
    assert shell
    folder.write("questions.jsonl", questions(2))
    return folder


def load(files: Folder, text: str = EXPERIMENT, **environ: str) -> Experiment:
    """Write and read an experiment."""
    return load_experiment(files.write("experiment.yaml", text), environ)


def test_all_of_it(files: Folder) -> None:
    """Names, rows, scenarios with their overrides, and where the results go."""
    files.write("other.yaml", "apiVersion: mas/v1\nkind: Agent\nspec: {models: [{model: m2}], context: {intent: I, role: R}}\n")
    changes = "model: m3, max_tokens: 9, context: {role: {ref: r.md}}"
    scenarios = f"[{{name: a}}, {{name: b, agent: other.yaml}}, {{name: c, agent: other.yaml, {changes}}}]"
    files.write("r.md", "New role.\n")
    text = EXPERIMENT.replace("[{name: plain}, {name: warm, temperature: 1.5}]", scenarios)
    experiment = load(files, text + JUDGE, PROVIDER="http://localhost:9/v1")
    assert (experiment.name, experiment.refs) == ("capitals", ("pace.yaml", "http://localhost:9/v1"))
    assert experiment.results == files.path / "results" / "capitals.jsonl"
    first, second, third = (scenario.agent for scenario in experiment.scenarios)
    assert (first.model, first.temperature) == ("gpt-4o", 0.5)
    assert (second.model, second.system) == ("m2", "[intent] I\n\n[role] R")
    assert (third.model, third.max_tokens, third.system) == ("m3", 9, "[intent] I\n\n[role] New role.")
    assert experiment.judge
    assert experiment.judge.schema["required"] == ["score"]


def test_prompts_in_place(files: Folder) -> None:
    """Texts, or rows with more fields; without scenarios there is one, called default."""
    text = EXPERIMENT.replace("{path: questions.jsonl}", "{prompts: ['A?', {id: b, prompt: 'B?', expected: x}]}")
    text = text.replace("  scenarios: [{name: plain}, {name: warm, temperature: 1.5}]\n", "")
    experiment = load(files, text)
    assert [(row.id, row.prompt) for row in experiment.rows] == [("1", "A?"), ("b", "B?")]
    assert [scenario.name for scenario in experiment.scenarios] == ["default"]


def test_tasks_in_order(files: Folder) -> None:
    """Run by run, row by row; only the first run may be answered from the cache."""
    experiment = load(files)
    tasks = plan.tasks(experiment)
    assert [task.key for task in tasks[:3]] == [("plain", "q0", 1), ("warm", "q0", 1), ("plain", "q1", 1)]
    assert [task.cacheable for task in tasks] == [True] * 4 + [False] * 4
    assert all(task.cacheable for task in plan.tasks(load(files, EXPERIMENT + "  distinct_runs: false\n")))


def test_a_digest_knows_what_matters(files: Folder) -> None:
    """Another temperature or another judge is another task; more runs or workers are not."""

    def digests(text: str) -> set[str]:
        return {task.digest for task in plan.tasks(load(files, text))}

    base = digests(EXPERIMENT)
    assert len(base) == 4
    assert digests(EXPERIMENT.replace("n_runs: 2", "n_runs: 5").replace("workers: 2", "workers: 7")) == base
    assert len(digests(EXPERIMENT.replace("1.5", "1.6")) & base) == 2
    assert not digests(EXPERIMENT + JUDGE) & base


def test_the_experiment_names_the_user(files: Folder) -> None:
    """Unless one is named already."""
    for before, after in (
        ({}, "capitals"),
        ({"MAS_LLM_SCHEDULER_USER": ""}, "capitals"),
        ({"MAS_LLM_SCHEDULER_USER": "eve"}, "eve"),
    ):
        set_user(load(files), before)
        assert before["MAS_LLM_SCHEDULER_USER"] == after


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("agent: agent.yaml\n", "agent: gone.yaml\n", "experiment.yaml:5:10: spec.agent: no such file: "),
        ("  agent: agent.yaml\n", "", "spec.agent: is missing: name an agent file here, or in every scenario"),
        ("{path: questions.jsonl}", "{}", "spec.dataset: needs either `prompts` or `path`"),
        ("{path: questions.jsonl}", "{path: a.csv, prompts: [A]}", "spec.dataset: needs either `prompts` or `path`"),
        ("questions.jsonl", "gone.jsonl", "gone.jsonl: cannot be read: No such file"),
        (
            "{path: questions.jsonl}",
            "{prompts: [A, 5]}",
            "spec.dataset.prompts[1]: must be a mapping of names to values, not number",
        ),
        ("{path: questions.jsonl}", "{prompts: [{id: a}]}", "spec.dataset.prompts[0].prompt: is missing"),
        ("{path: questions.jsonl}", "{prompts: []}", "has no rows"),
        ("{path: questions.jsonl}", "{prompts: ['']}", "row 1: its 'prompt' must be a text that is not empty"),
        ("n_runs: 2", "n_runs: 0", "spec.n_runs: must be greater than or equal to 1"),
        ("n_runs: 2", "nruns: 2", "spec.nruns: unknown; did you mean 'n_runs'?"),
        ("workers: 2", "workers: many", "spec.workers: must be a whole number, not text"),
        ("{name: warm", "{nam: warm", "spec.scenarios[1].name: is missing"),
        ("{name: warm", "{name: plain", "spec.scenarios[1].name: must be a name that no other scenario has"),
        ("temperature: 1.5", "temprature: 1.5", "spec.scenarios[1].temprature: unknown; did you mean 'temperature'?"),
        ("temperature: 1.5", "context: {role: {ref: gone.md}}", "spec.scenarios[1].context.role.ref: no such file: gone.md"),
        ("name: capitals", "name: a/b", "metadata.name: must be a printable name without `/`"),
        ("kind: Experiment", "kind: Agent", "kind: must be 'Experiment'"),
        ("apiVersion: lab/v1\n", "", "apiVersion: is missing"),
    ],
)
def test_wrong_experiments(files: Folder, old: str, new: str, reason: str) -> None:
    """Place, path, and what to do."""
    assert old in EXPERIMENT
    with pytest.raises(ManifestError) as caught:
        load(files, EXPERIMENT.replace(old, new, 1))
    assert reason in str(caught.value)


def test_a_broken_agent_is_told_with_its_own_place(files: Folder) -> None:
    """The agent's file, not the experiment's; binary prompts too."""
    files.write("agent.yaml", "apiVersion: mas/v1\nkind: Agent\nspec: {models: 5, context: {role: {ref: r.md}}}\n")
    with pytest.raises(ManifestError, match=r"agent\.yaml:3:16: spec\.models: must be a list, not number"):
        load(files)
    files.write("agent.yaml", "apiVersion: mas/v1\nkind: Agent\nspec: {context: {role: {ref: r.md}}}\n")
    (files.path / "r.md").write_bytes(b"\xff")
    with pytest.raises(ManifestError, match=r"spec\.context\.role\.ref: .*r\.md cannot be read: no UTF-8 text"):
        load(files)


def test_a_placeholder_that_no_row_has(files: Folder) -> None:
    """A typo in the judge's prompt is found before anything is asked."""
    with pytest.raises(ManifestError, match=r"\{expcted\} is no field of every row; did you mean 'expected'"):
        load(files, EXPERIMENT + JUDGE.replace("{expected}", "{expcted}"))


def test_all_problems_together(files: Folder) -> None:
    """One look shows everything there is to mend."""
    text = EXPERIMENT.replace("questions.jsonl", "gone.csv").replace("agent.yaml", "gone.yaml").replace("1.5", "-1")
    with pytest.raises(ManifestError) as caught:
        load(files, text)
    assert len(caught.value.problems) == 1  # the shape comes first: what it is about cannot be read without it
    with pytest.raises(ManifestError) as caught:
        load(files, text.replace("-1", "1"))
    assert len(caught.value.problems) == 2


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("gone.yaml", 2, "gone.yaml"),
        ("experiment.yaml --workers 0", 2, "--workers"),
        ("experiment.yaml --infra-ref gone.yaml", 1, "gone.yaml: no such file"),
        ("experiment.yaml --infra-ref standard:llm-cache", 1, "no provider"),
        ("broken.yaml", 1, "broken.yaml:1:5: no valid YAML"),
        ("bare.yaml", 2, "no infra: pass --infra-ref"),
    ],
)
def test_the_command(shell: Shell, files: Folder, line: str, code: int, said: str) -> None:
    """Usage exits with 2, failure with 1, nothing is started and nothing written."""
    files.write("experiment.yaml", EXPERIMENT.replace(", 'env:PROVIDER'", ""))
    files.write("bare.yaml", EXPERIMENT.replace("  infra_refs: [pace.yaml, 'env:PROVIDER']\n", ""))
    files.write("broken.yaml", "a: [")
    result = shell.call(f"llm-sched lab execute {line}")
    assert result.exit_code == code, result.stderr
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert not (files.path / "results").exists()
