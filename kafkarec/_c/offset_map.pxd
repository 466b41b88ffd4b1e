"""The last offset of each key: a memory arena with the keys, and a hash table with open addressing.

    arena   length of key 1, key 1, length of key 2, key 2 ...    a length < 255: one byte; else 255 and a uint32
    slot    place   uint64   0: free; else 16 bits of the key's hash, then 48 bits: its position in the arena + 1
            offset  int64

Linear probing; at most three quarters of the slots are used. A slot has 16 bytes, so a key needs 21 to 43 bytes, plus
its own bytes and their length. The caller seeds the hash: producers choose the keys, and must not be able to choose
their slots.
"""
from libc.stdint cimport INT64_MIN, int64_t, uint8_t, uint32_t, uint64_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memcmp, memcpy

from kafkarec._c.columns cimport Columns, is_set, value_at

cdef extern from * nogil:
    """
    #include <stdint.h>
    #include <string.h>

    static inline uint64_t kr_fold(uint64_t a, uint64_t b) {
        __uint128_t product = (__uint128_t)a * b;
        return (uint64_t)product ^ (uint64_t)(product >> 64);
    }

    static inline uint64_t kr_key_hash(const uint8_t *key, uint64_t length, uint64_t seed) {
        uint64_t hash = seed ^ length, word;
        const uint8_t *end = key + length;
        for (; end - key >= 8; key += 8) {
            memcpy(&word, key, 8);
            hash = kr_fold(hash ^ word, 0x9E3779B97F4A7C15ULL) ^ seed;
        }
        word = 0;
        memcpy(&word, key, (size_t)(end - key));
        return kr_fold(kr_fold(hash ^ word, 0xD6E8FEB86659FD93ULL) ^ seed, 0x9E3779B97F4A7C15ULL);
    }

    static inline void kr_prefetch(const void *p) { __builtin_prefetch(p); }
    """
    uint64_t kr_key_hash(const uint8_t* key, uint64_t length, uint64_t seed)
    void kr_prefetch(const void* p)

cdef enum:
    LONG_KEY = 255
    PLACE_BITS = 48
    FIRST_SLOTS = 1024
    AT_ONCE = 16                 # keys whose slots are prefetched together

cdef struct Slot:
    uint64_t place
    int64_t offset

cdef struct OffsetMap:
    Slot* slots
    uint64_t mask                # number of slots - 1
    uint64_t count
    uint8_t* arena
    uint64_t used
    uint64_t capacity
    uint64_t seed


cdef inline bint offset_map_begin(OffsetMap* table, uint64_t seed) noexcept nogil:
    table.slots = <Slot*>calloc(FIRST_SLOTS, sizeof(Slot))
    table.mask, table.count, table.seed = FIRST_SLOTS - 1, 0, seed
    table.arena, table.used, table.capacity = NULL, 0, 0
    return table.slots != NULL


cdef inline void offset_map_end(OffsetMap* table) noexcept nogil:
    free(table.slots)
    free(table.arena)
    table.slots, table.arena = NULL, NULL


cdef inline const uint8_t* stored_key(const OffsetMap* table, uint64_t place, uint64_t* length) noexcept nogil:
    """The key of a slot's place; sets `length`."""
    cdef uint32_t size = 0
    cdef const uint8_t* p = table.arena + (place & ((<uint64_t>1 << PLACE_BITS) - 1)) - 1
    if p[0] < LONG_KEY:
        length[0] = p[0]
        return p + 1
    memcpy(&size, p + 1, 4)
    length[0] = size
    return p + 5


cdef inline Slot* offset_map_find(const OffsetMap* table, const uint8_t* key, uint64_t length,
                                  uint64_t hash) noexcept nogil:
    """The slot of a key, or the free slot for it."""
    cdef uint64_t at = hash & table.mask
    cdef uint64_t stored_length
    cdef const uint8_t* stored
    while table.slots[at].place != 0:
        if table.slots[at].place >> PLACE_BITS == hash >> PLACE_BITS:
            stored = stored_key(table, table.slots[at].place, &stored_length)
            if stored_length == length and memcmp(stored, key, length) == 0:
                break
        at = (at + 1) & table.mask
    return table.slots + at


cdef inline bint offset_map_grow(OffsetMap* table) noexcept nogil:
    """Doubles the number of slots; False: out of memory."""
    cdef uint64_t slots = (table.mask + 1) * 2
    cdef uint64_t i, at, hash, length
    cdef const uint8_t* key
    cdef Slot* larger = <Slot*>calloc(slots, sizeof(Slot))
    if larger == NULL:
        return False
    for i in range(table.mask + 1):
        if table.slots[i].place != 0:
            key = stored_key(table, table.slots[i].place, &length)
            hash = kr_key_hash(key, length, table.seed)
            at = hash & (slots - 1)
            while larger[at].place != 0:
                at = (at + 1) & (slots - 1)
            larger[at] = table.slots[i]
    free(table.slots)
    table.slots, table.mask = larger, slots - 1
    return True


cdef inline bint offset_map_store_key(
    OffsetMap* table, Slot* slot, const uint8_t* key, uint64_t length, uint64_t hash
) noexcept nogil:
    """Copies a new key to the arena, and its place to a free slot; False: out of memory."""
    cdef uint64_t capacity
    cdef uint32_t size = <uint32_t>length
    cdef uint8_t* p
    if table.capacity - table.used < length + 5:
        capacity = table.capacity + table.capacity // 2 + length + 65536
        p = <uint8_t*>realloc(table.arena, capacity)
        if p == NULL:
            return False
        table.arena, table.capacity = p, capacity
    p = table.arena + table.used
    slot.place = hash >> PLACE_BITS << PLACE_BITS | (table.used + 1)
    if length < LONG_KEY:
        p[0] = <uint8_t>length
        p += 1
    else:
        p[0] = LONG_KEY
        memcpy(p + 1, &size, 4)
        p += 5
    memcpy(p, key, length)
    table.used = <uint64_t>(p - table.arena) + length
    table.count += 1
    return True


cdef inline Slot* offset_map_slot(OffsetMap* table, const uint8_t* key, uint64_t length) noexcept nogil:
    """The slot of a key; that of a new one has the offset -1. NULL: out of memory."""
    cdef uint64_t hash = kr_key_hash(key, length, table.seed)
    cdef Slot* slot = offset_map_find(table, key, length, hash)
    if slot.place != 0:
        return slot
    if (table.count + 1) * 4 > (table.mask + 1) * 3:
        if not offset_map_grow(table):
            return NULL
        slot = offset_map_find(table, key, length, hash)
    if not offset_map_store_key(table, slot, key, length, hash):
        return NULL
    slot.offset = -1
    return slot


cdef struct HashedKey:
    const uint8_t* data
    int64_t length
    uint64_t hash


cdef inline void hash_keys(const OffsetMap* table, const Columns* c, int64_t start, int64_t stop,
                           HashedKey* keys) noexcept nogil:
    """Hashes the keys of rows [start, stop), at most AT_ONCE, and prefetches their slots."""
    cdef int64_t i
    for i in range(start, stop):
        keys.data = value_at(c, &c.key, i, &keys.length)
        keys.hash = kr_key_hash(keys.data, <uint64_t>keys.length, table.seed)
        kr_prefetch(table.slots + (keys.hash & table.mask))
        keys += 1


cdef inline bint offset_map_put_rows(OffsetMap* table, const Columns* c, int64_t start, int64_t end) noexcept nogil:
    """Adds rows [start, end); later rows replace earlier ones, rows without key are skipped. False: out of memory,
    partly added."""
    cdef HashedKey keys[AT_ONCE]
    cdef const HashedKey* key
    cdef int64_t stop, i
    cdef Slot* slot
    while start < end:
        stop = min(start + AT_ONCE, end)
        if (table.count + AT_ONCE) * 4 > (table.mask + 1) * 3 and not offset_map_grow(table):
            return False
        hash_keys(table, c, start, stop, keys)
        for i in range(start, stop):
            if not is_set(c.key.validity, i):
                continue
            key = keys + (i - start)
            slot = offset_map_find(table, key.data, <uint64_t>key.length, key.hash)
            if slot.place == 0 and not offset_map_store_key(table, slot, key.data, <uint64_t>key.length, key.hash):
                return False
            slot.offset = c.offset[i]
        start = stop
    return True


cdef inline bint is_listed(const OffsetMap* table, const uint8_t* key, uint64_t length, int64_t offset) noexcept nogil:
    """Whether the key is in the table, with this offset or the least int64, which is any."""
    cdef const Slot* slot = offset_map_find(table, key, length, kr_key_hash(key, length, table.seed))
    return slot.place != 0 and (offset == slot.offset or slot.offset == INT64_MIN)


cdef inline void offset_map_keep_latest(const OffsetMap* table, const Columns* c, uint8_t* keep) noexcept nogil:
    """Sets keep[i] to 1 where the table has no later offset of the row's key; to 0 otherwise, and without a key."""
    cdef HashedKey keys[AT_ONCE]
    cdef const HashedKey* key
    cdef int64_t start = 0, stop, i
    cdef Slot* slot
    while start < c.rows:
        stop = min(start + AT_ONCE, c.rows)
        hash_keys(table, c, start, stop, keys)
        for i in range(start, stop):
            key = keys + (i - start)
            slot = offset_map_find(table, key.data, <uint64_t>key.length, key.hash)
            keep[i] = is_set(c.key.validity, i) and c.offset[i] >= (slot.offset if slot.place != 0 else -1)
        start = stop
