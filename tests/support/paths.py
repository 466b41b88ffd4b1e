"""The folders of this repository; tests and helpers use these names only."""

from pathlib import Path

SUPPORT = Path(__file__).resolve().parent
TESTS = SUPPORT.parent
ROOT = TESTS.parent
DOCS = ROOT / "docs"
VECTORS = TESTS / "vectors"
SEGMENTS = VECTORS / "segments"
