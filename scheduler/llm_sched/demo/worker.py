"""The main function of a worker process."""

# Law: connects the parent's pipe with the calls. What a call is, is in `calls`, which is imported here and
# not above because the parent imports this file to start the worker, and has no use for openai itself.

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from llm_sched.demo.lifeline import exit_with_parent
from llm_sched.demo.messages import CallRecord, Failure, Finished, Go, Ready, Task
from llm_sched.demo.reporting import worker_reported

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


def main(connection: Connection[Any, Any], task: Task) -> None:
    """Load, say `Ready`, wait for `Go`, make the calls, and report each of them and the end."""
    go = threading.Event()

    def on_message(message: object) -> None:
        if isinstance(message, Go):
            go.set()

    exit_with_parent(connection, on_message)
    sending = threading.Lock()

    def tell(message: Ready | CallRecord | Finished) -> None:
        with sending:
            connection.send(message)

    try:
        from llm_sched.demo import calls  # noqa: PLC0415 - see the law above

        with worker_reported() as span:
            worker = calls.prepare(task, tell, span)
            tell(Ready(task.worker))
            go.wait()
            failure = worker.run()
        tell(Finished(task.worker, failure))
    except Exception as error:  # noqa: BLE001 - whatever it is, the parent reports it as this worker's failure
        tell(Finished(task.worker, Failure(type(error).__name__, str(error) or repr(error))))
