"""Where a ledger may be."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from llm_sched import host
from llm_sched.store.location import local_path

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("kind", ["nfs4", "virtiofs", "9p", "gpfs", "beegfs", "ocfs2", "fuse.sshfs", "fuse.s3fs"])
def test_what_several_machines_may_see_gets_a_ledger_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    """Network, cluster, host-shared and FUSE file systems; it is warned about."""
    monkeypatch.setattr(host, "file_system", lambda _path: kind)
    path = tmp_path / "ledger.json"
    assert local_path(path) == tmp_path / f"ledger.{host.machine_id()[:8]}.json"
    (record,) = caplog.records
    assert (record.levelno, kind in record.getMessage()) == (logging.WARNING, True)


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "tmpfs", "overlay", "zfs", "fuse.fuse-overlayfs", ""])
def test_a_local_file_system_has_one_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """At the path itself; also where the kind cannot be told."""
    monkeypatch.setattr(host, "file_system", lambda _path: kind)
    assert local_path(tmp_path / "ledger.json") == tmp_path / "ledger.json"
