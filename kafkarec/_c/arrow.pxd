"""The Arrow C data and stream interfaces: exports the column buffers without copying them.

    Storage      one chunk: its columns, their buffers, a reference count; with views what keeps the input's memory
      Column     one Arrow array of the chunk: up to five buffers, a null count, a kind
    ArrowArray   struct of the columns; each child has a reference of its own, so a consumer may keep one child only
    ArrowArrayStream   a list of (storage, start, stop), read chunk by chunk

References are counted atomically and in C: a consumer may call `release` from any thread, without the GIL, even after
the interpreter has ended. One block has all that an array or a schema owns: a reference to the storage or the
TableSchema that its buffers or strings are in, and the structs of its children, each with a reference of its own. If
one cannot be made, the outermost one is released, with those that were. Slices set the offset of the children:
importers reject a record batch whose own offset is not 0.
"""
from libc.errno cimport ENOMEM
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from kafkarec._c.columns cimport (
    IN_DATA, IN_MEMORY, WANT_VIEWS, Buffer, Bytes, Columns, buffer_free, columns_release, count_nulls,
)

cdef extern from * nogil:
    """
    #define KR_COUNT_UP(p) __atomic_add_fetch((p), 1, __ATOMIC_RELAXED)
    #define KR_COUNT_DOWN(p) __atomic_sub_fetch((p), 1, __ATOMIC_ACQ_REL)
    """
    int64_t count_up "KR_COUNT_UP"(int64_t* p)
    int64_t count_down "KR_COUNT_DOWN"(int64_t* p)

cdef enum:
    ARROW_FLAG_NULLABLE = 2

cdef struct ArrowSchema:
    const char* format
    const char* name
    const char* metadata
    int64_t flags
    int64_t n_children
    ArrowSchema** children
    ArrowSchema* dictionary
    void (*release)(ArrowSchema*) noexcept nogil
    void* private_data

cdef struct ArrowArray:
    int64_t length
    int64_t null_count
    int64_t offset
    int64_t n_buffers
    int64_t n_children
    const void** buffers
    ArrowArray** children
    ArrowArray* dictionary
    void (*release)(ArrowArray*) noexcept nogil
    void* private_data

cdef struct ArrowArrayStream:
    int (*get_schema)(ArrowArrayStream*, ArrowSchema*) noexcept nogil
    int (*get_next)(ArrowArrayStream*, ArrowArray*) noexcept nogil
    const char* (*get_last_error)(ArrowArrayStream*) noexcept nogil
    void (*release)(ArrowArrayStream*) noexcept nogil
    void* private_data

cdef enum Kind:
    FIXED = 0                    # validity, values
    BYTES = 1                    # validity, int32 offsets, data
    HEADERS = 2                  # validity, int32 offsets -> struct<key, value>
    VIEWS = 3                    # validity, views, the input's memory, data, the sizes of these two

cdef enum:
    MOST_BUFFERS = 5

cdef struct Column:
    int kind
    const void* buffers[5]       # MOST_BUFFERS; without nulls there is no validity
    int64_t nulls

cdef struct Storage:
    int64_t references
    int64_t rows
    Columns columns
    Buffer* extra                # buffers of derived columns
    int64_t extra_count
    Column* out                  # the columns in the caller's order
    int64_t out_count
    Column header_key
    Column header_value
    void* owner                  # of the input's memory; NULL: no view points there
    void (*release_owner)(void* owner) noexcept nogil    # from any thread, without the GIL

# A column's name and Arrow type; the strings are in the same block of memory as the TableSchema.
cdef struct SchemaColumn:
    const char* name
    const char* format
    const char* key_format       # headers only, of the keys: "u", or "z" for header_keys="binary"
    const char* value_format     # headers only: "z" or "vz"
    int nullable

cdef struct TableSchema:
    int64_t references
    int64_t count
    SchemaColumn columns[1]

cdef struct StorageSlice:
    Storage* storage
    int64_t start
    int64_t stop

cdef struct StreamState:
    TableSchema* table_schema
    int64_t count
    int64_t next
    StorageSlice slices[1]

# What an exported struct owns. Behind it are the pointers to its children, and these.
cdef struct Owned:
    void* shared                 # a Storage or TableSchema, which begin with the number of references
    const void* buffers[2]       # of an array with children

ctypedef fused Exported:
    ArrowArray
    ArrowSchema


cdef inline void storage_drop(Storage* s) noexcept nogil:
    cdef int64_t i
    if s == NULL or count_down(&s.references) > 0:
        return
    if s.owner != NULL:
        s.release_owner(s.owner)
    columns_release(&s.columns)
    for i in range(s.extra_count):
        buffer_free(&s.extra[i])
    free(s.extra)
    free(s.out)
    free(s)


cdef inline void schema_drop(TableSchema* table_schema) noexcept nogil:
    if table_schema != NULL and count_down(&table_schema.references) == 0:
        free(table_schema)


# ---- arrays and schemas

cdef inline void release_exported(Exported* exported) noexcept nogil:
    cdef int64_t i
    cdef Owned* owned = <Owned*>exported.private_data
    for i in range(exported.n_children):
        if exported.children[i].release != NULL:
            exported.children[i].release(exported.children[i])
    if Exported is ArrowArray:
        storage_drop(<Storage*>owned.shared)
    else:
        schema_drop(<TableSchema*>owned.shared)
    free(owned)
    exported.release = NULL


cdef inline int allocate_exported(Exported* exported, void* shared, int64_t children) noexcept nogil:
    """Makes an array, with space for two buffers, or a schema, with empty structs for its children; release works from
    then on."""
    cdef int64_t i
    cdef size_t below = <size_t>children * (sizeof(void*) + sizeof(Exported))
    cdef Owned* owned = <Owned*>calloc(1, sizeof(Owned) + below)
    memset(exported, 0, sizeof(Exported))
    if owned == NULL:
        return ENOMEM
    count_up(<int64_t*>shared)
    owned.shared = shared
    exported.private_data = owned
    exported.n_children = children
    exported.children = <Exported**>(owned + 1)
    for i in range(children):
        exported.children[i] = <Exported*>(exported.children + children) + i
    if Exported is ArrowArray:
        exported.buffers = owned.buffers
        exported.release = release_exported[ArrowArray]
    else:
        exported.release = release_exported[ArrowSchema]
    return 0


cdef inline int release_if_failed(Exported* exported, int status) noexcept nogil:
    """Releases the struct if `status` says that a part of it could not be made; returns that."""
    if status != 0 and exported.release != NULL:
        release_exported(exported)
    return status


# ---- arrays

cdef inline int export_unnested(ArrowArray* array, Storage* s, const Column* column, int64_t start,
                                int64_t stop) noexcept nogil:
    cdef int status = allocate_exported(array, s, 0)
    if status != 0:
        return status
    array.n_buffers = 2 if column.kind == FIXED else 3 if column.kind == BYTES else MOST_BUFFERS
    array.buffers = <const void**>column.buffers
    array.offset, array.length, array.null_count = start, stop - start, column.nulls
    if column.nulls > 0 and stop - start < s.rows:
        array.null_count = -1        # of a slice: unknown; the consumer counts the nulls if it needs to
    return 0


cdef inline void set_column(Column* column, Kind kind, const uint8_t* validity, int64_t entries,
                            const void* values, const uint8_t* data) noexcept nogil:
    """Sets the buffers of so many entries. validity: NULL if none is null; data: of BYTES"""
    column.kind, column.nulls = kind, count_nulls(validity, 0, entries)
    column.buffers[0] = validity if column.nulls > 0 else NULL
    column.buffers[1], column.buffers[2] = values, data


cdef inline void set_value_column(Column* column, const Columns* c, Bytes* values, int64_t entries) noexcept nogil:
    """Key, value or header value of a chunk, as binary or as binary_view."""
    set_column(column, BYTES, values.validity, entries, values.offsets, values.data.data)
    if c.want & WANT_VIEWS:
        values.sizes[IN_MEMORY], values.sizes[IN_DATA] = c.memory_size, values.used
        column.kind = VIEWS
        column.buffers[2 + IN_MEMORY] = column.buffers[2 + IN_DATA] = values.data.data         # never NULL
        if c.memory != NULL:
            column.buffers[2 + IN_MEMORY] = c.memory
        column.buffers[4] = values.sizes


cdef inline int export_headers(ArrowArray* array, Storage* s, const Column* column, int64_t start,
                               int64_t stop) noexcept nogil:
    """Exports list<struct<key, value>>: all entries; only the list is sliced."""
    cdef ArrowArray* entries
    cdef int status = allocate_exported(array, s, 1)
    if status != 0:
        return status
    array.n_buffers, array.buffers[1] = 2, column.buffers[1]
    array.offset, array.length = start, stop - start
    entries = array.children[0]
    status = allocate_exported(entries, s, 2)
    if status != 0:
        return status
    entries.n_buffers, entries.length = 1, s.columns.headers
    status = export_unnested(entries.children[0], s, &s.header_key, 0, s.columns.headers)
    status |= export_unnested(entries.children[1], s, &s.header_value, 0, s.columns.headers)
    entries.children[1].null_count = s.header_value.nulls
    return status


cdef inline int export_rows(ArrowArray* array, Storage* s, int64_t start, int64_t stop) noexcept nogil:
    """Exports rows [start, stop) of a chunk as a struct array: a record batch."""
    cdef int64_t i
    cdef int status = allocate_exported(array, s, s.out_count)
    array.n_buffers, array.length = 1, stop - start
    for i in range(array.n_children):
        if s.out[i].kind == HEADERS:
            status |= export_headers(array.children[i], s, s.out + i, start, stop)
        else:
            status |= export_unnested(array.children[i], s, s.out + i, start, stop)
    return status


# ---- schemas

cdef inline int export_type(ArrowSchema* schema, TableSchema* table_schema, const char* name, const char* format,
                            int nullable, int64_t children) noexcept nogil:
    """The strings must live as long as the TableSchema."""
    cdef int status = allocate_exported(schema, table_schema, children)
    schema.name, schema.format, schema.flags = name, format, ARROW_FLAG_NULLABLE if nullable else 0
    return status


cdef inline int export_column_schema(ArrowSchema* schema, TableSchema* table_schema,
                                     const SchemaColumn* column) noexcept nogil:
    cdef ArrowSchema* entries
    cdef int status
    if column.key_format == NULL:
        return export_type(schema, table_schema, column.name, column.format, column.nullable, 0)
    status = export_type(schema, table_schema, column.name, "+l", column.nullable, 1)
    if status != 0:
        return status
    entries = schema.children[0]
    status = export_type(entries, table_schema, "item", "+s", 0, 2)
    if status != 0:
        return status
    return (export_type(entries.children[0], table_schema, "key", column.key_format, 0, 0)
            | export_type(entries.children[1], table_schema, "value", column.value_format, 1, 0))


cdef inline int export_columns_schema(ArrowSchema* schema, TableSchema* table_schema) noexcept nogil:
    cdef int64_t i
    cdef int status = export_type(schema, table_schema, "", "+s", 0, table_schema.count)
    for i in range(schema.n_children):
        status |= export_column_schema(schema.children[i], table_schema, &table_schema.columns[i])
    return status


cdef inline int export_table_schema(ArrowSchema* schema, TableSchema* table_schema) noexcept nogil:
    return release_if_failed(schema, export_columns_schema(schema, table_schema))


cdef inline int export_list_schema(ArrowSchema* schema, TableSchema* table_schema) noexcept nogil:
    cdef int status = export_type(schema, table_schema, "", "+l", 1, 1)
    if status == 0:
        status = export_columns_schema(schema.children[0], table_schema)
    return release_if_failed(schema, status)


# ---- streams

cdef inline int stream_schema(ArrowArrayStream* stream, ArrowSchema* out) noexcept nogil:
    return export_table_schema(out, (<StreamState*>stream.private_data).table_schema)


cdef inline int stream_next(ArrowArrayStream* stream, ArrowArray* out) noexcept nogil:
    cdef StreamState* state = <StreamState*>stream.private_data
    cdef StorageSlice* slice_
    cdef int status
    memset(out, 0, sizeof(ArrowArray))
    if state.next >= state.count:
        return 0                     # an array without `release` ends the stream
    slice_ = &state.slices[state.next]
    status = export_rows(out, slice_.storage, slice_.start, slice_.stop)
    state.next += status == 0
    return release_if_failed(out, status)


cdef inline const char* stream_error(ArrowArrayStream* stream) noexcept nogil:
    return "out of memory"


cdef inline void release_stream(ArrowArrayStream* stream) noexcept nogil:
    cdef StreamState* state = <StreamState*>stream.private_data
    cdef int64_t i
    for i in range(state.count):
        storage_drop(state.slices[i].storage)
    schema_drop(state.table_schema)
    free(state)
    stream.release = NULL


cdef inline ArrowArrayStream* new_stream(TableSchema* table_schema, int64_t slices) noexcept nogil:
    """A stream with space for so many slices, and none yet; NULL: out of memory."""
    cdef ArrowArrayStream* stream = <ArrowArrayStream*>calloc(1, sizeof(ArrowArrayStream))
    cdef StreamState* state = <StreamState*>calloc(1, sizeof(StreamState) + <size_t>slices * sizeof(StorageSlice))
    if stream == NULL or state == NULL:
        free(stream)
        free(state)
        return NULL
    count_up(&table_schema.references)
    state.table_schema = table_schema
    stream.get_schema, stream.get_next, stream.get_last_error = stream_schema, stream_next, stream_error
    stream.private_data, stream.release = state, release_stream
    return stream


cdef inline int export_lists(ArrowArray* array, Storage* s, const void* validity, const void* offsets, int64_t length,
                             int64_t nulls) noexcept nogil:
    """Exports a chunk as list<struct<columns>>: one list for each decoded value."""
    cdef int status = allocate_exported(array, s, 1)
    if status != 0:
        return status
    array.n_buffers, array.buffers[0], array.buffers[1] = 2, validity if nulls > 0 else NULL, offsets
    array.length, array.null_count = length, nulls
    return release_if_failed(array, export_rows(array.children[0], s, 0, s.rows))
