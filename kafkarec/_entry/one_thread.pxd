"""Objects that only one thread may use at a time, because they release the GIL while they change."""


cdef inline int claim(bint* busy) except -1:
    """Sets `busy`, which the caller clears after its work. RuntimeError: another thread uses the object."""
    if busy[0]:
        raise RuntimeError("another thread uses this object")
    busy[0] = True
    return 0
