"""`kafkarec explain`: redaction, the explanation of damage. The fence has the rest."""

import errno
import re

import builders
import pytest
from failing_calls import before, failing
from paths import SEGMENTS

import kafkarec
from kafkarec import Segment

TXN = SEGMENTS / "txn-0"
SECRET = (b"QXZKWJ7QPLVW", b"ZQWJXVKP9LGH", b"JWQ8ZXGVKPQL")


@pytest.mark.parametrize("codec", ["none", "lz4", "gzip"])
@pytest.mark.parametrize("damage", [None, 30, 70])
@pytest.mark.parametrize("form", ["text", "json", "html"])
def test_redacted_output_holds_no_payload(run, tmp_path, codec, damage, form):
    key, value, header = SECRET
    records = [builders.record(key=key, value=value, headers=[(header, header)], offset_delta=i) for i in range(3)]
    data = bytearray(builders.batch(records, codec=codec))
    if damage:
        data[damage] ^= 0xFF
    path, page = tmp_path / "x.log", tmp_path / "x.html"
    path.write_bytes(data)

    def shown(*options):
        how = ("--html", page, "--force") if form == "html" else ("--format", form)
        ran = run("explain", path, "--records", "all", "--full", *how, *options)
        assert ran.status == (1 if damage else 0)
        return re.sub(r"\s|</?i>", "", page.read_text() if form == "html" else ran.text)

    plain, redacted = shown(), shown("--redact")
    for secret in SECRET:
        for piece in (secret[at : at + 4] for at in range(len(secret) - 4)):
            assert piece.hex() not in redacted and piece.decode() not in redacted
    assert damage or key.decode() in plain or key.hex() in plain


def test_an_offset_in_a_damaged_batch_is_told_by_its_position(run, tmp_path):
    data = bytearray((TXN / f"{30:020}.log").read_bytes())
    row = list(kafkarec.scan(bytes(data)))[4]
    data[row["position"] + 8] = 0x7F
    (tmp_path / "x.log").write_bytes(data)
    ran = run("explain", tmp_path / "x.log", "--offset", row["base_offset"])
    assert ran.status == 3 and f"--at {row['position']}" in ran.complaint


def test_an_unreadable_sector_is_explained(run, monkeypatch):
    """The bytes before the unreadable sector are explained."""
    path = SEGMENTS / "all-codecs-0" / "00000000000000000000.log"
    row = next(row for row in kafkarec.scan(path.read_bytes()) if row["size_in_bytes"] > 1200)
    end = row["position"] + 1024
    before(monkeypatch, Segment, "raw", failing(errno.EIO, lambda _, position, length: position + length > end))
    ran = run("explain", path, "--at", row["position"])
    assert ran.status == 1
    text = ran.text
    assert f"cannot be read at byte {end} (input/output error)" in text
    assert "base_offset" in text and "record_count" in text and "[length_beyond_end]" in text
