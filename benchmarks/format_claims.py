"""What texts claim of the formats, and what holds for a log: `python benchmarks/format_claims.py [LOG] [--codecs A,B]`.

A text on the way from format 1 to 2, and the discarded proposal for format 3 with its addition, header-first
(docs/explanation/magic-3.md). A line for each claim: the text's figure, what holds in general where the text is wrong,
and the figure of the log (default: examples/data/all-codecs-0) with its batches as they are.

    measured   bytes really written in the formats, fields of the batches' headers, processor time
    modelled   what a change would take that the proposal only names, or does not consider; nothing was written
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Iterator
from itertools import islice
from math import ceil
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]  # the other modules here, and kafkarec as built in place

import kafkarec  # noqa: E402
from kafkarec import codecs  # noqa: E402
from kafkarec.experimental import framing, header_first, v3  # noqa: E402
from kafkarec.format.java_integers import read_signed  # noqa: E402
from kafkarec.format.layout import CONTROL, LOG_APPEND_TIME, V2_OVERHEAD, V2Header, v2_header  # noqa: E402

FIXED_BYTES = 41  # of a header of format 3, before its three varints
SHORT_MS = 8191  # the largest zig-zag varint of 2 bytes
APPENDED_LATER_MS = 1000
MODELLED = "modelled"


class Row(NamedTuple):
    """A claim. claimed: the text's figure, "-": it has none; right: what holds in general, if the text is wrong;
    here: the figure of the log."""

    about: str
    claimed: str
    here: str
    right: str = ""
    basis: str = "measured"


class Batch(NamedTuple):
    """A batch of the log in format 2, uncompressed."""

    data: memoryview
    header: V2Header


def rows(log: Any, codec_names: list[str]) -> Iterator[Row]:
    """The rows of a log: anything that kafkarec.convert takes."""
    plain = kafkarec.convert(log, compression="none")
    table, view = kafkarec.scan(plain), memoryview(plain)
    ends = zip(table.column("position"), table.column("size_in_bytes"), strict=True)
    batches = [Batch(view[at : at + size], v2_header(view, at)) for at, size in ends]
    if not batches:
        return
    yield from header_rows([one.header for one in batches])
    yield from record_rows(plain, batches)
    for codec in codec_names:
        yield from codec_rows(plain, codec)
        if codec != "none":
            yield from validation_rows(produced(batches), codec)
    yield from older_rows(plain, batches)
    yield from later_rows(plain, batches)


# ---- format 3: headers and records


def header_size(header: V2Header, span: int) -> int:
    """Bytes of a batch's header in format 3. span: ms from its base to its max timestamp."""
    return FIXED_BYTES + sum(map(varint_size, (header.last_offset_delta, header.base_timestamp, span)))


def header_rows(headers: list[V2Header]) -> Iterator[Row]:
    spans = [one.max_timestamp - one.base_timestamp for one in headers]
    sizes = [header_size(one, span) for one, span in zip(headers, spans, strict=True)]
    count, saved = len(headers), V2_OVERHEAD - sum(sizes) / len(headers)
    least, most, above = min(sizes), max(sizes), sum(size > V2_OVERHEAD for size in sizes)
    yield Row(
        "format 3: bytes saved of a batch's header",
        "10 of 53, 18 %",
        f"{saved:.2f} of 61, {percent(saved / V2_OVERHEAD)}",
        "the header has 61",
    )
    for about, right, short in (
        ("format 3: ... up to 8,191 ms from base to max time", "10, zig-zag ends at 8,191 ms", True),
        ("format 3: ... above 8,191 ms", "9", False),
    ):
        found = [size for size, span in zip(sizes, spans, strict=True) if (0 <= span <= SHORT_MS) is short]
        here = "no such batch"
        if found:
            here = f"{V2_OVERHEAD - sum(found) / len(found):.2f}, in {percent(len(found) / count)} of batches"
        yield Row(about, "10 up to 16,383 ms", here, right)
    small = sum(varint_size(one.last_offset_delta) == 1 for one in headers)
    here = f"1 of these bytes, in {percent(small / count)} of batches" if small else "no such batch"
    yield Row("format 3: ... with a lastOffsetDelta up to 63", "1 to 2 bytes for it", here, "1 more saved")
    here = f"{least} to {most}; above 61: {above} of {count} batches"
    yield Row("format 3: size of a batch's header", "53 - 10", here, "44 to 66")
    create = [span for one, span in zip(headers, spans, strict=True) if not one.attributes & LOG_APPEND_TIME]
    longer = sum(varint_size(span + APPENDED_LATER_MS) != varint_size(span) for span in create)
    here = "every batch has it already"
    if create:
        here = f"{percent(longer / len(create))} of headers would change their length"
        here += ", if appended 1 s after the last record"
    yield Row("format 3: a broker sets LogAppendTime in place", "-", here, "not in general", MODELLED)


def record_rows(plain: bytes, batches: list[Batch]) -> Iterator[Row]:
    """What format 3 saves in the records: the rest after its headers."""
    records = sum(one.header.record_count for one in batches)
    if not records:
        return
    in_headers = sum(V2_OVERHEAD - header_size(one, one.max_timestamp - one.base_timestamp) for _, one in batches)
    saved = (len(plain) - len(v3.from_v2(plain)) - in_headers) / records
    framing_bytes = (len(plain) - V2_OVERHEAD * len(batches) - content(plain)) / records
    here = f"{saved:.3f} of {framing_bytes:.1f}, {percent(saved / framing_bytes)}"
    yield Row("format 3: bytes saved a record", "1 of 7, 14 %", here, "11 in its example")


# ---- formats 3 and header-first with each codec


def codec_rows(plain: bytes, codec: str) -> Iterator[Row]:
    now = len(kafkarec.convert(plain, compression=codec))
    for about, claimed, module in (
        ("format 3 against 2", "considerable", v3),
        ("header-first against format 2", "-", header_first),
    ):
        made = len(module.from_v2(plain, compression=codec))
        yield Row(f"{about}, {codec}", claimed, change(made / now))


def produced(batches: list[Batch]) -> bytes:
    """The batches as producers send them, whose offsets a broker validates: without those that a cleaner has changed,
    and without markers."""
    return b"".join(
        data
        for data, header in batches
        if 0 < header.record_count == header.last_offset_delta + 1 and not header.attributes & CONTROL
    )


def validation_rows(plain: bytes, codec: str) -> Iterator[Row]:
    """The validation of offsets in format 2, which has to decompress everything, and header-first."""
    if not plain:
        return
    data, by_header = kafkarec.convert(plain, compression=codec), header_first.from_v2(plain, compression=codec)
    table = kafkarec.scan(data)
    places = zip(table.column("position"), table.column("size_in_bytes"), strict=True)
    payloads = [memoryview(data)[at + V2_OVERHEAD : at + size] for at, size in places]
    prefixes = list(first_frames(by_header))
    check, number = header_first.offsets(by_header), codecs.BY_NAME[codec].id
    made = check.decompressed_bytes / (len(plain) - V2_OVERHEAD * len(payloads))
    read = check.compressed_bytes / sum(map(len, payloads))
    yield Row(
        f"header-first: bytes to validate offsets, {codec}",
        "a prefix",
        f"{percent(made)} of the decompressed bytes, {percent(read)} of the compressed ones",
    )

    def decompress(parts: list[memoryview]) -> None:
        for part in parts:
            codecs.decompress(number, part, 1 << 30)

    share = seconds(lambda: decompress(prefixes)) / seconds(lambda: decompress(payloads))
    yield Row(
        f"header-first: time of that decompression, {codec}",
        "less",
        f"{percent(share)} of the time for a whole payload",
    )
    times = seconds(lambda: header_first.offsets(by_header)) / seconds(
        lambda: kafkarec.decode(data, columns=["offset"])
    )
    here = f"{times:.2g} times that of format 2"
    yield Row(f"header-first: ... with kafkarec's checks, {codec}", "less", here)


def first_frames(by_header: bytes) -> Iterator[memoryview]:
    """The first frame of each header-first batch: what the validation of offsets decompresses."""
    for batch in framing.whole_batches(memoryview(by_header), framing.MAGIC):
        length, at = read_signed(batch.payload, 0, len(batch.payload))
        yield batch.payload[at : at + length]


# ---- formats 1 and 2, and what a later one could have


def older_rows(plain: bytes, batches: list[Batch]) -> Iterator[Row]:
    """Format 1, and format 2 with the same records in the same batches: what format 1 loses counts in neither."""
    wrapped = kafkarec.convert(plain, magic=1, compression="lz4", errors="skip")
    one = kafkarec.convert(wrapped, magic=1, compression="none")
    two, two_lz4 = (kafkarec.convert(wrapped, magic=2, compression=codec) for codec in ("none", "lz4"))
    columns = kafkarec.decode(two, columns=("key", "value"))
    records, count = len(columns), len(columns.batches)
    if not records:
        return
    overhead = (len(one) - content(two)) / records
    framing_bytes = (len(two) - V2_OVERHEAD * count - content(two)) / records
    with_header = framing_bytes + V2_OVERHEAD * count / records
    yield Row("format 1: bytes of a record other than key and value", "30", f"{overhead:.1f}", "34")
    yield Row(
        "format 2: bytes of a record other than key, value, headers",
        "4 to 5",
        f"{framing_bytes:.1f}; with the batch's header {with_header:.1f}, as a batch has {records / count:.1f} records",
        "9 to 11 in its example, and 61 a batch",
    )
    yield Row("format 2 against 1, none", "-19 % with 1,000 x 100 bytes", change(len(two) / len(one), 1))
    yield Row("format 2 against 1, both lz4", "-", change(len(two_lz4) / len(wrapped), 1))
    yield Row("format 2 with lz4 against 1 with none", "-20 to -30 %", change(len(two_lz4) / len(one), 1))
    here = "never: its records are no smaller here"
    if framing_bytes < overhead:
        least = ceil(V2_OVERHEAD / (overhead - framing_bytes))
        fewer = sum(each.header.record_count < least for each in batches) / len(batches)
        here = f"{least}; {percent(fewer)} of batches have fewer"
    about = "records from which format 2 is smaller than 1, none"
    yield Row(about, "2 of 5 bytes: 85 against 95", here, "85 against 78", MODELLED)


def later_rows(plain: bytes, batches: list[Batch]) -> Iterator[Row]:
    whole, count = len(plain), len(batches)
    records = sum(one.header.record_count for one in batches)
    yield Row(
        "a later format: tagged fields, none used",
        "perhaps",
        f"{change(1 + count / whole, 3)} with 1 byte a batch, {change(1 + records / whole)} with 1 byte a record",
        basis=MODELLED,
    )
    yield Row(
        "a later format: append time in addition to create time",
        "always available",
        f"{change(1 + 2 * count / whole, 3)} with 2 bytes a batch (up to 8,191 ms later), "
        f"{change(1 + 8 * count / whole, 3)} with 8",
        basis=MODELLED,
    )
    headers, shared = shared_headers(plain)
    here = "no record has headers"
    if headers:
        same = percent(shared / headers)
        here = f"{change(1 - shared / whole)}; of the headers' bytes {same} are the same in the whole batch"
    yield Row("a later format: record headers at batch level", "more efficient", here, basis=MODELLED)


def shared_headers(plain: bytes) -> tuple[int, int]:
    """The bytes of all record headers, and of those that would not be repeated if a batch had what all its records
    have."""
    columns = kafkarec.decode(plain, columns=("headers",), control=True, header_keys="binary")
    each, total, shared = iter(columns.column("headers")), 0, 0
    for count in columns.batches.column("record_count"):
        of_batch = [headers or () for headers in islice(each, count)]
        total += sum(size_of(header) for headers in of_batch for header in headers)
        if len(of_batch) > 1:
            same = frozenset.intersection(*map(frozenset, of_batch))
            shared += (len(of_batch) - 1) * sum(map(size_of, same))
    return total, shared


# ---- bytes, seconds, texts


def content(plain: bytes) -> int:
    """Bytes of keys, values and headers, without their lengths."""
    columns = kafkarec.decode(plain, columns=("key", "value", "headers"), control=True, header_keys="binary")
    found = sum(len(each) for name in ("key", "value") for each in columns.column(name) if each)
    return found + sum(
        len(name) + len(value or b"") for headers in columns.column("headers") for name, value in headers or ()
    )


def varint_size(value: int) -> int:
    """Bytes of a zig-zag varint; a value outside of 64 bits wraps around."""
    value = (value + (1 << 63)) % (1 << 64) - (1 << 63)
    return (max(value, ~value).bit_length() + 7) // 7


def size_of(header: tuple[bytes, bytes | None]) -> int:
    """Bytes of a record header with its lengths."""
    return sum(varint_size(-1) if each is None else varint_size(len(each)) + len(each) for each in header)


def seconds(run: Callable[[], object]) -> float:
    """Processor time of the fastest of five runs."""
    found = []
    for _ in range(5):
        start = time.thread_time()
        run()
        found.append(time.thread_time() - start)
    return max(min(found), 1e-6)


def percent(share: float) -> str:
    return f"{100 * share:.1f} %"


def change(share: float, digits: int = 2) -> str:
    return f"{100 * (share - 1):+.{digits}f} %"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("log", nargs="?", default=HERE.parent / "examples" / "data" / "all-codecs-0")
    parser.add_argument("--codecs", default="none,lz4,zstd")
    args = parser.parse_args()
    print("| claim | text says | here | basis |\n|---|---|---|---|")
    for row in rows(kafkarec.open(args.log), args.codecs.split(",")):
        said = f"{row.claimed} (right: {row.right})" if row.right else row.claimed
        print(f"| {row.about} | {said} | {row.here} | {row.basis} |")


if __name__ == "__main__":
    main()
