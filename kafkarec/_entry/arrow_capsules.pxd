"""Arrow arrays of others, and capsules with those of kafkarec.

Checks foreign Arrow arrays: compares an array with its schema before any of its pointers is used.

    format                        buffers                                  children
    n                             none                                     0
    b c C s S i I l L ts*         validity, values                         0
    w:N                           validity, values                         0
    z u / Z U                     validity, int32 / int64 offsets, data    0
    vz vu                         validity, views, data..., data's sizes   0
    +l +m / +L                    validity, int32 / int64 offsets          1
    +s                            validity                                 the schema's

`check_array` compares only the two structs; the functions after it compare the contents of the buffers with each other
(see `_c/input_columns.pxd`). Of arrays that kafkarec made (`own`) only the structs are checked. Arrow's C data
interface states no buffer sizes, so a length beyond the end of a buffer cannot be detected: see SECURITY.md.

Source: the Arrow C data interface and the columnar format, 1.5.

PyCapsules with the C structs of `_c/arrow.pxd`, for Arrow's PyCapsule interface.

    arrow_schema, arrow_array, arrow_array_stream     a consumer that moves the struct sets its `release` to NULL;
                                                      otherwise it is released with the capsule

Functions with Python objects, for the compiled modules.
"""
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_IsValid, PyCapsule_New
from libc.stdint cimport int64_t, uint32_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, strlen

from kafkarec._c.arrow cimport (
    ArrowArray, ArrowArrayStream, ArrowSchema, SchemaColumn, Storage, TableSchema, export_list_schema, export_lists,
    export_table_schema,
)
from kafkarec._c.columns cimport WANT_VIEWS, count_nulls
from kafkarec._c.input_columns cimport (
    FIXED, NO_CELLS, OFFSETS_32, OFFSETS_64, VIEWS, VIEW_BUFFER, VIEW_FITS, VIEW_LENGTH, Cells, EntryRange, Misfit,
    lengths_fit, offset_at, offset_buffer_rises, views_fit,
)
from kafkarec._c.output_columns cimport OUT_HEADERS, wants_of

# ---- checks of foreign arrays

cdef enum:
    MOST_ROWS = 0x1000000000000  # the most rows of an array: sums and products with a row's size fit into 64 bits

cdef struct ArrayOrigin:
    bint own                     # made by kafkarec
    int64_t first_row            # for error messages: number of the array's first row in the stream, or first entry


cdef inline object invalid_arrow_error(object column, object row, object what, object expected=None, object found=None):
    """An InvalidArrowError whose message begins with the column and the row or entry."""
    from kafkarec.errors import InvalidArrowError
    place = "the Arrow table" if column is None else f"column {column!r}"
    if row is not None:
        place += f", {'entry' if column and '.' in column else 'row'} {row}"
    return InvalidArrowError(
        f"{place}: {what}", reason="arrow_invalid", column=column, row=row, expected=expected, found=found,
    )


cdef inline void* capsule_pointer(object capsule, const char* name) except NULL:
    """The pointer in the capsule; TypeError if it is not a capsule with that name."""
    if not PyCapsule_IsValid(capsule, name):
        raise TypeError(f"an Arrow capsule {name.decode()!r} is needed, not {capsule!r}")
    return PyCapsule_GetPointer(capsule, name)


cdef inline str format_of(const ArrowSchema* schema):
    return "" if schema.format == NULL else (<bytes>schema.format).decode(errors="replace")


cdef inline int64_t fixed_width(object name, str format_) except -1:
    """The N of a format w:N."""
    digits = format_[2:]
    if not (digits.isascii() and digits.isdigit()) or len(digits) > 10 or int(digits) > 2**31 - 1:
        raise invalid_arrow_error(name, None, f"Arrow type {format_!r} has no width from 0 to 2147483647")
    return int(digits)


cdef inline int check_schema(object name, const ArrowSchema* schema) except -1:
    """Checks a schema: it has a format, is not released, and has all its children."""
    cdef int64_t i
    if schema.format == NULL:
        raise invalid_arrow_error(name, None, "its schema has no format")
    if schema.release == NULL:
        raise invalid_arrow_error(name, None, "its schema was already released")
    if schema.n_children < 0 or (schema.n_children > 0 and schema.children == NULL):
        raise invalid_arrow_error(name, None, f"its schema states {schema.n_children} children and has none")
    for i in range(schema.n_children):
        if schema.children[i] == NULL:
            raise invalid_arrow_error(name, None, f"its schema has no child {i}")
    return 0


cdef inline int check_array(object name, const ArrowSchema* schema, const ArrowArray* array, int64_t rows) except -1:
    """Compares array and schema: numbers of rows, nulls, buffers and children. `rows`: how many the array must have."""
    cdef int64_t i, buffers, children
    cdef str format_ = format_of(schema)
    what = expected = found = None
    check_schema(name, schema)
    # of a supported format; children -1: as many as in the schema
    buffers, children = {
        "n": (0, 0), "z": (3, 0), "u": (3, 0), "Z": (3, 0), "U": (3, 0), "vz": (3, 0), "vu": (3, 0),
        "+l": (2, 1), "+m": (2, 1), "+L": (2, 1), "+s": (1, -1),
    }.get(format_, (2, 0))
    if children < 0:
        children = schema.n_children
    if array.release == NULL:
        what = "its array was already released"
    elif not (0 <= array.length <= <int64_t>MOST_ROWS and 0 <= array.offset <= <int64_t>MOST_ROWS):
        what = f"it states {array.length} rows from row {array.offset} on"
    elif not -1 <= array.null_count <= array.length:
        what = f"it states {array.null_count} nulls in {array.length} rows"
    elif array.length < rows:
        what, expected, found = f"it has {array.length} rows where {rows} are needed", rows, array.length
    elif array.dictionary != NULL or schema.dictionary != NULL:
        what = "its schema and its array disagree about a dictionary"
    elif schema.n_children != children or array.n_children != children:
        expected, found = children, array.n_children if schema.n_children == children else schema.n_children
        what = f"Arrow type {format_!r} with {found} children, {children} are expected"
    elif array.n_buffers != buffers and not (
        format_[:1] == "v" and array.n_buffers > buffers
        # some producers state one buffer for type null, which is NULL
        or format_ == "n" and array.n_buffers == 1 and array.buffers != NULL and array.buffers[0] == NULL
    ):
        expected, found = buffers, array.n_buffers
        what = f"Arrow type {format_!r} with {found} buffers, {buffers} are expected"
    elif array.n_buffers > 0 and array.buffers == NULL or children > 0 and array.children == NULL:
        what = "its array states buffers or children and has none"
    elif array.null_count > 0 and buffers > 0 and array.buffers[0] == NULL:
        what = f"it states {array.null_count} nulls and has no validity bits"
    else:
        for i in range(children):
            if array.children[i] == NULL:
                what = f"its array has no child {i}"
    if what is not None:
        raise invalid_arrow_error(name, None, what, expected, found)
    return 0


cdef inline const uint8_t* validity_of(const ArrowArray* array) noexcept:
    """The validity bits; NULL: no row is null."""
    if array.null_count == 0 or array.n_buffers == 0:
        return NULL
    return <const uint8_t*>array.buffers[0]


cdef inline int check_values_buffer(object name, const ArrowArray* array, int64_t rows,
                                    const ArrayOrigin* origin) except -1:
    """Checks that there is a buffer of values or offsets, and that null_count matches the validity bits."""
    if rows > 0 and array.buffers[1] == NULL:
        raise invalid_arrow_error(name, None, f"it states {array.length} rows and has no buffer of values or offsets")
    return check_nulls(name, array, origin)


cdef inline int check_nulls(object name, const ArrowArray* array, const ArrayOrigin* origin) except -1:
    cdef int64_t nulls
    if origin.own or array.null_count < 0 or array.buffers[0] == NULL:
        return 0
    nulls = count_nulls(<const uint8_t*>array.buffers[0], array.offset, array.length)
    if nulls != array.null_count:
        raise invalid_arrow_error(name, None, f"it states {array.null_count} nulls, its validity bits have {nulls}",
                                  array.null_count, nulls)
    return 0


cdef inline int check_bytes(object name, str format_, const ArrowArray* array, int64_t first, int64_t rows,
                            const ArrayOrigin* origin) except -1:
    """Checks rows [first, first + rows) of binary or utf8, in any layout, counted from the beginning of the buffers."""
    cdef Misfit m
    cdef bint wide = format_ in ("Z", "U")
    cdef int64_t used
    check_values_buffer(name, array, 0 if format_ == "w:0" else rows, origin)
    if origin.own or rows == 0 or format_[:2] == "w:":
        return 0
    if format_[0] == "v":
        return check_views(name, array, first, rows, origin)
    if not offset_buffer_rises(array.buffers[1], wide, first, rows, &m):
        raise offset_error(name, &m, origin)
    used = offset_at(array.buffers[1], wide, first + rows) - offset_at(array.buffers[1], wide, first)
    if wide and not lengths_fit(<const int64_t*>array.buffers[1] + first, rows, &m):
        raise ValueError(f"column {name!r}, row {origin.first_row + m.row}: {m.found} bytes, and a field of a record "
                         f"has {m.expected} at most")
    if used > 0 and array.buffers[2] == NULL:
        raise invalid_arrow_error(name, None, f"its offsets need {used} bytes of data and it has no buffer of data")
    return 0


cdef inline object offset_error(object name, const Misfit* m, const ArrayOrigin* origin):
    what = "negative" if m.found < 0 else "below the previous one"
    return invalid_arrow_error(name, origin.first_row + m.row, f"its offset {m.found} is {what}", m.expected, m.found)


cdef inline int check_views(object name, const ArrowArray* array, int64_t first, int64_t rows,
                            const ArrayOrigin* origin) except -1:
    cdef Misfit m
    cdef int64_t i, count = array.n_buffers - 3
    cdef const int64_t* sizes = <const int64_t*>array.buffers[array.n_buffers - 1]
    cdef int problem
    if count > 0 and sizes == NULL:
        raise invalid_arrow_error(name, None, f"it states {count} buffers of data and no sizes of them")
    for i in range(count):
        if sizes[i] < 0:
            raise invalid_arrow_error(name, None, f"it states {sizes[i]} bytes for buffer {i}", 0, sizes[i])
    problem = views_fit(<const uint8_t*>array.buffers[1], validity_of(array), first, rows, array.buffers + 2, sizes,
                        count, &m)
    if problem == VIEW_FITS:
        return 0
    if problem == VIEW_LENGTH:
        what = f"its view has length {m.found}"
    elif problem == VIEW_BUFFER:
        what = f"its view is in buffer {m.found}, and there are {m.expected}"
    else:
        what = f"its view ends at byte {m.found} of a buffer of {m.expected} bytes"
    raise invalid_arrow_error(name, origin.first_row + m.row, what, m.expected, m.found)


cdef inline int check_lists(object name, str format_, const ArrowArray* array, int64_t first, int64_t rows,
                            EntryRange* used, const ArrayOrigin* origin) except -1:
    """Checks rows [first, first + rows) of a list; sets `used` to the range of their entries, all of which exist."""
    cdef Misfit m
    cdef bint wide = format_ == "+L"
    cdef int64_t entries = array.children[0].length
    check_values_buffer(name, array, rows, origin)
    used.start = used.stop = 0
    if rows == 0:
        return 0
    used.start, used.stop = offset_at(array.buffers[1], wide, first), offset_at(array.buffers[1], wide, first + rows)
    if not origin.own and not offset_buffer_rises(array.buffers[1], wide, first, rows, &m):
        raise offset_error(name, &m, origin)
    if used.stop > entries:
        raise invalid_arrow_error(name, None, f"its lists have {used.stop} entries, and there are {entries}", entries,
                                  used.stop)
    return 0


# ---- byte strings

cdef inline object wrong_type(object name, object format_, object expected):
    return TypeError(f"column {name!r} has Arrow type {format_!r}; {expected} is needed")


cdef inline int bind_cells(Cells* c, object name, const ArrowSchema* schema, const ArrowArray* array,
                           int64_t first, int64_t start, int64_t stop, const ArrayOrigin* origin) except -1:
    """Binds a binary or utf8 column. Row i is the array's row first + i; rows [start, stop) are checked."""
    cdef str format_ = format_of(schema)
    cdef dict kinds = {
        "n": NO_CELLS, "z": OFFSETS_32, "u": OFFSETS_32, "Z": OFFSETS_64, "U": OFFSETS_64, "vz": VIEWS, "vu": VIEWS,
    }
    if schema.dictionary != NULL:
        raise TypeError(f"column {name!r} is dictionary-encoded; cast it to binary first")
    if format_ not in kinds and not format_.startswith("w:"):
        raise wrong_type(name, format_, "binary or utf8")
    c.kind = kinds.get(format_, FIXED)
    check_array(name, schema, array, first + stop)
    c.first = first + array.offset
    if c.kind == NO_CELLS:
        return 0
    if c.kind == FIXED:
        c.width = fixed_width(name, format_)
    check_bytes(name, format_, array, c.first + start, stop - start, origin)
    c.validity = validity_of(array)
    c.index, c.data = array.buffers[1], <const uint8_t*>array.buffers[1 if c.kind == FIXED else 2]
    if c.kind == VIEWS:
        c.buffers = <const void* const*>(array.buffers + 2)
    c.plain = c.kind == OFFSETS_32 and c.validity == NULL
    return 0


# ---- capsules

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


cdef inline object schema_capsule(TableSchema* table_schema, bint lists):
    cdef ArrowSchema* schema = <ArrowSchema*>calloc(1, sizeof(ArrowSchema))
    cdef int status = -1
    if schema != NULL:
        status = export_list_schema(schema, table_schema) if lists else export_table_schema(schema, table_schema)
    if status != 0:
        free(schema)
        raise MemoryError
    return PyCapsule_New(schema, b"arrow_schema", drop_schema)


cdef inline object list_capsule(Storage* storage, const void* validity, const void* offsets, int64_t length,
                                int64_t nulls):
    """A capsule with a list array over a chunk; validity and offsets belong to the chunk's storage."""
    cdef ArrowArray* array = <ArrowArray*>calloc(1, sizeof(ArrowArray))
    if array == NULL or export_lists(array, storage, validity, offsets, length, nulls) != 0:
        free(array)
        raise MemoryError
    return PyCapsule_New(array, b"arrow_array", drop_array)


cdef inline TableSchema* pack_schema(object schema, bint binary_header_keys, int* codes, uint32_t* want) except NULL:
    """Copies the schema's names and formats to one C block with a reference count; sets `codes`, and adds the WANT_*
    bits that they need to `want`."""
    cdef int64_t count = len(schema), i
    cdef bytes texts = b"".join([f"{field.name}\0{field.format}\0".encode() for field in schema])
    cdef size_t head = sizeof(TableSchema) + <size_t>count * sizeof(SchemaColumn)
    cdef TableSchema* table_schema = <TableSchema*>calloc(1, head + <size_t>len(texts))
    cdef const char* text = <const char*>table_schema + head
    cdef SchemaColumn* column
    if table_schema == NULL:
        raise MemoryError
    memcpy(<char*>text, <const char*>texts, <size_t>len(texts))
    table_schema.references, table_schema.count = 1, count
    for i in range(count):
        field, column = schema[i], table_schema.columns + i
        codes[i] = field.code
        want[0] |= <uint32_t>wants_of(codes[i])
        if field.views:
            want[0] |= <uint32_t>WANT_VIEWS
        column.nullable, column.name = field.nullable, text
        column.format = column.name + strlen(column.name) + 1
        text = column.format + strlen(column.format) + 1
        if codes[i] == OUT_HEADERS:
            column.key_format = b"z" if binary_header_keys else b"u"
            column.value_format = b"vz" if field.views else b"z"
    return table_schema
