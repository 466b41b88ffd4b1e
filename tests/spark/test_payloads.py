"""docs/howto/payloads.md on every Spark, and its expressions on random values whose bytes are made here."""

from __future__ import annotations

import json
import random
import struct
import subprocess
from pathlib import Path
from typing import Any

import doc_blocks
import doc_spark
import doc_standins
import pytest
from long_run import MINUTES
from paths import DOCS, ROOT
from spark_submit import older_python

pytestmark = [pytest.mark.spark, pytest.mark.slow, MINUTES]

PAGE = DOCS / "howto" / "payloads.md"
NEWEST = list(doc_spark.RELEASES)[-1]
VERSIONS = [version for version in doc_spark.RELEASES if (version != NEWEST) == bool(older_python(version))]


# Runs in the Python of a Spark, which has nothing of ours: sys.argv has the fat wheel, the folder of doc_blocks, its
# root here, and a page. What the wheel unpacks is the checkout that a page runs with.
PROGRAM = """
import os, sys
sys.path[:0] = sys.argv[1:3]
import doc_blocks, doc_standins, spark_udfs
lacking = doc_standins.missing(["avro"])
if lacking:
    sys.exit(f"skipped: {lacking}")
doc_blocks.ROOT = doc_blocks.Path(sys.argv[3])
doc_standins.ROOT = os.pathsep.join([spark_udfs.activate().path, sys.argv[1]])
sys.exit(2 * doc_blocks.main(sys.argv[4:]))
"""


@pytest.mark.parametrize("version", VERSIONS)
def test_the_page_prints_the_same_on_every_spark(
    version: str, fat: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Spark 3.5 has no data sources in Python: there the page's one `load` is read_log, as the page says."""
    text = PAGE.read_text(encoding="utf-8")
    load, instead = 'spark.read.format("kafkarec").load(logs)', "spark_udfs.read_log(spark, logs)"
    assert text.count(f"= {load}") == 1 and f"`{instead}`" in text
    page = tmp_path / "docs" / "payloads.md"
    page.parent.mkdir()
    page.write_text(text.replace(f"= {load}", f"= {instead}") if version == "3.5" else text, encoding="utf-8")
    for name in ("tests", "examples", "pyproject.toml", "Makefile", "benchmarks"):
        (tmp_path / name).symlink_to(ROOT / name)
    words = map(str, (fat, ROOT / "tools", tmp_path, page))
    command = [older_python(version) or request.getfixturevalue("bare_python"), "-c", PROGRAM, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, timeout=400)
    if done.returncode == 1 and "\nskipped: " in f"\n{done.stderr}":
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert f"{len(doc_blocks.read(PAGE).blocks)} blocks" in done.stdout


# ---- random values ----------------------------------------------------------------------------------------------


def avro_long(number: int) -> bytes:
    """Avro's zigzag varint."""
    rest, out = (number << 1) ^ (number >> 63), bytearray()
    while rest > 127:
        out.append(rest & 127 | 128)
        rest >>= 7
    return bytes([*out, rest])


def wire(schema_id: int, payload: bytes) -> bytes:
    return b"\0" + struct.pack(">i", schema_id) + payload


def random_value(rng: random.Random) -> tuple[bytes | None, tuple[int, float, str | None] | str | None]:
    """A record's value, and what it must become: (id, amount, currency), the reason of the quarantine, or None."""
    number, amount = (
        rng.choice([0, -1, 63, -64, 2**31, -(2**63), 2**63 - 1, rng.getrandbits(40)]),
        rng.uniform(-1e9, 1e9),
    )
    currency = rng.choice([None, "", "EUR", "złoty", "x" * 200])
    first = avro_long(number) + struct.pack("<d", amount)
    second = first + (b"\0" if currency is None else b"\2" + avro_long(len(currency.encode())) + currency.encode())
    text = json.dumps({"id": number, "amount": amount, "more": currency}, ensure_ascii=False).encode()
    unknown = rng.choice([0, 1, 8, 299, 301, 2**31 - 1])
    return rng.choice(
        [
            (wire(7, first), (number, amount, None)),
            (wire(300, second), (number, amount, currency)),
            (wire(12, text), (number, amount, None)),
            (None, None),
            (b"", "no header"),
            (wire(7, first)[: rng.randrange(1, 5)], "no header"),
            (rng.choice([b"\1", b"{", b"\xff"]) + wire(7, first)[1:], "no header"),
            (wire(unknown, first), f"unknown schema {unknown}"),
            (wire(7, first[:-1]), "not written with schema 7"),
            (wire(7, b""), "not written with schema 7"),
            (wire(300, first), "not written with schema 300"),
            (wire(300, first + b"\4"), "not written with schema 300"),  # a third branch of the union
            (wire(12, text[:-1]), "not written with schema 12"),
            (wire(12, b""), "not written with schema 12"),
            (wire(12, b'{"amount": 1}'), "not written with schema 12"),
            (wire(12, b'{"id": 1, "amount": "a lot"}'), "not written with schema 12"),
            (wire(12, b"\xff\xfe"), "not written with schema 12"),
        ]
    )


def test_random_values_are_decoded_or_in_quarantine_with_their_bytes() -> None:
    page = doc_blocks.read(PAGE)
    lacking = doc_standins.missing(page.needs)
    if lacking:
        pytest.skip(lacking)
    rng = random.Random(16)
    expected = [random_value(rng) for _ in range(2000)]
    blocks = {
        part: block
        for block in page.blocks
        for part in ("VIEW wire", '"by_schema"', "VIEW decoded")
        if part in block.code
    }
    assert len(blocks) == 3
    with doc_blocks.runner(page) as running:
        for block in page.blocks[: page.blocks.index(blocks["VIEW wire"])]:
            running.run(block)
        spark: Any = running.scope["spark"]
        rows = [(offset, value) for offset, (value, _) in enumerate(expected)]
        spark.createDataFrame(rows, "offset long, value binary").createOrReplaceTempView("records")
        for block in blocks.values():
            running.run(block)
        found = spark.table("decoded").orderBy("offset").collect()
        for expression in ("decode(X'61FF', 'UTF-8')", "try_validate_utf8(string(X'61FF'))"):
            try:
                outcome = spark.sql(f"SELECT {expression}").first()[0]
            except Exception as error:
                outcome = type(error).__name__ + str(error)
            assert (outcome is None) == expression.startswith("try"), outcome
    assert [row.offset for row in found] == list(range(2000))
    for row, (value, outcome) in zip(found, expected, strict=True):
        assert (None if row.value is None else bytes(row.value)) == value
        if isinstance(outcome, tuple):
            assert (row.id, row.amount, row.currency, row.problem) == (*outcome, None), value
        else:
            assert row.problem == outcome, (value, row)
