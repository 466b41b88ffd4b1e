"""The frame of a compressed payload, byte by byte: headers, block sizes and checksums.


    gzip    1f 8b | method | flags | mtime 4 | xfl | os | ... deflate data ... | crc32 4 LE | size 4 LE      RFC 1952
    snappy  82 "SNAPPY" 00 | version 4 | compatible 4 | (size 4 BE | raw block)*                     snappy-java
    lz4     04 22 4d 18 | FLG | BD | [content size 8] | HC | (size 4 LE | block | [checksum 4])* | 0 4 | [checksum 4]
    zstd    28 b5 2f fd | descriptor | [window] | [dictionary] | [content size] | (header 3 LE | block)* | [checksum 4]

This module only describes the frame; whether the payload is valid is decided by `kafkarec.codecs`. It stops where a
frame is not of the usual kind, and the rest is one span.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkarec.format.enums import CODEC_NAMES
from kafkarec.support.text_table import counted

from .spans import SKIPPED, SpanWriter, UnreadableField

_OS = {0: "FAT", 3: "Unix", 11: "NTFS", 255: "unknown"}
_MOST_BLOCKS = 64  # shown one by one; a 100 MB payload has thousands


def walk(writer: SpanWriter, codec: int, inside: int | None) -> None:
    """Writes the spans of the payload up to the writer's stop. `inside`: its decompressed size, None if not known."""
    size, first = writer.left, len(writer.spans)
    try:
        if codec in _WALKS:
            _WALKS[codec](writer, inside)
        else:
            writer.payload("payload", size)
    except UnreadableField:
        writer.unread(writer.stop, "payload", "the frame cannot be read from here on")
    if writer.left:
        writer.unread(writer.stop, "payload", "bytes after the frame")
    if len(writer.spans) == first:
        writer.add_span(0, "payload")
    span = writer.spans[first]
    description = CODEC_NAMES[codec]
    description += (
        f": {size} bytes" if inside is None else f": {size} bytes, {inside} decompressed" + _ratio(size, inside)
    )
    writer.spans[first] = span._replace(note="\n".join(filter(None, (description, span.note))))


def _ratio(size: int, inside: int) -> str:
    return f" ({inside / size:.2f} to 1)" if size else ""


def _magic(writer: SpanWriter, magic: bytes, name: str) -> None:
    if writer.left < len(magic) or bytes(writer.data[writer.at : writer.at + len(magic)]) != magic:
        raise UnreadableField("payload_corrupt")
    writer.add_span(len(magic), f"{name}.magic", magic.hex(" "))


def _hex(width: int) -> Callable[[int], str]:
    return lambda value: f"0x{value:0{width}x}"


def _little(writer: SpanWriter, path: str, size: int, note: str = "") -> int:
    return writer.number(path, size, note, signed=False, order="little")


def _skipped_blocks(writer: SpanWriter, name: str, end: int, count: int) -> None:
    note = counted(count, "more block")
    writer.add_span(end - writer.at, f"{name}.blocks", None, note, SKIPPED)


def _gzip(writer: SpanWriter, inside: int | None) -> None:
    _magic(writer, b"\x1f\x8b", "gzip")
    writer.number("gzip.method", 1, lambda v: "deflate" if v == 8 else "unknown", signed=False)
    flags = writer.number("gzip.flags", 1, signed=False, show=_hex(2))
    _little(writer, "gzip.mtime", 4)
    writer.number("gzip.extra_flags", 1, signed=False)
    writer.number("gzip.os", 1, lambda v: _OS.get(v, ""), signed=False)
    # The end of the deflate data is known only by inflating. With one member, the last eight bytes are its trailer.
    tail = writer.data[writer.stop - 4 : writer.stop]
    one_member = inside is not None and writer.left >= 8 and int.from_bytes(tail, "little") == inside & 0xFFFFFFFF
    note = "after optional header fields" if flags & 0x1E else ""
    writer.payload("gzip.deflate", writer.left - 8 if one_member else writer.left, note)
    if one_member:
        writer.number("gzip.crc32", 4, "of the decompressed bytes", signed=False, order="little", show=_hex(8))
        _little(writer, "gzip.size", 4, "of the decompressed bytes")


def _snappy(writer: SpanWriter, inside: int | None) -> None:
    if writer.left < 16 or bytes(writer.data[writer.at : writer.at + 8]) != b"\x82SNAPPY\x00":
        if writer.left:
            writer.payload("snappy.block", writer.left, "one raw block without the xerial framing")
        return
    _magic(writer, b"\x82SNAPPY\x00", "snappy")
    writer.number("snappy.version", 4, "not checked by Kafka")
    writer.number("snappy.compatible_version", 4, "not checked by Kafka")
    index = 0
    while writer.left >= 4:
        if index == _MOST_BLOCKS:
            end, count = writer.at, 0
            while writer.stop - end >= 4:
                size = int.from_bytes(writer.data[end : end + 4], "big")
                if size > writer.stop - end - 4:
                    break
                end, count = end + 4 + size, count + 1
            _skipped_blocks(writer, "snappy", end, count)
            if not count:
                raise UnreadableField("payload_corrupt")
        else:
            size = int.from_bytes(writer.data[writer.at : writer.at + 4], "big")
            if size > writer.left - 4:
                raise UnreadableField("payload_corrupt")
            writer.number(f"snappy.chunks[{index}].size", 4)
            writer.payload(f"snappy.chunks[{index}].block", size)
            index += 1


def _lz4(writer: SpanWriter, inside: int | None) -> None:
    _magic(writer, b"\x04\x22\x4d\x18", "lz4")
    flags = writer.number("lz4.flags", 1, _lz4_flags, signed=False, show=_hex(2))
    writer.number("lz4.block_descriptor", 1, _lz4_block_size, signed=False, show=_hex(2))
    if flags & 8:
        _little(writer, "lz4.content_size", 8, "not checked by Kafka")
    writer.number("lz4.header_checksum", 1, "of the descriptor", signed=False, show=_hex(2))
    checksum = 4 if flags & 0x10 else 0
    index = 0
    while True:
        stored = int.from_bytes(writer.data[writer.at : writer.at + 4], "little") if writer.left >= 4 else 0
        length = stored & 0x7FFFFFFF
        if writer.left < 4 or length + checksum > writer.left - 4:
            raise UnreadableField("payload_corrupt")
        if not length:
            break
        if index < _MOST_BLOCKS:
            kind = "stored uncompressed" if stored >> 31 else "compressed"
            path = f"lz4.blocks[{index}]"
            writer.number(f"{path}.size", 4, f"{length} bytes, {kind}", signed=False, order="little", show=_hex(8))
            writer.payload(f"{path}.data", length)
            if checksum:
                writer.number(f"{path}.checksum", 4, signed=False, order="little", show=_hex(8))
        else:
            writer.add_span(4 + length + checksum, f"lz4.blocks[{index}]", None, "", SKIPPED)
        index += 1
    _little(writer, "lz4.end_mark", 4)
    if flags & 4:
        writer.number("lz4.content_checksum", 4, "not verified by Kafka", signed=False, order="little", show=_hex(8))


_LZ4_FLAGS = ((0x10, "block checksums"), (8, "content size"), (4, "content checksum"))


def _lz4_flags(value: int) -> str:
    description = [
        f"version {value >> 6}",
        "independent blocks" if value & 0x20 else "dependent blocks: refused by Kafka",
        *(name for bit, name in _LZ4_FLAGS if value & bit),
        *(["dictionary or reserved bit: refused by Kafka"] if value & 3 else []),
    ]
    return ", ".join(description)


def _lz4_block_size(value: int) -> str:
    code = value >> 4 & 7
    return f"blocks of {1 << 2 * code - 2} KiB at most" if 4 <= code <= 7 and not value & 0x8F else "no such block size"


def _zstd(writer: SpanWriter, inside: int | None) -> None:
    if not writer.left:
        return
    _magic(writer, b"\x28\xb5\x2f\xfd", "zstd")
    flags = writer.number("zstd.descriptor", 1, _zstd_flags, signed=False, show=_hex(2))
    single = flags & 0x20
    if not single:
        writer.number("zstd.window", 1, _zstd_window, signed=False, show=_hex(2))
    dictionary = (0, 1, 2, 4)[flags & 3]
    if dictionary:
        _little(writer, "zstd.dictionary_id", dictionary)
    size = (1 if single else 0, 2, 4, 8)[flags >> 6]
    if size:
        _little(writer, "zstd.content_size", size, "plus 256" if size == 2 else "")
    index, last = 0, 0
    while not last:
        if writer.left < 3:
            raise UnreadableField("payload_corrupt")
        header = int.from_bytes(writer.data[writer.at : writer.at + 3], "little")
        last, kind, length = header & 1, header >> 1 & 3, header >> 3
        stored = 1 if kind == 1 else length
        if kind == 3 or stored > writer.left - 3:
            raise UnreadableField("payload_corrupt")
        if index < _MOST_BLOCKS:
            names = ("raw", "one byte repeated", "compressed")
            note = f"{names[kind]}, {length} bytes" + (", the last one" if last else "")
            writer.number(f"zstd.blocks[{index}].header", 3, note, signed=False, order="little", show=_hex(6))
            writer.payload(f"zstd.blocks[{index}].data", stored)
        else:
            writer.add_span(3 + stored, f"zstd.blocks[{index}]", None, "", SKIPPED)
        index += 1
    if flags & 4:
        writer.number("zstd.checksum", 4, "XXH64 of the content, low half", signed=False, order="little", show=_hex(8))


def _zstd_flags(value: int) -> str:
    parts = [name for bit, name in ((0x20, "single segment"), (4, "content checksum")) if value & bit]
    parts.append("content size" if value >> 6 or value & 0x20 else "no content size, as the Java producer streams it")
    return ", ".join(parts)


def _zstd_window(value: int) -> str:
    window = 1 << 10 + (value >> 3)
    return f"window of {window + (window >> 3) * (value & 7)} bytes"


_WALKS: dict[int, Callable[[SpanWriter, int | None], None]] = {1: _gzip, 2: _snappy, 3: _lz4, 4: _zstd}
