"""The frame of a compressed payload: its magic, the sizes and checksums that it declares, and the compressed bytes.

    gzip    1f 8b | header 8 | deflate data | crc32 4 | size 4                                        RFC 1952
    snappy  82 "SNAPPY" 00 | versions 8 | blocks                                                     snappy-java
    lz4     04 22 4d 18 | FLG, BD 2 | [content size 8] | checksum 1 | blocks | 0 4 | [checksum 4]
    zstd    28 b5 2f fd | descriptor 1 | [window 1] | [dictionary] | [content size] | blocks | [checksum 4]

Numbers are little-endian. Whether a payload is valid is decided by `kafkarec.codecs`.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkarec.codecs import CodecError, decompress, probe
from kafkarec.errors import REASONS
from kafkarec.format.enums import CODEC_NAMES
from kafkarec.format.single_fields import FieldFault

from .spans import PAYLOAD, SpanWriter, joined

_Parts = dict[str, int]
"""The sizes of the parts before or after the compressed bytes; 0: there is no such part."""


def decompressed(
    writer: SpanWriter, codec: int, magic: int, stop: int, cap: int, *, only_probe: bool = False
) -> memoryview | None:
    """Writes the spans of a payload up to byte `stop`. Returns its content; None if it has a fault, or if only its
    beginning is checked (`only_probe`)."""
    first, payload = len(writer.spans), bytes(writer.data[writer.at : stop])
    content = fault = None
    try:
        if only_probe:
            probe(codec, payload, cap)
        else:
            content = memoryview(bytes(decompress(codec, payload, cap, 0, magic)))
    except CodecError as error:
        reason = error.reason if error.reason in REASONS else "payload_corrupt"
        fault = FieldFault(reason, detail=error.detail)
    name = CODEC_NAMES[codec]
    head, tail = _FRAMES[codec](payload) if codec in _FRAMES else ({}, {})
    if content is None:
        tail = {}  # where the compressed bytes end is not known
    if not head or sum(head.values()) + sum(tail.values()) > len(payload):
        head, tail = {}, {}
    _add_parts(writer, name, head)
    data_stop = stop - sum(tail.values())
    writer.add_span(data_stop, f"{name}.data", bytes(writer.data[writer.at : data_stop]), "", PAYLOAD)
    writer.add_fault(fault)
    _add_parts(writer, name, tail)
    note = f"{name}: {len(payload)} bytes"
    if content is not None:
        note += f", {len(content)} decompressed"
        note += f" ({len(content) / len(payload):.2f} to 1)" if payload else ""
    span = writer.spans[first]
    writer.spans[first] = span._replace(note=joined(note, span.note))
    return content


def _add_parts(writer: SpanWriter, name: str, parts: _Parts) -> None:
    for part, size in parts.items():
        data = bytes(writer.data[writer.at : writer.at + size])
        if size:
            value = int.from_bytes(data, "little") if part.endswith("size") else data.hex(" ")
            writer.add_span(writer.at + size, f"{name}.{part}", value)


def _gzip(payload: bytes) -> tuple[_Parts, _Parts]:
    is_gzip = payload.startswith(b"\x1f\x8b")
    return {"magic": 2, "header": 8} if is_gzip else {}, {"crc32": 4, "size": 4}


def _snappy(payload: bytes) -> tuple[_Parts, _Parts]:
    return {"magic": 8, "versions": 8} if payload.startswith(b"\x82SNAPPY\0") else {}, {}


def _lz4(payload: bytes) -> tuple[_Parts, _Parts]:
    if not payload.startswith(b"\x04\x22\x4d\x18") or len(payload) < 5:
        return {}, {}
    flags = payload[4]
    head = {"magic": 4, "descriptor": 2, "content_size": flags & 8, "header_checksum": 1}
    tail = {"end_mark": 4, "content_checksum": flags & 4}
    is_end = payload[-4 - tail["content_checksum"] :][:4] == bytes(4)  # else bytes follow the frame
    return head, tail if is_end else {}


def _zstd(payload: bytes) -> tuple[_Parts, _Parts]:
    if not payload.startswith(b"\x28\xb5\x2f\xfd") or len(payload) < 5:
        return {}, {}
    flags = payload[4]
    is_single_segment = bool(flags & 0x20)
    head = {
        "magic": 4,
        "descriptor": 1,
        "window": not is_single_segment,
        "dictionary_id": (0, 1, 2, 4)[flags & 3],
        "content_size": (is_single_segment, 2, 4, 8)[flags >> 6],
    }
    return head, {"checksum": flags & 4}


_FRAMES: dict[int, Callable[[bytes], tuple[_Parts, _Parts]]] = {1: _gzip, 2: _snappy, 3: _lz4, 4: _zstd}
