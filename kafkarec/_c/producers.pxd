"""The producers and transactions of a log (Kafka: ProducerStateManager, ProducerAppendInfo; KIP-98, KIP-360, KIP-890).

    data of 7 (epoch 3)   data of 9   data of 7 ...   ABORT or COMMIT of 7 (epoch 4)
    ^ first offset                                    ^ ends the open transaction of producer id 7

    BatchRow and Mark of each batch --take_rows--> the state of each producer, rows of Ended, rows of Oddity

Markers are matched by producer id alone: with transaction.version 2 a marker has the epoch after that of its data. The
log cleaner leaves empty control batches; they end no transaction. Nothing stops at an odd batch: it is an Oddity, and
its callers decide what that means. Numbers are those of the headers; absent ones are -1.
"""
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memset

from kafkarec._c.batch cimport ABSENT, CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL, BatchRow
from kafkarec._c.columns cimport Buffer, Bytes, Columns, Run, buffer_reserve
from kafkarec._c.endian cimport load_i32
from kafkarec._c.offset_map cimport OffsetMap, Slot, offset_map_add
from kafkarec._c.status cimport OK

cdef enum MarkCode:              # as in read/marker_columns.py
    NOTHING = 0                  # plain data, and control batches that end no transaction
    DATA = 1
    ABORT = 2
    STAMPED = 3                  # data whose base timestamp is not that of the first record (KIP-32, KIP-534)
    COMMIT = 4
    UNREADABLE = 6

cdef enum:
    ABORT_TYPE = 0               # ControlRecordType
    COMMIT_TYPE = 1

cdef struct Mark:                # what a batch is for its producer
    int32_t code                 # a MarkCode
    int32_t coordinator_epoch    # of a marker

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

cdef struct Ended:               # a marker and its transaction, in the order of marker_matching.ROW
    int64_t producer_id
    int64_t code
    int64_t marker_offset
    int64_t marker_timestamp
    int64_t coordinator_epoch
    int64_t last_segment
    int64_t[9] data              # the fields of Transaction up to the segment
    int64_t row                  # the index of the marker's batch

cdef enum OddityKind:            # as marker_matching.EPOCH_CHANGED, UNREADABLE_MARKER
    EPOCH_CHANGED = 0            # within a transaction
    UNREADABLE_MARKER = 1

cdef struct Oddity:              # in the order of marker_matching.ODDITY
    int64_t kind
    int64_t producer_id
    int64_t epoch                # of the open transaction before the batch, and its first offset
    int64_t first
    int64_t row                  # the index of the batch

cdef struct Producer:
    int64_t id
    int64_t opened               # how many transactions were opened before its open one; ABSENT: it has none
    int64_t coordinator_epoch    # of its last marker
    Transaction open

cdef struct ProducerTable:
    OffsetMap by_id              # producer id -> index of a Producer
    Buffer producers
    int64_t count
    int64_t opened               # how many transactions were opened
    Buffer ended
    int64_t ended_count
    Buffer without_data          # as ended: markers of transactions without data
    int64_t without_count
    Buffer oddities
    int64_t oddity_count


# ---- marks

cdef inline int32_t data_code(int32_t attributes) noexcept nogil:
    cdef int32_t code = STAMPED if attributes & (LOG_APPEND_TIME | DELETE_HORIZON) else DATA
    return code if attributes & (TRANSACTIONAL | CONTROL) == TRANSACTIONAL else NOTHING


cdef inline const uint8_t* bytes_of(const Bytes* column, int64_t row, int64_t* length) noexcept nogil:
    """The bytes of a key or value; of null length 0."""
    cdef const int32_t* ends = <const int32_t*>column.offsets.data + row
    length[0] = ends[1] - ends[0]
    return column.data.data + ends[0]


cdef inline int32_t marker_code(const uint8_t* key, int64_t length) noexcept nogil:
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


cdef inline void set_marks(const BatchRow* rows, int64_t count, const Columns* markers, Mark* marks) noexcept nogil:
    """Sets the mark of each batch. markers: keys and values of the control batches' records, of which only the first of
    each counts."""
    cdef const Run* runs = <const Run*>markers.runs.data
    cdef const uint8_t* field
    cdef int64_t i, length, record = 0
    cdef Mark* mark
    for i in range(count):
        marks[i].code, marks[i].coordinator_epoch = data_code(rows[i].attributes), <int32_t>ABSENT
    for i in range(markers.run_count):
        mark = marks + runs[i].batch
        field = bytes_of(&markers.key, record, &length)
        mark.code = marker_code(field, length)
        field = bytes_of(&markers.value, record, &length)
        mark.coordinator_epoch = coordinator_epoch(field, length)
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


# ---- producers

cdef inline bint producers_reserve(ProducerTable* table, int64_t batches) noexcept nogil:
    """Reserves space for the most that so many batches add. False: out of memory."""
    cdef size_t rows = <size_t>batches * sizeof(Ended), used = <size_t>table.count * sizeof(Producer)
    return (buffer_reserve(&table.ended, 0, rows) == OK and buffer_reserve(&table.without_data, 0, rows) == OK
            and buffer_reserve(&table.oddities, 0, <size_t>batches * sizeof(Oddity)) == OK
            and buffer_reserve(&table.producers, used, used + <size_t>batches * sizeof(Producer)) == OK)


cdef inline Producer* producer_of(ProducerTable* table, int64_t id_) noexcept nogil:
    """The producer, a new one if its id is new. NULL: out of memory."""
    cdef Producer* producer
    cdef Slot* slot = offset_map_add(&table.by_id, <const uint8_t*>&id_, sizeof(int64_t))
    if slot == NULL:
        return NULL
    producer = <Producer*>table.producers.data + slot.offset
    if slot.offset == ABSENT:
        slot.offset = table.count
        producer = <Producer*>table.producers.data + table.count
        table.count += 1
        memset(producer, 0, sizeof(Producer))
        producer.id, producer.opened, producer.coordinator_epoch = id_, ABSENT, ABSENT
    return producer


cdef inline void add_oddity(ProducerTable* table, int64_t kind, int64_t row, const Producer* producer) noexcept nogil:
    cdef Oddity* oddity = <Oddity*>table.oddities.data + table.oddity_count
    table.oddity_count += 1
    oddity.row, oddity.kind, oddity.producer_id = row, kind, producer.id
    oddity.epoch, oddity.first = producer.open.epoch, producer.open.first


cdef inline void open_transaction(ProducerTable* table, Producer* producer, const BatchRow* row, int32_t code,
                                  int64_t segment) noexcept nogil:
    cdef Transaction* txn = &producer.open
    producer.opened = table.opened
    table.opened += 1
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


cdef inline void end_transaction(ProducerTable* table, Producer* producer, const BatchRow* row, const Mark* mark,
                                 int64_t number, int64_t segment) noexcept nogil:
    cdef Ended* ended
    if producer.opened == ABSENT:
        without_data(&producer.open, row.producer_epoch, segment)
        ended = <Ended*>table.without_data.data + table.without_count
        table.without_count += 1
    else:
        ended = <Ended*>table.ended.data + table.ended_count
        table.ended_count += 1
    ended.producer_id, ended.code, ended.last_segment, ended.row = row.producer_id, mark.code, segment, number
    ended.marker_offset, ended.marker_timestamp = row.last_offset, row.max_timestamp
    ended.coordinator_epoch = producer.coordinator_epoch = mark.coordinator_epoch
    memcpy(ended.data, &producer.open, sizeof(ended.data))
    producer.opened = ABSENT


cdef inline bint take_rows(ProducerTable* table, const BatchRow* rows, const Mark* marks, int64_t start, int64_t stop,
                           int64_t segment) noexcept nogil:
    """Takes the batches [start, stop): what ended in them, and what was odd, replaces that of the call before. False:
    out of memory."""
    cdef const BatchRow* row
    cdef Producer* producer
    cdef int32_t code
    cdef int64_t i
    table.ended_count = table.without_count = table.oddity_count = 0
    if not producers_reserve(table, stop - start):
        return False
    for i in range(start, stop):
        row, code = rows + i, marks[i].code
        if code == NOTHING or row.producer_id < 0:
            continue
        producer = producer_of(table, row.producer_id)
        if producer == NULL:
            return False
        if code == UNREADABLE:
            add_oddity(table, UNREADABLE_MARKER, i, producer)
        elif not code & DATA:
            end_transaction(table, producer, row, marks + i, i, segment)
        elif producer.opened == ABSENT:
            open_transaction(table, producer, row, code, segment)
        else:
            if producer.open.epoch != row.producer_epoch:
                add_oddity(table, EPOCH_CHANGED, i, producer)
                producer.open.epoch = row.producer_epoch
            add_data(&producer.open, row)
    return True
