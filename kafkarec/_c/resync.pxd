"""Resynchronisation: finds the batch at which reading continues after damage.

    |--- good ---|xxxxxxx damage xxxxxxx|--- good ---|        damage + batches + tail tile the input

1. By length. If a valid batch, or the end of the input, is exactly where the stated length of the damaged batch ends,
   the damage has that length, and nothing within it is searched: a value may itself contain batches. Several damaged
   batches in a row are followed length by length, as long as their offsets rise, until a batch is valid.
2. Otherwise byte by byte, always with CRC. Each position where a batch may begin is a candidate; it and the batches
   that follow it without a gap are its chain. It is a record value, and rejected, if the chain ends without a next
   batch and its length, as a varint, is directly before it (or before a schema id); or if the records of the damaged
   batch lead to it.

No offset rejects a candidate here: no checksum covers it, and in a buffer offsets may repeat or fall. In a file
recover.offset_order decides about the candidate that is found.

Before its CRC is computed, a candidate must have plausible fields, or another frame must follow it: in compressed bytes
about every 300th position has a valid size and magic by chance.

Work is limited: the CRCs of all searches together read at most 8 bytes per byte of input, and those for the ends of
batches with wrong lengths (restore) at most 32, so that crafted lengths cannot make it quadratic (the damage then says
so: search_limit); and bytes where one search has found no batch are not searched again.
"""
from libc.stdint cimport INT64_MIN, int8_t, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memcpy, memset

from kafkarec._c.batch cimport (
    ABSENT, BATCH_MAGIC, LATEST_CODEC, LATEST_MAGIC, LOG_OVERHEAD, MAGIC_OFFSET, FOR_PEEK, UP_TO_MAGIC, V0_OVERHEAD,
    V2_OVERHEAD, BatchRow, check_crc, frame, read_batch,
)
from kafkarec._c.numbers cimport VARINT_BYTES, VARLONG_BYTES, load_i32, read_unsigned, unzigzag64
from kafkarec._c.input cimport Input, known_zeros_end, peek, reach, unreadable_end, zero_bytes
from kafkarec._c.record_walk cimport LEAST_BODY
from kafkarec._c.status cimport CUT, Fault, OK

cdef enum:
    SCHEMA_ID = 5                # bytes: a magic byte of 0, an int32; before the content of many values
    CRC_BUDGET = 8               # bytes of CRC work per byte of input
    IMPLAUSIBLE_BUDGET = 2       # the part of it for implausible candidates, which must not use up the rest
    ENDS_BUDGET = 32             # bytes per byte of input for the ends of compressed batches (restore)
    LARGE = 1 << 14              # bytes; a larger candidate without a following frame counts as implausible
    MAX_SEARCH_BYTES = 1 << 22   # bytes up to which a chain is followed: further than a record value reaches
    MAX_ANCHOR_BYTES = 1 << 26   # the same for a chain that is compared with the log around it
    REMEMBERED = 256             # candidates whose CRC result is cached for the next search
    MOST_HOPS = 1024             # batches of a chain that are followed by their frames
    LIKELY_OFFSET_BITS = 48      # of a plausible header by chance hardly any has so low an offset
    MOST_LENGTHS = 64            # damaged batches in a row that are followed by their lengths

cdef enum:
    NO, LONE, FOLLOWED           # verdict on a candidate: see judge_candidate

cdef enum:
    OFFSET_JUMP = 0x80000000     # recover.offset_order.MAX_JUMP; 1 << 31 would be negative in C

cdef struct Search:
    int64_t crc_left             # bytes of CRC work left for plausible candidates
    int64_t implausible_left     # the same for implausible ones, most of which are no batches
    int64_t ends_left            # the same for the ends of compressed batches
    int64_t[REMEMBERED] crc_results  # by a hash of the position: position + 1 if its CRC matches, -position - 1 if not
    int64_t searched_to          # searches only go forward: before this position there is no further batch
    int64_t ahead_from, ahead_to  # bytes in which the last search ahead has found none
    bint limited                 # a batch may be left in the damage: the work is used up

cdef enum EndWitness:
    LENGTH                       # the length of the damaged batch, which leads to a valid one, or which its CRC proves
    NEXT_BATCH                   # a search found a batch there
    NO_WITNESS                   # no batch is behind the damage: it ends at its stated length, or with the input

cdef struct DamageEnd:
    int64_t position
    EndWitness witness


cdef struct Candidate:           # a candidate and its chain
    int64_t start
    int64_t first_end            # of the candidate itself
    int64_t last_start           # of the chain's last batch
    int64_t end
    int64_t last                 # last offset of the candidate or the next batch; the others' CRCs are not checked
    int64_t cut                  # base offset of the truncated batch at its end; INT64_MIN: chain_continues found none


cdef inline void begin_search(Search* search, int64_t length) noexcept nogil:
    memset(search, 0, sizeof(Search))
    search.crc_left = length * (CRC_BUDGET - IMPLAUSIBLE_BUDGET) + 4096
    search.implausible_left = length * IMPLAUSIBLE_BUDGET
    search.ends_left = length * ENDS_BUDGET


cdef inline int64_t field_end(Input* source, int64_t position, int64_t end) noexcept nogil:
    """The end of a key or value whose int32 length is at `position`; a position beyond `end` if it does not fit."""
    cdef int32_t length
    if end - position < 4:
        return end + 1
    length = load_i32(peek(source, position, 4))
    return position + 4 + (length if length > 0 else 0)


cdef inline bint looks_plausible(Input* source, const BatchRow* row) noexcept nogil:
    """Whether the fields have values that known writers write. Other values are legal, but then a frame must follow."""
    cdef int64_t end = row.position + row.size_in_bytes
    cdef int64_t key = row.position + UP_TO_MAGIC + (9 if row.magic == 1 else 1)
    if row.magic >= BATCH_MAGIC:
        return (row.attributes >> 7 == 0 and row.codec <= LATEST_CODEC and row.last_offset >= row.base_offset
                and row.record_count >= 0
                and row.base_sequence >= ABSENT and row.producer_epoch >= ABSENT and row.producer_id >= ABSENT)
    return not row.attributes & 0xF0 and field_end(source, field_end(source, key, end), end) == end


cdef inline bint peek_batch(Input* source, int64_t position, BatchRow* row) noexcept nogil:
    """Whether a whole batch is framed at the position; fills its row. The window stays."""
    cdef Fault ignored
    return read_batch(source, position, source.size, FOR_PEEK, row, &ignored) == OK


cdef inline bint peek_plausible(Input* source, int64_t position, BatchRow* row) noexcept nogil:
    """The same of a batch with a plausible header."""
    return peek_batch(source, position, row) and looks_plausible(source, row)


cdef inline bint frame_follows(Input* source, int64_t position) noexcept nogil:
    """Whether a frame, or the end of the input, is at `position`."""
    cdef Fault fault
    cdef int64_t size
    cdef int8_t magic
    cdef int64_t left = source.size - position
    if left < UP_TO_MAGIC:
        return left == 0
    return frame(peek(source, position, UP_TO_MAGIC), left, position, &size, &magic, &fault) == OK


cdef inline bint is_valid_batch(Input* source, int64_t position, Search* search, BatchRow* row) noexcept nogil:
    """Whether a whole batch with a matching CRC begins here. Implausible candidates have a separate CRC budget, as have
    large ones without a following frame: a plausible header may have a forged length."""
    cdef Fault fault
    cdef int64_t* slot = &search.crc_results[(position ^ position >> 6) % REMEMBERED]
    cdef int64_t* left = &search.crc_left
    cdef bint plausible
    if not peek_batch(source, position, row):
        return False
    if slot[0] == position + 1 or slot[0] == -position - 1:
        return slot[0] > 0
    plausible = looks_plausible(source, row)
    if not plausible or (row.size_in_bytes > LARGE and not frame_follows(source, position + row.size_in_bytes)):
        left = &search.implausible_left
    if row.size_in_bytes > left[0]:
        search.limited |= plausible and row.base_offset >> LIKELY_OFFSET_BITS == 0
        return False
    left[0] -= row.size_in_bytes
    slot[0] = position + 1 if check_crc(source, row, &fault) == OK else -position - 1
    return slot[0] > 0


cdef inline bint far_above(int64_t offset, int64_t other) noexcept nogil:
    """Whether the offset is more than 2^31 above the other: no log skips so many; half a base offset may."""
    return offset > OFFSET_JUMP and other < offset - OFFSET_JUMP


cdef inline bint cut_follows(const Candidate* chain) noexcept nogil:
    """Whether the truncated batch at the chain's end is the log's end: the beginning of the next batch."""
    return chain.cut > chain.last and not far_above(chain.cut, chain.last)


cdef inline bint chain_continues(Input* source, Candidate* chain, int64_t most_bytes, int most_hops) noexcept nogil:
    """Follows the chain frame by frame. True if it reaches the end of the input, a truncated batch with a higher
    offset, zeros, or so many bytes or batches."""
    cdef BatchRow row
    cdef Fault fault
    cdef int64_t stop = chain.end + most_bytes
    cdef int status, _hop
    for _hop in range(most_hops):
        if chain.end == source.size or chain.end > stop:
            return True
        if source.size - chain.end < LOG_OVERHEAD:   # the rest of a record or the beginning of a batch: undecidable
            return False
        status = read_batch(source, chain.end, source.size, FOR_PEEK, &row, &fault)
        if status == CUT:
            chain.cut = fault.base_offset
            return cut_follows(chain)
        if status != OK or not looks_plausible(source, &row):
            # preallocated, or a page of zeros: not the end of a value
            return zero_bytes(peek(source, chain.end, LOG_OVERHEAD), LOG_OVERHEAD) == LOG_OVERHEAD
        chain.last_start = chain.end
        chain.end += row.size_in_bytes
    return True


cdef inline bint is_on_chain(Input* source, Candidate* chain, int64_t position) noexcept nogil:
    """Whether the frames of a chain that was followed lead to `position`; chain.start moves there or behind it, so that
    each frame is passed once."""
    cdef BatchRow row
    while chain.start < min(position, chain.end):
        if not peek_batch(source, chain.start, &row):
            return False
        chain.start += row.size_in_bytes
    return chain.start == position


cdef inline bint length_is_before(Input* source, int64_t start, int64_t end) noexcept nogil:
    """Whether the bytes before `start` are the varint of the length of [start, end)."""
    cdef uint8_t preceding[VARINT_BYTES]
    cdef uint64_t raw = 0
    cdef int n
    if start < VARINT_BYTES:
        return False
    memcpy(preceding, peek(source, start - VARINT_BYTES, VARINT_BYTES), VARINT_BYTES)
    for n in range(1, VARINT_BYTES + 1):                # the varint's last byte, then the bytes before it
        if (preceding[VARINT_BYTES - n] >= 0x80) == (n == 1):
            return False
        raw = raw << 7 | (preceding[VARINT_BYTES - n] & 0x7F)
        if start + unzigzag64(raw) == end:
            return True
    return False


cdef inline bint has_varint_length_before(Input* source, const Candidate* chain) noexcept nogil:
    """Whether the length of a chain is directly before it as a varint, or before a schema id (a byte of 0, an int32),
    with which it is counted. (An int32 length as in magic 0 and 1 is no evidence: produce requests and some archive
    formats have one before their batches, too.)"""
    return length_is_before(source, chain.start, chain.end) or (
        chain.start >= SCHEMA_ID and peek(source, chain.start - SCHEMA_ID, 1)[0] == 0
        and length_is_before(source, chain.start - SCHEMA_ID, chain.end))


cdef inline int judge_candidate(Input* source, int64_t position, Search* search, Candidate* chain) noexcept nogil:
    """NO: not accepted. LONE: a valid batch, but its chain ends without a next batch, or with a truncated one and may
    be a value. FOLLOWED: a valid batch, and chain_continues. Fills `chain`."""
    cdef BatchRow row, following
    if not peek_batch(source, position, &row):
        return NO
    if not looks_plausible(source, &row) and not frame_follows(source, position + row.size_in_bytes):
        return NO
    if not is_valid_batch(source, position, search, &row):
        return NO
    chain.start, chain.last, chain.end = position, row.last_offset, position + row.size_in_bytes
    chain.first_end, chain.last_start = chain.end, position
    if is_valid_batch(source, chain.end, search, &following) and following.last_offset > chain.last:
        chain.last = following.last_offset
    chain.cut = INT64_MIN
    if not chain_continues(source, chain, MAX_SEARCH_BYTES, MOST_HOPS):
        return LONE
    # What is behind a value may look like a truncated batch.
    return LONE if chain.cut != INT64_MIN and has_varint_length_before(source, chain) else FOLLOWED


cdef inline int64_t enclosing_value_end(Input* source, const Candidate* chain, Search* search) noexcept nogil:
    """The end of the record value that consists of this LONE chain; 0 if it is no value. If the value's last batch is
    invalid, the start of that batch."""
    cdef BatchRow row
    if not has_varint_length_before(source, chain):
        return 0
    if chain.last_start == chain.start or is_valid_batch(source, chain.last_start, search, &row):
        return chain.end
    return chain.last_start


cdef inline int read_varint_at(Input* source, int64_t* position, bint sized, int64_t* value) noexcept nogil:
    """Reads a varint (`sized`) or varlong at `position`, and advances `position`."""
    cdef int64_t left = source.size - position[0]
    cdef int64_t n = left if left < VARLONG_BYTES else VARLONG_BYTES
    cdef uint64_t raw = 0
    cdef const uint8_t* p
    cdef const uint8_t* cursor
    cdef int status
    if n <= 0:
        return CUT
    p = cursor = peek(source, position[0], n)
    status = read_unsigned(&cursor, p + n, VARINT_BYTES if sized else VARLONG_BYTES, &raw)
    value[0] = unzigzag64(raw)
    position[0] += cursor - p
    return status


cdef inline int64_t inner_value_end(Input* source, int64_t batch, const Candidate* chain,
                                    Search* search) noexcept nogil:
    """The end of the record value that begins with this candidate, found by following the records of the damaged batch.
    0: no value begins here, it is shorter than the candidate, or a batch behind the candidate reaches beyond it: then
    the value was removed, and this is what followed it."""
    cdef int64_t at = batch + V2_OVERHEAD, end, length = 0, ignored = 0
    cdef BatchRow following
    while at < chain.start:
        if read_varint_at(source, &at, True, &length) != OK or length < LEAST_BODY or at >= source.size:
            return 0
        end = at + length
        if peek(source, at, 1)[0] != 0:                  # attributes are always 0: these are no records
            return 0
        at += 1
        if read_varint_at(source, &at, False, &ignored) != OK or read_varint_at(source, &at, True, &ignored) != OK:
            return 0
        if read_varint_at(source, &at, True, &length) != OK or length > end - at:
            return 0
        at += length if length > 0 else 0                # the key
        if read_varint_at(source, &at, True, &length) != OK or length > end - at:
            return 0
        if at == chain.start:
            end = at + length
            if end < chain.first_end or (
                end > chain.first_end and is_valid_batch(source, chain.first_end, search, &following)
                and following.position + following.size_in_bytes > end
            ):
                return 0
            return end
        at = end
    return 0


cdef inline bint lengths_continue(Input* source, int64_t position, int64_t offset, Search* search) noexcept nogil:
    """Whether following the stated lengths from `position` on, with rising offsets, leads to an accepted batch or
    exactly to the end."""
    cdef BatchRow row
    cdef Candidate chain
    cdef int verdict, _hop
    for _hop in range(MOST_LENGTHS):
        if source.size - position < LOG_OVERHEAD:
            return position == source.size
        if not peek_batch(source, position, &row):
            return False
        verdict = judge_candidate(source, position, search, &chain)
        if verdict != NO:
            return verdict == FOLLOWED or enclosing_value_end(source, &chain, search) == 0
        if row.base_offset < offset or far_above(row.base_offset, offset) or not looks_plausible(source, &row):
            return False
        offset = row.base_offset + 1 if row.base_offset < row.last_offset else row.last_offset
        position += row.size_in_bytes
    return False


cdef inline int64_t bytes_before_magic(const uint8_t* p, int64_t n) noexcept nogil:
    """How many of n bytes come before the first that is the magic of a batch."""
    cdef int64_t skipped = 0
    while skipped < n and p[skipped] > LATEST_MAGIC:
        skipped += 1
    return skipped


cdef inline int64_t search_forward(Input* source, int64_t damage, int64_t position, bint ahead,
                                   Search* search) noexcept nogil:
    """The first position from `position` on at which an accepted batch begins; the input's size if there is none.
    `damage`: where the damaged batch begins; `ahead`: the next search may begin before what this one finds."""
    cdef int64_t readable, value
    cdef int64_t inner_batch_end = -1  # the end of the last batch that was within a value
    cdef int64_t inner_end = -1  # the end of that value
    cdef Candidate chain
    cdef int32_t length
    cdef int verdict
    cdef const uint8_t* p
    cdef int64_t begin
    if position < search.searched_to:
        position = search.searched_to
    begin = position
    if search.ahead_from <= position < search.ahead_to:
        position = search.ahead_to
    if source.reader != NULL:
        source.step = source.reader.window
    while source.size - position >= UP_TO_MAGIC and search.crc_left > 0:
        p = reach(source, position, UP_TO_MAGIC)
        if p == NULL:
            position = source.size
            break
        # the cheapest checks first: magic 0 to 2, a size that a batch can have
        if p[MAGIC_OFFSET] > LATEST_MAGIC:
            position += bytes_before_magic(p + MAGIC_OFFSET, source.high - position - MAGIC_OFFSET)
            continue
        length = load_i32(p + 8)
        if length == 0:          # no batch has its length within these zeros; the windows are those of steps by 1
            position = max(position + 1, known_zeros_end(source, position + 8) - MAGIC_OFFSET)
            continue
        if length < V0_OVERHEAD:
            position += 1
            continue
        readable = unreadable_end(source, position, position + 1)
        if readable > 0:
            position = readable
            continue
        verdict = judge_candidate(source, position, search, &chain)
        if verdict == NO:
            position += 1
            continue
        value = enclosing_value_end(source, &chain, search) if verdict == LONE else 0
        if value == 0:
            if position != inner_batch_end or chain.first_end > inner_end:
                inner_end = inner_value_end(source, damage, &chain, search)
            if inner_end > 0:
                value = inner_batch_end = chain.first_end
        if value == 0:
            break
        position = value
    else:
        search.limited |= search.crc_left <= 0
        position = source.size
    if ahead:
        search.ahead_from, search.ahead_to = begin, position
    else:
        search.searched_to = position
    return position


cdef inline DamageEnd damage_end(Input* source, const Fault* fault, Search* search) noexcept nogil:
    """The end of the damage that begins at fault.position: where the next batch begins, or the end of the input."""
    cdef DamageEnd end
    end.position, end.witness = fault.next_position, LENGTH
    if end.position > fault.position and lengths_continue(source, end.position, fault.base_offset, search):
        return end
    end.position = search_forward(source, fault.position, fault.position + 1, False, search)
    end.witness = NEXT_BATCH if end.position < source.size else NO_WITNESS
    if end.witness == NO_WITNESS and fault.next_position >= 0:
        end.position = fault.next_position       # the rest is judged separately
    return end
