"""Resynchronisation: finds the batch at which reading continues after damage.

    |--- good ---|xxxxxxx damage xxxxxxx|--- good ---|        damage + batches + tail tile the input

1. The claim first. Where the bytes behind the damaged batch's claimed length are a batch that checks out, or the end,
   the whole claim is the damage and nothing inside it is looked at: a value may itself hold batches. Several damaged
   batches in a row are followed claim by claim, as long as their offsets go up, until one checks out.
2. Else byte by byte, always with CRC. A candidate whose base offset is below the last good next offset (a batch inside
   of a value, most likely) counts only when a batch checks out behind it too. None counts whose base offset is far
   above its neighbours': no checksum covers a base offset, and a cut may have left half of one. None counts that is
   a value: a run of batches that breaks off with its length in front of it, as a record has it of its value, or one to
   which the damaged batch's own records lead. Other runs that break off wait for the next ones: when the log goes on
   below them, they were in a value too, behind some prefix.

Before its CRC is computed a candidate must look like what somebody writes, or be followed by another frame: in a
gigabyte of compressed bytes every 300th place holds a size and a magic by chance.

Work is bounded: all CRCs of all searches together read at most 8 bytes per byte of input, so crafted lengths cannot
make it quadratic; and what one search found empty is not searched again.
"""
from libc.stdint cimport INT64_MIN, int8_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from kafkarec._c.batch cimport (
    ABSENT, LATEST_CODEC, LATEST_MAGIC, LOG_OVERHEAD, MAGIC_OFFSET, TO_LOOK, UP_TO_MAGIC, V0_OVERHEAD, V2_OVERHEAD,
    BatchRow, check_crc, frame, read_batch,
)
from kafkarec._c.endian cimport load_i32
from kafkarec._c.input cimport Input, bad_until, peek, piece, reach
from kafkarec._c.status cimport CUT, Fault, OK
from kafkarec._c.varint cimport VARINT_BYTES, VARLONG_BYTES, read_varlong, unzigzag64

cdef enum:
    LEAST_BODY = 6               # of a record behind its length: attributes, two deltas, two lengths, a count
    CRC_BUDGET = 8               # bytes of CRC work per byte of input
    LARGE = 1 << 14
    ODD_BUDGET = 2               # of which so many are for odd candidates: they must not use up the others' share
    MOST_WITNESSES = 4           # lone candidates in a row that are compared before the first of them is believed
    MAX_SEARCH_BYTES = 1 << 22  # bytes in which they are looked for; no value of records reaches further
    REMEMBERED = 256             # candidates whose checksum need not be computed again by the next search
    MOST_HOPS = 1024             # batches of a run that are followed by their frames
    MOST_CLAIMS = 64             # damaged batches in a row that are followed by their claims

cdef enum:
    NO, LONE, FOLLOWED           # how far a candidate is to be believed

cdef extern from * nogil:
    """
    #define KR_OFFSET_JUMP ((int64_t)1 << 31)
    """
    int64_t OFFSET_JUMP "KR_OFFSET_JUMP"

cdef struct Search:
    int64_t crc_left             # bytes of CRC work that are left
    int64_t odd_left             # of these for candidates that do not look written: most of them are none
    int64_t[REMEMBERED] seen     # places whose checksum was computed, plus 1, in slots by place; < 0 where it failed
    int64_t barren_to            # searches go forward only, and in front of this no batch begins that counts
    int64_t good_next            # next offset of the last good batch, INT64_MIN before the first


cdef struct Candidate:                  # a candidate and what follows it without a gap
    int64_t start
    int64_t first_end            # of the candidate itself
    int64_t last_start           # of the run's last batch
    int64_t end
    int64_t base
    int64_t last                 # last offset of the candidate, or of the one behind it: only their CRCs are known


cdef inline void search_begin(Search* search, int64_t length) noexcept nogil:
    search.crc_left = length * (CRC_BUDGET - ODD_BUDGET) + 4096
    search.odd_left = length * ODD_BUDGET
    search.barren_to = 0
    memset(search.seen, 0, sizeof(search.seen))


cdef inline bint ends_at(const Input* source, int64_t position) noexcept nogil:
    return source.length - position < LOG_OVERHEAD


cdef inline int64_t behind_field(Input* source, int64_t position, int64_t end) noexcept nogil:
    """Where a key or value whose int32 length stands at `position` ends: beyond `end` where it does not fit."""
    cdef int32_t length
    if end - position < 4:
        return end + 1
    length = load_i32(peek(source, position, 4))
    return position + 4 + (length if length > 0 else 0)


cdef inline bint looks_written(Input* source, const BatchRow* row) noexcept nogil:
    """Whether the fields are as every known writer leaves them. Others are legal, but then a frame must follow."""
    cdef int64_t end = row.position + row.size_in_bytes
    cdef int64_t key = row.position + UP_TO_MAGIC + (9 if row.magic == 1 else 1)
    if row.magic == 2:
        return (row.attributes >> 7 == 0 and row.codec <= LATEST_CODEC and row.last_offset >= row.base_offset
                and row.record_count >= 0
                and row.base_sequence >= ABSENT and row.producer_epoch >= ABSENT and row.producer_id >= ABSENT)
    return not row.attributes & 0xF0 and behind_field(source, behind_field(source, key, end), end) == end


cdef inline bint frame_behind(Input* source, int64_t position) noexcept nogil:
    """Or the end of the input."""
    cdef Fault fault
    cdef int64_t size
    cdef int8_t magic
    cdef int64_t left = source.length - position
    if left < UP_TO_MAGIC:
        return left == 0
    return frame(peek(source, position, UP_TO_MAGIC), left, position, &size, &magic, &fault) == OK


cdef inline bint checks_out(Input* source, int64_t position, Search* search, BatchRow* row) noexcept nogil:
    """A whole batch begins here and its checksum holds. Odd ones, and large ones that no frame follows (a header with a
    forged length looks written, too), have a budget of their own."""
    cdef Fault fault
    cdef int64_t* known = &search.seen[(position ^ position >> 6) % REMEMBERED]
    cdef int64_t* left = &search.crc_left
    if read_batch(source, position, TO_LOOK, row, &fault) != OK:
        return False
    if known[0] == position + 1 or known[0] == -position - 1:
        return known[0] > 0
    if not looks_written(source, row) or (
        row.size_in_bytes > LARGE and not frame_behind(source, position + row.size_in_bytes)
    ):
        left = &search.odd_left
    if row.size_in_bytes > left[0]:
        return False
    left[0] -= row.size_in_bytes
    known[0] = position + 1 if check_crc(source, row, &fault) == OK else -position - 1
    return known[0] > 0


cdef inline bint far_above(int64_t offset, int64_t other) noexcept nogil:
    """More than 2^31 records further on: no log jumps so far, half a base offset does."""
    return offset > OFFSET_JUMP and other < offset - OFFSET_JUMP


cdef inline bint all_zeros(const uint8_t* p, int64_t n) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        if p[i] != 0:
            return False
    return True


cdef inline bint leads_on(Input* source, Candidate* run) noexcept nogil:
    """The run goes on, batch after batch by their frames, to the end of the input or further than any value reaches."""
    cdef BatchRow row
    cdef Fault fault
    cdef int64_t stop = run.end + MAX_SEARCH_BYTES
    cdef int status, _hop
    for _hop in range(MOST_HOPS):
        if run.end == source.length or run.end > stop:
            return True
        if ends_at(source, run.end):             # the rest of a record, or of the next batch: nothing tells
            return False
        status = read_batch(source, run.end, TO_LOOK, &row, &fault)
        if status == CUT:                        # the tail, when it is the next batch's beginning
            return fault.base_offset > run.last and not far_above(fault.base_offset, run.last)
        if status != OK or not looks_written(source, &row):
            # preallocated, or a page of zeros: no value ends so
            return all_zeros(peek(source, run.end, LOG_OVERHEAD), LOG_OVERHEAD)
        run.last_start = run.end
        run.end += row.size_in_bytes
    return True


cdef inline int acceptable(Input* source, int64_t position, Search* search, Candidate* run) noexcept nogil:
    """NO; LONE: a batch, or a run of them, that breaks off; FOLLOWED: one that leads on."""
    cdef BatchRow row, behind
    cdef Fault fault
    cdef bint followed
    if read_batch(source, position, TO_LOOK, &row, &fault) != OK:
        return NO
    if not looks_written(source, &row) and not frame_behind(source, position + row.size_in_bytes):
        return NO
    if not checks_out(source, position, search, &row):
        return NO
    run.start, run.base, run.last, run.end = position, row.base_offset, row.last_offset, position + row.size_in_bytes
    run.first_end, run.last_start = run.end, position
    followed = checks_out(source, run.end, search, &behind)
    if far_above(row.base_offset, search.good_next):
        if far_above(row.base_offset, behind.base_offset) if followed else search.good_next != INT64_MIN:
            return NO
    if not followed and row.base_offset < search.good_next:
        return NO
    if followed and behind.last_offset > run.last:
        run.last = behind.last_offset
    return FOLLOWED if leads_on(source, run) else LONE


cdef inline int64_t value_end(Input* source, const Candidate* run, Search* search) noexcept nogil:
    """Behind the value that this run is: it breaks off, and its length stands right in front of it, as the varint of a
    record. 0: this is no value. (The int32 of a message of magic 0 or 1 says nothing: requests and many an archive have
    one in front of their batches, too.) Where the value's last batch is damaged only what is in front of that."""
    cdef uint8_t before[VARINT_BYTES]
    cdef BatchRow row
    cdef uint64_t raw = 0
    cdef int n
    if run.start < VARINT_BYTES:
        return 0
    memcpy(before, peek(source, run.start - VARINT_BYTES, VARINT_BYTES), VARINT_BYTES)
    for n in range(1, VARINT_BYTES + 1):                # the varint's last byte, then the ones before it
        if (before[VARINT_BYTES - n] >= 0x80) == (n == 1):
            return 0
        raw = raw << 7 | (before[VARINT_BYTES - n] & 0x7F)
        if run.start + unzigzag64(raw) == run.end:
            if run.last_start == run.start or checks_out(source, run.last_start, search, &row):
                return run.end
            return run.last_start
    return 0


cdef inline int read_field(Input* source, int64_t* position, bint sized, int64_t* value) noexcept nogil:
    """The varint at `position`, which moves behind it."""
    cdef int64_t left = source.length - position[0]
    cdef int64_t n = left if left < VARLONG_BYTES else VARLONG_BYTES
    cdef uint64_t raw = 0
    cdef const uint8_t* p
    cdef const uint8_t* cursor
    cdef int status
    if n <= 0:
        return CUT
    p = cursor = peek(source, position[0], n)
    status = read_varlong(&cursor, p + n, VARINT_BYTES if sized else VARLONG_BYTES, &raw)
    value[0] = unzigzag64(raw)
    position[0] += cursor - p
    return status


cdef inline int64_t records_value_end(Input* source, int64_t batch, const Candidate* run) noexcept nogil:
    """Where the value ends that begins with this candidate, as the damaged batch's records go one behind the other; 0:
    none begins here, or it is too small."""
    cdef int64_t at = batch + V2_OVERHEAD, end, length = 0, ignored = 0
    while at < run.start:
        if read_field(source, &at, True, &length) != OK or length < LEAST_BODY or at >= source.length:
            return 0
        end = at + length
        if peek(source, at, 1)[0] != 0:                  # attributes, which nobody sets: these are no records
            return 0
        at += 1
        if read_field(source, &at, False, &ignored) != OK or read_field(source, &at, True, &ignored) != OK:
            return 0
        if read_field(source, &at, True, &length) != OK or length > end - at:
            return 0
        at += length if length > 0 else 0                # the key
        if read_field(source, &at, True, &length) != OK or length > end - at:
            return 0
        if at == run.start:
            return at + length if at + length >= run.first_end else 0
        at = end
    return 0


cdef inline bint claims_lead_on(Input* source, int64_t position, int64_t offset,
                                Search* search) noexcept nogil:
    """From `position`, claim after claim with rising offsets, to a batch that counts or to the end."""
    cdef BatchRow row
    cdef Candidate run
    cdef Fault fault
    cdef int verdict, _hop
    for _hop in range(MOST_CLAIMS):
        if ends_at(source, position):
            return position == source.length
        if read_batch(source, position, TO_LOOK, &row, &fault) != OK:
            return False
        verdict = acceptable(source, position, search, &run)
        if verdict != NO:
            return verdict == FOLLOWED or value_end(source, &run, search) == 0
        if row.base_offset < offset or far_above(row.base_offset, offset) or not looks_written(source, &row):
            return False
        offset = row.base_offset + 1 if row.base_offset < row.last_offset else row.last_offset
        position += row.size_in_bytes
    return False


cdef inline int64_t search_on(Input* source, int64_t position, Search* search) noexcept nogil:
    """The first byte from `position` on where a batch begins that counts; the input's length when there is none."""
    cdef int64_t start = position
    cdef int64_t length = source.length
    cdef int64_t readable, value
    cdef int64_t passed = -1             # the end of the last batch that was in a value
    cdef int64_t within = -1             # the end of that value
    cdef Candidate run
    cdef Candidate lone
    cdef int witnesses = 0
    cdef int verdict
    cdef const uint8_t* p
    memset(&lone, 0, sizeof(Candidate))
    lone.start = -1
    if position < search.barren_to:
        position = search.barren_to
    if source.reader != NULL:
        source.step = source.reader.window
    while length - position >= UP_TO_MAGIC and search.crc_left > 0:
        p = reach(source, position, UP_TO_MAGIC)
        if p == NULL:
            position = length
            break
        # the cheapest looks first: magic 0 to 2, a size that is no less than any batch's
        if p[MAGIC_OFFSET] > LATEST_MAGIC or load_i32(p + 8) < V0_OVERHEAD:
            position += 1
            continue
        readable = bad_until(source, position, position + 1) if source.bad_count > 0 else 0
        if readable > 0:
            position = readable
            continue
        if lone.start >= 0 and position - lone.start > MAX_SEARCH_BYTES:
            break
        verdict = acceptable(source, position, search, &run)
        if verdict == NO:
            position += 1
            continue
        value = value_end(source, &run, search) if verdict == LONE else 0
        if value == 0:
            if position != passed or run.first_end > within:
                within = records_value_end(source, start - 1, &run)
            if within > 0:
                value = passed = run.first_end
        if value > 0:
            position = value
            continue
        if lone.start >= 0 and run.base >= search.good_next and run.base >= 0 and (
            run.base <= lone.last or lone.base < search.good_next
        ):
            position = lone.first_end    # the log goes on below it, or came back from below: it was in a value
            lone.start = -1              # what followed it is judged by itself
            continue
        if lone.start < 0 and verdict == LONE:
            lone, witnesses = run, 0
        elif verdict == FOLLOWED or witnesses == MOST_WITNESSES:
            break
        witnesses += 1
        position = run.end
    else:
        position = length
    if lone.start >= 0:
        position = lone.start
    search.barren_to = position
    return position


cdef inline int64_t damage_end(Input* source, const Fault* fault, Search* search) noexcept nogil:
    """Where the damage that begins at fault.position ends: the next batch, or the end of the input."""
    cdef int64_t claimed = fault.next_position
    cdef int64_t found
    if claimed > fault.position and claims_lead_on(source, claimed, fault.base_offset, search):
        return claimed
    found = search_on(source, fault.position + 1, search)
    if found < source.length or claimed < 0:
        return found
    return claimed               # nothing follows: the claim alone is damage, what is behind it is judged by itself


cdef inline bint only_zeros(Input* source, int64_t position) noexcept nogil:
    """Nothing but zeros from here to the end, all of them read."""
    cdef int64_t n
    cdef const uint8_t* p
    while position < source.length:
        n = piece(source, source.length - position)
        p = reach(source, position, n)
        if p == NULL or (source.bad_count > 0 and bad_until(source, position, position + n) > 0):
            return False
        if not all_zeros(p, n):
            return False
        position += n
    return True
