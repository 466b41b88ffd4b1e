"""Decompresses snappy blocks: no installed library has a C function for them that can be called without the GIL.

    block    content size: varint | element*
    element  literal   00 in the low bits | size - 1: 6 bits, or 60 .. 63 for 1 .. 4 bytes of it behind | bytes
             copy      01: size - 4: 3 bits, offset: 3 bits and a byte | 10, 11: size - 1: 6 bits, offset: 2 or 4 bytes
    stream   82 53 4e 41 50 50 59 00 | version 4 | compatible version 4 | (size 4 BE | block)*

Source: google/snappy, format_description.txt. Only what is right is decompressed here: everything else returns
NEEDS_CODEC, as in `decompress.pxd`, and `codecs/snappy.py` reads or refuses it. Copies are wide: up to 15 bytes behind
the content are written, which SLACK has room for.
"""
from libc.stdint cimport int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy

from kafkarec._c.columns cimport Buffer, SLACK, buffer_reserve
from kafkarec._c.endian cimport load_le32, load_u32
from kafkarec._c.status cimport NEEDS_CODEC, OK
from kafkarec._c.varint cimport read_varlong

cdef enum:
    STREAM_HEADER = 16
    MOST_SIZE_BYTES = 4          # of a block
    MOST_EXPANSION = 22          # bytes of content for a byte of a block: a copy of 64 bytes takes three


cdef inline int64_t block_size(const uint8_t* p, int64_t n, int64_t* at) noexcept nogil:
    """The content size that a block declares, and where its elements begin; -1: not of the usual form."""
    cdef const uint8_t* cursor = p
    cdef uint64_t size = 0
    if read_varlong(&cursor, p + n, MOST_SIZE_BYTES, &size) != OK:
        return -1
    at[0] = cursor - p
    return <int64_t>size if (cursor - 1)[0] > 0 and <int64_t>size // MOST_EXPANSION <= n else -1


cdef inline void copy_within(uint8_t* to, int64_t offset, int64_t n) noexcept nogil:
    """Copies n bytes from `offset` bytes before, which may overlap: the bytes between are then repeated."""
    cdef int64_t i = 0, step = offset
    if offset >= 16:
        while i < n:
            memcpy(to + i, to + i - offset, 16)
            i += 16
        return
    while step < 8:                      # a multiple of the offset: that far back is the same byte
        step += offset
    while i < step - offset and i < n:
        to[i] = to[i - offset]
        i += 1
    while i < n:
        memcpy(to + i, to + i - step, 8)
        i += 8


cdef inline bint snappy_elements(const uint8_t* p, const uint8_t* end, uint8_t* content, int64_t size) noexcept nogil:
    """Whether the elements [p, end) give exactly `size` bytes."""
    cdef uint8_t* to = content
    cdef uint8_t* stop = content + size
    cdef int64_t n, offset
    cdef uint32_t tag
    while p < end:
        tag = p[0]
        p += 1
        if tag & 3 == 0:
            n = tag >> 2
            if n >= 60:
                tag = <uint32_t>n - 59               # bytes of the size
                if end - p < 4:
                    return False
                n = load_le32(p) & (<uint32_t>0xFFFFFFFF >> (32 - 8 * tag))
                p += tag
            n += 1
            if n > end - p or n > stop - to:
                return False
            if n <= 16 and end - p >= 16:
                memcpy(to, p, 16)
            else:
                memcpy(to, p, <size_t>n)
            p += n
            to += n
            continue
        if tag & 3 == 1:
            if end - p < 1:
                return False
            n = (tag >> 2 & 7) + 4
            offset = <int64_t>(tag >> 5) << 8 | p[0]
            p += 1
        elif tag & 3 == 2:
            if end - p < 2:
                return False
            n = (tag >> 2) + 1
            offset = p[0] | <int64_t>p[1] << 8
            p += 2
        else:
            if end - p < 4:
                return False
            n = (tag >> 2) + 1
            offset = load_le32(p)
            p += 4
        if offset == 0 or offset > to - content or n > stop - to:
            return False
        copy_within(to, offset, n)
        to += n
    return to == stop


cdef inline int snappy_payload(Buffer* out, const uint8_t* p, int64_t n, int64_t limit, int64_t* length) noexcept nogil:
    """Decompresses one block, or one stream of blocks that fills the payload, to `out`; NEEDS_CODEC for anything
    else."""
    cdef bint stream = n >= STREAM_HEADER and memcmp(p, b"\x82SNAPPY\x00", 8) == 0
    cdef int64_t at = STREAM_HEADER if stream else 0
    cdef int64_t left, size, elements = 0, used = 0
    while at < n:
        left = n - at
        if stream:
            if left < 4:
                return NEEDS_CODEC
            size = load_u32(p + at)
            at += 4
            if size > left - 4:
                return NEEDS_CODEC
            left = size
        size = block_size(p + at, left, &elements)
        if size < 0 or size > limit - used or buffer_reserve(out, <size_t>used, <size_t>(used + size + SLACK)) != OK:
            return NEEDS_CODEC
        if not snappy_elements(p + at + elements, p + at + left, out.data + used, size):
            return NEEDS_CODEC
        at += left
        used += size
    length[0] = used
    return OK if used > 0 else NEEDS_CODEC
