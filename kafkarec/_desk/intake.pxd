"""What is to be written, taken over as leaves (see `_c/sheet.pxd`): Arrow's arrays, one or a stream of them; a table.

    leaves    one an array, which is ours and released with the last of them

Functions over Python objects, for the desk alone.
"""
from cpython.pycapsule cimport PyCapsule_GetPointer
from libc.stdint cimport int64_t
from libc.stdlib cimport free, realloc

from kafkarec._c.arrow cimport ArrowArray, ArrowArrayStream, ArrowSchema
from kafkarec._c.sheet cimport Leaf
from kafkarec._desk.leaves cimport bind_leaf, column_names
from kafkarec._desk.rowtable cimport RowTable, table_bind

cdef struct Intake:
    Leaf* leaves
    ArrowArray* arrays
    int64_t count


cdef inline int intake_room(Intake* all_, int64_t leaves) except -1:
    cdef void* more = realloc(all_.leaves, <size_t>leaves * sizeof(Leaf))
    if more != NULL:
        all_.leaves = <Leaf*>more
        more = realloc(all_.arrays, <size_t>leaves * sizeof(ArrowArray))
    if more == NULL:
        raise MemoryError
    all_.arrays = <ArrowArray*>more
    return 0


cdef inline int64_t intake_rows(const Intake* all_) noexcept:
    cdef int64_t i, rows = 0
    for i in range(all_.count):
        rows += all_.leaves[i].rows
    return rows


cdef inline int intake_table(Intake* all_, const RowTable* table) except -1:
    intake_room(all_, 1)
    all_.arrays[0].release = NULL
    all_.count = 1
    table_bind(table, all_.leaves)
    return 0


cdef inline set intake_bind(Intake* all_, const ArrowSchema* schema, dict facts, object left_out):
    """The array behind the last leaf becomes one; the names of its columns."""
    all_.count += 1
    return bind_leaf(
        all_.leaves + all_.count - 1, schema, all_.arrays + all_.count - 1, facts, left_out
    ) - left_out


cdef inline set intake_array(Intake* all_, tuple capsules, dict facts, object left_out):
    """What __arrow_c_array__ gave."""
    if len(capsules) != 2:
        raise TypeError(f"__arrow_c_array__ gave {len(capsules)} capsules, not a schema and an array")
    cdef ArrowSchema* schema = <ArrowSchema*>PyCapsule_GetPointer(capsules[0], b"arrow_schema")
    cdef ArrowArray* array = <ArrowArray*>PyCapsule_GetPointer(capsules[1], b"arrow_array")
    if schema.release == NULL or array.release == NULL:
        raise ValueError("the Arrow array was consumed before")
    intake_room(all_, 1)
    all_.arrays[0] = array[0]
    array.release = NULL                      # moved: it is ours to release
    return intake_bind(all_, schema, facts, left_out)


cdef inline set intake_stream(Intake* all_, object capsule, dict facts, object left_out):
    """What __arrow_c_stream__ gave."""
    cdef ArrowArrayStream* stream = <ArrowArrayStream*>PyCapsule_GetPointer(capsule, b"arrow_array_stream")
    cdef ArrowSchema schema
    cdef ArrowArray array
    cdef const char* why
    cdef set names = set()
    if stream.release == NULL:
        raise ValueError("the Arrow stream was consumed before")
    if stream.get_schema(stream, &schema) != 0:
        raise ValueError("the Arrow stream has no schema")
    try:
        while True:
            if stream.get_next(stream, &array) != 0:
                why = stream.get_last_error(stream)
                told = b"" if why == NULL else <bytes>why
                raise ValueError("the Arrow stream failed: " + told.decode(errors="replace").partition("\n")[0])
            if array.release == NULL:
                break
            intake_room(all_, all_.count + 1)
            all_.arrays[all_.count] = array
            names |= intake_bind(all_, &schema, facts, left_out)
        names |= {name.decode(errors="replace") for name in column_names(&schema)} - left_out
    finally:
        schema.release(&schema)
    return names


cdef inline void intake_give(Intake* all_) noexcept:
    cdef int64_t i
    for i in range(all_.count):
        if all_.arrays[i].release != NULL:
            all_.arrays[i].release(all_.arrays + i)
    free(all_.arrays)
    free(all_.leaves)
