"""Random damage to random logs, a third of it aimed at bytes 0 to 20 of batches and at the edges of holes there: no
untouched batch is lost, every restored field has the value that was written, nothing is invented, and every way of
reading agrees. `make damages` does it for longer."""

import damages
import pytest
from long_run import LONG, fewer

pytestmark = pytest.mark.core

LOGS = 10_000 if LONG else fewer(300, core=120)


def test_random_damage(tmp_path):
    for number in range(LOGS):
        log, parts, _ = damages.one_log(0, number)
        judge = damages.check(log, parts, tmp_path / f"{number}" / "orders-0", number)
        assert not judge.faults, f"tools/damages.py --seed 0 --only {number}"
