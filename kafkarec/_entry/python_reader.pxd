"""Reads a file's bytes through a Python object, for the decoder.

A file is an object with `size`, `descriptor` (an int: pread is used; None: `read_at(position, length)` is called),
`window_bytes` and `skip_bytes` (see `_c/input.pxd`), and `is_damage(error)`.
"""
from libc.errno cimport EIO
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from kafkarec._c.input cimport READ_FAILED, ByteReader, READER_RAISED, SECTOR, fetch_pread


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
