"""The positions and bits of `format.layout` are those of the engine; test_c_names.py has the sizes."""

import random

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
