"""What the children of these tests do. The line that a child reads is its parent's word to go on."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from llm_sched import LlmSchedulerMiddleware, default
from llm_sched.pipeline.cache import LlmCacheMiddleware
from llm_sched.pipeline.cache_flights import Flights
from llm_sched.pipeline.cache_store import CacheStore, Entry
from llm_sched.pipeline.engine_openai import OpenAiEngine
from llm_sched.pipeline.exchange import LlmRequest
from llm_sched.pipeline.judge import complete_json, install_openai_llm_service


def say(fact: object) -> None:
    """Tell the parent."""
    sys.stdout.write(json.dumps(fact) + "\n")
    sys.stdout.flush()


def hear() -> None:
    """Wait for the parent's word."""
    sys.stdin.readline()


def pipeline(url: str, **cache: Any) -> tuple[Any, OpenAiEngine]:
    """Cache -> scheduler -> provider, at most two at once."""
    engine = OpenAiEngine("m", api_base=url)
    paced = LlmSchedulerMiddleware.wrap(engine, {"max_in_flight": 2, "timeout_s": 50})
    return LlmCacheMiddleware.wrap(paced, cache), engine


def hold_slots(provider: str, model: str, count: int) -> None:
    """Hold slots until told to go on."""
    held = [default.current().acquire(provider=provider, model=model) for _ in range(count)]
    say("held")
    hear()
    for slot in held:
        slot.release()


def ask(url: str, question: str, cache: dict[str, Any]) -> None:
    """Ask one question when told to, and tell the answer."""
    stack, engine = pipeline(url, **cache)
    engine.messages.append({"role": "user", "content": question})
    say("ready")
    hear()
    result = stack.invoke(LlmRequest())
    say([result.text, result.source])


def lead(folder: str, key: str) -> None:
    """Lead a flight for ever."""
    flight = Flights(Path(folder)).try_to_lead(key)
    say(flight is not None)
    hear()


def write(path: str, writers: int, entries: int) -> None:
    """Fork writers that store entries all at once."""
    gate, opener = os.pipe()
    children = []
    for writer in range(writers):
        child = os.fork()
        if child == 0:
            os.close(opener)
            os.read(gate, 1)  # all at once
            store = CacheStore(Path(path))
            for number in range(entries):
                store.put(f"{writer}/{number}", Entry(f"answer {number} of {writer}", {"total_tokens": number}))
            store.close()
            os._exit(0)
        children.append(child)
    os.close(opener)
    say([os.waitpid(child, 0)[1] for child in children])


def agent(url: str, calls: int) -> None:
    """Make calls as an agent."""
    stack, engine = pipeline(url, enabled=False)
    say("ready")
    hear()
    for number in range(calls):
        engine.messages[:] = [{"role": "user", "content": f"agent {os.getpid()} {number}"}]
        stack.invoke(LlmRequest())
    say("done")


def judge(url: str, calls: int) -> None:
    """Make calls as a judge."""
    pipeline(url)
    install_openai_llm_service()
    say("ready")
    hear()
    for number in range(calls):
        complete_json(f"judge {os.getpid()} {number}")
    say("done")


if __name__ == "__main__":
    globals()[sys.argv[1]](**json.loads(sys.argv[2]))
