"""Folders on a disk that change while they are listed."""

import os
import shutil

import pytest

from kafkarec.sources.folders import LocalFolder


def test_a_folder_that_is_replaced_while_it_is_listed(tmp_path, monkeypatch):
    """As by an overwrite of Spark's: the old folder's files are removed after the exchange."""
    for folder, name in (("t-0", "old"), ("new", "whole")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_bytes(b"x")
    scandir, listed = os.scandir, []

    def replaced(path):
        listing = scandir(path)
        if not listed:
            listed.append(path)
            shutil.rmtree(tmp_path / "t-0")
            (tmp_path / "new").rename(tmp_path / "t-0")
        return listing

    monkeypatch.setattr(os, "scandir", replaced)
    assert [(entry.name, entry.size) for entry in LocalFolder(str(tmp_path / "t-0")).entries()] == [("whole", 1)]


@pytest.mark.parametrize("size", [12, 48])
def test_a_file_that_a_broker_trims_or_extends_while_it_is_read(tmp_path, monkeypatch, size):
    """The reading that it comes between has neither all the old bytes nor all the new ones, and no whole entries."""
    path, pread, read = tmp_path / "00000000000000000000.timeindex", os.pread, []
    path.write_bytes(b"x" * 36)

    def cut(descriptor, length, position):
        data = pread(descriptor, length if read else 20, position)
        if not read:
            os.truncate(path, size)
        read.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", cut)
    assert LocalFolder(str(tmp_path)).read(path.name) == (b"x" * 36).ljust(size, b"\0")[:size]


def test_a_file_that_grows_all_the_time_is_read(tmp_path, monkeypatch):
    path, pread = tmp_path / "00000000000000000000.txnindex", os.pread

    def grown(*args):
        data = pread(*args)
        path.write_bytes(path.read_bytes() + b"x")
        return data

    path.write_bytes(b"x")
    monkeypatch.setattr(os, "pread", grown)
    assert set(LocalFolder(str(tmp_path)).read(path.name) or b"") == set(b"x")
