"""One demo run: provider, workers and display together, and nothing left of them afterwards."""

# Law: composes. Every resource goes onto one ExitStack, so that any way out, Ctrl-C included, undoes them all.

from __future__ import annotations

import contextlib
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from llm_sched import read_snapshot
from llm_sched.config import bucket_name
from llm_sched.demo import plan
from llm_sched.demo.crew import Crew
from llm_sched.demo.messages import Target
from llm_sched.demo.provider_process import provider_process
from llm_sched.demo.reporting import ledger_reported
from llm_sched.demo.summary import summarize
from llm_sched.demo.view import OwnBucket, view_of

if TYPE_CHECKING:
    from llm_sched.demo.plan import Options
    from llm_sched.demo.provider_process import RemoteProvider
    from llm_sched.demo.screen import Screen
    from llm_sched.demo.summary import Summary
    from llm_sched.demo.view import View

REFRESH_S = 0.125


def run_demo(options: Options, screen: Screen) -> Summary:
    """Make all calls, showing on `screen` what happens, and return what came out.

    Raises:
        SchedulerError: the ledger can't be read.
        OSError: the stub provider stopped answering, or no process could be started.
        RuntimeError: the stub provider didn't start.
    """
    with contextlib.ExitStack() as stack:
        state_path = options.state or temporary_state(stack)
        provider, target = None, options.endpoint
        if target is None:
            provider = stack.enter_context(provider_process(limit=options.max_in_flight, latency_s=options.latency_s))
            target = Target(provider.base_url, "stub", options.stub_model, is_stub=True)
        if options.otlp is not None:
            stack.enter_context(ledger_reported(state_path, options.otlp))
        stack.enter_context(screen)
        crew = stack.enter_context(Crew(plan.tasks(options, target, state_path)))
        watch = _Watch(options, crew, provider, state_path, target)
        _work(crew, watch, screen)
        return summarize(options, crew.progress, None if provider is None else provider.stats())


class _Watch:
    """Looks at everything there is to see."""

    def __init__(self, options: Options, crew: Crew, provider: RemoteProvider | None, state_path: Path, target: Target) -> None:
        self._options = options
        self._crew = crew
        self._provider = provider
        self._state_path = state_path
        name = bucket_name({"provider": target.provider, "model": target.model})
        self._own = OwnBucket(name, options.max_in_flight)
        self._began: float | None = None

    def began(self) -> None:
        """Start counting the time."""
        self._began = time.monotonic()

    def look(self) -> View:
        """The picture now."""
        return view_of(
            self._crew.progress,
            read_snapshot(self._state_path) if self._options.scheduled else None,
            None if self._provider is None else self._provider.counters(),
            self._own,
            elapsed_s=None if self._began is None else time.monotonic() - self._began,
        )


def _work(crew: Crew, watch: _Watch, screen: Screen) -> None:
    due = time.monotonic()
    progress, went = crew.progress, False
    while not progress.all_finished:
        if progress.all_ready and not went:
            went = True
            watch.began()
            crew.go()
        if time.monotonic() >= due:
            screen.show(watch.look())
            due = time.monotonic() + REFRESH_S
        crew.collect(max(0.0, due - time.monotonic()))
    screen.show(watch.look())


def temporary_state(stack: contextlib.ExitStack) -> Path:
    """A ledger in a folder of its own, which goes with `stack`."""
    folder = tempfile.TemporaryDirectory(prefix="llm-sched-demo-", ignore_cleanup_errors=True)
    return Path(stack.enter_context(folder)) / "llm_scheduler.json"
