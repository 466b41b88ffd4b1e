"""gzip, lz4, snappy and zstd decompressed in C and by Python: the same verdict and records for every payload."""

import json

import pytest
import subprocesses
from long_run import fewer

from kafkarec import build_info

pytestmark = pytest.mark.core

ROUNDS = fewer(60, 10)
# Every golden file, and cut and changed copies of the compressed files, as one line of JSON each.
ANSWERS = """
import hashlib, json, random
import golden, kafkarec
kafkarec.build_info()
chance = random.Random(5)
for folder in ("vectors", "invalid"):
    for path in sorted((golden.VECTORS / folder).glob("*.bin")):
        data = path.read_bytes()
        inputs = [data]
        if len(data) < 3000 and any(name in path.name for name in ("gzip", "lz4", "snappy", "zstd")):
            for _ in range(ROUNDS):
                at = chance.randrange(61, len(data)) if len(data) > 62 else 0
                inputs.append(data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :] if at else data)
        for one in inputs:
            try:
                got = kafkarec.decode(one, check_crcs=False, control=True)
                answer = hashlib.sha256(repr(list(got)).encode()).hexdigest()
            except kafkarec.KafkaRecordError as error:
                answer = type(error).__name__
            print(json.dumps([path.name, answer]))
"""


def run(pointers):
    settings = f"import os; os.environ['KAFKAREC_NATIVE_CODECS'] = {pointers!r}\nROUNDS = {ROUNDS}\n"
    lines = subprocesses.run(settings + ANSWERS)
    return [json.loads(line) for line in lines.splitlines()]


def test_calls_by_pointer_do_not_change_results():
    by_pointer, by_call = run("1"), run("0")
    assert len(by_pointer) > 50 * ROUNDS
    assert by_pointer == by_call


def test_build_info_says_whether_payloads_are_decompressed_in_c():
    how = {name: info["how"] for name, info in build_info()["codecs"].items()}
    assert set(how) == {"gzip", "snappy", "lz4", "zstd"}
    assert "by kafkarec" in how["snappy"]
    off = subprocesses.run(
        "import os; os.environ['KAFKAREC_NATIVE_CODECS'] = '0'\nimport kafkarec; print(kafkarec.build_info()['codecs'])"
    )
    assert "by pointer" not in off and "by kafkarec" not in off
