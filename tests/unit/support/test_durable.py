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


def test_all_files_are_synced_before_the_first_is_renamed_and_then_their_folders(tmp_path, calls):
    group = FileGroup()
    for number in range(20):
        folder = tmp_path / f"t-{number}"
        group.make_folder(str(folder))
        group.write(str(folder), "a", b"a")
        group.write(str(folder), "b", b"b")
    assert calls == [] and {path.name for path in tmp_path.glob("*/*")} == {"a.part", "b.part"}
    group.sync()
    assert calls == ["fsync"] * 40 + ["replace"] * 40 + ["folder"] * 21
    assert all((tmp_path / f"t-{number}" / name).read_text() == name for number in range(20) for name in "ab")
    group.sync()
    group.drop()
    assert len(calls) == 101 and len(list(tmp_path.glob("*/*"))) == 40


def test_a_failed_fsync_renames_nothing(tmp_path, monkeypatch):
    group = FileGroup()
    for name in "abc":
        group.write(str(tmp_path), name, b"x")
    countdown = iter([None, OSError(errno.EIO, "Input/output error")])

    def fsync(descriptor):
        if failure := next(countdown, None):
            raise failure

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(OSError, match="fsync failed: input/output error"):
        group.sync()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.part", "b.part", "c.part"]
    group.drop()
    assert list(tmp_path.iterdir()) == []


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
