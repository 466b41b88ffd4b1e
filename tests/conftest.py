"""Settings of the suite. Helpers have modules of their own: golden, builders, oracle, reading, subprocesses.

KAFKAREC_LONG=1   the long run: many more examples, fresh random seeds (the default run is derandomized)
"""

from __future__ import annotations

import os

import hypothesis

LONG = os.environ.get("KAFKAREC_LONG", "0") == "1"

hypothesis.settings.register_profile(
    "suite", max_examples=150, deadline=None, derandomize=True, database=None, print_blob=True
)
hypothesis.settings.register_profile("long", max_examples=20_000, deadline=None, print_blob=True)
hypothesis.settings.load_profile("long" if LONG else "suite")
