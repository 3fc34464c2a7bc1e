"""The main function of a worker process."""

# Law: connects the parent's pipe with the threads that ask. What asking is, is in `asker`, which is imported here and not
# above because the parent imports this file to start the worker.

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Any

from llm_sched.demo.lifeline import exit_with_parent
from llm_sched.lab.messages import Done, Finish, Ready, Setup, Task, Unusable

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from llm_sched.lab.asker import Asker


def main(connection: Connection[Any, Any], setup: Setup) -> None:
    """Put the pipelines together, say `Ready`, then do what the parent sends until it says that that is all, or hangs up."""
    todo: queue.SimpleQueue[Task] = queue.SimpleQueue()
    finished = threading.Event()

    def on_message(message: object) -> None:
        if isinstance(message, Task):
            todo.put(message)
        elif isinstance(message, Finish):
            finished.set()

    exit_with_parent(connection, on_message)
    sending = threading.Lock()

    def tell(message: Ready | Done | Unusable) -> None:
        with sending:
            connection.send(message)

    try:
        askers = _askers(setup)
    except Exception as error:  # noqa: BLE001 - whatever it is, the parent reports it
        tell(Unusable(setup.worker, str(error) or repr(error)))
        return
    tell(Ready(setup.worker))
    for asker in askers:
        threading.Thread(target=_lane, args=(setup.worker, asker, todo, tell), name="lane", daemon=True).start()
    finished.wait()  # then this process ends by itself, and leaves the ledger tidily


def _askers(setup: Setup) -> list[Asker]:
    from llm_sched.lab.asker import Asker, prepare  # noqa: PLC0415 - see the law above

    askers = [Asker(setup) for _ in range(setup.lanes)]
    prepare(askers[0].judge)
    return askers


def _lane(worker: int, asker: Asker, todo: queue.SimpleQueue[Task], tell: Any) -> None:  # noqa: ANN401 - a closure of `main`
    while True:
        task = todo.get()
        try:
            outcome = asker.ask(task)
        except Exception as error:  # noqa: BLE001 - whatever it is, the parent reports it
            tell(Unusable(worker, str(error) or repr(error)))
            return
        tell(Done(worker, outcome))
