"""Groups of new files: the order of syncs and renames, failures, limits."""

from __future__ import annotations

import errno
import os

import pytest
from failing_calls import before, failing, is_folder

from kafkarec.support import durable
from kafkarec.support.durable import FileGroup


@pytest.fixture
def calls(monkeypatch) -> list[str]:
    """The calls that make files durable, in order; fsync of a folder is called `folder`."""
    made = []

    def fsync(descriptor):
        made.append("folder" if is_folder(descriptor) else "fsync")

    monkeypatch.setattr(os, "fsync", fsync)
    before(monkeypatch, os, "replace", lambda *_: made.append("replace"))
    return made


def test_a_failed_close_is_the_error_and_leaves_nothing(tmp_path, monkeypatch):
    """As at the full quota of a network file system. The descriptor is free then, and may be another file's."""
    real, closed = os.close, []

    def close(descriptor):
        real(descriptor)
        closed.append(descriptor)
        raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

    monkeypatch.setattr(os, "close", close)
    with pytest.raises(OSError, match=os.strerror(errno.EDQUOT)):
        durable.write_file(str(tmp_path), "a", b"x")
    assert len(closed) == 1 and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("files, size", [(96, 1), (3, 22 << 20)])
def test_a_full_group_is_synced_before_the_next_file(tmp_path, calls, files, size):
    """With 96 files, or 64 MiB."""
    group, names = FileGroup(), [f"{number:02}" for number in range(files)]
    for name in names:
        assert not group.is_full
        group.write(str(tmp_path), name, bytes(size))
    assert group.is_full and calls == []
    group.write(str(tmp_path), "last", b"x")
    assert not group.is_full
    assert sorted(path.name for path in tmp_path.iterdir()) == [*names, "last.part"]


@pytest.mark.parametrize("code", [errno.EINVAL, errno.EBADF, errno.ENOTSUP, errno.ENOSYS])
def test_a_filesystem_that_cannot_sync_folders_is_written_to(tmp_path, monkeypatch, code):
    before(monkeypatch, os, "fsync", failing(code, is_folder))
    durable.make_folder(str(tmp_path / "a" / "b"))
    group = FileGroup()
    group.write(str(tmp_path / "a" / "b"), "c", b"c")
    group.sync()
    assert (tmp_path / "a" / "b" / "c").read_bytes() == b"c"
    durable.sync_folder(str(tmp_path))
