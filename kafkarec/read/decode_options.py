"""The options of decode, stream, batches and decode_each, checked and converted to a DecodeRequest."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache, partial
from typing import Any, NamedTuple

from kafkarec import codecs
from kafkarec._core import Decoder, Decoders, Layout, Source, forget_decoders
from kafkarec._lazy import cached_property
from kafkarec.format.java_integers import LONG_MAX
from kafkarec.format.schema import UNITS, record_schema

NO_PAYLOADS, CONTROL_PAYLOADS, ALL_PAYLOADS = range(3)
NO_CHECKS, ALL_CHECKS, PAYLOAD_CHECKS = range(3)
CHUNK_BYTES = 1 << 20
MAX_DECOMPRESSED_BYTES = 128 << 20
MAX_RECORD_BYTES = 2**31 - 9
MOST_OF_STRETCH = 8 << 20  # payload bytes of a stretch that is read ahead
NO_COLUMNS = Layout(record_schema((), "ms"))


# The options of decode and their defaults, in the order of `checked_request`.
_OPTIONS: dict[str, Any] = {
    "columns": None,
    "control": False,
    "check_crcs": True,
    "errors": "raise",
    "max_decompressed_bytes": MAX_DECOMPRESSED_BYTES,
    "timestamp_unit": "ms",
    "header_keys": "utf8",
    "restore": True,
    "layout": "copy",
}


class EngineOptions(NamedTuple):
    """The options of the compiled Decoder; see `_c/decode.pxd`."""

    payloads: int = ALL_PAYLOADS
    check_crc: int = ALL_CHECKS
    check_inner_crc: bool = False
    control: bool = False
    audit: bool = False
    restore: bool = True
    limit: int = MAX_DECOMPRESSED_BYTES
    input_limit: int | None = None
    stable_offset: int | None = None
    highest_base: int | None = None
    within: tuple[int | None, int | None, int | None, int | None] = (None, None, None, None)  # a ranges.RecordRange
    keys: Any = None  # a _verbs.LastOffsets
    aborted: tuple[tuple[int, int, int], ...] = ()
    chunk_bytes: int | None = CHUNK_BYTES
    stretch_bytes: int | None = None


class _RequestFields(NamedTuple):
    """Checked options: layout of the columns, options of the Decoder, and those of the whole input."""

    layout: Layout
    options: EngineOptions
    skip: bool
    named: dict[str, Any]
    """Of a file: file, topic, partition, for errors and columns; later_segment: a later segment of the log exists;
    facts: a header_proofs.FileFacts."""


class DecodeRequest(_RequestFields):
    """Checked options, and the Decoders that read with them. Any thread may use it, also while another call of it
    runs."""

    @cached_property
    def decoders(self) -> Decoders:
        make = partial(engine_decoder, self.layout, self.options, skip=self.skip, **self.named)
        return Decoders(make, self.layout)

    def decoder(self) -> Decoder:
        return engine_decoder(self.layout, self.options, skip=self.skip, **self.named)

    def with_options(self, **changes: Any) -> DecodeRequest:
        """The same with other options of the Decoder."""
        return self._replace(options=self.options._replace(**changes))

    @cached_property
    def for_chunks(self) -> DecodeRequest:
        """The same for one chunk after the other, of which each begins where several threads would begin it."""
        of_chunk = self.options.chunk_bytes
        if of_chunk is None or self.options.payloads != ALL_PAYLOADS or self.options.stretch_bytes is not None:
            return self
        return self.with_options(stretch_bytes=max(of_chunk, CHUNK_BYTES))

    @cached_property
    def for_values(self) -> DecodeRequest:
        """The same for inputs that are decoded whole, one after the other, of which each has the limit for itself."""
        return self.with_options(chunk_bytes=None, input_limit=self.options.limit)

    @cached_property
    def for_read_ahead(self) -> DecodeRequest:
        """The same for stretches: raises damage, and what would take much memory."""
        return self._replace(skip=False).with_options(input_limit=MOST_OF_STRETCH)


def engine_decoder(layout: Layout, options: EngineOptions, *, skip: bool, **named: Any) -> Decoder:
    """A Decoder with the rules that apply after damage. named: see DecodeRequest."""
    rules, facts = None, named.pop("facts", None)
    if skip:
        # not at the top: a tenth of `import kafkarec` and `decode`
        from kafkarec.recover import header_proofs, restoring

        facts = facts or header_proofs.NO_FACTS
        whole = EngineOptions(limit=options.limit, check_inner_crc=options.check_inner_crc)
        restore = options.restore and options.check_crc == ALL_CHECKS
        rules = restoring.AfterDamage(facts, restore, named.get("file") is not None and facts.one_log, whole)
    return Decoder(layout, options, codecs, skip=skip, rules=rules, **named)


def _choice(name: str, value: object, choices: tuple[str, ...]) -> str:
    if value not in choices:
        raise ValueError(f"{name} {value!r}: one of {', '.join(choices)}")
    return str(value)


def checked_bytes(data: Any) -> memoryview:
    """The bytes of any buffer; the error that `decode` raises for what is none, or whose bytes are not in a row."""
    return Source(data).memory


def checked_limit(max_decompressed_bytes: int) -> int:
    """The limit as the engine gets it; ValueError for none."""
    if not isinstance(max_decompressed_bytes, int) or max_decompressed_bytes < 0:
        raise ValueError(f"max_decompressed_bytes {max_decompressed_bytes!r}: bytes, 0 or more")
    return min(max_decompressed_bytes, 2**62)


def checked_record_limit(most: int | None) -> int:
    """max.decompressed.message.bytes: 1 to 2^31-9, which is Kafka's default and that of None."""
    most = MAX_RECORD_BYTES if most is None else most
    if not isinstance(most, int) or not 1 <= most <= MAX_RECORD_BYTES:
        raise ValueError(f"max_decompressed_message_bytes {most!r}: 1 to {MAX_RECORD_BYTES}")
    return most


def checked_threads(threads: int) -> int:
    if not isinstance(threads, int) or threads < 1:
        raise ValueError(f"threads {threads!r}: 1 or more")
    return threads


def for_keys(decode_request: DecodeRequest, keys: Iterable[Any] | None) -> DecodeRequest:
    """The request for records with one of these keys; None: with any key, and without one."""
    if keys is None:
        return decode_request
    from kafkarec._verbs import LastOffsets  # not at the top: most reads have no need of it

    try:
        blobs = [key.encode() if isinstance(key, str) else bytes(memoryview(key)) for key in keys]
    except TypeError:
        blobs = None
    if blobs is None or isinstance(keys, str):
        raise ValueError("keys: a list of keys, each one bytes or str")
    table = LastOffsets()
    for blob in blobs:
        table.set(blob, -LONG_MAX - 1)  # any offset
    return decode_request.with_options(keys=table)


def request(**options: Any) -> DecodeRequest:
    """Checks decode's options, by their names there: TypeError for an unknown one, ValueError for a wrong value; both
    list what is allowed. Equal options give the same object."""
    every = _OPTIONS | options
    if len(every) > len(_OPTIONS):
        unknown = ", ".join(sorted(every.keys() - _OPTIONS.keys()))
        raise TypeError(f"no such option: {unknown}; there are {', '.join(sorted(_OPTIONS))}")
    return checked_request(*every.values())


def checked_request(
    columns: Iterable[str] | None,
    control: bool,
    check_crcs: bool | str,
    errors: str,
    max_decompressed_bytes: int,
    *others: Any,
) -> DecodeRequest:
    """As `request`, by position: a call with names takes as long as all the rest of it."""
    if isinstance(columns, str):
        raise ValueError(f"columns is a list of names, not the string {columns!r}")
    if not isinstance(max_decompressed_bytes, int):  # 5.0 == 5 would be found among the kept requests
        checked_limit(max_decompressed_bytes)
    options = None if columns is None else tuple(columns), control, check_crcs, errors, max_decompressed_bytes, *others
    try:
        return _request(*options)
    except TypeError:  # an option that is not hashable, and so none of the allowed values
        return _request.__wrapped__(*options)


@lru_cache(256)
def _request(
    columns: tuple[str, ...] | None,
    control: bool,
    check_crcs: bool | str,
    errors: str,
    max_decompressed_bytes: int,
    timestamp_unit: str,
    header_keys: str,
    restore: bool,
    layout: str,
) -> DecodeRequest:
    if check_crcs not in (True, False, "all"):
        raise ValueError(f"check_crcs {check_crcs!r}: True, False, or 'all' (inner messages of magic 0 and 1 too)")
    views = _choice("layout", layout, ("copy", "view")) == "view"
    binary = _choice("header_keys", header_keys, ("utf8", "binary")) == "binary"
    checked_layout = Layout(record_schema(columns, timestamp_unit, views), UNITS[timestamp_unit][1], binary)
    options = EngineOptions(
        check_crc=ALL_CHECKS if check_crcs else NO_CHECKS,
        check_inner_crc=check_crcs == "all",
        control=bool(control),
        restore=bool(restore),
        limit=checked_limit(max_decompressed_bytes),
    )
    skip = _choice("errors", errors, ("raise", "skip")) == "skip"
    return DecodeRequest(checked_layout, options, skip, {})


def batch_request(**options: Any) -> DecodeRequest:
    """The request of `batches` for a batch."""
    return request(**{"control": True, **options}) if options else _default_batch_request()


@lru_cache(1)
def _default_batch_request() -> DecodeRequest:
    return request(control=True)


def forget_requests() -> None:
    """Drops the requests that are kept for equal options, and with them the idle Decoders."""
    forget_decoders()
    _request.cache_clear()
    scan_request.cache_clear()
    _default_batch_request.cache_clear()


@lru_cache(8)
def scan_request(errors: str) -> DecodeRequest:
    """The request of `scan`: headers alone, in one piece."""
    return request(columns=(), errors=errors).with_options(payloads=NO_PAYLOADS, check_crc=NO_CHECKS, chunk_bytes=None)


def request_of_locals(arguments: dict[str, Any]) -> DecodeRequest:
    """The request of a function whose parameters have the names of options. arguments: its `locals()`."""
    return checked_request(*(arguments.get(name, default) for name, default in _OPTIONS.items()))
