"""Files of a log: which of them are opened."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import pytest

import kafkarec
from kafkarec.sidecars import leader_epochs


def test_a_block_device_is_read_unless_its_name_is_that_of_a_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (f"{30:020}.log", f"{30:020}.index", "sdb1", "leader-epoch-checkpoint"):
        (tmp_path / name).write_bytes(b"of a disk")
    log: Any = kafkarec.open(tmp_path)
    disk: Any = kafkarec.open(tmp_path / "sdb1")
    (segment,) = log.segments
    with monkeypatch.context() as all_are_devices:
        all_are_devices.setattr(stat, "S_IFMT", lambda mode: stat.S_IFBLK)
        for read in (segment.scan, lambda: segment.sidecar(".index"), lambda: log.folder_file(leader_epochs.NAME)):
            with pytest.raises(OSError, match="a block device, not a file"):
                read()
        assert disk.raw(0, 100) == b"of a disk"
