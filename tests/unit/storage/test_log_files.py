"""Files of a log: which of them are opened."""

from __future__ import annotations

import stat
from contextlib import closing
from pathlib import Path

import pytest

from kafkarec.sources.folders import LocalFolder
from kafkarec.storage.log_files import open_file


def test_a_block_device_is_read_unless_its_name_is_that_of_a_segment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, names = LocalFolder(str(tmp_path)), (f"{30:020}.log", f"{30:020}.index", "sdb1", "leader-epoch-checkpoint")
    for name in names:
        (tmp_path / name).write_bytes(b"of a disk")
    with monkeypatch.context() as all_are_devices:
        all_are_devices.setattr(stat, "S_IFMT", lambda mode: stat.S_IFBLK)
        for name in names[:2]:
            with pytest.raises(OSError, match="a block device, not a file"):
                open_file(folder, name)
        with closing(open_file(folder, "sdb1")) as source:
            assert source.read_at(0, 100) == b"of a disk"
        with pytest.raises(OSError, match="a block device, not a file"):
            folder.read("leader-epoch-checkpoint")
