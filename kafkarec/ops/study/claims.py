"""What texts claim of the formats, beside the figures of the studied pieces.

A text on the way from format 1 to 2, and the discarded proposal for format 3 with its addition (docs/explanation/
magic-3.md). Each claim is one row of `_ROWS`: the text's figure, and a template for the figure here. Where a text is
wrong, the row shows what is right.

    measured   bytes really written in the formats, fields of the batches' headers, CPU time
    modelled   what a change would take that the proposal only names, or does not consider; nothing was written
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from math import ceil
from string import Formatter
from typing import Any, NamedTuple

from kafkarec import codecs
from kafkarec.experimental import framing, header_first
from kafkarec.format.layout import (
    CONTROL,
    LOG_APPEND_TIME,
    LOG_OVERHEAD,
    V2_OVERHEAD,
    V2Header,
    batch_length,
    v2_header,
)
from kafkarec.format.varints import read_signed, size_with_length, varint_size
from kafkarec.ops.convert import convert
from kafkarec.read.reader import decode

from .formats import FORMATS, Settings
from .trial import seconds

MEASURED, MODELLED = "measured", "modelled"
_FIXED_BYTES = 41  # of a header of format 3, before its three varints
_SHORT_MS = 8191  # the largest zig-zag varint of 2 bytes
_SMALL_DELTA = 63  # ... of 1 byte
_APPENDED_LATER_MS = 1000
_COMPARED = ("2", "3", "header-first")


@dataclass(frozen=True)
class Claim:
    """One claim.

    name      of the claim; of one for each codec with its name: "validation_bytes zstd"
    about     what is claimed
    claimed   the figure of the text; "-": it has none
    right     what holds in general, where the text is wrong or silent, otherwise empty
    here      the figure of the pieces, as text
    basis     "measured" or "modelled"
    figures   the numbers in `here`; shares are 0 to 1
    """

    name: str
    about: str
    claimed: str
    right: str
    here: str
    basis: str
    figures: dict[str, float]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


class _Row(NamedTuple):
    """A claim with a template of figures; "p" as format is percent. right: what holds in general where the text is
    wrong or silent; otherwise: in place of figures that these pieces do not have."""

    name: str
    about: str
    claimed: str
    here: str
    right: str = ""
    basis: str = MEASURED
    otherwise: str = ""


_ROWS = (
    _Row(
        "header_saved",
        "format 3: bytes saved of a batch's header",
        "10 of 53, 18 %",
        "{header_saved:.2f} of 61, {header_saved_share:.1p}",
        "the header has 61",
    ),
    _Row(
        "header_short",
        "format 3: ... up to 8,191 ms from base to max time",
        "10 up to 16,383 ms",
        "{short_saved:.2f}, in {short_share:.1p} of batches",
        "10, zig-zag ends at 8,191 ms",
        otherwise="no such batch",
    ),
    _Row(
        "header_long",
        "format 3: ... above 8,191 ms",
        "10 up to 16,383 ms",
        "{long_saved:.2f}, in {long_share:.1p} of batches",
        "9",
        otherwise="no such batch",
    ),
    _Row(
        "header_small_delta",
        "format 3: ... with a lastOffsetDelta up to 63",
        "1 to 2 bytes for it",
        "1 of these bytes, in {small_delta_share:.1p} of batches",
        "1 more saved",
        otherwise="no such batch",
    ),
    _Row(
        "header_size",
        "format 3: size of a batch's header",
        "53 - 10",
        "{header_least:.0f} to {header_most:.0f}; above 61: {header_above:.0f} of {batches:.0f} batches",
        "44 to 66",
    ),
    _Row(
        "append_time",
        "format 3: a broker sets LogAppendTime in place",
        "-",
        "{append_changes:.1p} of headers would change their length, if appended 1 s after the last record",
        "not in general",
        MODELLED,
        "every batch has it already",
    ),
    _Row(
        "record_saved",
        "format 3: bytes saved a record",
        "1 of 7, 14 %",
        "{record_saved:.3f} of {record_framing:.1f}, {record_saved_share:.1p}",
        "11 in its example",
    ),
    _Row("size_3 {codec}", "format 3 against 2, {codec}", "considerable", "{size_3:+.2p}"),
    _Row("size_header_first {codec}", "header-first against format 2, {codec}", "-", "{size_header_first:+.2p}"),
    _Row(
        "validation_bytes {codec}",
        "header-first: bytes to validate offsets, {codec}",
        "a prefix",
        "{validation_bytes:.1p} of the decompressed bytes, {validation_read:.1p} of the compressed ones",
    ),
    _Row(
        "decompression {codec}",
        "header-first: time of that decompression, {codec}",
        "less",
        "{decompression:.1p} of the time for a whole payload",
    ),
    _Row(
        "validation_time {codec}",
        "header-first: ... with kafkarec's checks, {codec}",
        "less",
        "{validation_time:.2g} times that of format 2; Python around C, format 2 is C alone",
    ),
    _Row("v1_overhead", "format 1: bytes of a record beside key and value", "30", "{v1_overhead:.1f}", "34"),
    _Row(
        "v2_overhead",
        "format 2: bytes of a record beside key, value, headers",
        "4 to 5",
        "{v2_framing:.1f}; with the batch's header {v2_overhead:.1f}, as a batch has {batch_records:.1f} records",
        "9 to 11 in its example, and 61 a batch",
    ),
    _Row("v1_to_v2", "format 2 against 1, none", "-19 % with 1,000 x 100 bytes", "{v1_to_v2:+.1p}"),
    _Row("v1_to_v2_lz4", "format 2 against 1, both lz4", "-", "{v1_to_v2_lz4:+.1p}"),
    _Row("v1_to_lz4", "format 2 with lz4 against 1 with none", "-20 to -30 %", "{v1_to_lz4:+.1p}"),
    _Row(
        "break_even",
        "records from which format 2 is smaller than 1, none",
        "2 of 5 bytes: 85 against 95",
        "{break_even:.0f}; {below_break_even:.1p} of batches have fewer",
        "85 against 78",
        MODELLED,
        "never: its records are no smaller here",
    ),
    _Row(
        "tagged_fields",
        "a later format: tagged fields, none used",
        "perhaps",
        "{tagged_batch:+.3p} with 1 byte a batch, {tagged_record:+.2p} with 1 byte a record",
        basis=MODELLED,
    ),
    _Row(
        "both_times",
        "a later format: append time beside create time",
        "always available",
        "{both_times:+.3p} with 2 bytes a batch (up to 8,191 ms later), {both_times_full:+.3p} with 8",
        basis=MODELLED,
    ),
    _Row(
        "batch_headers",
        "a later format: record headers at batch level",
        "more efficient",
        "{batch_headers:+.2p}; of the headers' bytes {shared_headers:.1p} are the same in the whole batch",
        basis=MODELLED,
        otherwise="no record has headers",
    ),
)


class _Texts(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec.endswith("p"):
            return f"{100 * value:{format_spec[:-1]}f} %"
        return str(super().format_field(value, format_spec))


def _claim(row: _Row, figures: Mapping[str, float], codec: str = "") -> Claim:
    names = [name for _, name, _, _ in Formatter().parse(row.here) if name]
    used = {name: figures[name] for name in names if name in figures}
    if len(used) < len(names):
        used = {}
    here = _Texts().format(row.here, **used) if used else row.otherwise
    name, about = (text.format(codec=codec) for text in (row.name, row.about))
    return Claim(name, about, row.claimed, row.right, here, row.basis, used)


class ClaimTotals:
    """The sums over the pieces that the claims need. codec_names: formats are compared with them, at Kafka's levels."""

    def __init__(self, codec_names: Iterable[str], limit: int) -> None:
        self._codecs = list(dict.fromkeys(("none", *codec_names)))
        self._limit = limit
        self._sums: Counter[str] = Counter()
        self._seconds: defaultdict[str, float] = defaultdict(float)
        self._sizes: Counter[int] = Counter()  # size of a header of format 3 -> batches
        self._records: Counter[int] = Counter()  # records -> batches

    def add(self, plain: bytes) -> None:
        """plain: a piece in format 2, uncompressed."""
        self._sums["plain"] += len(plain)
        for header in batch_headers(plain):
            self._add_header(header)
        self._add_record_headers(plain)
        self._add_older(plain)
        self._add_proposed(plain)

    def claims(self, content: int) -> list[Claim]:
        """All rows, those with a codec for each one. content: bytes of the pieces' keys, values and headers."""
        if not self._sizes:
            return []
        self._sums["content"] = content
        figures = dict(self._figures())
        found = []
        for row in _ROWS:
            if "{codec}" not in row.name:
                found.append(_claim(row, figures))
                continue
            found += [_claim(row, dict(self._of_codec(codec)), codec) for codec in self._codecs]
        return [one for one in found if one.here]

    # ---- what is added up

    def _add_header(self, header: V2Header) -> None:
        span = header.max_timestamp - header.base_timestamp
        small = varint_size(header.last_offset_delta) + varint_size(header.base_timestamp)
        size = _FIXED_BYTES + small + varint_size(span)
        kind = "short" if 0 <= span <= _SHORT_MS else "long"
        self._sizes[size] += 1
        self._records[header.record_count] += 1
        self._sums["records"] += header.record_count
        self._sums[kind] += 1
        self._sums[f"{kind} saved"] += V2_OVERHEAD - size
        self._sums["small delta"] += header.last_offset_delta <= _SMALL_DELTA
        if not header.attributes & LOG_APPEND_TIME:
            self._sums["create time"] += 1
            self._sums["append changes"] += varint_size(span + _APPENDED_LATER_MS) != varint_size(span)

    def _add_record_headers(self, plain: bytes) -> None:
        """The bytes of headers, and of those which all records of a batch have."""
        options: dict[str, Any] = {"control": True, "header_keys": "binary", "max_decompressed_bytes": self._limit}
        columns = decode(plain, columns=("headers",), **options)
        rows = iter(columns.column("headers"))
        for count in columns.batches.column("record_count"):
            of_batch = [headers or () for headers in islice(rows, count)]
            size = sum(_header_size(header) for headers in of_batch for header in headers)
            self._sums["headers"] += size
            if size and len(of_batch) > 1:
                shared = frozenset.intersection(*map(frozenset, of_batch))
                self._sums["shared headers"] += (len(of_batch) - 1) * sum(map(_header_size, shared))

    def _add_older(self, plain: bytes) -> None:
        """Format 1, and format 2 with the same records in the same batches: what format 1 loses counts in neither."""
        options: dict[str, Any] = {"errors": "skip", "max_decompressed_bytes": self._limit}
        wrapped = convert(plain, magic=1, compression="lz4", **options)
        again = convert(wrapped, magic=2, compression="none", **options)
        columns = decode(again, columns=("key", "value"), max_decompressed_bytes=self._limit)
        self._sums["1 records"] += len(columns)
        self._sums["1 batches"] += len(columns.batches)
        self._sums["1 content"] += sum(len(one) for name in ("key", "value") for one in columns.column(name) if one)
        self._sums["1 none"] += len(convert(wrapped, magic=1, compression="none", **options))
        self._sums["1 lz4"] += len(wrapped)
        self._sums["1 to 2 none"] += len(again)
        self._sums["1 to 2 lz4"] += len(convert(wrapped, magic=2, **options))

    def _add_proposed(self, plain: bytes) -> None:
        """Each codec in formats 2, 3 and header-first, and the validation of offsets."""
        produced = b"".join(_as_produced(plain))
        for codec in self._codecs:
            for name in _COMPARED:
                made = FORMATS[name].write(plain, Settings(codec), self._limit)
                self._sums[f"size {name} {codec}"] += len(made.data)
            if codec != "none" and produced:
                self._add_validation(codec, produced)

    def _add_validation(self, codec: str, produced: bytes) -> None:
        """Validates offsets in format 2, which has to decompress everything, and header-first."""
        options: dict[str, Any] = {"compression": codec, "max_decompressed_bytes": self._limit}
        data, by_header = convert(produced, **options), header_first.from_v2(produced, frames=2, **options)
        payloads = [batch[V2_OVERHEAD:] for batch in _batches(data)]
        prefixes = list(_prefixes(by_header))
        check = header_first.offsets(by_header, max_decompressed_bytes=self._limit)
        self._sums[f"payload {codec}"] += len(produced) - V2_OVERHEAD * len(payloads)
        self._sums[f"stored {codec}"] += sum(map(len, payloads))
        self._sums[f"prefix {codec}"] += check.decompressed_bytes
        self._sums[f"read {codec}"] += check.compressed_bytes
        number = codecs.BY_NAME[codec].id

        def decompress(parts: list[memoryview]) -> None:
            for part in parts:
                codecs.decompress(number, part, self._limit)

        ways: dict[str, Callable[[], Any]] = {
            "all": lambda: decompress(payloads),
            "prefixes": lambda: decompress(prefixes),
            "decode": lambda: decode(data, columns=("offset",), max_decompressed_bytes=self._limit),
            "offsets": lambda: header_first.offsets(by_header, max_decompressed_bytes=self._limit),
        }
        for name, way in ways.items():
            self._seconds[f"{name} {codec}"] += seconds(way)

    # ---- the figures

    def _figures(self) -> Iterator[tuple[str, float]]:
        sums, batches = self._sums, self._sizes.total()
        plain = sums["plain"]
        saved = V2_OVERHEAD - sum(size * count for size, count in self._sizes.items()) / batches
        yield "batches", batches
        yield "header_saved", saved
        yield "header_saved_share", saved / V2_OVERHEAD
        yield "header_least", min(self._sizes)
        yield "header_most", max(self._sizes)
        yield "header_above", sum(count for size, count in self._sizes.items() if size > V2_OVERHEAD)
        for kind in ("short", "long"):
            if sums[kind]:
                yield f"{kind}_share", sums[kind] / batches
                yield f"{kind}_saved", sums[f"{kind} saved"] / sums[kind]
        if sums["small delta"]:
            yield "small_delta_share", sums["small delta"] / batches
        if sums["create time"]:
            yield "append_changes", sums["append changes"] / sums["create time"]
        if sums["headers"]:
            yield "batch_headers", -sums["shared headers"] / plain
            yield "shared_headers", sums["shared headers"] / sums["headers"]
        yield "tagged_batch", batches / plain
        yield "tagged_record", sums["records"] / plain
        yield "both_times", 2 * batches / plain
        yield "both_times_full", 8 * batches / plain
        yield from self._record_figures()
        yield from self._older_figures()

    def _record_figures(self) -> Iterator[tuple[str, float]]:
        """What format 3 saves in the records: the rest after its headers."""
        sums, records = self._sums, self._sums["records"]
        if not records:
            return
        headers = sum((V2_OVERHEAD - size) * count for size, count in self._sizes.items())
        saved = (sums["plain"] - sums["size 3 none"] - headers) / records
        framing = (sums["plain"] - V2_OVERHEAD * self._sizes.total() - sums["content"]) / records
        yield "record_saved", saved
        yield "record_framing", framing
        yield "record_saved_share", saved / framing

    def _older_figures(self) -> Iterator[tuple[str, float]]:
        sums, records = self._sums, self._sums["1 records"]
        if not records:
            return
        batches, content = sums["1 batches"], sums["1 content"]
        overhead = (sums["1 none"] - content) / records
        framing = (sums["1 to 2 none"] - batches * V2_OVERHEAD - content) / records
        yield "v1_overhead", overhead
        yield "v2_framing", framing
        yield "v2_overhead", framing + batches * V2_OVERHEAD / records
        yield "batch_records", records / batches
        yield "v1_to_v2", sums["1 to 2 none"] / sums["1 none"] - 1
        yield "v1_to_v2_lz4", sums["1 to 2 lz4"] / sums["1 lz4"] - 1
        yield "v1_to_lz4", sums["1 to 2 lz4"] / sums["1 none"] - 1
        if framing < overhead:
            least = ceil(V2_OVERHEAD / (overhead - framing))
            yield "break_even", least
            below = sum(count for number, count in self._records.items() if number < least)
            yield "below_break_even", below / self._records.total()

    def _of_codec(self, codec: str) -> Iterator[tuple[str, float]]:
        sums, times = self._sums, self._seconds
        of_2, of_3, of_header_first = (sums[f"size {name} {codec}"] for name in _COMPARED)
        yield "size_3", of_3 / of_2 - 1
        yield "size_header_first", of_header_first / of_2 - 1
        if not sums[f"payload {codec}"]:
            return
        yield "validation_bytes", sums[f"prefix {codec}"] / sums[f"payload {codec}"]
        yield "validation_read", sums[f"read {codec}"] / sums[f"stored {codec}"]
        yield "decompression", times[f"prefixes {codec}"] / times[f"all {codec}"]
        yield "validation_time", times[f"offsets {codec}"] / times[f"decode {codec}"]


def batch_headers(plain: bytes) -> Iterator[V2Header]:
    """The headers of batches of magic 2 that follow each other."""
    for data in _batches(plain):
        yield v2_header(data)


def _batches(plain: bytes) -> Iterator[memoryview]:
    view, at = memoryview(plain), 0
    while at < len(view):
        end = at + LOG_OVERHEAD + batch_length(view, at)
        yield view[at:end]
        at = end


def _prefixes(by_header: bytes) -> Iterator[memoryview]:
    """The first frame of each header-first batch: what the validation of offsets decompresses."""
    for frame in framing.whole_frames(memoryview(by_header), framing.MAGIC):
        _, payload = framing.read_header(frame)
        length, at = read_signed(payload, 0, len(payload))
        yield payload[at : at + length]


def _as_produced(plain: bytes) -> Iterator[memoryview]:
    """The batches as producers send them, whose offsets a broker validates: without those that a cleaner has changed,
    and without markers."""
    for data in _batches(plain):
        header = v2_header(data)
        if (
            header.record_count
            and header.last_offset_delta == header.record_count - 1
            and not header.attributes & CONTROL
        ):
            yield data


def _header_size(header: tuple[bytes, bytes | None]) -> int:
    """Bytes of a record header with its lengths."""
    name, value = header
    return size_with_length(len(name)) + size_with_length(-1 if value is None else len(value))
