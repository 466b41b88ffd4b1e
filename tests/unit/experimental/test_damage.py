"""Damaged magic 3: truncations, flipped bits, wrong fields under a right checksum, and bombs."""

import itertools
import struct

import builders
import oracle
import pytest
from builders import CODECS, with_crc
from magic3_forms import FORMS, Form, assert_agree, each_form
from plain_logs import batch

import kafkarec
from kafkarec import codecs
from kafkarec.errors import REASONS
from kafkarec.experimental import header_first, v3

pytestmark = pytest.mark.core
HEADERS = [(b"h", b"x"), (b"", None)]


def small(codec="none", **options):
    return batch(100, 2, codec=codec, **options, headers=HEADERS)


def readers_of(form):
    """The functions that read a batch's records."""
    return [form.module.decode, form.module.to_v2, *([header_first.offsets] if form.header_first else [])]


def error_of(form, data, **options):
    try:
        form.module.decode(data, control=True, **options)
    except kafkarec.KafkaRecordError as error:
        return error
    return None


def attributes_of(raw):
    return struct.unpack_from(">h", raw, 21)[0]


def header_of(raw):
    """The header of a batch of magic 3, and its payload."""
    at = 41
    for longest in (5, 10, 10):
        _, at = oracle.varint(raw, at, longest)
    return raw[:at], raw[at:]


def with_payload(raw, payload, *, count=None, attributes=None):
    """Return the batch with other bytes after its header, and with a right length and checksum."""
    header = bytearray(header_of(raw)[0])
    header[8:12] = struct.pack(">i", len(header) + len(payload) - 12)
    if count is not None:
        header[37:41] = struct.pack(">i", count)
    if attributes is not None:
        header[21:23] = struct.pack(">h", attributes)
    return with_crc(bytes(header) + payload)


# ---- every truncation


@each_form
@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_every_truncation_is_refused(form, codec):
    whole = form.from_v2(small())
    data = whole + form.from_v2(small(codec))
    for size in set(range(len(data))) - {0, len(whole)}:
        start = len(whole) if size >= len(whole) else 0
        for call in readers_of(form):
            with pytest.raises(kafkarec.CorruptRecordError) as caught:
                call(data[:size])
            assert (caught.value.reason, caught.value.position) == ("length_beyond_end", start)
    plain = small() + small(codec)
    for size in (1, 11, 13, 40, len(plain) - 1):
        with pytest.raises(kafkarec.CorruptRecordError, match="claims more bytes"):
            form.from_v2(plain[:size])


# ---- fields


def refused(form, data, reason, **fields):
    """Assert that decode and to_v2 raise this error, which decode also raises behind another batch."""
    error = error_of(form, data)
    assert error is not None and error.reason == reason, error
    assert {name: getattr(error, name) for name in fields} == fields
    assert type(error) is REASONS[reason].error and (error.position, error.base_offset) == (0, 100)
    with pytest.raises(kafkarec.KafkaRecordError) as caught:
        kafkarec.decode(form.module.to_v2(data), control=True)
    assert caught.value.reason == reason or caught.value.reason in ("record_structure_invalid", "record_length_invalid")
    good = form.from_v2(small())
    second = error_of(form, good + data)
    assert second is not None and (second.reason, second.position, second.record) == (reason, len(good), error.record)
    return error


def split(*, extra=b"", data=None, **fields):
    """The fields and the data of a header-first record without attributes: key "k", value "v", a header; `fields`
    replace the numbers."""
    numbers = {"time": 0, "offset": 0, "key": 1, "value": 1, "count": 1, "name": 1, "text": 1} | fields
    length = numbers.pop("length", None)
    inner = b"".join(builders.varint(number) for number in numbers.values()) + extra
    content = b"kvhx" if data is None else data
    size = len(inner) + len(content) if length is None else length
    return builders.varint(size) + inner, content


SPLIT = {
    "record_length_invalid": {"length": -1},
    "record_structure_invalid": {"extra": b"\0"},
    "key_length_invalid": {"key": 50},
    "value_length_invalid": {"value": 50},
    "header_count_invalid": {"count": -1},
    "header_key_invalid": {"name": -1},
    "header_value_invalid": {"text": 9},
    "records_left_over": {"data": b"kvhx and more", "length": 11},
    "message_truncated": {"length": 6},
}


@pytest.mark.parametrize("reason", SPLIT)
@pytest.mark.parametrize("codec", ["none", "lz4"])
@pytest.mark.parametrize("frames", [1, 2])
def test_wrong_header_first_records_are_refused(reason, codec, frames):
    form = Form(header_first, {"frames": frames})
    good_fields, good_data = split()
    fields, data = split(**SPLIT[reason])
    good = form.from_v2(small(codec))
    parts = [good_fields + fields, good_data + data]
    if attributes_of(good) & 0x200:
        first, second = (builders.compress(codec, part) for part in parts)
        payload = builders.varint(len(first)) + first + second
    else:
        payload = builders.compress(codec, b"".join(parts))
    spoiled = with_payload(good, payload, count=2)
    assert_agree(form, spoiled)
    record = None if reason == "records_left_over" else 1
    refused(form, spoiled, reason, record=record)
    check = None
    try:
        header_first.offsets(spoiled)
    except kafkarec.KafkaRecordError as error:
        check = error.reason
    assert check in (reason, "offsets_out_of_order")


@each_form
def test_wrong_counts_varints_and_codecs(form):
    good = form.from_v2(small())
    _, payload = header_of(good)
    refused(form, with_payload(good, payload, count=-1), "record_count_negative")
    if form.header_first:  # keys are read as fields, or fields as keys
        for count, call in itertools.product((-1, 1, 3, 2**31 - 1), readers_of(form)):
            with pytest.raises(kafkarec.InvalidRecordError):
                call(with_payload(good, payload, count=count))
    else:
        refused(form, with_payload(good, payload, count=1), "records_left_over")
        refused(form, with_payload(good, payload, count=3), "records_missing", expected=3, found=2)
    refused(form, with_payload(good, b"\x80" * 5 + payload, count=3), "varint_too_long")
    refused(form, with_payload(good, payload, attributes=attributes_of(good) | 7), "unsupported_codec", found=7)
    refused(form, with_payload(good, payload, attributes=attributes_of(good) | 1), "payload_corrupt")
    other = with_payload(good, payload, attributes=attributes_of(good) ^ 0x100)
    refused(form, other, "unsupported_magic", found=3)


@each_form
def test_header_varints_that_are_cut_or_too_long(form):
    good = form.from_v2(small())
    for trail, reason in (
        (b"\x80" * 5 + bytes(2), "varint_too_long"),
        (b"\0" + b"\x80" * 10 + b"\0", "varint_too_long"),
        (b"\0\0" + b"\xff" * 10, "varint_too_long"),
        (b"\x80\x80\x80", "message_truncated"),
        (b"\0\0\x80", "message_truncated"),
    ):
        header = good[:8] + struct.pack(">i", 41 + len(trail) - 12) + good[12:41]
        refused(form, with_crc(header + trail), reason)
    surplus = bytearray(
        good[:41] + b"\x80\x80\x80\x80\x70" + good[42:]
    )  # bits that do not fit are dropped, as in Kafka
    surplus[8:12] = struct.pack(">i", len(surplus) - 12)
    assert form.module.decode(with_crc(bytes(surplus))).batches.column("last_offset") == [100]


@each_form
def test_frames_are_checked_in_the_order_of_magic_2(form):
    good = form.from_v2(small())

    def with_length(length):
        return good[:8] + struct.pack(">i", length) + good[12:]

    for data, reason, sides in (
        (with_length(13), "size_too_small", (14, 13)),
        (with_length(-1), "size_too_small", (14, -1)),
        (with_length(2**31 - 5), "size_overflow", (2**31 - 13, 2**31 - 5)),
        (with_length(31), "batch_too_small", (44, 43)),
        (good[:16] + b"\x04" + good[17:], "unsupported_magic", (None, 4)),
        (good[:16] + b"\xff" + good[17:], "unsupported_magic", (None, -1)),
    ):
        error = error_of(form, data)
        assert error is not None and (error.reason, error.expected, error.found) == (reason, *sides)
    assert error_of(form, with_length(2**31 - 13)).reason == "length_beyond_end"
    assert error_of(form, good[:-1] + b"?", check_crcs=False) is None


@pytest.mark.parametrize("form", [form for form in FORMS if form.header_first or not form.options], ids=str)
def test_a_missing_library_is_named(form, monkeypatch):
    """v3 with attributes is not here: its payload is that of magic 2, which the engine decompresses."""
    made = form.from_v2(small("lz4"))

    def missing(*_):
        raise codecs.MissingCodec("lz4", "lz4")

    monkeypatch.setattr(codecs, "decompress", missing)
    with pytest.raises(kafkarec.MissingCodecError, match="pip install lz4"):
        form.module.decode(made)


# ---- bombs


@pytest.mark.parametrize("codec", CODECS[1:])
@each_form
def test_bombs_stop_at_the_limit(form, codec):
    good = form.from_v2(small(codec))
    bits = attributes_of(good)
    record = bytes.fromhex("0a 00 00 01 01 00" if bits & 0x80 else "0c 00 00 00 01 01 00")  # valid, in 30 MiB of them
    packed = codecs.compress(codecs.BY_NAME[codec].id, record * (5 << 20))
    payloads = [(packed, 2**31 - 1)]
    if bits & 0x200:
        little = codecs.compress(codecs.BY_NAME[codec].id, builders.sized(builders.record_body()[1:]))
        payloads = [(builders.varint(len(front)) + front + packed, count) for front, count in ((little, 1), *payloads)]
    for payload, count in payloads:
        spoiled = with_payload(good, payload, count=count)
        for call in readers_of(form):
            if call is form.module.to_v2 and form.module is v3 and form.options:
                continue  # it copies the payload
            if call is header_first.offsets and count == 1:
                continue  # it does not decompress the second frame
            with pytest.raises(kafkarec.LimitExceededError, match="max_decompressed_bytes=1000000") as caught:
                call(spoiled, max_decompressed_bytes=1_000_000)
            assert caught.value.reason == "limit_exceeded"
    with pytest.raises(kafkarec.LimitExceededError):
        form.from_v2(
            builders.batch(payload=packed, codec=codec, count=1), compression="none", max_decompressed_bytes=99
        )
