"""Real mounts: a full disk and a read-only one, and a folder of somebody else's. In a mount namespace of their own."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux's mount namespaces")


@cache
def why_not() -> str:
    """Why nothing can be mounted here; empty if it can."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return "unshare is not installed"
    command = [unshare, "--mount", "sh", "-c", "mount -t tmpfs -o size=64k tmpfs /mnt"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else f"nothing can be mounted here: {done.stderr.strip()}"


def run_mounted(script: str, folder: Path, options: str) -> dict[str, Any]:
    """Run a script with a small file system mounted at `folder`; returns what it printed as JSON."""
    if why_not():
        pytest.skip(why_not())
    mount = f'mount -t tmpfs -o "{options}" tmpfs "$1" && shift && exec "$@"'
    command = ["unshare", "--mount", "sh", "-c", mount, "sh", str(folder), sys.executable, "-c", script, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


FULL = """
import json, os, sys
from pathlib import Path
from llm_sched import LedgerError, Policy, Scheduler, read_snapshot
path = Path(sys.argv[1]) / "ledger.json"
scheduler = Scheduler(Policy(state_path=path, max_in_flight=0, timeout_s=5))
held, errors = [scheduler.acquire() for _ in range(3)], []
filler = os.open(path.with_name("filler"), os.O_WRONLY | os.O_CREAT)
for size in (4096, 1):
    try:
        while True:
            os.write(filler, b"x" * size)
    except OSError:
        pass
for model in range(200):
    try:
        held.append(scheduler.acquire(model=f"model-{model}-" + "m" * 150))
    except LedgerError as error:
        errors.append(str(error))
        break
full = read_snapshot(path)
for slot in held:
    slot.release()
after = read_snapshot(path)
os.ftruncate(filler, 0)
scheduler.acquire(model="after").release()
freed = read_snapshot(path)
print(json.dumps({
    "errors": errors, "held": len(held), "states": [full.state, after.state, freed.state],
    "in_flight": [sum(bucket.in_flight for bucket in each.buckets) for each in (full, after, freed)],
    "waiting": sum(bucket.waiting for bucket in full.buckets), "left": [file.name for file in path.parent.glob("*.corrupt-*")],
}))
scheduler.close()
"""


def test_on_a_full_disk_no_slot_is_taken_but_each_can_be_given_back(tmp_path: Path) -> None:
    """One clear error; the ledger is whole before, in between and afterwards, and grants again when there is space."""
    answer = run_mounted(FULL, tmp_path, "size=96k")
    (error,) = answer["errors"]
    assert str(tmp_path / "ledger.json") in error
    assert "the disk is full" in error
    assert answer["states"] == ["live", "live", "live"]
    assert answer["in_flight"] == [answer["held"], 0, 0]
    assert (answer["waiting"], answer["left"]) == (0, [])


NEWCOMER = """
import json, os, sys
from pathlib import Path
from llm_sched import LedgerError, Policy, Scheduler
path = Path(sys.argv[1]) / "ledger.json"
filler = os.open(path.with_name("filler"), os.O_WRONLY | os.O_CREAT)
try:
    while True:
        os.write(filler, b"x" * 4096)
except OSError:
    pass
scheduler, errors = Scheduler(Policy(state_path=path)), []
for _ in range(2):
    try:
        scheduler.acquire()
    except LedgerError as error:
        errors.append(str(error))
os.ftruncate(filler, 0)
scheduler.acquire().release()
boxes = [file.name for file in path.with_name("ledger.json.d").glob("*.box")]
print(json.dumps({"errors": errors, "boxes": len(boxes)}))
scheduler.close()
"""


def test_whoever_comes_to_a_full_disk_is_told_so_each_time(tmp_path: Path) -> None:
    """And works as soon as there is space; failed attempts leave no mailboxes."""
    answer = run_mounted(NEWCOMER, tmp_path, "size=64k")
    assert ["the disk is full" in error for error in answer["errors"]] == [True, True]
    assert answer["boxes"] == 1


READ_ONLY = """
import json, sys
from pathlib import Path
from llm_sched import LedgerError, Policy, Scheduler, read_snapshot
path, errors = Path(sys.argv[1]) / "mas" / "ledger.json", []
try:
    Scheduler(Policy(state_path=path)).acquire()
except LedgerError as error:
    errors.append(str(error))
print(json.dumps({"errors": errors, "state": read_snapshot(path).state}))
"""


def test_a_read_only_file_system_is_one_clear_error(tmp_path: Path) -> None:
    """For those who take slots; a reader just finds nothing."""
    answer = run_mounted(READ_ONLY, tmp_path, "ro")
    assert answer["state"] == "absent"
    assert ["read-only" in error and "MAS_LLM_SCHEDULER_STATE" in error for error in answer["errors"]] == [True]


FOREIGN_FOLDER = """
import filelock, json, os, sys
from pathlib import Path
from llm_sched import LedgerError, Policy, Scheduler
path, errors = Path(sys.argv[1]) / "ledger.json", []
scheduler = Scheduler(Policy(state_path=path))
os.setgid(65534), os.setuid(65534)
try:
    scheduler.acquire()
except LedgerError as error:
    errors.append(str(error))
print(json.dumps({"errors": errors}))
"""


def test_a_folder_of_somebody_else_is_one_clear_error() -> None:
    """With both ways out: a file of one's own, or a shared folder."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)  # others can look in, as they cannot in pytest's folders
        answer = run_mounted(FOREIGN_FOLDER, folder, "mode=0755")
    assert ["no permission" in error and "setgid" in error for error in answer["errors"]] == [True]
