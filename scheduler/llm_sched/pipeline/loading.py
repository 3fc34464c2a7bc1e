"""Refs -> one `Infra`: reads every file, follows bundles, and reports all that is wrong with them together."""

# Law: decides what a document means. Where files are is `refs`' business, their shapes `kinds`'s, a middleware's
# parameters those of `params`. It goes on after a problem, to find the next one.

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from llm_sched.pipeline import kinds
from llm_sched.pipeline.documents import Document, Keys, read_document
from llm_sched.pipeline.environment import resolved
from llm_sched.pipeline.infra import Infra, LayerSpec, merged, order_notes
from llm_sched.pipeline.params import checked_params
from llm_sched.pipeline.problems import ManifestError, UnknownRefError, raise_if_any, suggestion
from llm_sched.pipeline.providers import endpoint_of_url, provider_of
from llm_sched.pipeline.refs import Places, chosen_refs, find, is_url, places
from llm_sched.pipeline.shapes import checked

OPERATIONS = ("LLM_CALL", "TOOL_CALL", "MEMORY_OP", "TRANSPORT_MSG")
LLM_CALL = OPERATIONS[0]
ENTRY_TYPES = ("infra_middleware", "llm_provider")
ALIASES = {"llm": LLM_CALL}
"""Bundle entries of the host say `applies_to: [llm]`."""


def load_infra(
    refs: Sequence[str] = (),
    *,
    folder: Path | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Infra:
    """Load and merge infra refs.

    Args:
        refs: `library:name`, paths or URLs, outermost layer first; none = MAS_INFRA_REFS, the workspace's `config.yaml`
            or the user's `default.yaml`.
        folder: of the manifest that is run; refs may be relative to it. None = `cwd`.
        environ: the environment; None = the process's.
        cwd: the working directory; None = the process's.

    Raises:
        UnknownRefError: all that is wrong is that `refs` name what there is not.
        ManifestError: no refs, or at least one that cannot be used; all problems together.
    """
    environ = os.environ if environ is None else environ
    cwd = cwd or Path.cwd()
    start = folder or cwd
    where = places(environ, cwd, start)
    chosen = chosen_refs(refs, environ, where, start)
    loader = _Loader(where, environ)
    parts = [loader.load(ref, chosen.folder) for ref in chosen.refs]
    infra = merged(parts)
    if not loader.problems and infra.provider is None:
        loader.problems.append(_no_provider(chosen.refs, loader.unset))
    only_unknown = bool(refs) and len(loader.unknown) == len(loader.problems)
    raise_if_any(loader.problems, "infra refs", UnknownRefError if only_unknown else ManifestError)
    return Infra(infra.layers, infra.provider, infra.models, (*infra.notes, *order_notes(infra.layers)))


def _no_provider(refs: Iterable[str], unset: Sequence[str]) -> str:
    hint = f" ({'; '.join(unset)})" if unset else ""
    return f"no provider in {', '.join(refs)}{hint}: add one, e.g. standard:openai"


class _File(NamedTuple):
    """A file that is being read: its document, the ref that led to it, and the files that led there."""

    document: Document
    path: Path
    ref: str
    chain: tuple[_File, ...]


class _Loader:
    """Loads refs one after another.

    `problems` collects what is wrong with any, `unset` what variables are missing, `unknown` which refs name nothing.
    """

    def __init__(self, where: Places, environ: Mapping[str, str]) -> None:
        self._where = where
        self._environ = environ
        self.problems: list[str] = []
        self.unset: list[str] = []
        self.unknown: list[str] = []

    def load(self, ref: str, folder: Path, chain: tuple[_File, ...] = ()) -> Infra:
        """What one ref comes to; empty when something is wrong with it."""
        try:
            if is_url(ref):
                return Infra(provider=endpoint_of_url(ref))
            path = find(ref, folder, self._where)
            _refuse_circle(ref, path, chain)
            return self._content(_File(read_document(path), path, ref, chain))
        except ManifestError as error:
            via = f" (in {chain[-1].path})" if chain else ""
            self.problems += [f"{problem}{via}" for problem in error.problems]
            if isinstance(error, UnknownRefError) and not chain:
                self.unknown.append(ref)
            return Infra()

    def _content(self, file: _File) -> Infra:
        data = resolved(file.document.data, self._environ)
        content, problems = checked(_shape(data, file.document), data, file.document)
        self.problems += problems
        if isinstance(content, kinds.InfraMiddleware):
            spec = content.spec or kinds.MiddlewareSpec()
            name = spec.middleware or file.path.stem
            return self._layer(file, ("spec",), name, spec, file.ref)
        if isinstance(content, kinds.InfraBundle):
            return self._bundle(file, content.spec)
        if isinstance(content, kinds.LLMProxy | kinds.LLMLocal):
            part, found, unset = provider_of(file.document, content)
            self.problems += found
            self.unset += unset
            return part
        return Infra()

    def _bundle(self, file: _File, spec: kinds.BundleSpec) -> Infra:
        others = (spec.includes, spec.interceptors, spec.pipeline)
        if spec.entries is not None and any(form is not None for form in others):
            self._problem(file, ("spec",), "has `entries` and `includes` or `interceptors`: use one form")
        if not any((spec.entries, *others)):
            self._problem(file, ("spec",), "an InfraBundle needs `entries`, or `includes` and `interceptors`")
        included = [self._child(file, ref) for ref in spec.includes or ()]
        entries = [self._entry(file, ("spec", "entries", number), entry) for number, entry in enumerate(spec.entries or ())]
        name = "interceptors" if spec.interceptors else "pipeline"
        steps = self._steps(file, ("spec", name), spec.interceptors or spec.pipeline)
        return merged([*included, *entries, *steps])

    def _entry(self, file: _File, keys: Keys, entry: kinds.Entry) -> Infra:
        if not entry.ref and not entry.pipeline:
            self._problem(file, keys, "needs a `ref`")
        if entry.type not in {None, *ENTRY_TYPES}:
            self._problem(file, (*keys, "type"), f"unknown type; {suggestion(str(entry.type), ENTRY_TYPES)}")
        if not self._applies(file, keys, entry.applies_to):
            return Infra()
        part = self._child(file, entry.ref) if entry.ref else Infra()
        return merged([part, *self._steps(file, (*keys, "pipeline"), entry.pipeline)])

    def _steps(self, file: _File, keys: Keys, steps: Sequence[str | kinds.Step] | None) -> list[Infra]:
        return [self._step(file, (*keys, number), step) for number, step in enumerate(steps or ())]

    def _step(self, file: _File, keys: Keys, step: str | kinds.Step) -> Infra:
        ref = step if isinstance(step, str) else step.ref
        if ref:
            return self._child(file, ref)
        if isinstance(step, kinds.Step) and step.middleware:
            return self._layer(file, keys, step.middleware, step, f"{file.ref}: {step.middleware}")
        self._problem(file, keys, "needs a `ref` or a `middleware`")
        return Infra()

    def _layer(self, file: _File, keys: Keys, middleware: str, spec: kinds.MiddlewareSpec | kinds.Step, ref: str) -> Infra:
        if not self._applies(file, keys, spec.applies_to):
            return Infra(notes=(f"{ref}: {middleware} does not apply to {LLM_CALL}; it is left out",))
        middleware = middleware.replace("-", "_")
        params, problems = checked_params(middleware, spec.params or {}, file.document, keys, file.path.parent)
        self.problems += problems
        return Infra(layers=(LayerSpec(middleware, params, file.document.where(keys), ref),))

    def _applies(self, file: _File, keys: Keys, operations: Sequence[str] | None) -> bool:
        names = [ALIASES.get(name, name) for name in operations or (LLM_CALL,)]
        for number, name in enumerate(names):
            if name not in OPERATIONS:
                text = f"unknown operation; {suggestion(name, OPERATIONS)}"
                self._problem(file, (*keys, "applies_to", number), text)
        return LLM_CALL in names

    def _child(self, file: _File, ref: str) -> Infra:
        return self.load(ref, file.path.parent, (*file.chain, file))

    def _problem(self, file: _File, keys: Keys, text: str) -> None:
        self.problems.append(file.document.problem(keys, text))


def _refuse_circle(ref: str, path: Path, chain: Sequence[_File]) -> None:
    if any(file.path == path for file in chain):
        names = " -> ".join((*(file.ref for file in chain), ref))
        raise ManifestError(f"{ref}: circular bundle: {names}")


def _shape(data: object, document: Document) -> type[kinds.InfraDocument]:
    if not isinstance(data, dict):
        raise ManifestError(document.problem((), "is no manifest: it must be a mapping with apiVersion, kind and spec"))
    kind = document.value(("kind",))
    if not isinstance(kind, str) or kind not in kinds.INFRA_KINDS:
        shown = repr(kind) if isinstance(kind, str) else "none"
        hint = suggestion(str(kind), kinds.INFRA_KINDS)
        raise ManifestError(document.problem(("kind",), f"unknown kind {shown}; {hint}"))
    return kinds.INFRA_KINDS[kind]
