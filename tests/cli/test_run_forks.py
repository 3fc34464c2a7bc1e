"""Programs under `llm-sched run` that fork while they borrow its slot."""

from __future__ import annotations

import sys

import pytest
from cli_support import Command

SIBLING = """
from llm_sched import SlotTimeout, llm_slot
try:
    with llm_slot(model="m", timeout_s=0) as slot:
        print("sibling", slot, flush=True)
except SlotTimeout:
    print("sibling refused", flush=True)
"""

LEAVES = """
import os, subprocess, sys
from llm_sched import llm_slot
sibling = [sys.executable, "-c", sys.argv[1]]
with llm_slot(model="m") as slot:
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        subprocess.run(sibling, check=True)
if not child:
    os._exit(0)
subprocess.run(sibling, check=True)
"""
"""Its child leaves the block that it inherited, and ends."""

DIES = """
import os, signal, subprocess, sys
from llm_sched import llm_slot
reader, writer = os.pipe()
alive, ready = os.pipe()
middle = os.fork()
if not middle:
    os.close(writer)
    slot = llm_slot(model="m").__enter__()
    print("middle", slot, flush=True)
    if not os.fork():
        os.write(ready, b"!")
        os.read(reader, 1)
        os._exit(0)
    signal.pause()
os.read(alive, 1)
os.kill(middle, signal.SIGKILL)
os.waitpid(middle, 0)
subprocess.run([sys.executable, "-c", sys.argv[1]], check=True)
os.close(writer)
"""
"""Its child borrows, has a child of its own, and is killed; the grandchild lives on."""


@pytest.mark.skipif(sys.platform == "win32", reason="needs os.fork")
@pytest.mark.parametrize(
    ("script", "heard"),
    [
        (LEAVES, ["sibling refused", "sibling <Slot default/m borrowed, waited 0.000 s>"]),
        (DIES, ["middle <Slot default/m borrowed, waited 0.000 s>", "sibling <Slot default/m borrowed, waited 0.000 s>"]),
    ],
    ids=["the child leaves the block", "the borrower is killed"],
)
def test_a_borrowed_slot_belongs_to_the_process_that_borrowed_it(llm_sched: Command, script: str, heard: list[str]) -> None:
    """A forked child neither ends its parent's loan nor keeps it after its parent's death."""
    result = llm_sched("run", "--model", "m", "--", sys.executable, "-c", script, SIBLING, MAS_LLM_MAX_IN_FLIGHT="1")
    assert (result.stdout.splitlines(), result.stderr, result.returncode) == (heard, "", 0)
