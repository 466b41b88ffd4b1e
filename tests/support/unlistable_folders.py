"""Folders that cannot be listed, simulated: root may list every folder."""

from __future__ import annotations

import os
from typing import Any

import pytest


def refuse_listing(monkeypatch: pytest.MonkeyPatch, ending: str, error: int) -> None:
    """Listing a folder whose path has this ending fails with the errno."""
    real = os.scandir

    def scandir(path: Any) -> Any:
        if str(path).endswith(ending):
            raise OSError(error, os.strerror(error), path)
        return real(path)

    monkeypatch.setattr(os, "scandir", scandir)
