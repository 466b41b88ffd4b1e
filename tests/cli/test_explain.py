"""`kafkarec explain`: the choice of the batch, text and JSON, redaction, the explanation of damage."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import builders
import pytest
from command import Here, Ran, own_process
from paths import SEGMENTS

import kafkarec
from kafkarec.logs import Segment
from kafkarec.ops import explain

TXN = SEGMENTS / "txn-0"
SECRET = (b"QXZKWJ7QPLVW", b"ZQWJXVKP9LGH", b"JWQ8ZXGVKPQL")


def headline(ran: Ran) -> str:
    return ran.out.decode().splitlines()[0]


def report(ran: Ran) -> dict[str, Any]:
    explained: dict[str, Any] = json.loads(ran.out)
    return explained


def test_the_batch_is_chosen_by_its_offset(run: Here) -> None:
    second = list(kafkarec.scan((TXN / "00000000000000000030.log").read_bytes()))
    assert "00000000000000000000.log, byte 0: batch of magic 2, offsets 0 to" in headline(run("explain", TXN))
    for row in second[::10]:
        for offset in {row["base_offset"], row["last_offset"]}:
            first, end = row["base_offset"], row["last_offset"]
            offsets = f"offset {first}" if first == end else f"offsets {first} to {end}"
            header = f"byte {row['position']}: batch of magic 2, {offsets},"
            assert header in headline(run("explain", TXN, "--offset", offset))


def test_json_equals_the_explanation_of_the_library(run: Here) -> None:
    path = TXN / "00000000000000000030.log"
    rows = list(kafkarec.scan(path.read_bytes()))
    printed = report(run("explain", path, "--at", hex(rows[5]["position"]), "--format", "json", "--records", "all"))
    explained = explain.explain(path.read_bytes(), rows[5]["position"])
    assert (printed["position"], printed["size"], printed["faults"]) == (
        rows[5]["position"],
        rows[5]["size_in_bytes"],
        [],
    )
    assert [section["size"] for section in printed["sections"]] == [len(section.data) for section in explained.sections]
    for section, expected in zip(printed["sections"], explained.sections, strict=True):
        assert bytes.fromhex("".join(span["hex"] for span in section["spans"])) == bytes(expected.data)
        assert [(span["start"], span["path"]) for span in section["spans"]] == [s[0:3:2] for s in expected.spans]


@pytest.mark.parametrize("codec", ["none", "lz4", "gzip"])
@pytest.mark.parametrize("damage", [None, 30, 70])
@pytest.mark.parametrize("form", ["text", "json"])
def test_redacted_output_holds_no_payload(run: Here, tmp_path: Path, codec: str, damage: int | None, form: str) -> None:
    key, value, header = SECRET
    records = [builders.record(key=key, value=value, headers=[(header, header)], offset_delta=i) for i in range(3)]
    data = bytearray(builders.batch(records, codec=codec))
    if damage:
        data[damage] ^= 0xFF
    path = tmp_path / "x.log"
    path.write_bytes(data)
    arguments = ("explain", path, "--records", "all", "--full", "--format", form)
    plain, redacted = run(*arguments), run(*arguments, "--redact")
    assert plain.status == redacted.status == (1 if damage else 0)
    text = "".join(redacted.out.decode().split())
    for secret in SECRET:
        for at in range(len(secret) - 4):
            piece = secret[at : at + 4]
            assert piece.hex() not in text and piece.decode() not in text
    if not damage:
        assert key.decode() in plain.out.decode() or key.hex() in plain.out.decode()


def test_damage_is_reported_with_its_byte(run: Here, tmp_path: Path) -> None:
    data = bytearray((TXN / "00000000000000000030.log").read_bytes())
    row = list(kafkarec.scan(bytes(data)))[4]
    hit = row["position"] + 65
    data[hit] ^= 0x04
    path = tmp_path / "00000000000000000030.log"
    path.write_bytes(data)
    ran = run("explain", path, "--at", row["position"])
    assert ran.status == 1
    text = ran.out.decode()
    assert f"WRONG at byte {row['position'] + 17}, crc: crc mismatch: stored 0x{row['crc']:08x}" in text


def test_a_wrong_length_is_explained_up_to_the_next_batch(run: Here, tmp_path: Path) -> None:
    data = bytearray((TXN / "00000000000000000030.log").read_bytes())
    rows = list(kafkarec.scan(bytes(data)))
    data[rows[4]["position"] + 8] = 0x7F
    path = tmp_path / "x.log"
    path.write_bytes(data)
    ran = run("explain", path, "--at", rows[4]["position"])
    assert ran.status == 1
    assert f"{rows[4]['size_in_bytes']} bytes" in headline(ran)


def test_a_position_inside_of_a_batch_is_reported(run: Here) -> None:
    ran = run("explain", TXN / "00000000000000000030.log", "--at", 30)
    assert "byte 30 is inside the batch at byte 0" in ran.out.decode()


def test_zeros_are_reported(run: Here, tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_bytes((TXN / "00000000000000000000.log").read_bytes() + bytes(4096))
    ran = run("explain", path, "--at", path.stat().st_size - 4096)
    assert "4096 zero bytes and no batch" in headline(ran)


def test_a_zeroed_start_of_a_batch_is_explained(run: Here, tmp_path: Path) -> None:
    """The zeros would otherwise be taken for a message of magic 0 at offset 0."""
    data = (TXN / "00000000000000000030.log").read_bytes()
    path = tmp_path / "x.log"
    path.write_bytes(bytes(70) + data[70:])
    ran = run("explain", path)
    assert ran.status == 1
    assert "zero bytes where a batch should begin, then " in headline(ran)
    text = ran.out.decode()
    assert "sectors that were never written, or lost" in text and "the rest, which was not overwritten" in text
    assert "magic" not in text and "message" not in text


def test_an_unreadable_sector_is_explained(run: Here, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes before the unreadable sector are explained."""
    path = SEGMENTS / "all-codecs-0" / "00000000000000000000.log"
    row = next(row for row in kafkarec.scan(path.read_bytes()) if row["size_in_bytes"] > 1200)
    real = Segment.raw

    def raw(self: Segment, position: int, length: int) -> bytes:
        if position + length > row["position"] + 1024:
            raise OSError(5, "Input/output error")
        return real(self, position, length)

    monkeypatch.setattr(Segment, "raw", raw)
    ran = run("explain", path, "--at", row["position"])
    assert ran.status == 1
    text = ran.out.decode()
    assert f"cannot be read at byte {row['position'] + 1024} (input/output error)" in text
    assert "base_offset" in text and "record_count" in text and "[length_beyond_end]" in text


def test_standard_input_is_explained() -> None:
    ran = own_process("explain", "-", "--records", "0", stdin=(TXN / "00000000000000000000.log").read_bytes())
    assert ran.status == 0 and headline(ran).startswith("standard input, byte 0: batch of magic 2")


def test_offsets_outside_of_the_log_are_refused(run: Here, tmp_path: Path) -> None:
    ran = run("explain", TXN, "--offset", 999)
    assert ran.status == 3
    assert "no batch contains offset 999: a batch ends with 292 and the log ends there" in ran.complaint
    data = bytearray((TXN / "00000000000000000030.log").read_bytes())
    row = list(kafkarec.scan(bytes(data)))[4]
    data[row["position"] + 8] = 0x7F
    (tmp_path / "x.log").write_bytes(data)
    ran = run("explain", tmp_path / "x.log", "--offset", row["base_offset"])
    assert ran.status == 3 and f"--at {row['position']}" in ran.complaint


def test_wrong_use_is_refused(run: Here, tmp_path: Path) -> None:
    log = TXN / "00000000000000000030.log"
    for arguments, complaint in {
        (SEGMENTS,): "partitions; name one",
        (TXN, "--at", "7"): "--at counts the bytes of one file",
        (log, "--at", "99999999"): "the file ends at byte 16370",
        (log, "--at", "x"): "not a position",
        (log, "--at", "0", "--offset", "2"): "not allowed with",
        (TXN / "00000000000000000030.index",): "holds no records",
    }.items():
        ran = run("explain", *arguments)
        assert ran.status == 2 and complaint in ran.err, arguments
    assert run("explain", tmp_path / "nope").status == 3
    (tmp_path / "orders-0").mkdir()
    assert run("explain", tmp_path / "orders-0").status == 3


def test_an_empty_file_has_no_batch(run: Here, tmp_path: Path) -> None:
    (tmp_path / "x.log").write_bytes(b"")
    ran = run("explain", tmp_path / "x.log")
    assert ran.status == 0 and "nothing" in headline(ran)


def test_what_would_be_restored_is_said(run: Here, tmp_path: Path) -> None:
    batches = [builders.good_batch(3, base_offset=3 * n) for n in range(4)]
    size, path = len(batches[0]), tmp_path / "00000000000000000000.log"
    path.write_bytes(builders.patched(builders.patched(b"".join(batches), size + 3, b"\x08"), 2 * size + 8, b"\x08"))
    ran = run("explain", path, "--at", size)
    assert ran.status == 1
    assert ran.out.decode().splitlines()[1] == (
        "RESTORED by `salvage` and with `--errors skip`: base offset is 3, not 34359738371: proven by the offsets "
        "before and after it"
    )
    found = report(run("explain", path, "--at", 2 * size, "--format", "json"))
    assert found["restored"]["fields"] == {"batch_length": {"stored": 0x08000000 + size - 12, "used": size - 12}}
    assert report(run("explain", path, "--at", 3 * size, "--format", "json"))["restored"] is None
