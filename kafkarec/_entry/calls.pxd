"""What the functions of the compiled modules share: their arguments, threads and refusals.

Functions that take their positional arguments as an array: METH_FASTCALL, which the stable ABI has since 3.10.

Cython uses it from 3.12 on only; before, each call makes a tuple of its arguments, which takes as long as encoding a
small record.
"""
from cpython.ref cimport PyObject, PyTypeObject, Py_INCREF

from kafkarec._c.status cimport LEADER_EPOCH_DIFFERS, SIZE_TOO_SMALL, Fault

# ---- arguments as an array

cdef enum:
    ENCODE_OPTIONS = 10          # arguments of _writer.encode after the records, base_offset and batch_size
    DECODE_OPTIONS = 9           # arguments of _core.decode after the data
    INIT_ARGUMENTS = 15          # of RecordBatchBuilder
    OWN_ARGUMENTS = 4            # of those, in which builders of equal options differ
    MOST_KNOWN = 8               # arguments of earlier calls

cdef extern from "Python.h":
    ctypedef void* PyCFunction
    ctypedef struct PyMethodDef:
        const char* ml_name
        PyCFunction ml_meth
        int ml_flags
        const char* ml_doc
    int METH_FASTCALL
    int METH_KEYWORDS
    PyObject* PyTuple_GetItem(tuple items, Py_ssize_t i)
    object PyCFunction_NewEx(PyMethodDef* definition, PyObject* itself, PyObject* module)
    object PyDescr_NewMethod(PyTypeObject* type_, PyMethodDef* definition)


cdef inline object fast_function(PyMethodDef* definition, const char* name, void* function):
    """A function of (PyObject* module, PyObject** arguments, Py_ssize_t count), which returns an object. `definition`
    must live as long."""
    definition.ml_name, definition.ml_meth, definition.ml_flags = name, <PyCFunction>function, METH_FASTCALL
    return PyCFunction_NewEx(definition, NULL, NULL)


cdef inline bint same_arguments(tuple known, PyObject** arguments) except -1:
    """Whether arguments are the same objects as those in `known`, or equal and exactly of the type int or str."""
    cdef PyObject* one
    cdef Py_ssize_t i
    for i in range(len(known)):
        one = PyTuple_GetItem(known, i)
        if one != arguments[i]:
            kind = type(<object>one)
            if kind is not type(<object>arguments[i]) or kind not in (int, str) or <object>one != <object>arguments[i]:
                return False
    return True


cdef inline object made_before(tuple known, PyObject** arguments):
    """What was made of the same arguments: `known` has pairs of arguments and that. None: there are no such ones."""
    cdef Py_ssize_t i
    for i in range(len(known)):
        pair = <object>PyTuple_GetItem(known, i)
        if same_arguments(<tuple><object>PyTuple_GetItem(<tuple>pair, 0), arguments):
            return <object>PyTuple_GetItem(<tuple>pair, 1)
    return None


cdef inline tuple with_latest(tuple known, tuple arguments, object made):
    """`known` with what was made of these arguments, the latest first; the oldest is dropped."""
    return ((arguments, made), *known[:MOST_KNOWN - 1])


cdef inline object fast_method(PyMethodDef* definition, PyObject* type_, object function, void* method):
    """A method of a type and its subclasses, with the name, signature and docstring of a Python function. `method`: a
    function of (PyObject* self, PyObject** arguments, Py_ssize_t count, PyObject* names of keywords); see `call`."""
    import inspect

    signature = inspect.signature(function)
    plain = [one.replace(annotation=one.empty) for one in signature.parameters.values()]
    plain = str(signature.replace(parameters=plain, return_annotation=signature.empty)).replace("(self", "($self")
    cdef bytes name = function.__name__.encode()
    cdef bytes text = f"{function.__name__}{plain}\n--\n\n{function.__doc__ or ''}".encode()
    Py_INCREF(name)                      # for good: the definition points to both
    Py_INCREF(text)
    definition.ml_name, definition.ml_doc = name, text
    definition.ml_meth, definition.ml_flags = <PyCFunction>method, METH_FASTCALL | METH_KEYWORDS
    return PyDescr_NewMethod(<PyTypeObject*>type_, definition)


cdef inline object call(object function, PyObject* itself, PyObject** arguments, Py_ssize_t count, PyObject* names):
    """Calls a function with the arguments of a method."""
    cdef Py_ssize_t i, given = 0 if names == NULL else len(<tuple>names)
    by_position = [<object>itself] + [<object>arguments[i] for i in range(count)]
    by_name = {(<tuple>names)[i]: <object>arguments[count + i] for i in range(given)}
    return function(*by_position, **by_name)


cdef inline bint set_by_name(PyObject** given, tuple known, tuple defaults, PyObject** arguments,
                             PyObject* names) except -1:
    """Sets `given` to the values of a function's keyword-only parameters, in their order, which are borrowed.
    known, defaults: their names and defaults. False for a name that is not one of those objects."""
    cdef Py_ssize_t i, k, count = len(known)
    for i in range(count):
        given[i] = PyTuple_GetItem(defaults, i)
    for k in range(0 if names == NULL else len(<tuple>names)):
        i = 0
        while i < count and PyTuple_GetItem(known, i) != PyTuple_GetItem(<tuple>names, k):
            i += 1
        if i == count:
            return False
        given[i] = arguments[k]
    return True


# ---- threads

cdef extern from "Python.h":
    void* PyEval_SaveThread()
    void PyEval_RestoreThread(void* thread)


cdef inline void* release_gil(bint is_released) noexcept:
    """Releases the GIL, or not; `acquire_gil` gets what it returns. Between the two are calls of C functions only."""
    return PyEval_SaveThread() if is_released else NULL


cdef inline void acquire_gil(void* thread) noexcept:
    if thread != NULL:
        PyEval_RestoreThread(thread)


cdef inline int claim(bint* busy) except -1:
    """Sets `busy`, which the caller clears after its work. RuntimeError: another thread uses the object."""
    if busy[0]:
        raise RuntimeError("another thread uses this object")
    busy[0] = True
    return 0


# ---- refusals

cdef inline dict reasons_by_status():
    """{a status that refuses: its word in kafkarec.errors.REASONS}. REASONS begins with the words, in the order of the
    statuses, but for those of the last group."""
    from kafkarec.errors import REASONS

    words = [*REASONS][:<int>LEADER_EPOCH_DIFFERS - <int>SIZE_TOO_SMALL]
    words += ["leader_epoch_differs", "base_offset_not_zero", "batch_too_large", "offsets_out_of_order"]
    return dict(enumerate(words, <int>SIZE_TOO_SMALL))


cdef inline dict fault_fields(const Fault* f, object file, object detail):
    """The fault as arguments of damage.message and damage.error. file: None if there is none; detail: "" likewise."""
    return {
        "position": f.position, "base_offset": f.base_offset, "expected": f.expected, "found": f.found,
        "record": f.record, "detail": detail, "file": file,
        "next_position": None if f.next_position < 0 else f.next_position,
    }
