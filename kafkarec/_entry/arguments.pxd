"""Converts options from Python to C."""
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t

from kafkarec._c.output_columns cimport Constants
from kafkarec._c.columns cimport Buffer, MOST_BYTES, buffer_reserve
from kafkarec._c.decode cimport Aborted, Options
from kafkarec._c.offset_map cimport OffsetMap


cdef inline tuple bounds(object range_):
    """(first, exclusive last) of a range; the range or its ends may be None."""
    first, stop = (None, None) if range_ is None else range_
    return INT64_MIN if first is None else first, INT64_MAX if stop is None else stop


cdef inline int fill_aborted(Options* o, object aborted, Buffer* to) except -1:
    """Copies aborted transactions, (producer id, first offset, marker's offset), sorted to a buffer for `o`."""
    cdef list spans = sorted(aborted)
    cdef Aborted* entry
    if buffer_reserve(to, 0, <size_t>(len(spans) + 1) * sizeof(Aborted)) != 0:
        raise MemoryError
    entry = <Aborted*>to.data
    for producer_id, first, last in spans:
        entry.producer_id, entry.first_offset, entry.last_offset = producer_id, first, last
        entry += 1
    o.aborted = <Aborted*>to.data
    o.aborted_count = len(spans)
    return 0


cdef inline int fill_options(Options* o, object options, Buffer* aborted) except -1:
    """Fills `o` from read.decode_options.EngineOptions, all but what a Layout says; the aborted transactions are in
    `aborted`."""
    o.payloads = options.payloads
    o.check_crc = options.check_crc
    o.check_inner_crc = options.check_inner_crc
    o.control = options.control
    o.audit = options.audit
    o.limit = min(options.limit, MOST_BYTES)
    o.input_limit = INT64_MAX if options.input_limit is None else options.input_limit
    o.stable_offset = INT64_MAX if options.stable_offset is None else options.stable_offset
    o.highest_base = INT64_MAX if options.highest_base is None else options.highest_base
    o.ranged = options.offsets is not None or options.times is not None
    o.from_offset, o.to_offset = bounds(options.offsets)
    o.timed = options.times is not None
    o.from_time, o.to_time = bounds(options.times)
    o.keys = <const OffsetMap*><size_t>(0 if options.keys is None else options.keys.address)
    o.chunk_bytes = INT64_MAX if options.chunk_bytes is None else options.chunk_bytes
    o.stretch_bytes = INT64_MAX if options.stretch_bytes is None else options.stretch_bytes
    return fill_aborted(o, options.aborted, aborted)


cdef inline int fill_constants(Constants* c, object topic, object file, object partition) except -1:
    """Sets the columns that are constant for an input. topic, file: bytes that the decoder keeps alive, or None."""
    if topic is not None:
        c.topic = <const char*>topic
    if file is not None:
        c.file = <const char*>file
    c.partition = -1 if partition is None else partition
    return 0
