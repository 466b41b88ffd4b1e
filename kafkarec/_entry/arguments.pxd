"""Arguments of the decoder: converts options from Python to C; reads a file's bytes through a Python object.

A file is an object with `size`, `descriptor` (an int: pread is used; None: `read_at(position, length)` is called),
`window_bytes` and `skip_bytes` (see `_c/input.pxd`), and `is_damage(error)`.
"""
from libc.errno cimport EIO
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t
from libc.string cimport memcpy

from kafkarec._c.columns cimport MOST_BYTES, Buffer, buffer_reserve
from kafkarec._c.decode cimport Aborted, Options
from kafkarec._c.input cimport READER_RAISED, READ_FAILED, SECTOR, ByteReader, fetch_pread
from kafkarec._c.offset_map cimport OffsetMap

# ---- options

cdef inline tuple bounds(object first, object stop):
    """(first, exclusive last) of a range, of which both may be None."""
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
    first, stop, begin, end = options.within
    o.filter.timed = begin is not None or end is not None
    o.ranged = o.filter.timed or first is not None or stop is not None
    o.filter.from_offset, o.filter.to_offset = bounds(first, stop)
    o.filter.from_time, o.filter.to_time = bounds(begin, end)
    o.filter.keys = <const OffsetMap*><size_t>(0 if options.keys is None else options.keys.address)
    o.chunk_bytes = INT64_MAX if options.chunk_bytes is None else options.chunk_bytes
    o.stretch_bytes = INT64_MAX if options.stretch_bytes is None else options.stretch_bytes
    return fill_aborted(o, options.aborted, aborted)


# ---- files

cdef inline int64_t fetch_python(ByteReader* reader, int64_t position, uint8_t* to, int64_t n) noexcept with gil:
    """Reads through read_at. For an OSError for which is_damage is true, the bytes become unreadable; any other
    exception ends reading and is raised later: it is stored in reader.python_file, the list [file, exception]."""
    cdef list reading = <list>reader.python_file
    cdef const uint8_t[::1] got
    try:
        data = reading[0].read_at(position, n)
        if len(data) > n:
            raise ValueError(f"read_at({position}, {n}) returned {len(data)} bytes")
        if len(data) > 0:
            got = data
            memcpy(to, &got[0], <size_t>len(data))
        return len(data)
    except OSError as error:
        if reading[0].is_damage(error):
            reader.error_number = getattr(error, "unreadable_cause", None) or error.errno or EIO
            return READ_FAILED
        reading[1] = error
    except BaseException as error:
        reading[1] = error
    return READER_RAISED


cdef inline void open_reader(ByteReader* reader, list reading) noexcept:
    """Sets up `reader` for the file in `reading`, the list [file, exception]."""
    file = reading[0]
    reader.python_file = <void*>reading
    reader.worth_skipping, reader.window = file.skip_bytes, file.window_bytes
    reader.grain = 1 if file.descriptor is None else SECTOR
    reader.descriptor = -1 if file.descriptor is None else file.descriptor
    reader.fetch = fetch_python if file.descriptor is None else fetch_pread
