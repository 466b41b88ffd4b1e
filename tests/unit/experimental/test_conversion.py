"""Magic 2 to 3 and back, of everything real: byte-equal where that is promised, the same content elsewhere."""

import builders
import magic3_oracle
import oracle
import pytest
import reading
from builders import CODECS, NOW
from magic3_forms import batch_fields, converted_and_back, decode_v2, each_form, real_batches
from plain_logs import batch

import kafkarec
from kafkarec.experimental import header_first, v3

pytestmark = pytest.mark.core


@each_form
def test_real_batches_keep_records_and_header_fields(form):
    assert len(real_batches()) > 90
    for name, data in real_batches().items():
        made, columns, back = converted_and_back(form, data)
        rows = reading.arrow_rows(columns.batches)
        assert {row["magic"] for row in rows} == {3}
        assert [row["attributes"] & 0x7F for row in rows] == kafkarec.scan(data).column("attributes"), name
        assert sum(row["size_in_bytes"] for row in rows) == len(made)
        is_plain = all(batch.columns["compression"] == "none" for batch in oracle.frames(data)[0])
        if is_plain or (form.module is v3 and form.options.get("keep_attributes")):
            assert back == data, name


@each_form
@pytest.mark.parametrize("codec", CODECS)
def test_codecs_are_changed_and_kept(form, codec):
    data = b"".join(batch(30 * n, 30, codec=c) for n, c in enumerate(CODECS))
    made = form.from_v2(data, compression=codec, level=None if codec in ("none", "snappy") else 1)
    assert form.module.decode(made).batches.column("compression") == [codec] * len(CODECS)
    back = form.module.to_v2(made)
    assert kafkarec.scan(back).column("compression") == [codec] * len(CODECS)
    assert reading.arrow_rows(decode_v2(back)) == reading.arrow_rows(decode_v2(data))
    assert form.module.decode(form.from_v2(data)).batches.column("compression") == list(CODECS)


def test_uncompressed_v3_is_shorter_by_a_byte_a_record_and_by_the_header():
    data = batch(0, 10)
    assert len(v3.from_v2(data)) == len(data) - 10 - (61 - 49)  # 41, and 1 + 6 + 1 bytes of varints
    assert len(v3.from_v2(data, keep_attributes=True)) == len(data) - (61 - 49)


def test_record_attributes_that_are_not_zero_are_kept_or_refused():
    data = batch(0, 2) + builders.batch([builders.record(), builders.record(attributes=-1)], codec="gzip")
    for module, options in ((v3, {}), (header_first, {"frames": 1}), (header_first, {"frames": 2})):
        made = module.from_v2(data, **options)
        assert [attributes >> 7 & 1 for attributes in module.decode(made).batches.column("attributes")] == [1, 0]
        back = module.to_v2(made)
        (kept,) = list(kafkarec.batches(back))[1:]
        content = kafkarec.convert(bytes(kept.raw), compression="none")[61:]
        assert content == builders.record() + builders.record(attributes=-1)
        with pytest.raises(kafkarec.InvalidRecordError, match="attributes that are not zero") as caught:
            module.from_v2(data, keep_attributes=False, **options)
        assert caught.value.reason == "batch_not_rewritable" and caught.value.position == len(batch(0, 2))


@pytest.mark.parametrize("module, bits", [(v3, (0x80, 0x100)), (header_first, (0x80, 0x100, 0x200))])
def test_bits_that_magic_3_uses_are_refused_in_magic_2(module, bits):
    for bit in bits:
        for keep in (None, True):
            with pytest.raises(kafkarec.InvalidRecordError, match="attribute bits") as caught:
                module.from_v2(batch(0, 1, attributes=bit), keep_attributes=keep)
            assert caught.value.reason == "batch_not_rewritable"
    module.from_v2(batch(0, 1, attributes=0x400))


@pytest.mark.parametrize("module", [v3, header_first])
def test_other_magics_are_refused(module):
    good = batch(0, 3)
    other = (header_first if module is v3 else v3).from_v2(good)
    for data in (good, builders.message(magic=1), builders.message(magic=0), other):
        for call in (module.decode, module.to_v2):
            with pytest.raises(kafkarec.UnsupportedMagicError):
                call(data)
    for data in (builders.message(magic=1), module.from_v2(good)):
        with pytest.raises(kafkarec.UnsupportedMagicError, match="magic 2 is needed"):
            module.from_v2(data)


@each_form
def test_no_other_reader_takes_magic_3(form, tmp_path):
    data = form.from_v2(batch(0, 3))
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(data)

    def first_batch(data):
        return next(iter(kafkarec.batches(data)))

    for call in (kafkarec.decode, kafkarec.scan, first_batch, kafkarec.convert, lambda _: kafkarec.open(path).read()):
        with pytest.raises(kafkarec.UnsupportedMagicError, match="at most 2, found 3"):
            call(data)
    assert kafkarec.decode(data, errors="skip").damage[0].reason == "unsupported_magic"


@each_form
@pytest.mark.parametrize("codec", CODECS)
def test_encode_writes_what_encode_writes_for_magic_2(form, codec):
    rows = [(n, NOW + n, b"key %d" % n, b"value" * n, [("h", b"%d" % n)]) for n in range(200)]
    options = {"compression": codec, "batch_size": 2000, "producer_id": 7, "producer_epoch": 1, "base_sequence": 3}
    encode_options = {**form.options}
    made = form.module.encode(rows, **options, **encode_options)
    wanted = kafkarec.encode(rows, **options)
    assert batch_fields(reading.arrow_rows(form.module.decode(made).batches)) == batch_fields(
        reading.arrow_rows(kafkarec.scan(wanted))
    )
    assert form.module.decode(made).tuples() == kafkarec.decode(wanted).tuples()
    assert made == form.module.from_v2(wanted, **{"keep_attributes": False, **encode_options})


@each_form
def test_options_are_those_of_decode(form):
    data = b"".join(
        [
            batch(0, 2),
            builders.end_marker(2, 5, commit=True),
            builders.batch([builders.record(headers=[(b"\xc3(", b"x")], timestamp_delta=2**62)], base_offset=3),
        ]
    )
    made = form.from_v2(data)
    every = ("offset", "magic", "compression", "batch_position", "is_control", "control_type", "base_offset")
    rows = reading.arrow_rows(form.module.decode(made, columns=every, control=True))
    expected = reading.arrow_rows(kafkarec.decode(data, columns=every, control=True))
    starts = [batch.position for batch in magic3_oracle.decode(made, header_first=form.header_first).batches]
    positions = [starts[0], starts[0], *starts[1:]]
    assert rows == [row | {"magic": 3, "batch_position": at} for row, at in zip(expected, positions, strict=True)]
    for options in (
        {"columns": ["value", "offset"]},
        {"control": True},
        {"timestamp_unit": "ns"},
        {"timestamp_unit": "int64"},
        {"header_keys": "binary"},
    ):
        got, wanted = form.module.decode(made, **options), kafkarec.decode(data, **options)
        assert reading.arrow_table(got).equals(reading.arrow_table(wanted)), options
        assert got.timestamps_out_of_range == wanted.timestamps_out_of_range
    for wrong in ({"columns": ["no"]}, {"check_crcs": "no"}, {"timestamp_unit": "s"}):
        with pytest.raises(ValueError):
            form.module.decode(made, **wrong)


def test_options_that_do_not_exist_are_refused():
    data = batch(0, 3)
    for wrong, error in (
        ({"level": 3}, "level needs compression"),
        ({"compression": "zstd", "level": 99}, "levels"),
        ({"compression": "bzip2"}, "bzip2"),
        ({"keep_attributes": "yes"}, "keep_attributes"),
        ({"max_decompressed_bytes": -1}, "max_decompressed_bytes"),
    ):
        for module in (v3, header_first):
            with pytest.raises(ValueError, match=error):
                module.from_v2(data, **wrong)
    with pytest.raises(ValueError, match="frames"):
        header_first.from_v2(data, frames=3)
    with pytest.raises(TypeError):
        v3.encode([], magic=2)
