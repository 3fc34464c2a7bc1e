"""A real contention between eight runs, to look at or to record: `python -m tests.monitor.contention --state FILE`."""

from __future__ import annotations

import argparse
import threading
import time
from pathlib import Path

from tests.monitor.crowd import Run, crowd, end, start

from llm_sched.snapshot import read_snapshot
from llm_sched_tui.feed import Feed
from llm_sched_tui.recording import Recorder
from llm_sched_tui.source import LiveSource
from llm_sched_tui.view_model.model import Model

GPT = ("openai", "gpt-4o")
MINI = ("openai", "gpt-4o-mini")
LLAMA = ("ollama", "llama3.2")
EMBED = ("openai", "text-embedding-3-small")

RUNS = (
    Run("eval-math", *GPT, callers=9, hold_s=(0.4, 1.8)),
    Run("eval-code", *GPT, callers=12, hold_s=(0.6, 2.4), pauses=((28, 44), (70, 80))),
    Run("agents", *GPT, callers=4, hold_s=(0.3, 1.0), rest_s=(0.2, 2.0)),
    Run("judge", *MINI, callers=6, hold_s=(0.2, 0.7), rest_s=(0.3, 1.4)),
    Run("agents", *MINI, callers=3, hold_s=(0.1, 0.5), rest_s=(0.3, 2.5)),
    Run("nightly", *LLAMA, callers=7, hold_s=(0.8, 2.2), cap=2),
    Run("index", *EMBED, callers=4, hold_s=(0.05, 0.2), cap=16, rpm=90, burst=5),
    Run("probe", *LLAMA, callers=2, hold_s=(0.2, 0.4), cap=2, timeout_s=4, rest_s=(2.0, 6.0)),
)
STRICT = Run("careful", *GPT, callers=3, hold_s=(0.5, 1.2), cap=6)
"""Joins for a while, with a policy stricter than the others', and is killed with its slots."""


def contend(state: Path, seconds: float) -> None:
    """Let the runs contend for some seconds."""
    begun = time.monotonic()
    with crowd(RUNS, state):
        _until(begun, seconds * 0.5)
        strict = start(STRICT, state, len(RUNS))
        try:
            _until(begun, seconds * 0.75)
            while not any(holder.pid == strict.pid for each in read_snapshot(state).buckets for holder in each.holders):
                time.sleep(0.01)
            strict.kill()
        finally:
            end(strict)
        _until(begun, seconds)


def _until(begun: float, seconds: float) -> None:
    time.sleep(max(0.0, begun + seconds - time.monotonic()))


def record(state: Path, file: Path) -> tuple[Feed, threading.Thread, Recorder]:
    """Begin to write down what a monitor sees."""
    recorder = Recorder(file, str(Path.home()))
    feed = Feed(LiveSource(str(state)), Model(), 0.25, recorder)
    thread = threading.Thread(target=feed.run, args=(lambda _view: None,))
    thread.start()
    return feed, thread, recorder


def main() -> None:
    """Contend, and record it if asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--state", type=Path, required=True, help="the ledger")
    parser.add_argument("--seconds", type=float, default=100.0)
    parser.add_argument("--record", type=Path)
    options = parser.parse_args()
    recording = record(options.state, options.record) if options.record else None
    try:
        contend(options.state, options.seconds)
    finally:
        if recording is not None:
            feed, thread, recorder = recording
            feed.stop()
            thread.join()
            recorder.close()


if __name__ == "__main__":
    main()
