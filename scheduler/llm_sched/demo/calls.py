"""The calls of one worker, each inside a slot."""

# Law: this is the code that a user of llm-sched would write, plus a stopwatch. Threads and asyncio differ in
# how they wait, never in what they ask and what they record. It may know neither the display nor the stub.

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
from typing import TYPE_CHECKING

from llm_sched import LedgerError, Policy, install, llm_slot
from llm_sched.config import ENVIRONMENT
from llm_sched.demo.clients import ask, ask_async, async_client, explain, is_hopeless, sync_client
from llm_sched.demo.stopwatch import Paced, Stopwatch, Unpaced

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from llm_sched.demo.messages import CallRecord, Failure, Pace, Task


class Worker:
    """One worker's lanes: threads or tasks that each make one call after the other."""

    def __init__(
        self,
        task: Task,
        tell: Callable[[CallRecord], None],
        span: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext,
    ) -> None:
        """Take the task, whom to tell of each call, and what to put around it; both are called from several threads."""
        self._task = task
        self._tell = tell
        self._span = span
        self._hopeless: Failure | None = None
        self._gave_up: Failure | None = None

    def run(self) -> Failure | None:
        """Make all calls. Returns why it gave up before that, or None."""
        if self._task.style == "asyncio":
            asyncio.run(self._run_tasks())
        else:
            self._run_threads()
        return self._gave_up

    def _run_threads(self) -> None:
        with sync_client(self._task.target) as client:

            def lane(first: int) -> None:
                for number in self._numbers(first):
                    watch = Stopwatch(self._task.worker)
                    with self._reported(watch), self._slot() as slot, _answer_of(watch, slot):
                        ask(client, self._task.target.model, number)

            threads = [threading.Thread(target=lane, args=(first,)) for first in range(self._task.lanes)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    async def _run_tasks(self) -> None:
        async with async_client(self._task.target) as client:

            async def lane(first: int) -> None:
                for number in self._numbers(first):
                    watch = Stopwatch(self._task.worker)
                    with self._reported(watch):
                        async with self._async_slot() as slot:
                            with _answer_of(watch, slot):
                                await ask_async(client, self._task.target.model, number)

            await asyncio.gather(*(lane(first) for first in range(self._task.lanes)))

    def _numbers(self, first: int) -> Iterator[int]:
        for number in range(first, self._task.calls, self._task.lanes):
            if self._hopeless is not None:
                self._gave_up = self._hopeless
                return
            yield number

    def _slot(self) -> AbstractContextManager[Paced]:
        target = self._task.target
        if self._task.pace is None:
            return contextlib.nullcontext(Unpaced())
        return llm_slot(provider=target.provider, model=target.model)

    def _async_slot(self) -> AbstractAsyncContextManager[Paced]:
        target = self._task.target
        if self._task.pace is None:
            return contextlib.nullcontext(Unpaced())
        return llm_slot(provider=target.provider, model=target.model)

    @contextlib.contextmanager
    def _reported(self, watch: Stopwatch) -> Generator[None]:
        failure: Failure | None = None
        try:
            with self._span():
                yield
        except Exception as error:  # noqa: BLE001 - a call that fails in whatever way is a failed call, and counted
            failure = explain(error)
            if is_hopeless(error) or isinstance(error, LedgerError):
                self._hopeless = failure
        self._tell(watch.record(failure))


def prepare(
    task: Task,
    tell: Callable[[CallRecord], None],
    span: Callable[[], AbstractContextManager[object]] = contextlib.nullcontext,
) -> Worker:
    """Install the task's policy in this process, and return its worker.

    Raises:
        SchedulerError: the policy makes no sense, or its ledger can't be used.
    """
    if task.pace is not None:
        for name in ENVIRONMENT:  # the command line has looked at it: what it made of it is in the task
            os.environ.pop(name, None)
        install(policy_of(task.pace, task.worker))
    return Worker(task, tell, span)


def policy_of(pace: Pace, user: str) -> Policy:
    """The policy of one worker."""
    return Policy(
        max_in_flight=pace.max_in_flight,
        requests_per_minute=pace.requests_per_minute,
        user=user,
        state_path=pace.state_path,
    )


@contextlib.contextmanager
def _answer_of(watch: Stopwatch, slot: Paced) -> Generator[None]:
    watch.granted(slot)
    try:
        yield
    finally:
        watch.ended()
