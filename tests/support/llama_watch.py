"""Watches what a llama.cpp puts off while a test's clients call it."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from real_providers import Llama, Load

if TYPE_CHECKING:
    from collections.abc import Iterator


class Watcher:
    """Asks for the load again and again, from a thread of its own.

    Attributes:
        most: the most that was ever seen of each.
        looks: how often it looked.
    """

    def __init__(self, llama: Llama) -> None:
        self._llama = llama
        self._ended = threading.Event()
        self.most = Load(0, 0)
        self.looks = 0

    def run(self) -> None:
        """Until it is ended."""
        while not self._ended.is_set():
            load = self._llama.load()
            self.most = Load(max(self.most.processing, load.processing), max(self.most.deferred, load.deferred))
            self.looks += 1

    def end(self) -> None:
        """Look no more."""
        self._ended.set()


@contextmanager
def watching(llama: Llama) -> Iterator[Watcher]:
    """Watch the load meanwhile."""
    watcher = Watcher(llama)
    thread = threading.Thread(target=watcher.run)
    thread.start()
    try:
        yield watcher
    finally:
        watcher.end()
        thread.join()
