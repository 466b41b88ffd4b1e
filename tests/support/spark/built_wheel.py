"""The fat wheel of the current sources, in wheelhouse/."""

from __future__ import annotations

from pathlib import Path

from paths import ROOT

import wheelhouse


def current() -> Path:
    """Return the fat wheel, built again if a source file is newer."""
    built = ROOT / "wheelhouse" / f"spark_udfs-{wheelhouse.version()}-py3-none-any.whl"
    sources = [
        path
        for package in ("kafkarec", "spark_udfs", "pyspark_kafkarec")
        for path in (ROOT / package).rglob("*.p*")
        if "__pycache__" not in path.parts
    ]
    if not built.exists() or built.stat().st_mtime < max(path.stat().st_mtime for path in sources):
        assert wheelhouse.main(["--no-check", "--here"]) == 0
    return built
