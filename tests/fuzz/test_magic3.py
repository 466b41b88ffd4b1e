"""Random batches and bytes of magic 3: read as by the second reader, converted and back without a loss."""

import builders
from builders import NOW
from long_run import seeds
from magic3_forms import assert_agree, converted_and_back, each_form
from random_logs import Maker

import kafkarec
from kafkarec.experimental import header_first


def some_batch(maker):
    """A batch of magic 2 that kafkarec.decode reads, with attribute bits that magic 3 does not use otherwise."""
    return maker.batch(
        maker.some(0, 5, bits=64),
        attributes=maker.random.randrange(16) << 3 | maker.random.choice([0, 0x400, 0x7C00]),
        last_offset_delta=maker.some(0, 2, 70),
        **{name: maker.some(NOW, -1, bits=64) for name in ("base_timestamp", "max_timestamp")},
    )


@each_form
def test_random_batches_survive_both_ways(form):
    for seed in seeds(100, 14):
        maker = Maker(seed)
        made, _, back = converted_and_back(form, b"".join(some_batch(maker) for _ in range(seed % 4)))
        assert form.from_v2(back) == made


@each_form
def test_random_bytes_are_read_as_by_the_second_reader(form):
    """Under a right checksum and under others, in a batch and alone."""
    for seed in seeds(100, 14):
        maker = Maker(seed)
        spoiled = bytearray(form.from_v2(some_batch(maker)))
        for _ in range(maker.random.randrange(1, 5)):
            spoiled[maker.random.randrange(21, len(spoiled))] = maker.random.randrange(256)
        fixed = builders.with_crc(bytes(spoiled))
        raw = maker.random.randbytes(maker.random.randrange(120))
        header = raw[:16] + b"\x03" + raw[16:]
        for data in (fixed, raw, header, builders.with_crc(header) if len(header) > 21 else header):
            assert_agree(form, data)
        for call in (form.module.to_v2, header_first.offsets):
            try:
                call(fixed)
            except kafkarec.KafkaRecordError as error:
                assert error.position == 0
