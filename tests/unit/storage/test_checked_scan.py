"""scan_pieces(check_crcs=True): headers, and whether each checksum is right, without decompression."""

import pytest
from builders import flipped
from paths import SEGMENTS

import kafkarec

LOG = SEGMENTS / "all-codecs-0" / f"{0:020}.log"
DATA = LOG.read_bytes()


def test_damage_in_a_payload(tmp_path):
    batch = kafkarec.scan(DATA)[3]
    path = tmp_path / LOG.name
    path.write_bytes(flipped(DATA, batch["position"] + batch["size_in_bytes"] - 1))
    segment = kafkarec.open(path)
    assert sum(map(len, segment.scan_pieces())) == len(kafkarec.scan(DATA))
    with pytest.raises(kafkarec.CorruptRecordError) as error:
        list(segment.scan_pieces(check_crcs=True))
    assert (error.value.reason, error.value.position) == ("crc_mismatch", batch["position"])
    (table,) = segment.scan_pieces(check_crcs=True, errors="skip")
    (damage,) = table.damage
    assert (damage.position, damage.length) == (batch["position"], batch["size_in_bytes"])
    assert len(table) == len(kafkarec.scan(DATA)) - 1


def test_restored_header_fields(tmp_path):
    batch = kafkarec.scan(DATA)[3]
    path = tmp_path / LOG.name
    path.write_bytes(flipped(DATA, batch["position"] + 16))  # its magic, which no checksum covers
    (table,) = kafkarec.open(path).scan_pieces(check_crcs=True, errors="skip")
    (restored,) = table.restored
    assert (restored.position, restored.fields["magic"]) == (batch["position"], (3, 2))
    assert list(table) == list(kafkarec.scan(DATA)) and table.damage == ()
    assert table[:5].restored == kafkarec.open(path).read(errors="skip").restored
