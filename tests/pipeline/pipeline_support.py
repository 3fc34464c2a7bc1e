"""Engines of all kinds, and what the ledger says."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

from llm_sched import default, read_snapshot
from llm_sched.pipeline.exchange import LlmRequest, LlmResult

CALL = LlmRequest()


def asked(engine: Any, question: str = "What is 2+2?") -> Any:
    """The engine, with a question."""
    engine.messages[:] = [{"role": "user", "content": question}]
    return engine


class Leaf:
    """A leaf engine that answers as the test says: results in a row, the last one for ever; exceptions are raised.

    `begun` counts the calls, `gate` is waited for in each.
    """

    def __init__(self, *answers: Any, gate: threading.Event | None = None, **facts: Any) -> None:
        self.model = "m"
        self.provider = "p"
        self.messages: list[dict[str, Any]] = [{"role": "user", "content": "What is 2+2?"}]
        self.__dict__.update(facts)
        self._answers = list(answers) or ["four"]
        self._gate = gate
        self._lock = threading.Lock()
        self.begun = 0

    def invoke(self, io: Any) -> Any:
        """Answer."""
        with self._lock:
            self.begun += 1
            answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if self._gate:
            assert self._gate.wait(30)
        if isinstance(answer, BaseException):
            raise answer
        return LlmResult(correlation_id=io.correlation_id, text=answer) if isinstance(answer, str) else answer


def foreign(**facts: Any) -> Any:
    """A result of somebody else's class, with no more than the contract says."""
    return SimpleNamespace(**{"correlation_id": 1, "response_kind": "MODEL_TEXT", "next_step": "STOP", "text": "four", **facts})


def in_flight() -> int:
    """How many slots are held on this test's ledger."""
    snapshot = read_snapshot(default.current().policy.path)
    return sum(bucket.in_flight for bucket in snapshot.buckets)


def waiting() -> int:
    """How many wait on this test's ledger."""
    snapshot = read_snapshot(default.current().policy.path)
    return sum(bucket.waiting for bucket in snapshot.buckets)


def granted() -> dict[str, int]:
    """How many slots were ever granted in each bucket."""
    snapshot = read_snapshot(default.current().policy.path)
    return {bucket.name: bucket.totals.granted for bucket in snapshot.buckets}
