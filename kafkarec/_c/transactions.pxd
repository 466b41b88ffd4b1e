"""Matches markers to transactions over the headers of batches, as `read/marker_matching.py` says, which has the rules.

    BatchRow and code of each batch --match_rows--> the open transaction of each producer id, rows of ended ones

Only what a log without damage has is done here: match_rows stops before a batch that contradicts what came before or
the .txnindex, and Python goes on from there. Numbers are those of the headers; absent ones are -1.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from kafkarec._c.batch cimport ABSENT, CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL, BatchRow
from kafkarec._c.columns cimport Buffer, Bytes, Columns, Run, buffer_reserve
from kafkarec._c.endian cimport load_i32
from kafkarec._c.offset_map cimport OffsetMap, Slot, offset_map_add
from kafkarec._c.status cimport OK, OUT_OF_MEMORY

cdef enum BatchCode:             # as in read/marker_columns.py; data has odd ones
    NOTHING = 0
    DATA = 1
    ABORT = 2
    STAMPED = 3                  # data whose base timestamp is not that of the first record
    COMMIT = 4
    UNREADABLE = 6

cdef enum:
    ABORT_TYPE = 0               # ControlRecordType
    COMMIT_TYPE = 1

cdef struct Transaction:         # in the order of marker_matching.EPOCH to SIZE
    int64_t epoch
    int64_t first
    int64_t last
    int64_t first_time
    int64_t last_time
    int64_t batches
    int64_t records
    int64_t bytes
    int64_t segment
    int64_t position             # of its first batch, and that batch's size
    int64_t size

cdef struct Ended:               # in the order of marker_matching.ROW
    int64_t producer_id
    int64_t code
    int64_t marker_offset
    int64_t marker_timestamp
    int64_t coordinator_epoch
    int64_t last_segment
    int64_t[9] data              # the fields of Transaction up to the segment

cdef struct Producer:
    int64_t id
    int64_t opened               # how many transactions were opened before its open one; ABSENT: it has none
    bint has_marker
    int64_t coordinator_epoch    # of its last marker
    Transaction open

cdef struct Listed:              # an entry of the .txnindex, by marker_offset
    int64_t marker_offset
    int64_t producer_id
    int64_t first_offset
    int64_t state                # bits of ListedState

cdef enum ListedState:
    MATCHED = 1                  # with its marker
    PRESENT = 2                  # its marker is among the batches

cdef struct Matcher:
    OffsetMap producer_map       # producer id -> index of a Producer
    Buffer producers
    int64_t producer_count
    int64_t opened               # how many transactions were opened
    Buffer ended
    int64_t ended_count
    Buffer without_data          # as ended: markers of transactions without data
    int64_t without_count
    bint has_index               # the segment has a .txnindex
    Listed* listed
    int64_t listed_count
    int64_t first_offset         # of the input


# ---- codes

cdef inline uint8_t data_code(int32_t attributes) noexcept nogil:
    cdef uint8_t code = STAMPED if attributes & (LOG_APPEND_TIME | DELETE_HORIZON) else DATA
    return code if attributes & (TRANSACTIONAL | CONTROL) == TRANSACTIONAL else NOTHING


cdef inline const uint8_t* bytes_of(const Bytes* column, int64_t row, int64_t* length) noexcept nogil:
    """The bytes of a key or value; of null length 0."""
    cdef const int32_t* ends = <const int32_t*>column.offsets.data + row
    length[0] = ends[1] - ends[0]
    return column.data.data + ends[0]


cdef inline uint8_t marker_code(const uint8_t* key, int64_t length) noexcept nogil:
    """By the key of the first record of a control batch: version int16, type int16 (ControlRecordType.parseTypeId)."""
    cdef int32_t version_and_type
    if length < 4:
        return UNREADABLE
    version_and_type = load_i32(key)
    if version_and_type < 0:
        return UNREADABLE
    if version_and_type & 0xFFFF == ABORT_TYPE:
        return ABORT
    return COMMIT if version_and_type & 0xFFFF == COMMIT_TYPE else NOTHING


cdef inline int32_t coordinator_epoch(const uint8_t* value, int64_t length) noexcept nogil:
    """That of a marker's value of any version from 0 on (EndTransactionMarker): version int16, epoch int32."""
    return load_i32(value + 2) if length >= 6 and value[0] < 0x80 else <int32_t>ABSENT


cdef inline void set_codes(BatchRow* rows, int64_t count, const Columns* markers, uint8_t* codes) noexcept nogil:
    """Sets the code of each batch. markers: keys and values of the control batches' records, of which only the first of
    each counts; sets the record count of these batches to the coordinator epoch."""
    cdef const Run* runs = <const Run*>markers.runs.data
    cdef const uint8_t* field
    cdef int64_t i, length, record = 0
    for i in range(count):
        codes[i] = data_code(rows[i].attributes)
    for i in range(markers.run_count):
        field = bytes_of(&markers.key, record, &length)
        codes[runs[i].batch] = marker_code(field, length)
        field = bytes_of(&markers.value, record, &length)
        rows[runs[i].batch].record_count = coordinator_epoch(field, length)
        record += runs[i].rows


cdef inline int64_t offset_of(const BatchRow* row) noexcept nogil:
    """The first offset of a batch; of a wrapper, whose first is not known, or below 0, the last."""
    return row.last_offset if row.base_offset < 0 else row.base_offset


cdef inline int64_t newest(const BatchRow* rows, int64_t count) noexcept nogil:
    """The greatest max timestamp of at least one batch."""
    cdef int64_t i, time = rows[0].max_timestamp
    for i in range(1, count):
        time = max(time, rows[i].max_timestamp)
    return time


# ---- the .txnindex

cdef inline Listed* listed_at(const Matcher* m, int64_t offset, int64_t producer_id) noexcept nogil:
    """The entry of a marker; NULL: there is none."""
    cdef int64_t low = 0, high = m.listed_count, middle
    while low < high:
        middle = (low + high) >> 1
        if m.listed[middle].marker_offset < offset:
            low = middle + 1
        else:
            high = middle
    while low < m.listed_count and m.listed[low].marker_offset == offset:
        if m.listed[low].producer_id == producer_id:
            return m.listed + low
        low += 1
    return NULL


cdef inline bint has_markers(const Matcher* m, const BatchRow* rows, const uint8_t* codes,
                             int64_t count) noexcept nogil:
    """Whether each entry up to the last batch's last offset has its marker, in these batches or before."""
    cdef Listed* entry
    cdef int64_t i
    for i in range(count):
        if codes[i] == ABORT or codes[i] == COMMIT:
            entry = listed_at(m, rows[i].last_offset, rows[i].producer_id)
            if entry != NULL:
                entry.state |= PRESENT
    for i in range(m.listed_count):
        if m.listed[i].marker_offset <= rows[count - 1].last_offset and m.listed[i].state == 0:
            return False
    return True


# ---- matching

cdef inline bint matcher_reserve(Matcher* m, int64_t batches) noexcept nogil:
    """Reserves space for the most that so many batches add. False: out of memory."""
    cdef size_t rows = <size_t>batches * sizeof(Ended), producers = <size_t>m.producer_count * sizeof(Producer)
    return (buffer_reserve(&m.ended, 0, rows) == OK and buffer_reserve(&m.without_data, 0, rows) == OK
            and buffer_reserve(&m.producers, producers, producers + <size_t>batches * sizeof(Producer)) == OK)


cdef inline Producer* producer_of(Matcher* m, int64_t id_) noexcept nogil:
    """NULL: out of memory."""
    cdef Producer* producer
    cdef Slot* slot = offset_map_add(&m.producer_map, <const uint8_t*>&id_, sizeof(int64_t))
    if slot == NULL:
        return NULL
    if slot.offset == ABSENT:
        slot.offset = m.producer_count
        m.producer_count += 1
        producer = <Producer*>m.producers.data + slot.offset
        memset(producer, 0, sizeof(Producer))
        producer.id, producer.opened = id_, ABSENT
    return <Producer*>m.producers.data + slot.offset


cdef inline void open_transaction(Matcher* m, Producer* producer, const BatchRow* row, uint8_t code,
                                  int64_t segment) noexcept nogil:
    cdef Transaction* txn = &producer.open
    producer.opened = m.opened
    m.opened += 1
    txn.epoch, txn.segment = row.producer_epoch, segment
    txn.first, txn.last = row.base_offset, row.last_offset
    txn.first_time = row.max_timestamp if code == STAMPED else row.base_timestamp
    txn.last_time = row.max_timestamp
    txn.batches, txn.records, txn.bytes = 1, row.record_count, row.size_in_bytes
    txn.position, txn.size = row.position, row.size_in_bytes


cdef inline void add_data(Transaction* txn, const BatchRow* row) noexcept nogil:
    txn.last, txn.last_time = row.last_offset, max(txn.last_time, row.max_timestamp)
    txn.batches += 1
    txn.records += row.record_count
    txn.bytes += row.size_in_bytes


cdef inline void without_data(Transaction* txn, int64_t epoch, int64_t segment) noexcept nogil:
    """A transaction without data in the input."""
    memset(txn, 0, sizeof(Transaction))
    txn.epoch, txn.segment = epoch, segment
    txn.first = txn.last = txn.first_time = txn.last_time = ABSENT


cdef inline bint agrees(const Matcher* m, uint8_t code, Listed* entry, Transaction* txn,
                        bint* has_data) noexcept nogil:
    """Whether a marker and its entry of the .txnindex agree. If so, the transaction gets the entry's first offset,
    which may be before the input, and counts as one with data."""
    if code == COMMIT:
        return entry == NULL
    if entry == NULL:
        return not has_data[0]
    if has_data[0] and entry.first_offset >= m.first_offset and entry.first_offset != txn.first:
        return False
    txn.first, has_data[0] = entry.first_offset, True
    entry.state |= MATCHED
    return True


cdef inline void add_ended(Matcher* m, const Transaction* txn, const BatchRow* row, uint8_t code, int64_t segment,
                           bint has_data) noexcept nogil:
    cdef Ended* ended
    if has_data:
        ended = <Ended*>m.ended.data + m.ended_count
        m.ended_count += 1
    else:
        ended = <Ended*>m.without_data.data + m.without_count
        m.without_count += 1
    ended.producer_id, ended.code, ended.last_segment = row.producer_id, code, segment
    ended.marker_offset, ended.marker_timestamp = row.last_offset, row.max_timestamp
    ended.coordinator_epoch = row.record_count
    memcpy(ended.data, txn, sizeof(ended.data))


cdef inline bint match_marker(Matcher* m, Producer* producer, const BatchRow* row, uint8_t code,
                              int64_t segment) noexcept nogil:
    """Ends the open transaction of a producer. False: the .txnindex does not agree, and nothing was done."""
    cdef Transaction txn = producer.open
    cdef bint has_data = producer.opened != ABSENT
    if not has_data:
        without_data(&txn, row.producer_epoch, segment)
    if m.has_index and not agrees(m, code, listed_at(m, row.last_offset, row.producer_id), &txn, &has_data):
        return False
    add_ended(m, &txn, row, code, segment, has_data)
    producer.opened, producer.has_marker, producer.coordinator_epoch = ABSENT, True, row.record_count
    return True


cdef inline int match_rows(Matcher* m, const BatchRow* rows, const uint8_t* codes, int64_t* next_row, int64_t stop,
                           int64_t segment) noexcept nogil:
    """Matches batches from next_row[0] on, up to `stop` or the first one that contradicts what came before; sets
    next_row to it."""
    cdef const BatchRow* row
    cdef Producer* producer
    cdef uint8_t code
    if not matcher_reserve(m, stop - next_row[0]):
        return OUT_OF_MEMORY
    while next_row[0] < stop:
        row, code = rows + next_row[0], codes[next_row[0]]
        if code != NOTHING and row.producer_id >= 0:
            if code == UNREADABLE:
                return OK
            producer = producer_of(m, row.producer_id)
            if producer == NULL:
                return OUT_OF_MEMORY
            if code == ABORT or code == COMMIT:
                if not match_marker(m, producer, row, code, segment):
                    return OK
            elif producer.opened == ABSENT:
                open_transaction(m, producer, row, code, segment)
            elif producer.open.epoch != row.producer_epoch:
                return OK
            else:
                add_data(&producer.open, row)
        next_row[0] += 1
    return OK
