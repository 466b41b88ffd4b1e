"""`make fuzz`: the property tests repeatedly, with many more examples and new seeds, for some minutes.

usage: fuzz.py [--minutes N] [pytest arguments]

KAFKAREC_LONG=1 selects the long profile of tests/conftest.py. Ends with status 1 at the first failure, which
hypothesis prints with the input that shows it; put that into tests/vectors or a test.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROPERTY_TESTS = "import hypothesis", "from hypothesis import"


def property_tests() -> list[str]:
    """The test files that use hypothesis, except those that need Spark."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [
        str(path.relative_to(ROOT))
        for path in files
        if "spark" not in path.parts and any(word in path.read_text() for word in PROPERTY_TESTS)
    ]


def main() -> int:
    parser = argparse.ArgumentParser(prog="fuzz.py", description="the property tests for longer")
    parser.add_argument("--minutes", type=float, default=10)
    options, rest = parser.parse_known_args()
    files = property_tests()
    if not files:
        print("fuzz: no test file uses hypothesis")
        return 1
    stop = time.monotonic() + options.minutes * 60
    rounds = 0
    while time.monotonic() < stop:
        seed = int.from_bytes(os.urandom(4), "big")
        rounds += 1
        print(f"fuzz: round {rounds}, --hypothesis-seed={seed}, {', '.join(files)}", flush=True)
        command = [sys.executable, "-m", "pytest", "-q", f"--hypothesis-seed={seed}", *files, *rest]
        left = max(1.0, stop - time.monotonic())
        try:
            done = subprocess.run(command, cwd=ROOT, env=os.environ | {"KAFKAREC_LONG": "1"}, timeout=left, check=False)
        except subprocess.TimeoutExpired:
            break
        if done.returncode:
            return 1
    print(f"fuzz: {rounds} rounds, nothing found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
