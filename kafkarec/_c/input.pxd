"""The input of the decoder: bytes in memory, or a window of a file.

    0 ........ low ======== window ======== high ........ length ........ whole
                 base + position is the byte at `position`, for low <= position < high

In memory the window is everything, and `reach` is two comparisons. Otherwise bytes come by `fetch` (pread, or a Python
object) into a recycled buffer: no map, because a bad sector or a file that shrinks under one kills the process.

Reading ends at `length`. Bytes from there to `whole` are another reader's, who reads the same file from there on; only
who looks for the end of damage looks at them.

Whoever looks at bytes asks first: `reach` for a stretch (the window moves there), `peek` for up to 64 bytes somewhere
else (the window stays). What a reader cannot give reads as zeros and is noted in `bad`: a batch that
overlaps such a span is damage, whatever its checksum says of the zeros.
"""
from libc.stdint cimport int64_t, uint8_t
from libc.string cimport memcpy, memmove, memset

from kafkarec._c.columns cimport Buffer, buffer_reserve
from kafkarec._c.page_pool cimport pages_free, pages_take

cdef extern from * nogil:
    """
    #include <errno.h>
    #include <unistd.h>

    /* Bytes read, 0 at the end, -1: the reader fails (its errno in `why`). */
    static int64_t kr_pread(int descriptor, uint8_t *to, int64_t n, int64_t position, int *why) {
        ssize_t got;
        do got = pread(descriptor, to, (size_t)n, (off_t)position);
        while (got < 0 && errno == EINTR);
        if (got < 0) *why = errno;
        return got;
    }
    """
    int64_t kr_pread(int descriptor, uint8_t* to, int64_t n, int64_t position, int* why)

cdef enum:
    HEADER_WINDOW = 64           # and in a scan of headers that lie far apart
    PEEK = 64
    PAGE = 4096                  # a failing reader is read on page by page
    SECTOR = 512                 # and what it loses is narrowed to so many bytes (through Python: to the byte)
    LARGE_WINDOWS = 64           # a batch of more windows is checked piece by piece before it is held at once

cdef enum:
    ENDS = 0
    FAILS = -1                   # the reader: noted as unreadable
    REFUSES = -2                 # the reader itself: nothing more is asked, the caller raises its exception

# A reader: `fetch` gives bytes read (above 0) or one of the answers above.
cdef struct ByteReader:
    int64_t (*fetch)(ByteReader* reader, int64_t position, uint8_t* to, int64_t n) noexcept nogil
    int descriptor
    void* python_file                 # a borrowed Python object, for fetch_python
    int why                      # errno of the last failure; 0: the file is shorter than it was
    int64_t grain                # unreadable bytes are narrowed to so many
    int64_t window               # bytes a window takes at once
    int64_t worth_skipping       # a scan rather reads than skips fewer bytes than this

cdef struct Span:
    int64_t start
    int64_t stop

cdef struct Input:
    const uint8_t* base
    int64_t low
    int64_t high
    int64_t length
    int64_t whole
    ByteReader* reader               # NULL: in memory
    int64_t step                 # bytes a window takes next
    bint failed                  # out of memory, or the reader refused
    Buffer capacity
    uint8_t[64] side             # of peek
    Buffer bad                   # Span[bad_count], ascending where reading ascends
    int64_t bad_count


cdef inline int64_t fetch_pread(ByteReader* reader, int64_t position, uint8_t* to, int64_t n) noexcept nogil:
    return kr_pread(reader.descriptor, to, n, position, &reader.why)


cdef inline void input_memory(Input* i, const uint8_t* base, int64_t length, int64_t whole) noexcept nogil:
    i.base, i.low, i.high, i.length, i.whole = base, 0, whole, length, whole
    i.reader, i.bad_count, i.failed = NULL, 0, False


cdef inline void input_reader(Input* i, ByteReader* reader, int64_t length, int64_t whole) noexcept nogil:
    i.base, i.low, i.high, i.length, i.whole = i.capacity.data, 0, 0, length, whole
    i.reader, i.bad_count, i.failed = reader, 0, False
    i.step = reader.window


cdef inline int64_t piece(const Input* i, int64_t n) noexcept nogil:
    """How much of n bytes to reach for at once when they are only passed over."""
    return n if i.reader == NULL or n < i.reader.window else i.reader.window


cdef inline void input_release(Input* i) noexcept nogil:
    pages_free(i.capacity.data, i.capacity.capacity)
    pages_free(i.bad.data, i.bad.capacity)


cdef inline void note_bad(Input* i, int64_t start, int64_t stop) noexcept nogil:
    """[start, stop) cannot be read; a window that comes by again notes it once."""
    cdef Span* spans = <Span*>i.bad.data
    cdef size_t used = <size_t>i.bad_count * sizeof(Span)
    cdef int64_t k
    for k in range(i.bad_count - 1, -1, -1):
        if spans[k].start <= start <= spans[k].stop:
            if stop > spans[k].stop:
                spans[k].stop = stop
            return
    if buffer_reserve(&i.bad, used, used + sizeof(Span)) != 0:
        i.failed = True
        return
    spans = <Span*>i.bad.data
    spans[i.bad_count].start, spans[i.bad_count].stop = start, stop
    i.bad_count += 1


cdef inline int64_t bad_until(const Input* i, int64_t start, int64_t stop) noexcept nogil:
    """The end of an unreadable span that overlaps [start, stop); 0: there is none."""
    cdef const Span* spans = <const Span*>i.bad.data
    cdef int64_t k
    for k in range(i.bad_count):
        if spans[k].start < stop and start < spans[k].stop:
            return spans[k].stop
    return 0


cdef inline bint fetched(Input* i, int64_t position, uint8_t* to, int64_t n) noexcept nogil:
    """All n bytes, or not."""
    cdef int64_t done = 0, got = 1
    while done < n and got > 0:
        got = i.reader.fetch(i.reader, position + done, to + done, n - done)
        if got == REFUSES:
            i.failed = True
        done += got if got > 0 else 0
    return done == n


cdef inline void narrow(Input* i, int64_t position, uint8_t* to, int64_t n) noexcept nogil:
    """n bytes that could not be read at once: what can be read from either end is, by halves."""
    cdef int64_t low = 0, high = n, middle, stop
    while high - low > i.reader.grain and not i.failed:          # [0, low) is read, [low, high) holds a bad byte
        middle = low + (high - low) // 2
        if fetched(i, position + low, to + low, middle - low):
            low = middle
        else:
            high = middle
    stop, high = n, low
    while stop - high > i.reader.grain and not i.failed:         # [stop, n) is read, [high, stop) holds a bad byte
        middle = high + (stop - high) // 2
        if fetched(i, position + middle, to + middle, stop - middle):
            stop = middle
        else:
            high = middle
    memset(to + low, 0, <size_t>(stop - low))
    note_bad(i, position + low, position + stop)


cdef inline void fill(Input* i, int64_t position, uint8_t* to, int64_t n) noexcept nogil:
    """n bytes from `position`; after a failure page by page, unreadable ones as zeros."""
    cdef int64_t done = 0, got, wish
    cdef bint small = False
    while done < n:
        wish = n - done
        if small and wish > PAGE - (position + done) % PAGE:
            wish = PAGE - (position + done) % PAGE
        got = i.reader.fetch(i.reader, position + done, to + done, wish)
        if got > 0:
            done += got
            continue
        if got == REFUSES:
            i.failed = True
        if got == ENDS:
            i.reader.why = 0
            note_bad(i, position + done, i.length)
        if got != FAILS:
            memset(to + done, 0, <size_t>(n - done))
            return
        if not small and wish > PAGE - (position + done) % PAGE:
            small = True
            continue
        narrow(i, position + done, to + done, wish)
        done += wish


cdef inline const uint8_t* move_window(Input* i, int64_t position, int64_t n) noexcept nogil:
    """The window begins at `position` and holds n bytes at least; NULL: out of memory, or the reader refused."""
    cdef int64_t size = n if n > i.step else i.step
    cdef int64_t kept = 0
    cdef uint8_t* old = i.capacity.data
    cdef size_t old_capacity = i.capacity.capacity
    if i.failed or i.reader == NULL:
        return NULL
    if size > i.length - position:
        size = i.length - position
    if i.low <= position < i.high:
        kept = i.high - position         # fewer than n: else nobody would move it
    if <size_t>size > old_capacity:
        i.capacity.data = pages_take(<size_t>size, &i.capacity.capacity)
        if i.capacity.data == NULL:
            i.capacity.data, i.capacity.capacity, i.failed = old, old_capacity, True
            return NULL
        if kept > 0:
            memcpy(i.capacity.data, old + (position - i.low), <size_t>kept)
        pages_free(old, old_capacity)
    elif kept > 0:
        memmove(old, old + (position - i.low), <size_t>kept)
    fill(i, position + kept, i.capacity.data + kept, size - kept)
    i.base = i.capacity.data - position
    i.low = position
    i.high = position + size
    return NULL if i.failed else i.capacity.data


cdef inline const uint8_t* reach(Input* i, int64_t position, int64_t n) noexcept nogil:
    """The byte at `position`, n bytes in memory from there on (there are as many in the input); NULL: see above."""
    if position >= i.low and n <= i.high - position:
        return i.base + position
    return move_window(i, position, n)


cdef inline const uint8_t* peek(Input* i, int64_t position, int64_t n) noexcept nogil:
    """As reach, for up to 64 bytes, and the window stays; good until the next peek. Never NULL: zeros once reading has
    failed, which the next `reach` answers."""
    if position >= i.low and n <= i.high - position:
        return i.base + position
    if i.failed or i.reader == NULL:
        memset(i.side, 0, sizeof(i.side))
    else:
        fill(i, position, i.side, n)
    return i.side


cdef inline const uint8_t* reach_header(Input* i, int64_t position, int64_t n) noexcept nogil:
    """As reach, for a scan: far apart, headers are read alone; close together, a window at a time."""
    if position >= i.low and n <= i.high - position:
        return i.base + position
    if i.reader != NULL:
        if i.high > 0 and position - i.high > i.reader.worth_skipping:
            i.step = HEADER_WINDOW
        else:
            i.step = i.step * 8 if i.step * 8 < i.reader.window else i.reader.window
    return move_window(i, position, n)
