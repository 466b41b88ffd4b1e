"""The positions, sizes and bits of `format.layout` are those of the engine."""

import random
import struct

import pytest

import kafkarec
from kafkarec.format import checksum, layout

pytestmark = pytest.mark.core

SEEDS = range(200)
INT64, INT32, INT16 = (-(2**63), 2**63 - 1), (-(2**31), 2**31 - 1), (-(2**15), 2**15 - 1)
LIMITS = {"q": INT64, "i": INT32, "h": INT16, "I": (0, 2**32 - 1)}


def random_header(seed):
    """A header whose fields differ from each other, of an empty batch."""
    chosen = random.Random(seed)
    values = {
        name: chosen.choice([chosen.randint(*LIMITS[form]), *LIMITS[form], 0])
        for name, form in zip(layout.V2Header._fields, "qiiqIhiqqqhii", strict=True)
    }
    fixed = {"batch_length": layout.V2_OVERHEAD - layout.LOG_OVERHEAD, "magic": 2, "record_count": 0}
    return layout.V2Header(**values | fixed)


def none_if_absent(value):
    return None if value == -1 else value


@pytest.mark.parametrize("seed", SEEDS)
def test_the_engine_reads_the_fields_of_a_v2_header_where_the_layout_has_them(seed):
    header = random_header(seed)
    data = bytearray(layout.V2.pack(*header))
    _, computed = checksum.batch_checksums(data, 2)
    data[layout.V2_AT.crc : layout.V2_AT.attributes] = computed.to_bytes(4, "big")
    assert layout.v2_header(bytes(9) + data, 9) == header._replace(crc=computed)
    (row,) = kafkarec.scan(bytes(data))
    as_stored = ("base_offset", "batch_length", "attributes")
    absent_if_minus_1 = ("partition_leader_epoch", "max_timestamp", "producer_id", "base_sequence")
    flags = {
        "is_transactional": layout.TRANSACTIONAL,
        "is_control": layout.CONTROL,
        "timestamp_type": layout.LOG_APPEND_TIME,
    }
    wanted = {name: getattr(header, name) for name in as_stored} | {"crc": computed}
    wanted |= {name: none_if_absent(getattr(header, name)) for name in absent_if_minus_1}
    wanted |= {name: bool(header.attributes & bit) for name, bit in flags.items()}
    if header.attributes & layout.DELETE_HORIZON:
        wanted["delete_horizon_ms"] = header.base_timestamp
    else:
        wanted["base_timestamp"] = none_if_absent(header.base_timestamp)
    assert {name: row[name] for name in wanted} == wanted
    if not header.attributes & layout.CODEC_MASK:  # payloads of other codecs are no streams
        assert len(kafkarec.decode(bytes(data), control=True)) == 0


@pytest.mark.parametrize("magic", [0, 1])
def test_the_engine_reads_the_fields_of_a_message_where_the_layout_has_them(magic):
    value = b"value"
    fields = layout.MessageHeader(5, layout.MESSAGE_OVERHEAD[magic] + len(value), 0, magic, 0, 1_700_000_000_123)
    head = layout.MESSAGES[magic].pack(*fields[: 5 + magic])
    data = bytearray(head + struct.pack(">ii", -1, len(value)) + value)
    assert len(head) == layout.KEY_AT[magic]
    _, computed = checksum.batch_checksums(data, magic)
    data[layout.MESSAGE_AT.crc : layout.MESSAGE_AT.magic] = computed.to_bytes(4, "big")
    (record,) = kafkarec.decode(bytes(data))
    assert (record.offset, record.key, record.value) == (5, None, value)
    assert record.timestamp == (fields.timestamp if magic else None)
    assert [row["crc"] for row in kafkarec.scan(bytes(data))] == [computed]


@pytest.mark.parametrize("magic", layout.MAGICS)
def test_the_checksum_covers_the_bytes_from_the_listed_one_to_the_end_and_no_others(magic):
    good = kafkarec.encode([(0, 1_700_000_000_000, b"k", b"v", [])], magic=magic)
    assert checksum.batch_checksums(good, magic)[0] == checksum.batch_checksums(good, magic)[1]
    for position in range(layout.LOG_OVERHEAD, len(good)):
        if position == layout.MESSAGE_AT.magic:
            continue
        changed = bytearray(good)
        changed[position] ^= 1
        stored, computed = checksum.batch_checksums(changed, magic)
        covered = position >= layout.CHECKED_FROM[magic] or 0 <= position - layout.CRC_AT[magic] < 4
        assert (stored != computed) == covered
        if covered:
            with pytest.raises(kafkarec.KafkaRecordError) as raised:
                kafkarec.decode(bytes(changed))
            assert raised.value.reason == "crc_mismatch"
        else:
            assert len(kafkarec.decode(bytes(changed))) == 1
