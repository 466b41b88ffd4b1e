"""Objects of tiered storage (KIP-405): detects a plugin's store, and compressed and encrypted objects: all are refused.

A plugin uploads a segment as consecutive chunks of some MiB in one object. Aiven's plugin writes

    <offset>-<uuid>.log            chunk | chunk | ...      each chunk: the segment's bytes as they are,
                                                            or one zstd frame of them,
                                                            or iv 12 | AES-GCM of either | tag 16
    <offset>-<uuid>.rsm-manifest   JSON: {"version": "1", "compression": false, "encryption": {"dataKey": "key id:..."},
                                          "chunkIndex": {"originalFileSize": ..., "transformedChunkSize": ...}, ...}
    <offset>-<uuid>.indexes        its index files in one object

Chunks that are neither compressed nor encrypted are a plain segment, which is read. The others are refused with a
specific error, because "corrupt at byte 0" would suggest damage. The manifest is read only if the object does not begin
with a batch. Without a manifest, an object that begins with a zstd frame is taken to be compressed, and one whose first
64 KiB look random to be encrypted (a batch with an offset up to 2^32 begins with four zero bytes, which these lack).

A folder in which a manifest or an .indexes object is belongs to a store of that plugin. Which of its segments count,
and whether an offset is in it twice, only its manifests and `__remote_log_metadata` say, so it is refused as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from kafkarec.errors import UnsupportedCompressionError
from kafkarec.format.layout import MAX_SIZE, batch_start
from kafkarec.sources.files import ByteSource

from . import names

HEAD_BYTES = 64
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
_MANIFEST = ".rsm-manifest"
_OF_A_STORE = (_MANIFEST, ".indexes")
_SAMPLE = 64 << 10
_LARGEST_MANIFEST = 16 << 20


def demand_plain_segment(source: ByteSource, name: str, read: Callable[[str], bytes | None]) -> None:
    """Raises UnsupportedCompressionError (reason tiered_object) for an object that is not a plain segment.

    name: the object's; read: returns a whole file of the same folder, or None. Reads 64 bytes if the object begins
    with a batch.
    """
    parsed = names.segment(name)
    if parsed is None or not parsed.is_of_log or parsed.packed_suffix or not source.size:
        return
    head = source.read_at(0, HEAD_BYTES)
    if begins_with_batch(head, parsed.base_offset):
        return
    manifest = _manifest(read(parsed.stem + _MANIFEST)) if parsed.segment_id else None
    encrypted = False
    if manifest is not None:
        encryption = manifest.get("encryption")
        encrypted = encryption is not None
        encodings = ["compressed in chunks with zstd"] if manifest["compression"] else []
        if encrypted:
            # `dataKey` is "<id of the key>:<the data key, encrypted by it>"
            data_key = encryption.get("dataKey") if isinstance(encryption, dict) else None
            key_id, colon, _ = data_key.partition(":") if isinstance(data_key, str) else ("", "", "")
            is_shown = colon and key_id and key_id.isprintable() and len(key_id) <= 100
            encodings.append("encrypted in chunks with AES-GCM" + (f" under key {key_id}" if is_shown else ""))
        if not encodings:
            return
        what = f"by its {_MANIFEST} it is {' and '.join(encodings)}"
    elif head.startswith(ZSTD_MAGIC):
        what = "it begins with a zstd frame, so it is compressed in chunks (or packed as a whole)"
    elif parsed.segment_id and looks_encrypted(source.read_at(0, _SAMPLE)):
        what = f"its bytes look random, so it is encrypted (there is no {_MANIFEST} with details)"
        encrypted = True
    else:
        return
    advice = f"copy it as {parsed.base_offset:020}.log.zst, which kafkarec reads, or read the topic through a broker"
    if encrypted:
        advice = "read the topic through a broker that has the plugin and its key"
    message = f"{source.name} is a tiered-storage object and no plain log segment: {what}; {advice}"
    raise UnsupportedCompressionError(message, reason="tiered_object", position=0, file=source.name)


def demand_no_store(path: str, file_names: Iterable[str]) -> None:
    """Raises UnsupportedCompressionError (reason tiered_object) for a folder of a plugin's store, by its files."""
    for name in file_names:
        parsed = names.segment(name) if name.endswith(_OF_A_STORE) else None
        if parsed is not None and parsed.segment_id and not parsed.state:
            raise UnsupportedCompressionError(
                f"{path} looks like a part of a store of Aiven's tiered-storage plugin (KIP-405), as it has {name}; "
                f"kafkarec does not read these yet; read the topic through a broker that has the plugin",
                reason="tiered_object",
                file=path,
            )


def begins_with_batch(head: bytes, base_offset: int) -> bool:
    """Whether `head` may begin a batch of a segment with this base offset."""
    start = batch_start(head)
    # an .index holds relative offsets of 31 bits
    return start is not None and 0 <= start.base_offset - base_offset <= MAX_SIZE


def looks_encrypted(sample: bytes) -> bool:
    """Whether bytes look random: byte values evenly distributed (chi-square), no four zeros in a row."""
    if len(sample) < 1024 or bytes(4) in sample:
        return False
    fair = len(sample) / 256
    distance = sum((sample.count(value) - fair) ** 2 / fair for value in range(256))
    return bool(distance < 255 + 6 * (2 * 255) ** 0.5)  # chi-square, six standard deviations


def _manifest(data: bytes | None) -> dict[str, Any] | None:
    """The fields of a SegmentManifestV1; None if there is no data or it is not a manifest."""
    if not data or len(data) > _LARGEST_MANIFEST:
        return None
    try:
        fields = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return fields if isinstance(fields, dict) and isinstance(fields.get("compression"), bool) else None
