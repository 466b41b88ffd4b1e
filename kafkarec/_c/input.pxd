"""The input of the decoder: bytes in memory, or a window of a file.

    0 ........ low ======== window ======== high ........ stop ........ size
                 base + position is the byte at `position`, for low <= position < high

For bytes in memory the window is the whole input, and `reach` is two comparisons. Otherwise `fetch` (pread, or a Python
object) reads into a recycled buffer. Files are not mapped: a bad sector, or a file that shrinks, would kill the
process.

Reading ends at `stop`. Another decoder reads the bytes from there to `size`; only the search for the end of damage
looks at them.

Bytes are accessed only by `reach` (n bytes from a position: the window moves there) and `peek` (up to 64 bytes at
another position: the window stays). Bytes that cannot be read are replaced by zeros and noted in `bad`: a batch that
overlaps such a range is damage, even if its checksum matches.
"""
from libc.stdint cimport int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memmove, memset

from kafkarec._c.columns cimport Buffer, buffer_reserve
from kafkarec._core cimport pages_free, pages_take

cdef extern from * nogil:
    """
    #include <errno.h>
    #include <sys/uio.h>
    #include <unistd.h>
    #ifdef __linux__
    #include <sys/syscall.h>
    #endif

    /* Returns how many bytes were read, 0 at the end of the file, -1 on failure (sets `error_number`). */
    static int64_t kr_pread(int descriptor, uint8_t *to, int64_t n, int64_t position, int *error_number) {
        ssize_t got;
        do got = pread(descriptor, to, (size_t)n, (off_t)position);
        while (got < 0 && errno == EINTR);
        if (got < 0) *error_number = errno;
        return got;
    }

    /* Like pread, for bytes in the page cache; -1: they would have to be waited for, or the system cannot tell.
       By its number, as glibc has the function from 2.26 on; the flag is RWF_NOWAIT of Linux 4.14. */
    static int64_t kr_pread_cached(int descriptor, uint8_t *to, int64_t n, int64_t position) {
    #if defined(SYS_preadv2) && __SIZEOF_LONG__ == 8
        struct iovec span = {to, (size_t)n};
        return syscall(SYS_preadv2, (long)descriptor, &span, 1L, (long)position, 0L, 8L);
    #else
        (void)descriptor, (void)to, (void)n, (void)position;
        return -1;
    #endif
    }

    /* The end of the hole in which a position of a file of `size` bytes is; the position itself: it is in none, or the
       system cannot tell. A file that has become shorter has no hole at its old end. */
    static int64_t kr_hole_end(int descriptor, int64_t position, int64_t size) {
    #ifdef SEEK_DATA
        int64_t data = lseek(descriptor, (off_t)position, SEEK_DATA);
        if (data < 0 && errno == ENXIO && lseek(descriptor, 0, SEEK_END) >= size) return size;
        return data < 0 ? position : data;
    #else
        (void)descriptor, (void)size;
        return position;
    #endif
    }
    """
    int64_t kr_pread(int descriptor, uint8_t* to, int64_t n, int64_t position, int* error_number)
    int64_t kr_pread_cached(int descriptor, uint8_t* to, int64_t n, int64_t position)
    int64_t kr_hole_end(int descriptor, int64_t position, int64_t size)

cdef enum:
    HEADER_WINDOW = 64           # bytes of a window in a scan of headers that are far apart
    FAR_APART = 4096             # bytes between headers in the page cache: a call (0.3 us) beats a copy (6 GB/s)
    PAGE = 4096                  # after a failure reading continues page by page
    SECTOR = 512                 # an unreadable range is narrowed down to so many bytes (a Python object: to 1 byte)
    LARGE_WINDOWS = 64           # the CRC of a batch of more windows is checked before the batch is read whole

cdef enum:
    READ_END = 0
    READ_FAILED = -1             # the bytes are noted as unreadable
    READER_RAISED = -2           # nothing more is read, the caller raises the exception of the Python object

# A reader: `fetch` returns how many bytes were read (> 0) or one of the constants above.
cdef struct ByteReader:
    int64_t (*fetch)(ByteReader* reader, int64_t position, uint8_t* to, int64_t n) noexcept nogil
    int descriptor
    void* python_file            # a borrowed Python object, for fetch_python
    int error_number             # of the last failure, a code of damage.why_unreadable
    int64_t grain                # bytes to which an unreadable range is narrowed down
    int64_t window               # bytes of a window
    int64_t worth_skipping       # bytes; a header scan reads over shorter gaps instead of skipping them

cdef struct ByteRange:
    int64_t start
    int64_t stop

cdef struct Input:
    const uint8_t* base
    int64_t low
    int64_t high
    int64_t stop
    int64_t size
    ByteReader* reader           # NULL: in memory
    bint viewable                # memory that stays as long as a column is kept which has views of it
    int64_t step                 # bytes of the next window
    int64_t header               # position of the last header that `reach_header` read
    bint failed                  # out of memory, or READER_RAISED
    Buffer buffer                # the memory of the window
    uint8_t[64] peeked           # the bytes of the last `peek`
    Buffer bad                   # ByteRange[bad_count], ascending, with bytes that can be read between them
    int64_t bad_count


cdef inline int64_t fetch_pread(ByteReader* reader, int64_t position, uint8_t* to, int64_t n) noexcept nogil:
    return kr_pread(reader.descriptor, to, n, position, &reader.error_number)


cdef inline void input_begin_memory(Input* i, const uint8_t* base, int64_t stop, int64_t size) noexcept nogil:
    i.base, i.low, i.high, i.stop, i.size = base, 0, size, stop, size
    i.reader, i.bad_count, i.failed, i.viewable = NULL, 0, False, False


cdef inline void input_begin_reader(Input* i, ByteReader* reader, int64_t stop, int64_t size) noexcept nogil:
    input_begin_memory(i, i.buffer.data, stop, size)
    i.high, i.reader, i.step, i.header = 0, reader, reader.window, 0


cdef inline int64_t bytes_at_once(const Input* i, int64_t n) noexcept nogil:
    """How many of n bytes to reach at once when they are read in pieces: at most a window."""
    return n if i.reader == NULL or n < i.reader.window else i.reader.window


cdef inline int64_t bad_index(const Input* i, int64_t position) noexcept nogil:
    """The index of the first unreadable range that ends at `position` or after it, by binary search."""
    cdef const ByteRange* spans = <const ByteRange*>i.bad.data
    cdef int64_t low = 0, high = i.bad_count, middle
    while low < high:
        middle = (low + high) // 2
        if spans[middle].stop < position:
            low = middle + 1
        else:
            high = middle
    return low


cdef inline void note_bad(Input* i, int64_t start, int64_t stop) noexcept nogil:
    """Notes [start, stop) as unreadable, as one range with those that it overlaps or touches."""
    cdef ByteRange* spans = <ByteRange*>i.bad.data
    cdef size_t used = <size_t>i.bad_count * sizeof(ByteRange)
    cdef int64_t first = bad_index(i, start), behind = first
    while behind < i.bad_count and spans[behind].start <= stop:
        start, stop = min(start, spans[behind].start), max(stop, spans[behind].stop)
        behind += 1
    if behind == first and buffer_reserve(&i.bad, used, used + sizeof(ByteRange)) != 0:
        i.failed = True
        return
    spans = <ByteRange*>i.bad.data + first
    memmove(spans + 1, <ByteRange*>i.bad.data + behind, <size_t>(i.bad_count - behind) * sizeof(ByteRange))
    spans.start, spans.stop = start, stop
    i.bad_count += first + 1 - behind


cdef inline int64_t unreadable_end(const Input* i, int64_t start, int64_t stop) noexcept nogil:
    """The end of the first unreadable range that overlaps [start, stop); 0: there is none."""
    cdef const ByteRange* spans = <const ByteRange*>i.bad.data
    cdef int64_t k = bad_index(i, start + 1)
    return spans[k].stop if k < i.bad_count and spans[k].start < stop else 0


cdef inline bint fetch_all(Input* i, int64_t position, uint8_t* to, int64_t n) noexcept nogil:
    """Reads n bytes; True if all could be read."""
    cdef int64_t done = 0, got = 1
    while done < n and got > 0:
        got = i.reader.fetch(i.reader, position + done, to + done, n - done)
        if got == READER_RAISED:
            i.failed = True
        done += got if got > 0 else 0
    return done == n


cdef inline void narrow_bad_range(Input* i, int64_t position, uint8_t* to, int64_t n) noexcept nogil:
    """Reads as much as possible, from both ends, of n bytes that could not be read at once. By bisection; the bytes
    between become zeros and are noted as unreadable."""
    cdef int64_t low = 0, high = n, middle, stop
    while high - low > i.reader.grain and not i.failed:          # [0, low) is read, [low, high) has a bad byte
        middle = low + (high - low) // 2
        if fetch_all(i, position + low, to + low, middle - low):
            low = middle
        else:
            high = middle
    stop, high = n, low
    while stop - high > i.reader.grain and not i.failed:         # [stop, n) is read, [high, stop) has a bad byte
        middle = high + (stop - high) // 2
        if fetch_all(i, position + middle, to + middle, stop - middle):
            stop = middle
        else:
            high = middle
    memset(to + low, 0, <size_t>(stop - low))
    note_bad(i, position + low, position + stop)


cdef inline void fetch_with_zeros(Input* i, int64_t position, uint8_t* to, int64_t n) noexcept nogil:
    """Reads n bytes from `position`; after a failure page by page, with zeros for unreadable bytes."""
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
        if got == READER_RAISED:
            i.failed = True
        if got == READ_END:
            i.reader.error_number = 0
            note_bad(i, position + done, i.size)
        if got != READ_FAILED:
            memset(to + done, 0, <size_t>(n - done))
            return
        if not small and wish > PAGE - (position + done) % PAGE:
            small = True
            continue
        narrow_bad_range(i, position + done, to + done, wish)
        done += wish


cdef inline const uint8_t* move_window(Input* i, int64_t position, int64_t n) noexcept nogil:
    """Moves the window to `position`, with n bytes or more; NULL: out of memory, or READER_RAISED."""
    cdef int64_t size = n if n > i.step else i.step
    cdef int64_t end = i.stop if n <= i.stop - position else i.size
    cdef int64_t kept = 0
    cdef uint8_t* old = i.buffer.data
    cdef size_t old_capacity = i.buffer.capacity
    if i.failed or i.reader == NULL:
        return NULL
    if size > end - position:
        size = end - position
    if i.low <= position < i.high:
        kept = i.high - position         # fewer than n: otherwise the window would not move
    if <size_t>size > old_capacity:
        i.buffer.data = pages_take(<size_t>size, &i.buffer.capacity)
        if i.buffer.data == NULL:
            i.buffer.data, i.buffer.capacity, i.failed = old, old_capacity, True
            return NULL
        if kept > 0:
            memcpy(i.buffer.data, old + (position - i.low), <size_t>kept)
        pages_free(old, old_capacity)
    elif kept > 0:
        memmove(old, old + (position - i.low), <size_t>kept)
    fetch_with_zeros(i, position + kept, i.buffer.data + kept, size - kept)
    i.base = i.buffer.data - position
    i.low = position
    i.high = position + size
    return NULL if i.failed else i.buffer.data


cdef inline const uint8_t* reach(Input* i, int64_t position, int64_t n) noexcept nogil:
    """A pointer to n bytes from `position` on; the input has that many. NULL: see move_window."""
    if position >= i.low and n <= i.high - position:
        return i.base + position
    return move_window(i, position, n)


cdef inline const uint8_t* peek(Input* i, int64_t position, int64_t n) noexcept nogil:
    """Like `reach`, for up to 64 bytes, without moving the window; valid until the next `peek`. Never NULL: zeros once
    reading has failed, which the next `reach` reports."""
    if position >= i.low and n <= i.high - position:
        return i.base + position
    if i.failed or i.reader == NULL:
        memset(i.peeked, 0, sizeof(i.peeked))
    else:
        fetch_with_zeros(i, position, i.peeked, n)
    return i.peeked


cdef inline int64_t zero_bytes(const uint8_t* p, int64_t n) noexcept nogil:
    """How many zeros n bytes begin with."""
    cdef int64_t zeros = 0
    cdef uint64_t words[4]
    while n - zeros >= <int64_t>sizeof(words):
        memcpy(words, p + zeros, sizeof(words))
        if words[0] | words[1] | words[2] | words[3]:
            break
        zeros += sizeof(words)
    while zeros < n and p[zeros] == 0:
        zeros += 1
    return zeros


cdef inline int64_t known_zeros_end(Input* i, int64_t position) noexcept nogil:
    """The end of the zeros from `position` on that are in the window or, where it ends, in a hole of the file."""
    cdef int64_t end = position + zero_bytes(i.base + position, i.high - position)
    if end < i.high or i.reader == NULL:
        return end
    return kr_hole_end(i.reader.descriptor, end, i.size)           # a Python object's descriptor is -1


cdef inline int64_t zeros_end(Input* i, int64_t position) noexcept nogil:
    """The end of the zeros from `position` on, at most `stop`; less if bytes are unreadable. Holes are not read."""
    cdef int64_t end
    while position < i.stop:
        if reach(i, position, 1) == NULL or unreadable_end(i, position, i.stop) > 0:
            return position
        end = known_zeros_end(i, position)
        if end < i.high or i.reader == NULL:
            return min(end, i.stop)
        position = end
        i.step = i.reader.window
    return i.stop


cdef inline bint move_window_if_cached(Input* i, int64_t position) noexcept nogil:
    """Moves the window to the HEADER_WINDOW bytes from `position` if no disk must be waited for."""
    cdef uint8_t[HEADER_WINDOW] found
    cdef int64_t n = i.stop - position
    if n > HEADER_WINDOW:
        n = HEADER_WINDOW
    if kr_pread_cached(i.reader.descriptor, found, n, position) != n:  # a Python object's descriptor is -1
        return False
    memcpy(i.buffer.data, found, <size_t>n)
    i.base, i.low, i.high = i.buffer.data - position, position, position + n
    i.step = HEADER_WINDOW
    return True


cdef inline const uint8_t* reach_header(Input* i, int64_t position, int64_t n) noexcept nogil:
    """Like `reach`, for up to HEADER_WINDOW bytes in a scan of headers: those that are far apart are read alone,
    others a window at a time. How far: a disk reads ahead only what is read without gaps, so that short gaps are
    skipped only in the page cache."""
    cdef int64_t apart = position - i.header
    i.header = position
    if position >= i.low and n <= i.high - position:
        return i.base + position
    if i.reader != NULL:
        if i.high > 0 and position - i.high > i.reader.worth_skipping:
            i.step = HEADER_WINDOW
        elif i.high > 0 and apart > FAR_APART and move_window_if_cached(i, position):
            return i.buffer.data
        else:
            i.step = i.step * 8 if i.step * 8 < i.reader.window else i.reader.window
    return move_window(i, position, n)
