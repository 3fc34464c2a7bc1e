"""Helpers of the manifests' tests."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from llm_sched.pipeline.infra import Infra
from llm_sched.pipeline.loading import load_infra
from llm_sched.pipeline.problems import ManifestError


class Folder:
    """A folder that files are written into."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, name: str, text: str) -> Path:
        """Write a file; the text may be indented as a whole."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text).lstrip("\n"))
        return path

    def middleware(self, name: str, spec: str = "{middleware: llm_cache}") -> Path:
        """Write an `InfraMiddleware`; `spec` in YAML's flow style."""
        return self.write(name, f"apiVersion: infra/v1\nkind: InfraMiddleware\nspec: {spec}\n")

    def bundle(self, name: str, spec: str) -> Path:
        """Write an `InfraBundle`; `spec` in flow style, or an indented block."""
        return self.write(name, f"apiVersion: infra/v1\nkind: InfraBundle\nspec: {spec}\n")

    def provider(self, name: str, spec: str = "{proxy: {api_base: 'http://localhost:9/v1'}}", kind: str = "LLMProxy") -> Path:
        """Write a provider."""
        return self.write(name, f"apiVersion: infra/v1\nkind: {kind}\nspec: {spec}\n")


def names(infra: Infra) -> list[str]:
    """The middlewares, outermost first."""
    return [layer.middleware for layer in infra.layers]


def refusal(*refs: str) -> ManifestError:
    """The error that these refs are refused with; its text shows no traceback and no pydantic."""
    with pytest.raises(ManifestError) as caught:
        load_infra(refs)
    assert "pydantic" not in str(caught.value)
    return caught.value
