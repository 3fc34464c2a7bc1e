"""Which refs hold, and where they are looked for."""

from __future__ import annotations

import importlib
import sys
import tomllib
from pathlib import Path

import pytest
from manifest_support import Folder, names

from llm_sched.cli import mas_ctl
from llm_sched.pipeline.libraries import GROUP, OURS, libraries
from llm_sched.pipeline.loading import load_infra
from llm_sched.pipeline.problems import ManifestError, NoRefsError
from llm_sched.pipeline.refs import places


def api_base(*refs: str, folder: Path | None = None) -> str:
    """The endpoint that refs come to."""
    provider = load_infra(refs, folder=folder).provider
    assert provider
    return provider.api_base


def provider(folder: Folder, name: str, host: str) -> Path:
    """A provider file that is told apart by its host."""
    return folder.provider(name, f"{{proxy: {{api_base: 'http://{host}/v1'}}}}")


def test_the_order_of_sources(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Command line, MAS_INFRA_REFS, workspace, the user's default; the first that says anything wins."""
    with pytest.raises(NoRefsError, match="--infra-ref"):
        load_infra()
    user = Folder(folder.path.parent / "config" / "mas" / "infra")
    provider(user, "default.yaml", "user")
    assert api_base() == "http://user/v1"
    provider(folder, "ws.yaml", "workspace")
    folder.write("config.yaml", "infra_refs: [ws.yaml]\n")
    assert api_base() == "http://workspace/v1"
    monkeypatch.setenv("MAS_INFRA_REFS", "standard:llm-cache, http://environment/v1")
    assert api_base() == "http://environment/v1"
    assert names(load_infra()) == ["llm_cache"]
    assert api_base("http://given/v1") == "http://given/v1"


def test_an_empty_source_is_none(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty variable, or a workspace without refs, says nothing."""
    monkeypatch.setenv("MAS_INFRA_REFS", " , ")
    folder.write("config.yaml", "other: 1\n")
    with pytest.raises(NoRefsError):
        load_infra()
    folder.write("config.yaml", "")
    with pytest.raises(NoRefsError):
        load_infra()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("infra_refs: standard:openai\n", "config.yaml:1:13: infra_refs: must be a list, not text"),
        ("infra_refs: [1]\n", "config.yaml:1:14: infra_refs[0]: must be a text, not number"),
        ("a: [", "no valid YAML"),
        ("[]", "must be a mapping"),
    ],
)
def test_a_broken_workspace(folder: Folder, text: str, reason: str) -> None:
    """Its `config.yaml` is checked as any manifest, but only when it is asked."""
    folder.write("config.yaml", text)
    with pytest.raises(ManifestError, match=r"config\.yaml") as caught:
        load_infra()
    assert reason in str(caught.value)
    assert load_infra(["standard:mock-llm"]).provider


def test_where_a_path_is_looked_for(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """Working directory, the referring file's folder, the workspace's infra/, the user's folder: nearest first."""
    agents = folder.path / "apps" / "agents"
    user = Folder(folder.path.parent / "config" / "mas" / "infra")
    folder.write("config.yaml", "")
    provider(user, "p.yaml", "user")
    assert api_base("p.yaml", folder=agents) == "http://user/v1"
    provider(folder, "infra/p.yaml", "workspace")
    assert api_base("p.yaml", folder=agents) == "http://workspace/v1"
    provider(folder, "apps/agents/p.yaml", "beside")
    assert api_base("p.yaml", folder=agents) == "http://beside/v1"
    elsewhere = folder.path.parent / "elsewhere"
    provider(Folder(elsewhere), "p.yaml", "cwd")
    monkeypatch.chdir(elsewhere)
    assert api_base("p.yaml", folder=agents) == "http://cwd/v1"


def test_a_bundle_refers_from_its_own_folder(folder: Folder) -> None:
    """Refs in a file are relative to that file, wherever the command was started."""
    provider(folder, "deep/er/p.yaml", "deep")
    folder.bundle("deep/b.yaml", "{includes: [er/p.yaml]}")
    folder.bundle("top.yaml", "{includes: [deep/b.yaml]}")
    assert api_base("top.yaml") == "http://deep/v1"


def test_a_suffix_may_be_left_out_and_home_be_short(folder: Folder) -> None:
    """`mine` finds mine.yaml or mine.yml; ~ is the home folder; absolute paths are as they are."""
    provider(folder, "mine.yml", "yml")
    assert api_base("mine") == "http://yml/v1"
    path = provider(Folder(folder.path.parent / "home"), "p.yaml", "home")
    assert api_base("~/p.yaml") == "http://home/v1"
    assert api_base(str(path)) == "http://home/v1"


def test_the_workspace_is_the_nearest_above(folder: Folder) -> None:
    """From the manifest's folder upwards; else from the working directory."""
    folder.write("config.yaml", "")
    folder.write("inner/config.yaml", "")
    assert places({}, folder.path, folder.path / "inner" / "deep").workspace == folder.path / "inner"
    assert places({}, folder.path / "x", Path("/")).workspace == folder.path


def test_our_entry_points_are_what_the_code_takes_them_for() -> None:
    """What is installed for the host and for the shell is what our code looks for to tell itself from others."""
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())["project"]
    assert project["entry-points"][GROUP] == {"llm-sched": OURS}
    assert project["scripts"][mas_ctl.SCRIPT] == mas_ctl.OURS
    package = importlib.import_module(OURS)
    assert (Path(package.__path__[0]) / "libs" / "llm-sched" / "llm-proxy-paced.yaml").is_file()


def test_libraries_of_other_packages(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that announces a library adds to what there is; ours stay what they are; a broken one is passed over."""
    site = Folder(folder.path.parent / "site")
    site.write("their_library/__init__.py", "")
    provider(site, "their_library/libs/theirs/fast.yaml", "theirs")
    provider(site, "their_library/libs/theirs/deep/er.yaml", "deeper")
    provider(site, "their_library/libs/standard/openai.yaml", "shadow")
    provider(site, "their_library/libs/standard/extra.yaml", "extra")
    points = "theirs = their_library\nstandard = their_library\nbroken = no_such_module_here\n"
    site.write("their-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: their\nVersion: 1.0\n")
    site.write("their-1.0.dist-info/entry_points.txt", f"[mas.runtime.manifest_libraries]\n{points}")
    monkeypatch.syspath_prepend(str(site.path))
    try:
        assert {"theirs", "broken", "standard", "llm-sched"} <= set(libraries())
        assert api_base("theirs:fast") == "http://theirs/v1"
        assert api_base("theirs:deep:er") == "http://deeper/v1"
        assert api_base("standard:extra") == "http://extra/v1"
        assert api_base("standard:openai") == "https://api.openai.com/v1"
        with pytest.raises(ManifestError, match="no library 'broken'"):
            load_infra(["broken:x"])
        with pytest.raises(ManifestError, match="no such manifest"):
            load_infra(["theirs:../../secret"])
    finally:
        sys.modules.pop("their_library", None)
