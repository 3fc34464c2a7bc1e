"""Closing a store while another of its threads is inside a transaction must not free that thread's lock."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from store_support import Done, file_store, look, put, run

from llm_sched.store import BusyError


def test_closing_does_not_free_the_lock_of_a_transaction_in_another_thread(tmp_path: Path) -> None:
    one, other = (file_store(tmp_path / "ledger.json") for _ in range(2))
    run(one, put("a"))
    closer = threading.Thread(target=one.close)

    def intrude(_: object) -> Done:
        closer.start()
        closer.join(0.3)  # it may wait for us, but must not close
        with pytest.raises(BusyError):
            run(other, look)
        return Done(changed=False)

    run(one, intrude)
    closer.join()
