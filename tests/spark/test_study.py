"""spark_udfs.study has the rows of kafkarec.study of each partition, and shares one sample between them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from damage_reports import Frames, nothing_is_shipped  # noqa: F401
from paths import SEGMENTS
from source_rows import log_folder

import kafkarec
import spark_udfs

LOGS = ("txn-0", "all-codecs-0", "compacted-0", "logappend-0")
SPEEDS = ("write_rate", "read_rate", "is_best")


def study(path: Any, **options: Any) -> list[dict[str, Any]]:
    frame: Frames = spark_udfs.study(Frames(), path if isinstance(path, list) else str(path), **options)
    return frame.rows


def expected(path: Path, **options: Any) -> list[dict[str, Any]]:
    log = kafkarec.open(path)
    assert isinstance(log, kafkarec.Log)
    found = kafkarec.study(log, **options)
    of_log = {"path": str(path), "topic": log.topic, "partition": log.partition}
    of_log |= {"log_size": found.size, "sampled": found.sampled, "damage": found.damage}
    return [of_log | one.as_dict() for one in found.outcomes]


def without_speeds(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in row.items() if name not in SPEEDS} | {"losses": dict(row["losses"])}
        for row in rows
    ]


@pytest.mark.parametrize("name", LOGS)
def test_the_rows_are_those_of_study(name: str) -> None:
    options: dict[str, Any] = {
        "formats": [0, 2, 3, "header-first"],
        "codecs": ["none", "zstd:1"],
        "batch_sizes": [None, 16384],
    }
    rows = study(SEGMENTS / name, **options)
    assert without_speeds(rows) == without_speeds(expected(SEGMENTS / name, **options))
    assert len(rows) == 2 + 3 * 4 and all(row["read_rate"] > 0 for row in rows)


def test_each_partition_is_a_task(tmp_path: Path) -> None:
    data = {number: kafkarec.encode([(n, n, None, b"%d" % n * number, []) for n in range(500)]) for number in (1, 2, 3)}
    for number, part in data.items():
        log_folder(tmp_path / f"orders-{number}", (0, part), (500, part))
    rows = study(tmp_path, codecs=["none"], batch_sizes=[None])
    sizes = {row["partition"]: (row["log_size"], row["size"], row["sampled"]) for row in rows}
    assert sizes == {number: (2 * len(part),) * 3 for number, part in data.items()}
    assert [
        row["partition"] for row in study(tmp_path, codecs=["lz4"], batch_sizes=[None], assign={"orders": [2]})
    ] == [2]


def test_the_sample_is_shared(tmp_path: Path) -> None:
    data = kafkarec.encode([(n, n, None, b"value %d" % n, []) for n in range(3000)], batch_size=4096)
    for number in range(20):
        log_folder(tmp_path / f"orders-{number}", (0, data))
    rows = study(tmp_path, codecs=["lz4"], batch_sizes=[None], sample=5 * len(data))
    assert [row["sampled"] for row in rows] == [len(data)] * 5
    assert len(study(tmp_path, codecs=["lz4"], batch_sizes=[None], sample=None)) == 20


def test_damage_and_logs_without_records(tmp_path: Path) -> None:
    good = [kafkarec.encode([(n, n, None, b"value", [])]) for n in range(3)]
    spoilt = good[0] + good[1][:-1] + b"\xff" + good[2]
    log_folder(tmp_path / "bad-0", (0, spoilt))
    log_folder(tmp_path / "none-0", (0, b""))
    (row,) = study(tmp_path, codecs=["none"], batch_sizes=[None])
    assert (row["topic"], row["damage"], row["share"], row["refused"]) == ("bad", 1, 1.0, 0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"formats": [4]}, "4 is not a format; there are 0, 1, 2, 3, header-first"),
        ({"codecs": ["brotli"]}, "'brotli' is not a codec; there are none, gzip"),
        ({"view": "batches"}, "study has no option 'view'; there are: subscribe, "),
        ({"subscribe": "nobody"}, "subscribe: cannot find nobody; there are: "),
    ],
)
def test_wrong_use_is_refused_on_the_driver(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        study(SEGMENTS, **options)
