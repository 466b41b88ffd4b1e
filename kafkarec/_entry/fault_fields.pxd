"""Converts a fault from C to Python."""
from kafkarec._c.status cimport Fault


cdef inline dict fault_fields(const Fault* f, object file, object detail):
    """The fault as arguments of damage.sentence and damage.error. file: None if there is none; detail: "" likewise."""
    return {
        "position": f.position, "base_offset": f.base_offset, "expected": f.expected, "found": f.found,
        "record": f.record, "detail": detail, "file": file,
        "next_position": None if f.next_position < 0 else f.next_position,
    }
