"""An application whose executors have another CPython than the driver's environment."""

import golden
import pytest
from spark_submit import ONE_EXECUTOR, Application

import kafkarec

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def test_another_interpreter_uses_its_own_wheels_and_a_mixed_one_is_reported(fat, bare_python, other_python, tmp_path):
    words = ("interpreters.py", fat, other_python, tmp_path, str(golden.VECTORS), bare_python)
    results = Application(*words, master=ONE_EXECUTOR).result()
    assert results["rows"] == len(kafkarec.decode(golden.vector("v2-lz4-create").bytes))
    for row in results["doctor"]:
        tag = row["interpreter"].split()[0]
        assert row["executable"] == other_python
        assert any(f"-{tag}-{tag}-" in wheel for wheel in row["wheels"])
    assert "PYTHON_VERSION_MISMATCH" in results["mismatch"]
