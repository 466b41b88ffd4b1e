"""Where things are in this repository; tests and helpers name folders by these alone."""

from __future__ import annotations

from pathlib import Path

SUPPORT = Path(__file__).resolve().parent
TESTS = SUPPORT.parent
ROOT = TESTS.parent
DOCS = ROOT / "docs"
VECTORS = TESTS / "vectors"
SEGMENTS = VECTORS / "segments"
