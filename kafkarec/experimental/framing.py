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

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Any, NamedTuple

from kafkarec import codecs
from kafkarec.damage import damaged, error
from kafkarec.errors import KafkaRecordError
from kafkarec.format.checksum import crc32c
from kafkarec.format.enums import Compression
from kafkarec.format.java_integers import wrapped
from kafkarec.format.layout import (
    BATCH_MAGIC,
    CODEC_MASK,
    CONTROL,
    LATEST_CODEC,
    LOG_OVERHEAD,
    MAX_BATCH_LENGTH,
    MESSAGE_OVERHEAD,
    START,
    UP_TO_MAGIC,
    V2,
    V2_AT,
    V2_OVERHEAD,
    V2Header,
    start_of,
    v2_header,
)
from kafkarec.format.varints import VARLONG_BYTES, BadVarint, read_signed, unsigned_varint
from kafkarec.read.decode_options import NO_CHECKS, checked_limit, request
from kafkarec.tables.records import PassResult, RecordColumns

MAGIC = 3
NO_ATTRIBUTES, HEADER_FIRST, TWO_FRAMES = 0x80, 0x100, 0x200
"""Attribute bits 7 (ignoreMessageAttributes), 8 and 9."""

_FIXED = Struct(">qiibIhqhii")
_CHECKED = Struct(">hqhii")
_CHECKED_FROM = V2_AT.attributes
_LEAST_SIZES = {BATCH_MAGIC: V2_OVERHEAD, MAGIC: _FIXED.size + 3}
_NOT_SKIPPED = {"missing_codec", "out_of_memory"}
_CRC_BUDGET = 8  # bytes of CRC work of all searches, per byte of input
_BEGINNING = re.compile(rb"(?s)(?=[\x00-\x7f].{7}[\x00-\x7f].{7}\x03)")


class WholeBatch(NamedTuple):
    """A whole batch: where it begins in the input, and its bytes."""

    position: int
    base_offset: int
    data: memoryview

    @property
    def end(self) -> int:
        return self.position + len(self.data)

    @property
    def place(self) -> dict[str, Any]:
        """The arguments of damage.error that are about the batch."""
        return {"position": self.position, "base_offset": self.base_offset, "next_position": self.end}

    def error(self, reason: str, **sides: Any) -> KafkaRecordError:
        """The error for this batch; sides: expected, found, record, detail."""
        return error(reason, self.place | sides)


def view_of(data: Any) -> memoryview:
    """The bytes of any buffer."""
    view = memoryview(data)
    return view.cast("B") if view.nbytes else memoryview(b"")


def frame_at(view: memoryview, at: int, magic: int, check_crc: bool) -> WholeBatch | None:
    """The batch of this magic at byte `at`; None if the input ends before its end. Raises what decode raises for
    magic 2, with the checks in its order."""
    left = len(view) - at
    if left < LOG_OVERHEAD:
        return None
    base_offset = int.from_bytes(view[at : at + 8], "big", signed=True)
    length = int.from_bytes(view[at + 8 : at + LOG_OVERHEAD], "big", signed=True)
    place: dict[str, Any] = {"position": at, "base_offset": base_offset}
    if length < MESSAGE_OVERHEAD[0]:
        raise error("size_too_small", {**place, "expected": MESSAGE_OVERHEAD[0], "found": length})
    if length > MAX_BATCH_LENGTH:
        raise error("size_overflow", {**place, "expected": MAX_BATCH_LENGTH, "found": length})
    if left < UP_TO_MAGIC:
        return None
    found = start_of(view, at).magic
    if found != magic:
        raise error("unsupported_magic", {**place, "found": found, "detail": f"magic {magic} is needed here"})
    if left < LOG_OVERHEAD + length:
        return None
    frame = WholeBatch(at, base_offset, view[at : at + LOG_OVERHEAD + length])
    if len(frame.data) < _LEAST_SIZES[magic]:
        raise frame.error("batch_too_small", expected=_LEAST_SIZES[magic], found=len(frame.data))
    if check_crc:
        stored = int.from_bytes(frame.data[V2_AT.crc : _CHECKED_FROM], "big")
        computed = crc32c(frame.data[_CHECKED_FROM:])
        if stored != computed:
            raise frame.error("crc_mismatch", expected=stored, found=computed)
    return frame


def whole_frames(view: memoryview, magic: int) -> Iterator[WholeBatch]:
    """Every batch of a buffer that ends with a whole one; length_beyond_end if it does not."""
    at = 0
    while at < len(view):
        frame = frame_at(view, at, magic, True)
        if frame is None:
            left = len(view) - at
            claimed = int.from_bytes(view[at + 8 : at + LOG_OVERHEAD], "big") if left >= LOG_OVERHEAD else 0
            raise error("length_beyond_end", {"position": at, "expected": LOG_OVERHEAD + claimed, "found": left})
        yield frame
        at = frame.end


def read_header(frame: WholeBatch) -> tuple[V2Header, memoryview]:
    """The header of a batch of magic 3, and its payload."""
    data = frame.data
    *start, producer, producer_epoch, sequence, count = _FIXED.unpack_from(data)
    try:
        last_delta, at = read_signed(data, _FIXED.size, len(data))
        base_timestamp, at = read_signed(data, at, len(data), VARLONG_BYTES)
        max_delta, at = read_signed(data, at, len(data), VARLONG_BYTES)
    except BadVarint as bad:
        raise frame.error("message_truncated" if bad.cut else "varint_too_long", expected=1, found=0) from None
    times = base_timestamp, wrapped(base_timestamp + max_delta, 64)
    fields = *start, last_delta, *times, producer, producer_epoch, sequence, count
    return V2Header._make(fields), data[at:]


def signed_varint(number: int) -> bytes:
    """The shortest zig-zag varint or varlong."""
    return unsigned_varint((number << 1 ^ number >> 63) & 0xFFFFFFFFFFFFFFFF)


def _v3_batch(frame: WholeBatch, header: V2Header, attributes: int, payload: list[Any]) -> bytes:
    """A batch of magic 3 with the fields of `header`."""
    fields = _CHECKED.pack(
        attributes, header.producer_id, header.producer_epoch, header.base_sequence, header.record_count
    )
    times = header.base_timestamp, wrapped(header.max_timestamp - header.base_timestamp, 64)
    trail = map(signed_varint, (header.last_offset_delta, *times))
    return _framed(frame, header, MAGIC, b"".join((fields, *trail, *payload)))


def _v2_batch(frame: WholeBatch, header: V2Header, attributes: int, payload: Any) -> bytes:
    """A batch of magic 2 with the fields of `header`."""
    fields = V2.pack(*header._replace(attributes=attributes))[_CHECKED_FROM:]
    return _framed(frame, header, BATCH_MAGIC, b"".join((fields, payload)))


def _framed(frame: WholeBatch, header: V2Header, magic: int, checked: bytes) -> bytes:
    length = _CHECKED_FROM - LOG_OVERHEAD + len(checked)
    if length > MAX_BATCH_LENGTH:
        raise frame.error("batch_too_large", expected=MAX_BATCH_LENGTH, found=length)
    start = START.pack(header.base_offset, length, header.partition_leader_epoch, magic)
    return b"".join((start, crc32c(checked).to_bytes(4, "big"), checked))


@contextmanager
def codec_errors(frame: WholeBatch, limit: int) -> Iterator[None]:
    """Raises the errors of codecs as those of the batch."""
    try:
        yield
    except codecs.MissingCodec as missing:
        raise frame.error("missing_codec", detail=str(missing)) from None
    except codecs.LimitReached as reached:
        detail = f"max_decompressed_bytes={limit} can be raised ({reached.detail})"
        raise frame.error("limit_exceeded", expected=limit, found=limit, detail=detail) from None
    except codecs.CodecError as wrong:
        raise frame.error("payload_corrupt", detail=wrong.detail) from None


def codec_of(frame: WholeBatch, header: V2Header) -> int:
    codec = header.attributes & CODEC_MASK
    if codec > LATEST_CODEC:
        raise frame.error("unsupported_codec", expected=LATEST_CODEC, found=codec)
    return codec


class Options(NamedTuple):
    """What a batch is written with: the codec or None for its own, its level, whether record attributes are kept or
    None if one is not zero, the limit of decompressed bytes, the number of compressed frames."""

    codec: int | None
    level: int | None
    keep_attributes: bool | None
    limit: int
    frames: int = 1

    @classmethod
    def of(
        cls,
        compression: Compression | str | None,
        level: int | None,
        keep_attributes: bool | None,
        max_decompressed_bytes: int,
        frames: int = 1,
    ) -> Options:
        """Checks them: ValueError, TypeError."""
        codec = None if compression is None else int(Compression.of(compression))
        if codec is None and level is not None:
            raise ValueError("level needs compression=, the codec of the level")
        if codec is not None:
            codecs.checked_level(codec, level)
        if keep_attributes not in (None, True, False):
            raise ValueError(f"keep_attributes {keep_attributes!r}: True, False, or None")
        if frames not in (1, 2):
            raise ValueError(f"frames {frames!r}: 1 or 2")
        return cls(codec, level, keep_attributes, checked_limit(max_decompressed_bytes), frames)


class Format(ABC):
    """Magic 3 in one of its two forms.

    fixed_bits   attribute bits that its batches have set
    own_bits     those that have another meaning than in magic 2: input of magic 2 has none of them
    """

    fixed_bits: int
    own_bits: int
    other_form: str

    @abstractmethod
    def written(self, frame: WholeBatch, header: V2Header, payload: memoryview, codec: int, options: Options) -> Any:
        """(attribute bits, [parts of the payload]) for a batch of magic 2, or None if attributes that are not zero
        would be lost. options.keep_attributes is not None."""

    @abstractmethod
    def records(self, frame: WholeBatch, header: V2Header, payload: memoryview, limit: int) -> Any:
        """The uncompressed records in the form of magic 2."""

    def has_v2_payload(self, header: V2Header) -> bool:
        """Whether the payload is that of magic 2."""
        return False

    # ---- magic 2 -> 3

    def from_v2(self, data: Any, options: Options) -> bytes:
        return b"".join(self._from_v2(frame, options) for frame in whole_frames(view_of(data), BATCH_MAGIC))

    def _from_v2(self, frame: WholeBatch, options: Options) -> bytes:
        header, payload = v2_header(frame.data), frame.data[V2_OVERHEAD:]
        if header.attributes & self.own_bits:
            detail = f"magic 3 has another meaning for attribute bits {self.own_bits:#x}"
            raise frame.error("batch_not_rewritable", found=header.attributes, detail=detail)
        old = codec_of(frame, header)
        plain = not header.record_count or (not old and header.attributes & CONTROL)  # as convert
        codec = old if options.codec is None or plain else options.codec
        for keep in (False, True) if options.keep_attributes is None else (options.keep_attributes,):
            bits, parts = 0 if keep else NO_ATTRIBUTES, [payload]
            if header.record_count:
                chosen = options._replace(keep_attributes=keep, level=options.level if codec else None)
                written = self.written(frame, header, payload, codec, chosen)
                if written is None:
                    continue
                bits, parts = written
            attributes = header.attributes & ~CODEC_MASK | codec | bits | self.fixed_bits
            return _v3_batch(frame, header, attributes, parts)
        detail = "a record has attributes that are not zero; keep_attributes=True keeps them"
        raise frame.error("batch_not_rewritable", detail=detail)

    # ---- magic 3 -> 2

    def to_v2(self, data: Any, max_decompressed_bytes: int) -> bytes:
        limit = checked_limit(max_decompressed_bytes)
        return b"".join(self._as_v2(one, limit, compressed=True) for one in whole_frames(view_of(data), MAGIC))

    def own_header(self, frame: WholeBatch) -> tuple[V2Header, memoryview]:
        """The header and the payload of a batch of this form."""
        header, payload = read_header(frame)
        if header.attributes & HEADER_FIRST != self.fixed_bits:
            raise frame.error("unsupported_magic", found=MAGIC, detail=self.other_form)
        return header, payload

    def _as_v2(self, frame: WholeBatch, limit: int, compressed: bool) -> bytes:
        header, payload = self.own_header(frame)
        attributes = header.attributes & ~self.own_bits
        if not header.record_count or self.has_v2_payload(header):
            return _v2_batch(frame, header, attributes, payload)
        if header.record_count < 0:
            raise frame.error("record_count_negative", expected=0, found=header.record_count)
        codec = codec_of(frame, header)
        records = self.records(frame, header, payload, limit)
        if compressed and codec:
            with codec_errors(frame, limit):
                records = codecs.compress(codec, records)
        return _v2_batch(frame, header, attributes if compressed else attributes & ~CODEC_MASK, records)

    # ---- decode

    def decode(self, data: Any, *, check_crcs: bool | str, errors: str, **options: Any) -> RecordColumns:
        return _Decoding(self, view_of(data), check_crcs, errors, options).run()


class _Decoding:
    """One call of decode."""

    def __init__(self, form: Format, view: memoryview, check_crcs: bool | str, errors: str, options: Any) -> None:
        self.form, self.view = form, view
        asked = request(check_crcs=check_crcs, errors=errors, **options)
        self.check_crc, self.skip = asked.options.check_crc != NO_CHECKS, asked.skip
        self.request = asked._replace(options=asked.options._replace(check_crc=NO_CHECKS), skip=False)
        self.decoder = self.request.decoder()
        self.chunks: list[Any] = []
        self.tables: list[Any] = []
        self.starts: list[int] = []  # base offsets of the good batches
        self.next_offset: int | None = None
        self.bad: list[tuple[int, int, str, dict[str, Any], int | None, int]] = []
        self.crc_left = len(view) * _CRC_BUDGET + 4096
        self.searched = len(view), -1  # where the last search began, and what it found

    def run(self) -> RecordColumns:
        at, remaining = 0, 0
        while at < len(self.view):
            frame = None
            try:
                frame = frame_at(self.view, at, MAGIC, self.check_crc)
                if frame is not None:
                    self.read(frame)
                    at = frame.end
                    continue
            except KafkaRecordError as refusal:
                if not self.skip or refusal.reason in _NOT_SKIPPED:
                    raise
                fault = {name: getattr(refusal, name) for name in ("base_offset", "expected", "found", "record")}
                fault |= {"position": at, "detail": refusal.cause}
                end = self.stated_end(at, refusal.next_position) if frame is None else frame.end
                at = self.damage(at, end, str(refusal.reason), fault)
                continue
            end = self.search(at + 1) if self.skip else len(self.view)
            if end == len(self.view):
                remaining = end - at
                break
            claimed = LOG_OVERHEAD + int.from_bytes(self.view[at + 8 : at + LOG_OVERHEAD], "big")
            base_offset = int.from_bytes(self.view[at : at + 8], "big", signed=True)
            sides = {"expected": claimed, "found": len(self.view) - at}
            at = self.damage(at, end, "length_beyond_end", {"position": at, "base_offset": base_offset} | sides)
        self.take()
        return self.columns(remaining)

    def read(self, frame: WholeBatch) -> None:
        """Decodes a batch to the columns."""
        header, _ = self.form.own_header(frame)
        self.decoder.feed(self.form._as_v2(frame, self.request.options.limit, compressed=False))
        try:
            full = self.decoder.run()
        except KafkaRecordError as refusal:
            sides = {name: getattr(refusal, name) for name in ("expected", "found", "record")}
            raise frame.error(str(refusal.reason), **sides, detail=refusal.cause) from None
        self.decoder.set_last_frame(frame.position, len(frame.data), MAGIC, header.crc, header.attributes)
        self.starts.append(frame.base_offset)
        self.next_offset = wrapped(frame.base_offset + header.last_offset_delta + 1, 64)
        if full:
            self.take()

    def take(self) -> None:
        chunk, rows = self.decoder.take()
        self.chunks += [] if chunk is None else [chunk]
        self.tables.append(rows)

    def columns(self, remaining: int) -> RecordColumns:
        found = [
            damaged(
                None,
                position,
                length,
                lost_from,
                self.starts[batches] - 1 if batches < len(self.starts) else None,
                reason,
                fault,
            )
            for position, length, reason, fault, lost_from, batches in self.bad
        ]
        return RecordColumns(self.request.layout, PassResult(self.chunks, self.tables, found, remaining))

    # ---- damage

    def damage(self, start: int, end: int, reason: str, fault: dict[str, Any]) -> int:
        self.bad.append((start, end - start, reason, fault, self.next_offset, len(self.starts)))
        return end

    def stated_end(self, at: int, stated: int | None) -> int:
        """The end of the damage at byte `at`: where its length says if a batch or the end is there; otherwise where
        the next batch is found."""
        if stated is not None and (stated == len(self.view) or self.is_batch(stated)):
            return stated
        found = self.search(at + 1)
        return stated if stated is not None and found == len(self.view) else found

    def search(self, at: int) -> int:
        """The position of the first batch with a right checksum from byte `at` on; the end if there is none."""
        start, found = self.searched
        if not start <= at <= found:
            found = self._search(at)
            self.searched = at, found
        return found

    def _search(self, at: int) -> int:
        while (beginning := _BEGINNING.search(self.view, at)) is not None:
            at = beginning.start()
            if self.is_batch(at):
                return at
            at += 1
        return len(self.view)

    def is_batch(self, at: int) -> bool:
        """Whether a batch of magic 3 with plausible fields and a right checksum begins here. All of these checksums
        together are computed for at most 8 bytes per byte of input."""
        try:
            frame = frame_at(self.view, at, MAGIC, False)
            if frame is None or len(frame.data) > self.crc_left:
                return False
            header, _ = read_header(frame)
        except KafkaRecordError:
            return False
        if header.attributes >> 10 or header.attributes & CODEC_MASK > LATEST_CODEC or header.record_count < 0:
            return False
        self.crc_left -= len(frame.data)
        return crc32c(frame.data[_CHECKED_FROM:]) == header.crc
