"""The producers and transactions of a log (Kafka: ProducerStateManager, ProducerAppendInfo; KIP-98, KIP-360, KIP-890).

    data of 7 (epoch 3)   data of 9   data of 7 ...   ABORT or COMMIT of 7 (epoch 4)
    ^ first offset                                    ^ ends the open transaction of producer id 7

    BatchRow of each batch, its BatchMark --take_batch--> the state of each producer, rows of EndedTxn, rows of Oddity

Markers are matched by producer id alone: with transaction.version 2 a marker has the epoch after that of its data. The
log cleaner leaves empty control batches; they end no transaction. Nothing stops at an odd batch: it is an Oddity, and
its callers decide what that means. Numbers are those of the headers; absent ones are -1.
"""
from libc.stdint cimport INT64_MAX, int16_t, int32_t, int64_t, uint8_t
from libc.string cimport memcpy, memmove, memset

from kafkarec._c.batch cimport (
    ABSENT, CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL, BatchRow, is_control,
)
from kafkarec._c.columns cimport Buffer, Columns, Run, buffer_reserve, is_set, value_at
from kafkarec._c.numbers cimport load_i32
from kafkarec._c.offset_map cimport OffsetMap, Slot, kr_key_hash, offset_map_find, offset_map_slot
from kafkarec._c.status cimport OK

cdef enum MarkCode:              # as in recover/steps.py
    NOTHING = 0                  # plain data, and control batches that end no transaction
    DATA = 1
    ABORT = 2
    STAMPED = 3                  # data whose base timestamp is not that of the first record (KIP-32, KIP-534)
    COMMIT = 4
    UNREADABLE = 6

cdef enum:
    ABORT_TYPE = 0               # ControlRecordType
    COMMIT_TYPE = 1

cdef struct BatchMark:           # what a batch is for its producer
    int16_t code                 # a MarkCode
    int16_t has_value            # whether a marker has a value that can be read
    int32_t coordinator_epoch    # of that value
    int64_t timestamp            # of the marker's record

cdef struct Markers:             # the records of control batches, and perhaps of others, read in order
    const Columns* columns       # keys, values and perhaps timestamps
    const Run* run               # the next one, how many are left, and the first record of the next
    int64_t left
    int64_t record

cdef enum Policy:                # as in state/producers.py
    READER = 0                   # transactions only; the key of a marker is enough
    BROKER = 1                   # a marker needs its value; one that the cleaner emptied raises the epoch
    RECOVERY = 2                 # as LogSegment.recover(): emptied markers are ignored
    CLEANER = 3                  # as BROKER, and an emptied marker is a write of its producer

cdef enum:
    KEPT = 5                     # ProducerStateEntry.NUM_BATCHES_TO_RETAIN

cdef struct Transaction:         # in the order of recover.steps.TransactionData
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

cdef struct EndedTxn:            # a marker and its transaction, in the order of recover.steps.EndedRow
    int64_t producer_id
    int64_t code
    int64_t marker_offset
    int64_t marker_timestamp
    int64_t coordinator_epoch
    int64_t last_segment
    int64_t[9] data              # the fields of Transaction up to the segment
    int64_t last_stable_offset   # once the marker is written
    int64_t row                  # the index of the marker's batch

cdef enum OddityKind:            # as in recover/steps.py
    EPOCH_CHANGED = 0            # within a transaction
    UNREADABLE_MARKER = 1
    PLAIN_DATA = 2               # within a transaction: a broker's recovery fails on it (InvalidTxnStateException)

cdef struct Oddity:              # in the order of recover.steps.Oddity
    int64_t kind
    int64_t producer_id
    int64_t epoch                # of the open transaction before the batch, and its first offset
    int64_t first
    int64_t row                  # the index of the batch

cdef struct KeptBatch:           # a data batch
    int64_t last_offset
    int32_t offset_delta
    int32_t last_sequence

cdef struct Producer:
    int64_t id
    int64_t opened               # how many transactions were opened before its open one; ABSENT: it has none
    int64_t coordinator_epoch    # of its last marker
    Transaction open
    int64_t before               # the producers whose open transactions begin before and after its own; ABSENT
    int64_t after
    int64_t last_timestamp
    int64_t next_offset          # after its last batch
    int32_t epoch
    int32_t kept_count
    KeptBatch[KEPT] kept         # the last ones of its epoch, the newest last

cdef struct ProducerTable:
    OffsetMap by_id              # producer id -> index of a Producer
    Buffer producers
    int64_t count
    int64_t opened               # how many transactions were opened
    int64_t first_open           # the producers of the open transactions with the lowest and the highest first offset
    int64_t last_open
    int64_t max_timestamp        # of all batches; ABSENT
    int64_t highest_base         # the highest base offset of all batches; INT64_MIN: there is none
    int policy
    Buffer ended
    int64_t ended_count
    Buffer without_data          # as ended: markers of transactions without data
    int64_t without_count
    Buffer oddities
    int64_t oddity_count


# ---- marks

cdef inline int16_t data_mark_code(int32_t attributes) noexcept nogil:
    cdef int16_t code = STAMPED if attributes & (LOG_APPEND_TIME | DELETE_HORIZON) else DATA
    return code if attributes & (TRANSACTIONAL | CONTROL) == TRANSACTIONAL else NOTHING


cdef inline int16_t marker_code(const uint8_t* key, int64_t length) noexcept nogil:
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


cdef inline void set_marker(BatchMark* mark, const Columns* markers, int64_t record) noexcept nogil:
    """Of the first record of a control batch. Its value of any version from 0 on (EndTransactionMarker): version int16,
    coordinator epoch int32."""
    cdef int64_t length
    cdef const uint8_t* field = value_at(markers, &markers.key, record, &length)
    mark.code = marker_code(field, length)
    field = value_at(markers, &markers.value, record, &length)
    mark.has_value = length >= 6 and field[0] < 0x80
    if mark.has_value:
        mark.coordinator_epoch = load_i32(field + 2)
    if markers.timestamp != NULL and is_set(markers.timestamp_validity, record):
        mark.timestamp = markers.timestamp[record]


cdef inline void set_mark(BatchMark* mark, const BatchRow* row, int64_t number, Markers* markers) noexcept nogil:
    """The mark of batch `number`, each time a later one."""
    mark.code, mark.has_value = data_mark_code(row.attributes), False
    mark.coordinator_epoch, mark.timestamp = <int32_t>ABSENT, ABSENT
    if not is_control(row):
        return
    while markers.left > 0 and markers.run.batch < number:
        markers.record += markers.run.rows
        markers.run += 1
        markers.left -= 1
    if markers.left > 0 and markers.run.batch == number:
        set_marker(mark, markers.columns, markers.record)


# ---- producers

cdef inline bint producers_reserve(ProducerTable* table, int64_t batches) noexcept nogil:
    """Reserves space for the most that so many batches add. False: out of memory."""
    cdef size_t rows = <size_t>batches * sizeof(EndedTxn), used = <size_t>table.count * sizeof(Producer)
    return (buffer_reserve(&table.ended, 0, rows) == OK and buffer_reserve(&table.without_data, 0, rows) == OK
            and buffer_reserve(&table.oddities, 0, <size_t>batches * sizeof(Oddity)) == OK
            and buffer_reserve(&table.producers, used, used + <size_t>batches * sizeof(Producer)) == OK)


cdef inline Producer* producer_or_new(ProducerTable* table, int64_t id_) noexcept nogil:
    """The producer, a new one if its id is new. NULL: out of memory."""
    cdef Producer* producer
    cdef Slot* slot = offset_map_slot(&table.by_id, <const uint8_t*>&id_, sizeof(int64_t))
    if slot == NULL:
        return NULL
    producer = <Producer*>table.producers.data + slot.offset
    if slot.offset == ABSENT:
        slot.offset = table.count
        producer = <Producer*>table.producers.data + table.count
        table.count += 1
        memset(producer, 0, sizeof(Producer))
        producer.id, producer.opened, producer.coordinator_epoch = id_, ABSENT, ABSENT
        producer.epoch, producer.last_timestamp = <int32_t>ABSENT, ABSENT
    return producer


cdef inline Producer* known_producer(const ProducerTable* table, int64_t id_) noexcept nogil:
    """NULL: there is none with this id."""
    cdef const uint8_t* key = <const uint8_t*>&id_
    cdef Slot* slot = offset_map_find(&table.by_id, key, sizeof(int64_t),
                                      kr_key_hash(key, sizeof(int64_t), table.by_id.seed))
    return NULL if slot.place == 0 else <Producer*>table.producers.data + slot.offset


cdef inline void add_oddity(ProducerTable* table, int64_t kind, int64_t row, const Producer* producer) noexcept nogil:
    cdef Oddity* oddity = <Oddity*>table.oddities.data + table.oddity_count
    table.oddity_count += 1
    oddity.row, oddity.kind, oddity.producer_id = row, kind, producer.id
    oddity.epoch, oddity.first = producer.open.epoch, producer.open.first


cdef inline Producer* producer_at(const ProducerTable* table, int64_t index) noexcept nogil:
    return <Producer*>table.producers.data + index


cdef inline void add_open(ProducerTable* table, Producer* producer) noexcept nogil:
    """Adds an open transaction to the list, which is in the order of first offsets: nearly always at its end."""
    cdef int64_t index = producer - <Producer*>table.producers.data, after = ABSENT, before = table.last_open
    producer.opened = table.opened
    table.opened += 1
    while before != ABSENT and producer_at(table, before).open.first > producer.open.first:
        after, before = before, producer_at(table, before).before
    producer.before, producer.after = before, after
    if before == ABSENT:
        table.first_open = index
    else:
        producer_at(table, before).after = index
    if after == ABSENT:
        table.last_open = index
    else:
        producer_at(table, after).before = index


cdef inline void remove_open(ProducerTable* table, Producer* producer) noexcept nogil:
    """Removes an open transaction from the list."""
    producer.opened = ABSENT
    if producer.before == ABSENT:
        table.first_open = producer.after
    else:
        producer_at(table, producer.before).after = producer.after
    if producer.after == ABSENT:
        table.last_open = producer.before
    else:
        producer_at(table, producer.after).before = producer.before


cdef inline void open_transaction(ProducerTable* table, Producer* producer, const BatchRow* row, int32_t code,
                                  int64_t segment) noexcept nogil:
    cdef Transaction* txn = &producer.open
    txn.epoch, txn.segment = row.producer_epoch, segment
    txn.first, txn.last = row.base_offset, row.last_offset
    txn.first_time = row.max_timestamp if code == STAMPED else row.base_timestamp
    txn.last_time = row.max_timestamp
    txn.batches, txn.records, txn.bytes = 1, row.record_count, row.size_in_bytes
    txn.position, txn.size = row.position, row.size_in_bytes
    add_open(table, producer)


cdef inline void set_without_data(Transaction* txn, int64_t epoch, int64_t segment) noexcept nogil:
    """A transaction without data in the input."""
    memset(txn, 0, sizeof(Transaction))
    txn.epoch, txn.segment = epoch, segment
    txn.first = txn.last = txn.first_time = txn.last_time = ABSENT


cdef inline int64_t stable_offset(const ProducerTable* table, int64_t marker_offset) noexcept nogil:
    """The last stable offset after a marker: the first offset of the oldest open transaction, else the next offset."""
    if table.first_open != ABSENT:
        return producer_at(table, table.first_open).open.first
    return marker_offset + (marker_offset != INT64_MAX)  # no checksum covers the base offset


cdef inline void end_transaction(ProducerTable* table, Producer* producer, const BatchRow* row, const BatchMark* mark,
                                 int64_t number, int64_t segment) noexcept nogil:
    cdef EndedTxn* ended
    if producer.opened == ABSENT:
        set_without_data(&producer.open, row.producer_epoch, segment)
        ended = <EndedTxn*>table.without_data.data + table.without_count
        table.without_count += 1
    else:
        remove_open(table, producer)
        ended = <EndedTxn*>table.ended.data + table.ended_count
        table.ended_count += 1
    ended.producer_id, ended.code, ended.last_segment, ended.row = row.producer_id, mark.code, segment, number
    ended.marker_offset, ended.marker_timestamp = row.last_offset, row.max_timestamp
    ended.coordinator_epoch = producer.coordinator_epoch = mark.coordinator_epoch
    ended.last_stable_offset = stable_offset(table, row.base_offset)
    memcpy(ended.data, &producer.open, sizeof(ended.data))


# ---- the state that a broker keeps of each producer, too

cdef inline void set_epoch(Producer* producer, int32_t epoch) noexcept nogil:
    if epoch != producer.epoch:
        producer.epoch, producer.kept_count = epoch, 0


cdef inline void keep_batch(Producer* producer, int64_t last_offset, int32_t offset_delta,
                            int32_t last_sequence) noexcept nogil:
    cdef KeptBatch* newest
    if producer.kept_count == KEPT:
        memmove(producer.kept, producer.kept + 1, (KEPT - 1) * sizeof(KeptBatch))
        producer.kept_count -= 1
    newest = producer.kept + producer.kept_count
    producer.kept_count += 1
    newest.last_offset, newest.offset_delta, newest.last_sequence = last_offset, offset_delta, last_sequence


cdef inline void update_by_marker(ProducerTable* table, Producer* producer, const BatchRow* row, const BatchMark* mark,
                                  bint ends) noexcept nogil:
    if ends:
        set_epoch(producer, row.producer_epoch)
        producer.last_timestamp = mark.timestamp
    elif table.policy != RECOVERY:
        if row.producer_epoch > producer.epoch:
            set_epoch(producer, row.producer_epoch)
            producer.last_timestamp = row.max_timestamp
        elif table.policy == CLEANER:
            producer.last_timestamp = max(producer.last_timestamp, row.max_timestamp)


cdef inline bint take_batch(ProducerTable* table, const BatchRow* row, const BatchMark* mark, int64_t number,
                            int64_t segment) noexcept nogil:
    """Takes a batch of a producer, for which there is space. False: out of memory."""
    cdef int32_t code = mark.code
    cdef Producer* producer = producer_or_new(table, row.producer_id)
    cdef Transaction* txn
    cdef bint ends = code == ABORT or code == COMMIT
    if producer == NULL:
        return False
    producer.next_offset = row.next_offset
    if table.policy != READER:
        ends = ends and mark.has_value
        if row.attributes & CONTROL:
            update_by_marker(table, producer, row, mark, ends)
        else:
            if producer.opened != ABSENT and code == NOTHING:
                add_oddity(table, PLAIN_DATA, number, producer)
            set_epoch(producer, row.producer_epoch)
            keep_batch(producer, row.last_offset, <int32_t>(row.last_offset - row.base_offset), row.last_sequence)
            producer.last_timestamp = row.max_timestamp
    if ends:
        end_transaction(table, producer, row, mark, number, segment)
    elif code == UNREADABLE:
        add_oddity(table, UNREADABLE_MARKER, number, producer)
    elif not code & DATA:
        pass
    elif producer.opened == ABSENT:
        open_transaction(table, producer, row, code, segment)
    else:
        if producer.open.epoch != row.producer_epoch:
            add_oddity(table, EPOCH_CHANGED, number, producer)
            producer.open.epoch = row.producer_epoch
        txn = &producer.open
        txn.last, txn.last_time = row.last_offset, max(txn.last_time, row.max_timestamp)
        txn.batches += 1
        txn.records += row.record_count
        txn.bytes += row.size_in_bytes
    return True


cdef inline bint begin_rows(ProducerTable* table, int64_t batches) noexcept nogil:
    """What ended in the next batches, and what was odd, replaces that of the ones before. False: out of memory."""
    table.ended_count = table.without_count = table.oddity_count = 0
    return producers_reserve(table, batches)


# ---- what a broker would have refused

cdef enum Violation:             # in the order of a broker's checks, as in ops/verify/batch_checks.py
    ACCEPTED = 0
    OLD_EPOCH = 1                # below an earlier one: a fenced producer went on writing (KIP-98)
    DUPLICATE = 2                # of one of the producer's last five batches
    NEW_EPOCH_NOT_FROM_ZERO = 3
    SEQUENCE_GAP = 4
    OUT_OF_ORDER = 5             # below the sequences already written
    NOT_TRANSACTIONAL = 6        # within an open transaction: recovery of a broker fails on it

cdef enum:
    LAST_SEQUENCE = 0x7FFFFFFF   # 0 follows


cdef inline int violation_of(const Producer* producer, const BatchRow* row) noexcept nogil:
    """Why a broker refuses a batch (ProducerStateEntry.findDuplicateBatch, ProducerAppendInfo.checkProducerEpoch,
    checkSequence). Sequences are not checked for control batches, for a producer's first batch (NULL), and for batches
    without sequences (a group coordinator's offset commits)."""
    cdef const KeptBatch* kept
    cdef int64_t newest = ABSENT, ahead
    cdef int32_t first = row.base_sequence
    cdef int i, fine = ACCEPTED
    if producer == NULL or row.attributes & CONTROL:
        return ACCEPTED
    if row.producer_epoch < producer.epoch:
        return OLD_EPOCH
    if producer.opened != ABSENT and not row.attributes & TRANSACTIONAL:
        fine = NOT_TRANSACTIONAL
    if first < 0 or producer.epoch == ABSENT:
        return fine
    if row.producer_epoch > producer.epoch:
        return NEW_EPOCH_NOT_FROM_ZERO if first else fine
    for i in range(producer.kept_count):
        kept = producer.kept + i
        newest = kept.last_sequence
        if newest == row.last_sequence and (newest - kept.offset_delta) & LAST_SEQUENCE == first:
            return DUPLICATE
    ahead = (first - newest) & LAST_SEQUENCE
    if ahead == 1:
        return fine
    return SEQUENCE_GAP if ahead <= 1 << 30 else OUT_OF_ORDER
