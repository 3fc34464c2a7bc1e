"""Worker processes of the crew's tests: they answer at once, or die."""

from __future__ import annotations

import os
import queue
from typing import TYPE_CHECKING, Any

from llm_sched.demo.lifeline import exit_with_parent
from llm_sched.lab.messages import Done, Finish, Outcome, Ready, Setup, Task, Unusable

if TYPE_CHECKING:
    from multiprocessing.connection import Connection


def stillborn(connection: Connection[Any, Any], setup: Setup) -> None:
    """Ends before it can begin."""
    assert connection
    assert setup
    os._exit(3)


def mortal(connection: Connection[Any, Any], setup: Setup) -> None:
    """Answers each task with its prompt; the prompt `die` kills it, `give up` makes it say that nobody could work."""
    inbox: queue.SimpleQueue[object] = queue.SimpleQueue()
    exit_with_parent(connection, inbox.put)
    connection.send(Ready(setup.worker))
    while not isinstance(message := inbox.get(), Finish):
        assert isinstance(message, Task)
        if message.prompt == "die":
            os._exit(9)
        if message.prompt == "give up":
            connection.send(Unusable(setup.worker, "the key is missing"))
        else:
            connection.send(Done(setup.worker, Outcome(message.key, "d", answer=message.prompt)))
