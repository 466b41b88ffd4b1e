"""Anomalies in payloads that Kafka's streams read without an error, which `verify` reports.

For payloads that `decompress` accepted:

    payload_bytes_behind       bytes after the end of the stream, which are not read
    payload_several_streams    several streams in a row (gzip members, zstd and skippable frames, xerial streams)
    payload_checksum_ignored   a wrong checksum or size in the frame that Kafka does not compare

LZ4, zstd and snappy are checked by their block headers, without decompression; gzip has no lengths, so its members are
decompressed again.
"""

from collections.abc import Iterator
from typing import Any

from kafkarec.codecs import gzip, lz4, snappy, zstd
from kafkarec.codecs.codec_errors import CodecError, first_capacity, load

Oddity = tuple[str, str]
_PIECE = 1 << 20


def oddities(codec_id: int, payload: Any, limit: int) -> list[Oddity]:
    """(kind, detail) of each anomaly; payload: bytes that `decompress` accepted with `limit`."""
    found: list[Oddity] = []
    check = _BY_CODEC.get(codec_id)
    if check is None:
        return found
    try:
        found.extend(check(payload, limit))
    except CodecError as error:
        found.append(("payload_bytes_behind", f"the stream cannot be walked to its end: {error.detail}"))
    return found


def _behind(codec: str, left: int) -> Oddity:
    return "payload_bytes_behind", f"{codec}: {left} bytes behind the end of the stream"


def _several(codec: str, what: str, count: int) -> Oddity:
    return "payload_several_streams", f"{codec}: {count} {what} in one payload"


def _gzip(payload: bytes, limit: int) -> Iterator[Oddity]:
    size = len(payload)
    if _is_one_gzip_member(payload, limit):
        return
    members, at = 0, 0
    while True:
        at = gzip._inflate(payload, gzip._header_end(payload, at), bytearray(), limit)
        members += 1
        if size - at <= gzip.LONGEST_IGNORED_REST or not _is_gzip_header(payload, at):
            break
    if members > 1:
        yield _several("gzip", "members", members)
    if at < size:
        yield _behind("gzip", size - at)


def _is_one_gzip_member(payload: bytes, limit: int) -> bool:
    """Whether the payload is exactly one member, the usual case; checked with the faster library."""
    library = gzip._library or gzip._Library()
    capacity = first_capacity(0, len(payload), gzip.LEAST_CAPACITY)
    try:
        member = library.decompressor(library.gzip_flag)
        left = limit - len(member.decompress(payload, capacity))
        while not member.eof and not member.needs_input and left >= 0:
            left -= len(member.decompress(b"", capacity))
        return bool(member.eof and not member.unused_data)
    except library.error:
        return False


def _is_gzip_header(payload: bytes, at: int) -> bool:
    try:
        gzip._header_end(payload, at)
    except CodecError:
        return False
    return True


def _snappy(payload: bytes, limit: int) -> Iterator[Oddity]:
    size = len(payload)
    if size < snappy.STREAM_HEADER_SIZE or payload[:8] != snappy.MAGIC:
        return  # one raw block: `decompress` accepts it only if it fills the payload
    at, streams = snappy.STREAM_HEADER_SIZE, 1
    while size - at >= 4:
        chunk = int.from_bytes(payload[at : at + 4], "big")
        if chunk == snappy.MAGIC_HEAD:
            streams += 1
            at += snappy.STREAM_HEADER_SIZE
        else:
            at += 4 + chunk
    if streams > 1:
        yield _several("snappy", "streams", streams)
    if at < size:
        yield _behind("snappy", size - at)


def _lz4(payload: bytes, limit: int) -> Iterator[Oddity]:
    flags, descriptor, at = lz4._frame_header(payload)
    end, _ = lz4._end_mark(payload, at, flags, 1 << 2 * (descriptor >> 4) + 8)
    end += 8 if flags & lz4.FLAG_CONTENT_CHECKSUM else 4
    if flags & (lz4.FLAG_CONTENT_CHECKSUM | lz4.FLAG_CONTENT_SIZE):
        yield from _lz4_content(payload[:end], limit)
    if end < len(payload):
        yield _behind("lz4", len(payload) - end)


def _lz4_content(frame: bytes, limit: int) -> Iterator[Oddity]:
    """Decompresses the frame with the library, which compares the checksum and size that Kafka skips."""
    library = load(lz4.MODULE, lz4.NAME, lz4.PIP_NAME)
    context = library.create_decompression_context()
    total, part = 0, frame
    try:
        while total <= limit:
            piece, used, ended = library.decompress_chunk(context, part, max_length=_PIECE)
            total += len(piece)
            if ended or not (used or piece):
                return
            part = part[used:]
    except RuntimeError as error:
        words = str(error)
        if "ontentChecksum" in words:
            yield "payload_checksum_ignored", "lz4: wrong content checksum"
        elif "frameSize" in words:
            yield "payload_checksum_ignored", "lz4: the content is not as long as the frame says"


def _zstd(payload: bytes, limit: int) -> Iterator[Oddity]:
    size, at, frames = len(payload), 0, 0
    while at < size:
        at = zstd._frame(payload, at, limit)[0] if payload[at : at + 4] == zstd.MAGIC else zstd._skippable(payload, at)
        frames += 1
    if frames > 1:
        yield _several("zstd", "frames", frames)


_BY_CODEC = {1: _gzip, 2: _snappy, 3: _lz4, 4: _zstd}
