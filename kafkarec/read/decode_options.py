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

from . import restoring

NO_PAYLOADS, CONTROL_PAYLOADS, ALL_PAYLOADS = range(3)
NO_CHECKS, ALL_CHECKS, PAYLOAD_CHECKS = range(3)
CHUNK_BYTES = 1 << 20
MAX_DECOMPRESSED_BYTES = 128 << 20
NO_COLUMNS = Layout(record_schema((), "ms"))


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """The options of the compiled Decoder; see `_c/decode.pxd`."""

    payloads: int = ALL_PAYLOADS
    check_crc: int = ALL_CHECKS
    check_inner_crc: bool = False
    control: bool = False
    audit: bool = False
    restore: bool = True
    binary_header_keys: bool = False
    limit: int = MAX_DECOMPRESSED_BYTES
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
    """Of a file: file, topic, partition, for errors and columns; later_segment: a later segment of the log exists;
    facts: a restoring.LogFacts."""

    def decoder(self, options: EngineOptions | None = None, layout: Layout | None = None) -> Decoder:
        return engine_decoder(layout or self.layout, options or self.options, skip=self.skip, **self.named)


def engine_decoder(layout: Layout, options: EngineOptions, *, skip: bool, **named: Any) -> Decoder:
    """A Decoder with the rules that apply after damage. named: see DecodeRequest."""
    rules = None
    if skip:
        whole = EngineOptions(limit=options.limit, check_inner_crc=options.check_inner_crc)
        rules = restoring.AfterDamage(named.pop("facts", restoring.NO_FACTS), options.restore, whole)
    named.pop("facts", None)
    return Decoder(layout, options, codecs, skip=skip, rules=rules, **named)


def _choice(name: str, value: object, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise ValueError(f"{name} {value!r}: one of {', '.join(choices)}")
    return str(value)


@lru_cache(64)
def _layout(columns: tuple[str, ...] | None, timestamp_unit: str, binary_header_keys: bool) -> Layout:
    return Layout(record_schema(columns, timestamp_unit), binary_header_keys)


def checked_limit(max_decompressed_bytes: int) -> int:
    """The limit as the engine gets it; ValueError for none."""
    if not isinstance(max_decompressed_bytes, int) or max_decompressed_bytes < 0:
        raise ValueError(f"max_decompressed_bytes {max_decompressed_bytes!r}: bytes, 0 or more")
    return min(max_decompressed_bytes, 2**62)


def check_option_names(options: dict[str, Any]) -> None:
    """TypeError for an unknown option."""
    unknown = sorted(options.keys() - set(_OPTIONS))
    if unknown:
        raise TypeError(f"no such option: {', '.join(unknown)}; there are {', '.join(sorted(_OPTIONS))}")


def request(
    *,
    columns: Iterable[str] | None = None,
    control: bool = False,
    check_crcs: bool | str = True,
    errors: str = "raise",
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES,
    timestamp_unit: str = "ms",
    header_keys: str = "utf8",
    restore: bool = True,
    layout: str = "copy",
) -> DecodeRequest:
    """Checks decode's options; a ValueError lists the allowed values. The public functions have these names and
    defaults: tests/unit/read/test_signatures.py compares them."""
    if check_crcs not in (True, False, "all"):
        raise ValueError(f"check_crcs {check_crcs!r}: True, False, or 'all' (inner messages of magic 0 and 1 too)")
    _choice("layout", layout, ("copy",))
    binary = _choice("header_keys", header_keys, ("utf8", "binary")) == "binary"
    if isinstance(columns, str):
        raise ValueError(f"columns is a list of names, not the string {columns!r}")
    checked_layout = _layout(None if columns is None else tuple(columns), timestamp_unit, binary)
    options = EngineOptions(
        check_crc=ALL_CHECKS if check_crcs else NO_CHECKS,
        check_inner_crc=check_crcs == "all",
        control=bool(control),
        binary_header_keys=binary,
        restore=bool(restore),
        limit=checked_limit(max_decompressed_bytes),
        ticks=UNITS[timestamp_unit][1],
    )
    skip = _choice("errors", errors, ("raise", "skip")) == "skip"
    return DecodeRequest(checked_layout, options, skip, {})


_OPTIONS = tuple(signature(request).parameters)


def request_of(arguments: dict[str, Any]) -> DecodeRequest:
    """The request of a function whose parameters have the names of options. arguments: its `locals()`."""
    return request(**{name: arguments[name] for name in _OPTIONS if name in arguments})
