"""Reads a file's bytes through a Python object, for the decoder.

A file is anything with `size`, `descriptor` (an int: pread is used; None: bytes come by `read_at(position, length)`),
`window_bytes` and `skip_bytes` (see `_c/input.pxd`), and `is_damage(error)`.
"""
from libc.errno cimport EIO
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy

from kafkarec._c.input cimport FAILS, ByteReader, REFUSES, SECTOR, fetch_pread


cdef inline int64_t fetch_python(ByteReader* reader, int64_t position, uint8_t* to, int64_t n) noexcept with gil:
    """Through read_at. An OSError of the reader loses a page; anything else ends the reading, and is raised: it is kept
    beside the file in `reader`, a list of the two."""
    cdef list reading = <list>reader.python_file
    cdef const uint8_t[::1] got
    try:
        data = reading[0].read_at(position, n)
        if len(data) > n:
            raise ValueError(f"read_at({position}, {n}) gave {len(data)} bytes")
        if len(data) > 0:
            got = data
            memcpy(to, &got[0], <size_t>len(data))
        return len(data)
    except OSError as error:
        if reading[0].is_damage(error):
            reader.why = error.errno or EIO
            return FAILS
        reading[1] = error
    except BaseException as error:
        reading[1] = error
    return REFUSES


cdef inline void open_reader(ByteReader* reader, list reading) noexcept:
    file = reading[0]
    reader.python_file = <void*>reading
    reader.worth_skipping, reader.window = file.skip_bytes, file.window_bytes
    reader.grain = 1 if file.descriptor is None else SECTOR
    reader.descriptor = -1 if file.descriptor is None else file.descriptor
    reader.fetch = fetch_python if file.descriptor is None else fetch_pread
