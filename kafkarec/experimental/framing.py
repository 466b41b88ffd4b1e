"""Batches of magic 3, for `v3` and `header_first`: frames, headers, checksums, damage, conversion from and to magic 2.

    offset  bytes  field
         0      8  base offset
         8      4  batch length             bytes after this field
        12      4  partition leader epoch
        16      1  magic                    3
        17      4  crc                      CRC-32C of byte 21 to the end
        21      2  attributes               bits 0-6 as in magic 2; 7 to 9 below
        23      8  producer id
        31      2  producer epoch
        33      4  base sequence
        37      4  record count
        41   1- 5  last offset delta        varint
             1-10  base timestamp           varlong
             1-10  max timestamp            varlong: less the base timestamp; wraps around in 64 bits
                   records                  compressed as in magic 2

Varints are zig-zag, as in records of magic 2. The first 21 bytes are those of magic 2.

Records are rewritten from and to magic 2 (`kafkarec._verbs`), which the engine then reads or has written: so all
columns, options, nulls and errors of records are those of magic 2. Positions are those of the magic 3 bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Any, NamedTuple

from kafkarec import codecs
from kafkarec._verbs import read_batch_header, rewrite_records
from kafkarec.damage import error
from kafkarec.errors import KafkaRecordError
from kafkarec.format.checksum import crc32c
from kafkarec.format.enums import Compression
from kafkarec.format.java_integers import BadVarint, read_signed, unsigned_varint, wrapped
from kafkarec.format.layout import (
    BATCH_MAGIC,
    CODEC_MASK,
    CONTROL,
    LATEST_CODEC,
    LOG_OVERHEAD,
    MAX_BATCH_LENGTH,
    START,
    V2,
    V2_AT,
    V2Header,
)
from kafkarec.read.decode_options import NO_CHECKS, checked_bytes, checked_limit, request
from kafkarec.read.passes import as_columns
from kafkarec.tables.records import PassResult, RecordColumns, join_results
from kafkarec.write.encoding import encode as encode_v2

MAGIC = 3
NO_ATTRIBUTES, HEADER_FIRST, TWO_FRAMES = 0x80, 0x100, 0x200
"""Attribute bits 7 (ignoreMessageAttributes), 8 and 9."""

_CHECKED = Struct(">hqhii")
_CHECKED_FROM = V2_AT.attributes


class WholeBatch(NamedTuple):
    """A whole batch: where it begins in the input, its bytes, its header, and the bytes behind that."""

    position: int
    data: memoryview
    header: V2Header
    payload: memoryview

    @property
    def end(self) -> int:
        return self.position + len(self.data)

    @property
    def fault_fields(self) -> dict[str, Any]:
        """The arguments of damage.error that are about the batch."""
        return {"position": self.position, "base_offset": self.header.base_offset, "next_position": self.end}

    @property
    def codec(self) -> int:
        """UnsupportedCompressionError if there is none with this id."""
        codec = self.header.attributes & CODEC_MASK
        if codec > LATEST_CODEC:
            raise self.error("unsupported_codec", expected=LATEST_CODEC, found=codec)
        return codec

    def error(self, reason: str, **sides: Any) -> KafkaRecordError:
        """The error for this batch; sides: expected, found, record, detail."""
        return error(reason, self.fault_fields | sides)


def batch_at(view: memoryview, at: int, magic: int, check_crc: bool) -> WholeBatch:
    """The batch of this magic at byte `at`. Raises what decode raises for magic 2, with the checks in its order, and
    length_beyond_end if the input ends before its end."""
    end, payload, header = read_batch_header(magic, view, at, check_crc)
    return WholeBatch(at, view[at:end], V2Header._make(header), view[payload:end])


def whole_batches(view: memoryview, magic: int, check_crcs: bool = True) -> Iterator[WholeBatch]:
    """Every batch of a buffer that ends with a whole one."""
    at = 0
    while at < len(view):
        batch = batch_at(view, at, magic, check_crcs)
        yield batch
        at = batch.end


def signed_varint(number: int) -> bytes:
    """The shortest zig-zag varint or varlong."""
    return unsigned_varint((number << 1 ^ number >> 63) & 0xFFFFFFFFFFFFFFFF)


def _v2_batch(batch: WholeBatch, attributes: int, payload: Any) -> bytes:
    """A batch of magic 2 with the fields of the header."""
    fields = V2.pack(*batch.header._replace(attributes=attributes))[_CHECKED_FROM:]
    return _framed(batch, BATCH_MAGIC, b"".join((fields, payload)))


def _framed(batch: WholeBatch, magic: int, checked: bytes) -> bytes:
    length = _CHECKED_FROM - LOG_OVERHEAD + len(checked)
    if length > MAX_BATCH_LENGTH:
        raise batch.error("batch_too_large", expected=MAX_BATCH_LENGTH, found=length)
    start = START.pack(batch.header.base_offset, length, batch.header.partition_leader_epoch, magic)
    return b"".join((start, crc32c(checked).to_bytes(4, "big"), checked))


@contextmanager
def codec_errors(batch: WholeBatch, limit: int) -> Iterator[None]:
    """Raises the errors of codecs as those of the batch."""
    try:
        yield
    except codecs.CodecError as refused:
        raise batch.error(refused.reason, **refused.sides(limit)) from None


def two_frames(batch: WholeBatch) -> tuple[memoryview, memoryview]:
    """The two frames of a header-first batch that has them, as they are stored."""
    payload = batch.payload
    try:
        length, at = read_signed(payload, 0, len(payload))
    except BadVarint:
        length, at = -1, 0
    if not 0 <= length <= len(payload) - at:
        raise batch.error("payload_corrupt", detail=f"first frame of {length} bytes, {len(payload) - at} left")
    return payload[at : at + length], payload[at + length :]


class Format:
    """Magic 3 in one of its two forms.

    header_first   whether the fields of all records are before their keys and values
    frames         of compressed bytes in a header-first batch that is written: 1 or 2
    """

    def __init__(self, header_first: bool, frames: int = 2) -> None:
        if frames not in (1, 2):
            raise ValueError(f"frames {frames!r}: 1 or 2")
        self._header_first, self._frames = header_first, frames
        # the attribute bits that its batches have set, and those that have another meaning than in magic 2: input of
        # magic 2 has none of them
        self._fixed_bits = HEADER_FIRST if header_first else 0
        self._own_bits = NO_ATTRIBUTES | HEADER_FIRST | (TWO_FRAMES if header_first else 0)

    def _payload_parts(self, batch: WholeBatch, codec: int, level: int | None, keep: bool, limit: int) -> Any:
        """(attribute bits, [parts of the payload]) for a batch of magic 2, or None if attributes that are not zero
        would be lost. keep: an attributes byte in each record; limit: of decompressed bytes"""
        bits = 0 if keep else NO_ATTRIBUTES
        has_v2_records = keep and not self._header_first
        if has_v2_records and codec == batch.codec and level is None:
            return bits, [batch.payload]
        with codec_errors(batch, limit):
            records: Any = codecs.decompress(batch.codec, batch.payload, limit)
            if not has_v2_records:
                count, form = batch.header.record_count, (self._header_first, keep)
                records = rewrite_records(records, None, count, True, False, *form, batch.fault_fields)
                if records is None:
                    return None
            if self._header_first and codec and self._frames == 2:
                first, second = (codecs.compress(codec, part, level) for part in records)
                return bits | TWO_FRAMES, [signed_varint(len(first)), first, second]
            return bits, [codecs.compress(codec, b"".join(records) if self._header_first else records, level)]

    # ---- magic 2 -> 3

    def encode(self, source: Any, *, keep_attributes: bool = False, **options: Any) -> bytes:
        """Consecutive batches of magic 3 of records or Arrow columns: those that `kafkarec.encode` makes, converted.

        source, options: as for `kafkarec.encode`, but `magic`. A batch has the records that it would have in magic 2,
            so it may be smaller than `batch_size`
        keep_attributes: True writes bit 7 = 0: each record has an attributes byte, which is 0
        """
        written = encode_v2(source, magic=2, **options)
        codec = options.get("compression")
        given = {} if codec in (None, "keep") else {"compression": codec, "level": options.get("level")}
        return self.from_v2(written, **given, keep_attributes=keep_attributes, max_decompressed_bytes=1 << 62)

    def from_v2(
        self,
        data: Any,
        *,
        compression: Compression | str | None = None,
        level: int | None = None,
        keep_attributes: bool | None = None,
        max_decompressed_bytes: int = 128 << 20,
    ) -> bytes:
        """Batches of magic 2 as batches of magic 3.

        data: any buffer of whole batches of magic 2. A checksum or record that `kafkarec.decode` refuses is refused, as
            are the attribute bits from 7 on that this form uses and magic 2 does not: KafkaRecordError
        compression: the name of a codec (`Compression`); None: every batch keeps its codec. Markers and batches without
            records keep theirs
        level: of `compression`; None is Kafka's default
        keep_attributes: False drops the attributes byte of each record (bit 7 = 1) and refuses one that is not zero.
            True keeps it; in `v3` without a change of the codec or a level the payload is copied, and its records are
            not looked at. None: False for batches whose attributes are all zero, True for the others
        max_decompressed_bytes: cap per compressed payload, LimitExceededError above it
        """
        codec = None if compression is None else Compression.of(compression)
        if codec is None and level is not None:
            raise ValueError("level needs compression=, the codec of the level")
        if codec is not None:
            codecs.checked_level(codec, level)
        if keep_attributes not in (None, True, False):
            raise ValueError(f"keep_attributes {keep_attributes!r}: True, False, or None")
        limit, batches = checked_limit(max_decompressed_bytes), whole_batches(checked_bytes(data), BATCH_MAGIC)
        return b"".join(self._from_v2(batch, codec, level, keep_attributes, limit) for batch in batches)

    def _from_v2(
        self, batch: WholeBatch, new_codec: int | None, level: int | None, keep_attributes: bool | None, limit: int
    ) -> bytes:
        header = batch.header
        if header.attributes & self._own_bits:
            detail = f"magic 3 has another meaning for attribute bits {self._own_bits:#x}"
            raise batch.error("batch_not_rewritable", found=header.attributes, detail=detail)
        old = batch.codec
        plain = not header.record_count or (not old and header.attributes & CONTROL)  # as convert
        codec = old if new_codec is None or plain else new_codec
        for keep in (False, True) if keep_attributes is None else (keep_attributes,):
            bits, parts = 0 if keep else NO_ATTRIBUTES, [batch.payload]
            if header.record_count:
                written = self._payload_parts(batch, codec, level if codec else None, keep, limit)
                if written is None:
                    continue
                bits, parts = written
            attributes = header.attributes & ~CODEC_MASK | codec | bits | self._fixed_bits
            fields = _CHECKED.pack(
                attributes, header.producer_id, header.producer_epoch, header.base_sequence, header.record_count
            )
            times = header.base_timestamp, wrapped(header.max_timestamp - header.base_timestamp, 64)
            trail = map(signed_varint, (header.last_offset_delta, *times))
            return _framed(batch, MAGIC, b"".join((fields, *trail, *parts)))
        detail = "a record has attributes that are not zero; keep_attributes=True keeps them"
        raise batch.error("batch_not_rewritable", detail=detail)

    # ---- magic 3 -> 2

    def to_v2(self, data: Any, *, max_decompressed_bytes: int = 128 << 20) -> bytes:
        """Batches of magic 3 as batches of magic 2, with their codecs at Kafka's default level.

        Without a codec the result is the batch that `from_v2` got, if its records' lengths were as short as possible;
        so it is for `v3` with bit 7 = 0, whose payload is copied.
        """
        limit = checked_limit(max_decompressed_bytes)
        return b"".join(self._as_v2(one, limit, compressed=True) for one in whole_batches(checked_bytes(data), MAGIC))

    def check_form(self, batch: WholeBatch) -> None:
        """Refuses batches of the other form."""
        if batch.header.attributes & HEADER_FIRST != self._fixed_bits:
            detail = "attribute bit 8 is set: kafkarec.experimental.header_first reads it"
            if self._header_first:
                detail = "attribute bit 8 is not set: kafkarec.experimental.v3 reads it"
            raise batch.error("unsupported_magic", found=MAGIC, detail=detail)

    def _as_v2(self, batch: WholeBatch, limit: int, compressed: bool) -> bytes:
        self.check_form(batch)
        header, attributes = batch.header, batch.header.attributes & ~self._own_bits
        has_v2_payload = not self._header_first and not header.attributes & NO_ATTRIBUTES
        if not header.record_count or has_v2_payload:
            return _v2_batch(batch, attributes, batch.payload)
        if header.record_count < 0:
            raise batch.error("record_count_negative", expected=0, found=header.record_count)
        codec, data = batch.codec, None
        form = not header.attributes & NO_ATTRIBUTES, self._header_first
        with codec_errors(batch, limit):
            if self._header_first and header.attributes & TWO_FRAMES:
                first, second = two_frames(batch)
                fields = codecs.decompress(codec, first, limit)
                data = codecs.decompress(codec, second, limit - len(fields))
            else:
                fields = codecs.decompress(codec, batch.payload, limit)
        records: Any = rewrite_records(fields, data, header.record_count, *form, False, True, batch.fault_fields)
        if compressed and codec:
            with codec_errors(batch, limit):
                records = codecs.compress(codec, records)
        return _v2_batch(batch, attributes if compressed else attributes & ~CODEC_MASK, records)

    # ---- decode

    def decode(
        self,
        data: Any,
        *,
        columns: Iterable[str] | None = None,
        control: bool = False,
        check_crcs: bool | str = True,
        max_decompressed_bytes: int = 128 << 20,
        timestamp_unit: str = "ms",
        header_keys: str = "utf8",
    ) -> RecordColumns:
        """Decodes batches of magic 3 into the columns that `kafkarec.decode` makes of magic 2.

        data: any buffer of whole batches. Those of another magic or of the other form are refused:
            UnsupportedMagicError
        columns, control, check_crcs, max_decompressed_bytes, timestamp_unit, header_keys: as for `kafkarec.decode`

        The batch table has the fields of the magic 3 bytes. For read_committed, views and to skip damaged records
        decode `to_v2(data)`.
        """
        asked = request(
            columns=columns,
            control=control,
            check_crcs=check_crcs,
            max_decompressed_bytes=max_decompressed_bytes,
            timestamp_unit=timestamp_unit,
            header_keys=header_keys,
        )
        options, parts = asked.options, list[PassResult]()
        decoder = asked.with_options(check_crc=NO_CHECKS).decoder()
        for batch in whole_batches(checked_bytes(data), MAGIC, options.check_crc != NO_CHECKS):
            decoder.feed(self._as_v2(batch, options.limit, compressed=False))
            try:
                is_full = decoder.run()
            except KafkaRecordError as refusal:
                sides = {name: getattr(refusal, name) for name in ("expected", "found", "record")}
                raise batch.error(str(refusal.reason), **sides, detail=refusal.cause) from None
            decoder.set_last_frame(batch.position, len(batch.data), MAGIC, batch.header.crc, batch.header.attributes)
            if is_full:
                parts.append(decoder.take())
        parts.append(decoder.take())
        return as_columns(asked, join_results(parts))
