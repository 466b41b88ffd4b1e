"""PyCapsules with the C structs of `_c/arrow.pxd`, for Arrow's PyCapsule interface.

    arrow_schema, arrow_array, arrow_array_stream     a consumer that moves the struct sets its `release` to NULL;
                                                      otherwise it is released with the capsule

Functions with Python objects, for the compiled modules.
"""
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
from libc.stdint cimport int32_t, int64_t, uint32_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

from kafkarec._c.arrow cimport (
    ArrowArray, ArrowArrayStream, ArrowSchema, Shape, ShapeColumn, Storage, StreamState, export_list_schema,
    export_lists, export_shape, make_stream,
)
from kafkarec._c.columns cimport WANT_VIEWS
from kafkarec._c.output_columns cimport OUT_HEADERS, wants_of
from kafkarec._entry.foreign_arrow cimport (
    ArrayOrigin, capsule_pointer, check_bytes, check_shape, format_of, validity_of,
)


cdef inline void drop_schema(object capsule) noexcept:
    cdef ArrowSchema* schema = <ArrowSchema*>PyCapsule_GetPointer(capsule, b"arrow_schema")
    if schema.release != NULL:
        schema.release(schema)
    free(schema)


cdef inline void drop_array(object capsule) noexcept:
    cdef ArrowArray* array = <ArrowArray*>PyCapsule_GetPointer(capsule, b"arrow_array")
    if array.release != NULL:
        array.release(array)
    free(array)


cdef inline void drop_stream(object capsule) noexcept:
    cdef ArrowArrayStream* stream = <ArrowArrayStream*>PyCapsule_GetPointer(capsule, b"arrow_array_stream")
    if stream.release != NULL:
        stream.release(stream)
    free(stream)


cdef inline object schema_capsule(const Shape* shape, bint lists):
    cdef ArrowSchema* schema = <ArrowSchema*>calloc(1, sizeof(ArrowSchema))
    cdef int status = -1
    if schema != NULL:
        status = export_list_schema(schema, shape) if lists else export_shape(schema, shape)
    if status != 0:
        free(schema)
        raise MemoryError
    return PyCapsule_New(schema, b"arrow_schema", drop_schema)


cdef inline object stream_capsule(StreamState* state):
    """A capsule with a stream that owns `state`."""
    cdef ArrowArrayStream* stream = <ArrowArrayStream*>calloc(1, sizeof(ArrowArrayStream))
    cdef ArrowArrayStream unused
    if stream == NULL:
        make_stream(&unused, state)
        unused.release(&unused)
        raise MemoryError
    make_stream(stream, state)
    return PyCapsule_New(stream, b"arrow_array_stream", drop_stream)


cdef inline object list_capsule(Storage* storage, const void* validity, const void* offsets, int64_t length,
                                int64_t nulls):
    """A capsule with a list array over a chunk; validity and offsets belong to the chunk's storage."""
    cdef ArrowArray* array = <ArrowArray*>calloc(1, sizeof(ArrowArray))
    if array == NULL or export_lists(array, storage, validity, offsets, length, nulls) != 0:
        free(array)
        raise MemoryError
    return PyCapsule_New(array, b"arrow_array", drop_array)


cdef inline Shape* pack_shape(object schema, bint binary_header_keys, int* codes, uint32_t* want) except NULL:
    """Copies the schema's names and formats to one C block with a reference count; sets `codes`, and adds the WANT_*
    bits that they need to `want`."""
    cdef int64_t count = len(schema), i
    cdef size_t text = sum([len(field.name.encode()) + len(field.format) + 2 for field in schema])
    cdef size_t head = sizeof(Shape) + <size_t>count * sizeof(ShapeColumn)
    cdef Shape* shape = <Shape*>calloc(1, head + text)
    cdef char* to = <char*>shape + head
    cdef bytes name, format_
    if shape == NULL:
        raise MemoryError
    shape.references = 1
    shape.count = count
    for i in range(count):
        field = schema[i]
        name, format_ = field.name.encode(), field.format.encode()
        codes[i] = field.code
        want[0] |= <uint32_t>wants_of(codes[i])
        if field.views:
            want[0] |= <uint32_t>WANT_VIEWS
        shape.columns[i].nullable = field.nullable
        memcpy(to, <const char*>name, <size_t>len(name))
        shape.columns[i].name = to
        to += len(name) + 1
        memcpy(to, <const char*>format_, <size_t>len(format_))
        shape.columns[i].format = to
        to += len(format_) + 1
        if codes[i] == OUT_HEADERS:
            shape.columns[i].key_format = b"z" if binary_header_keys else b"u"
            shape.columns[i].value_format = b"vz" if field.views else b"z"
    return shape


cdef inline tuple borrow_values(object schema_capsule, object array_capsule):
    """Checks a foreign binary array. Returns (((address, bytes) of validity, offsets, data), offset, length, bits of an
    offset: 32 or 64)."""
    cdef ArrowSchema* schema = <ArrowSchema*>capsule_pointer(schema_capsule, b"arrow_schema")
    cdef ArrowArray* array = <ArrowArray*>capsule_pointer(array_capsule, b"arrow_array")
    cdef str format_ = format_of(schema)
    cdef int64_t width, end, last = 0
    cdef ArrayOrigin origin
    if format_ not in ("z", "Z", "u", "U"):
        raise TypeError(f"a binary column is needed, not one of Arrow format {format_!r}")
    origin.own, origin.first_row = False, 0
    check_shape("values", schema, array, 0)
    if array.length == 0:
        return ((0, 0), (0, 0), (0, 0)), 0, 0, 32
    check_bytes("values", format_, array, array.offset, array.length, &origin)
    end = array.offset + array.length
    width = 4 if format_ in ("z", "u") else 8
    last = (<const int32_t*>array.buffers[1])[end] if width == 4 else (<const int64_t*>array.buffers[1])[end]
    return (
        (<uintptr_t>validity_of(array), (end + 7) // 8),
        (<uintptr_t>array.buffers[1], (end + 1) * width),
        (<uintptr_t>array.buffers[2], last),
    ), array.offset, array.length, width * 8
