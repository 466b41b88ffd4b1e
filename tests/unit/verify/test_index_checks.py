"""The checks of .index and .timeindex: what a truncation leaves, offsets of more than 64 bits, and no work for each
entry of a usual one. test_side_files.py has what else they find."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import builders
import pytest

import kafkarec
from kafkarec.sidecars import offset_index, time_index
from kafkarec.sidecars.index_entries import Entries

pytestmark = pytest.mark.core


@pytest.mark.parametrize(("zeros", "severity"), [(1200, "anomaly"), (0, "error")])
def test_entries_that_a_truncation_leaves(tmp_path: Path, zeros: int, severity: str) -> None:
    """They ascend behind the valid ones, and are of batches that are gone (AbstractIndex.truncateToEntries). A broker
    that is stopped trims its indexes; so zeros are those of one that runs, or was killed and rebuilds them."""
    batches = [builders.batch([builders.record()], base_offset=at, max_timestamp=1_000 + at) for at in range(10)]
    size = len(batches[0])
    entries = [(2, 2 * size), (3, 4 * size), (6, 5 * size + 7)]
    (tmp_path / f"{0:020}.log").write_bytes(b"".join(batches))
    (tmp_path / f"{0:020}.index").write_bytes(offset_index.write(entries, 0) + bytes(zeros))
    (tmp_path / f"{0:020}.timeindex").write_bytes(time_index.write([(1_002, 2), (1_003, 6)], 0) + bytes(zeros))
    report = kafkarec.verify(tmp_path)
    found = [(one.kind, one.severity) for one in report.findings]
    assert found == [("index_offset", severity), ("index_position", severity), ("time_largest", severity)]
    assert report.exit_status() == (severity == "error")


def test_the_indexes_that_kafkarec_writes_are_never_read_entry_by_entry(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log of many batches with an entry for nearly each: the work is done on columns."""
    with kafkarec.SegmentWriter(tmp_path, assign_offsets=True, index_interval_bytes=1) as writer:
        for at in range(1300):
            writer.append(kafkarec.encode([{"value": bytes(100), "timestamp": 1_000 + at}]))
    assert (
        len(offset_index.read(next(tmp_path.glob("*.index")).read_bytes(), 0)) > 1024
    )  # entries are unpacked so many at a time
    monkeypatch.setattr(Entries, "__getitem__", only_the_last(Entries.__getitem__))
    assert kafkarec.verify(tmp_path).findings == ()


def test_offsets_of_more_than_64_bits(tmp_path: Path) -> None:
    """The base offset of the file's name and the relative one of an entry: the sum is compared, and does not fail."""
    base = 2**63 - 2
    (tmp_path / f"{base:020}.log").write_bytes(kafkarec.encode([(base, 1, b"k", b"v", [])]))
    (tmp_path / f"{base:020}.index").write_bytes(offset_index.write([(base, 0), (base + 200, 50)], base))
    (tmp_path / f"{base:020}.timeindex").write_bytes(time_index.write([(1, base), (2, base + 2**31 - 1)], base))
    report = kafkarec.verify(tmp_path)
    assert {one.kind for one in report.findings} >= {"end_was_longer"} and not report.damage
    assert f"up to {base + 2**31 - 1}" in str(report)


def only_the_last(read: Any) -> Any:
    def checked(self: Entries[Any], number: int) -> Any:
        assert number in (-1, len(self) - 1)
        return read(self, number)

    return checked
