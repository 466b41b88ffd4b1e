"""The frame of a compressed payload, byte by byte: what stands around the compressed data.

    gzip    1f 8b | method | flags | mtime 4 | xfl | os | ... deflate data ... | crc32 4 LE | size 4 LE      RFC 1952
    snappy  82 "SNAPPY" 00 | version 4 | compatible 4 | (size 4 BE | raw block)*                     snappy-java
    lz4     04 22 4d 18 | FLG | BD | [content size 8] | HC | (size 4 LE | block | [checksum 4])* | 0 4 | [checksum 4]
    zstd    28 b5 2f fd | descriptor | [window] | [dictionary] | [content size] | (header 3 LE | block)* | [checksum 4]

This walk describes; whether the payload can be read is the codecs' verdict (`kafkarec.codecs`), not this one's. It
stops where a frame is not of the usual kind, and the rest is one span.
"""

from __future__ import annotations

from collections.abc import Callable

from . import value_words
from .spans import SKIPPED, Broken, SpanWriter

_OS = {0: "FAT", 3: "Unix", 11: "NTFS", 255: "unknown"}
_MOST_BLOCKS = 64  # shown one by one; a 100 MB payload has thousands


def walk(pen: SpanWriter, codec: int, inside: int | None) -> None:
    """The payload from the pen to its stop. `inside`: how many bytes it holds, None where that is not known."""
    size, first = pen.left, len(pen.spans)
    try:
        _WALKS[codec](pen, inside)
    except Broken:
        pen.unread(pen.stop, "payload", "the stream's frame goes no further than this")
    if pen.left:
        pen.unread(pen.stop, "payload", "bytes behind the frame")
    if len(pen.spans) == first:
        pen.lay(0, "payload")
    span = pen.spans[first]
    told = value_words.CODECS[codec]
    told += f": {size} bytes" if inside is None else f": {size} bytes hold {inside}" + _ratio(size, inside)
    pen.spans[first] = span._replace(note="\n".join(filter(None, (told, span.note))))


def _ratio(size: int, inside: int) -> str:
    return f" ({inside / size:.2f} to 1)" if size else ""


def _magic(pen: SpanWriter, magic: bytes, name: str) -> None:
    if pen.left < len(magic) or bytes(pen.data[pen.at : pen.at + len(magic)]) != magic:
        raise Broken("payload_corrupt")
    pen.lay(len(magic), f"{name}.magic", magic.hex(" "))


def _hex(width: int) -> Callable[[int], str]:
    return lambda value: f"0x{value:0{width}x}"


def _little(pen: SpanWriter, path: str, size: int, note: str = "") -> int:
    return pen.number(path, size, note, signed=False, order="little")


def _blocks_hidden(pen: SpanWriter, name: str, end: int, count: int) -> None:
    pen.lay(end - pen.at, f"{name}.blocks", None, value_words.plural(count, "more block", "more blocks"), SKIPPED)


def _gzip(pen: SpanWriter, inside: int | None) -> None:
    _magic(pen, b"\x1f\x8b", "gzip")
    pen.number("gzip.method", 1, lambda v: "deflate" if v == 8 else "unknown", signed=False)
    flags = pen.number("gzip.flags", 1, signed=False, show=_hex(2))
    _little(pen, "gzip.mtime", 4)
    pen.number("gzip.extra_flags", 1, signed=False)
    pen.number("gzip.os", 1, lambda v: _OS.get(v, ""), signed=False)
    # Where the deflate data ends only inflating tells. The last eight bytes are the trailer of a stream of one member.
    tail = pen.data[pen.stop - 4 : pen.stop]
    one_member = inside is not None and pen.left >= 8 and int.from_bytes(tail, "little") == inside & 0xFFFFFFFF
    note = "with optional header fields in front" if flags & 0x1E else ""
    pen.payload("gzip.deflate", pen.left - 8 if one_member else pen.left, note)
    if one_member:
        pen.number("gzip.crc32", 4, "of the decompressed bytes", signed=False, order="little", show=_hex(8))
        _little(pen, "gzip.size", 4, "of the decompressed bytes")


def _snappy(pen: SpanWriter, inside: int | None) -> None:
    if pen.left < 16 or bytes(pen.data[pen.at : pen.at + 8]) != b"\x82SNAPPY\x00":
        if pen.left:
            pen.payload("snappy.block", pen.left, "one raw block without the xerial framing")
        return
    _magic(pen, b"\x82SNAPPY\x00", "snappy")
    pen.number("snappy.version", 4, "not looked at")
    pen.number("snappy.compatible_version", 4, "not looked at")
    index = 0
    while pen.left >= 4:
        if index == _MOST_BLOCKS:
            end, count = pen.at, 0
            while pen.stop - end >= 4:
                size = int.from_bytes(pen.data[end : end + 4], "big")
                if size > pen.stop - end - 4:
                    break
                end, count = end + 4 + size, count + 1
            _blocks_hidden(pen, "snappy", end, count)
            if not count:
                raise Broken("payload_corrupt")
        else:
            size = int.from_bytes(pen.data[pen.at : pen.at + 4], "big")
            if size > pen.left - 4:
                raise Broken("payload_corrupt")
            pen.number(f"snappy.chunks[{index}].size", 4)
            pen.payload(f"snappy.chunks[{index}].block", size)
            index += 1


def _lz4(pen: SpanWriter, inside: int | None) -> None:
    _magic(pen, b"\x04\x22\x4d\x18", "lz4")
    flags = pen.number("lz4.flags", 1, _lz4_flags, signed=False, show=_hex(2))
    pen.number("lz4.block_descriptor", 1, _lz4_block_size, signed=False, show=_hex(2))
    if flags & 8:
        _little(pen, "lz4.content_size", 8, "not looked at")
    pen.number("lz4.header_checksum", 1, "of the descriptor", signed=False, show=_hex(2))
    checksum = 4 if flags & 0x10 else 0
    index = 0
    while True:
        stored = int.from_bytes(pen.data[pen.at : pen.at + 4], "little") if pen.left >= 4 else 0
        length = stored & 0x7FFFFFFF
        if pen.left < 4 or length + checksum > pen.left - 4:
            raise Broken("payload_corrupt")
        if not length:
            break
        if index < _MOST_BLOCKS:
            kind = "stored as it is" if stored >> 31 else "compressed"
            path = f"lz4.blocks[{index}]"
            pen.number(f"{path}.size", 4, f"{length} bytes, {kind}", signed=False, order="little", show=_hex(8))
            pen.payload(f"{path}.data", length)
            if checksum:
                pen.number(f"{path}.checksum", 4, signed=False, order="little", show=_hex(8))
        else:
            pen.lay(4 + length + checksum, f"lz4.blocks[{index}]", None, "", SKIPPED)
        index += 1
    _little(pen, "lz4.end_mark", 4)
    if flags & 4:
        pen.number("lz4.content_checksum", 4, "not verified by Kafka", signed=False, order="little", show=_hex(8))


_LZ4_FLAGS = ((0x10, "block checksums"), (8, "content size"), (4, "content checksum"))


def _lz4_flags(value: int) -> str:
    told = [
        f"version {value >> 6}",
        "independent blocks" if value & 0x20 else "dependent blocks: refused by Kafka",
        *(name for bit, name in _LZ4_FLAGS if value & bit),
        *(["dictionary or reserved bit: refused by Kafka"] if value & 3 else []),
    ]
    return ", ".join(told)


def _lz4_block_size(value: int) -> str:
    code = value >> 4 & 7
    return f"blocks of {1 << 2 * code - 2} KiB at most" if 4 <= code <= 7 and not value & 0x8F else "no such block size"


def _zstd(pen: SpanWriter, inside: int | None) -> None:
    if not pen.left:
        return
    _magic(pen, b"\x28\xb5\x2f\xfd", "zstd")
    flags = pen.number("zstd.descriptor", 1, _zstd_flags, signed=False, show=_hex(2))
    single = flags & 0x20
    if not single:
        pen.number("zstd.window", 1, _zstd_window, signed=False, show=_hex(2))
    dictionary = (0, 1, 2, 4)[flags & 3]
    if dictionary:
        _little(pen, "zstd.dictionary_id", dictionary)
    size = (1 if single else 0, 2, 4, 8)[flags >> 6]
    if size:
        _little(pen, "zstd.content_size", size, "and 256" if size == 2 else "")
    index, last = 0, 0
    while not last:
        if pen.left < 3:
            raise Broken("payload_corrupt")
        header = int.from_bytes(pen.data[pen.at : pen.at + 3], "little")
        last, kind, length = header & 1, header >> 1 & 3, header >> 3
        stored = 1 if kind == 1 else length
        if kind == 3 or stored > pen.left - 3:
            raise Broken("payload_corrupt")
        if index < _MOST_BLOCKS:
            names = ("raw", "one byte repeated", "compressed")
            note = f"{names[kind]}, {length} bytes" + (", the last one" if last else "")
            pen.number(f"zstd.blocks[{index}].header", 3, note, signed=False, order="little", show=_hex(6))
            pen.payload(f"zstd.blocks[{index}].data", stored)
        else:
            pen.lay(3 + stored, f"zstd.blocks[{index}]", None, "", SKIPPED)
        index += 1
    if flags & 4:
        pen.number("zstd.checksum", 4, "XXH64 of the content, low half", signed=False, order="little", show=_hex(8))


def _zstd_flags(value: int) -> str:
    told = [name for bit, name in ((0x20, "single segment"), (4, "content checksum")) if value & bit]
    told.append("content size" if value >> 6 or value & 0x20 else "no content size, as the Java producer streams it")
    return ", ".join(told)


def _zstd_window(value: int) -> str:
    window = 1 << 10 + (value >> 3)
    return f"window of {window + (window >> 3) * (value & 7)} bytes"


_WALKS: dict[int, Callable[[SpanWriter, int | None], None]] = {1: _gzip, 2: _snappy, 3: _lz4, 4: _zstd}
