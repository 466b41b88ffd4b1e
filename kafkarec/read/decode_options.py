"""The options of decode, stream, batches and decode_each, checked and converted to a DecodeRequest."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from inspect import signature
from typing import Any, NamedTuple

from kafkarec import codecs
from kafkarec._core import Decoder, Layout
from kafkarec.format.schema import UNITS, record_schema

NO_PAYLOADS, CONTROL_PAYLOADS, ALL_PAYLOADS = range(3)
NO_CHECKS, ALL_CHECKS, PAYLOAD_CHECKS = range(3)
CHUNK_BYTES = 1 << 20
NO_COLUMNS = Layout(record_schema((), "ms"))


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The options of the compiled Decoder; see `_c/decode.pxd`."""

    payloads: int = ALL_PAYLOADS
    check_crc: int = ALL_CHECKS
    check_inner_crc: bool = False
    control: bool = False
    binary_header_keys: bool = False
    limit: int = 128 << 20
    input_limit: int | None = None
    stable_offset: int | None = None
    offsets: tuple[int | None, int | None] | None = None
    times: tuple[int | None, int | None] | None = None
    aborted: tuple[tuple[int, int, int], ...] = ()
    ticks: int = 1
    chunk_bytes: int | None = CHUNK_BYTES


class DecodeRequest(NamedTuple):
    """Checked options: layout of the columns, options of the Decoder, and those of the whole input."""

    layout: Layout
    options: EngineOptions
    skip: bool
    named: dict[str, Any]
    """file, topic, partition: for errors and columns; later_segment: whether a later segment of the log exists"""

    def decoder(self, options: EngineOptions | None = None, layout: Layout | None = None) -> Decoder:
        return Decoder(layout or self.layout, options or self.options, codecs, skip=self.skip, **self.named)


def _choice(name: str, value: object, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise ValueError(f"{name} {value!r}: one of {', '.join(choices)}")
    return str(value)


@lru_cache(64)
def _layout(columns: tuple[str, ...] | None, timestamp_unit: str, binary_header_keys: bool) -> Layout:
    return Layout(record_schema(columns, timestamp_unit), binary_header_keys)


def check_option_names(options: dict[str, Any]) -> None:
    """TypeError for an unknown option."""
    unknown = sorted(options.keys() - _OPTIONS)
    if unknown:
        raise TypeError(f"no such option: {', '.join(unknown)}; there are {', '.join(sorted(_OPTIONS))}")


def request(
    *,
    columns: Iterable[str] | None = None,
    control: bool = False,
    check_crcs: bool | str = True,
    errors: str = "raise",
    max_decompressed_bytes: int = 128 << 20,
    timestamp_unit: str = "ms",
    header_keys: str = "utf8",
    layout: str = "copy",
    _file: object = None,
    _topic: str | None = None,
    _partition: int | None = None,
    _later_segment: bool = False,
) -> DecodeRequest:
    """Checks decode's options; a ValueError lists the allowed values."""
    if check_crcs not in (True, False, "all"):
        raise ValueError(f"check_crcs {check_crcs!r}: True, False, or 'all' (inner messages of magic 0 and 1 too)")
    if not isinstance(max_decompressed_bytes, int) or max_decompressed_bytes < 0:
        raise ValueError(f"max_decompressed_bytes {max_decompressed_bytes!r}: bytes, 0 or more")
    _choice("layout", layout, ("copy",))
    binary = _choice("header_keys", header_keys, ("utf8", "binary")) == "binary"
    if isinstance(columns, str):
        raise ValueError(f"columns is a list of names, not the string {columns!r}")
    wanted = _layout(None if columns is None else tuple(columns), timestamp_unit, binary)
    options = EngineOptions(
        check_crc=ALL_CHECKS if check_crcs else NO_CHECKS,
        check_inner_crc=check_crcs == "all",
        control=bool(control),
        binary_header_keys=binary,
        limit=min(max_decompressed_bytes, 2**62),
        ticks=UNITS[timestamp_unit][1],
    )
    skip = _choice("errors", errors, ("raise", "skip")) == "skip"
    named = {"file": _file, "topic": _topic, "partition": _partition, "later_segment": _later_segment}
    return DecodeRequest(wanted, options, skip, named)


_OPTIONS = {name for name in signature(request).parameters if not name.startswith("_")}
