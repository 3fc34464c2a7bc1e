"""Ways in which somebody spoils a ledger's files."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def truncate(ledger: Path) -> None:
    """Cut the file in half."""
    os.truncate(ledger, ledger.stat().st_size // 2)


def empty(ledger: Path) -> None:
    """Leave nothing in the file."""
    os.truncate(ledger, 0)


def garbage(ledger: Path) -> None:
    """Write something else over all of the file, in place."""
    with ledger.open("r+b") as file:
        file.write(os.urandom(ledger.stat().st_size))


def flip(ledger: Path) -> None:
    """Change one byte in the middle."""
    with ledger.open("r+b") as file:
        file.seek(200)
        file.write(b"\0")


def replace(ledger: Path) -> None:
    """Put another file of no meaning in its place."""
    other = ledger.with_name("other")
    other.write_bytes(b"no ledger")
    other.replace(ledger)


def delete(ledger: Path) -> None:
    """Delete the file."""
    ledger.unlink(missing_ok=True)


def delete_copy(ledger: Path) -> None:
    """Delete the copy alone."""
    ledger.with_name(ledger.name + ".copy").unlink(missing_ok=True)


def delete_both(ledger: Path) -> None:
    """Delete the file and its copy, in the order in which `rm` would."""
    delete(ledger)
    delete_copy(ledger)


def delete_copy_first(ledger: Path) -> None:
    """Delete the copy, then the file."""
    delete_copy(ledger)
    delete(ledger)


def garbage_both(ledger: Path) -> None:
    """Spoil the file and its copy."""
    garbage(ledger)
    garbage(ledger.with_name(ledger.name + ".copy"))


def empty_both(ledger: Path) -> None:
    """Empty the file and its copy."""
    empty(ledger)
    empty(ledger.with_name(ledger.name + ".copy"))


def delete_lock(ledger: Path) -> None:
    """Delete the lock file."""
    ledger.with_name(ledger.name + ".lock").unlink(missing_ok=True)


def delete_all_but_mailboxes(ledger: Path) -> None:
    """Delete file, copy and lock."""
    delete_both(ledger)
    delete_lock(ledger)


def delete_mailboxes(ledger: Path) -> None:
    """Delete all files of the owners."""
    for file in ledger.with_name(ledger.name + ".d").iterdir():
        file.unlink(missing_ok=True)


def delete_folder(ledger: Path) -> None:
    """Delete the owners' files with their folder."""
    delete_mailboxes(ledger)
    ledger.with_name(ledger.name + ".d").rmdir()


ALL = (
    truncate,
    empty,
    garbage,
    flip,
    replace,
    delete,
    delete_copy,
    delete_both,
    delete_copy_first,
    garbage_both,
    empty_both,
    delete_lock,
    delete_all_but_mailboxes,
    delete_mailboxes,
    delete_folder,
)
