"""Folders on a disk that change while they are listed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from kafkarec.sources.folders import LocalFolder


def test_a_folder_that_is_replaced_while_it_is_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As by an overwrite of Spark's: the old folder's files are removed after the exchange."""
    for folder, name in (("t-0", "old"), ("new", "whole")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / name).write_bytes(b"x")
    scandir, listed = os.scandir, list[Any]()

    def replaced(path: Any) -> Any:
        listing = scandir(path)
        if not listed:
            listed.append(path)
            shutil.rmtree(tmp_path / "t-0")
            (tmp_path / "new").rename(tmp_path / "t-0")
        return listing

    monkeypatch.setattr(os, "scandir", replaced)
    assert [(entry.name, entry.size) for entry in LocalFolder(str(tmp_path / "t-0")).entries()] == [("whole", 1)]
