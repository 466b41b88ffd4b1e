"""Random damage to random logs, a third of it aimed at bytes 0 to 20 of batches and at the edges of holes there: no
untouched batch is lost, every restored field has the value that was written, nothing is invented, and every way of
reading agrees. `make damages` does it for longer."""

import os

import damage_judge
import pytest
from long_run import LONG, fewer

pytestmark = pytest.mark.core

SEED = int(os.environ.get("KAFKAREC_SEED", "0"))
LOGS = 10_000 if LONG else fewer(300, core=120)


def test_random_damage(tmp_path):
    for number in range(LOGS):
        log, parts = damage_judge.one_log(SEED, number)
        judge = damage_judge.check(log, parts, tmp_path / f"{number}" / "orders-0", number)
        assert not judge.faults, f"log {number} of seed {SEED}"
