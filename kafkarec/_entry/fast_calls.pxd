"""Functions that take their positional arguments as an array: METH_FASTCALL, which the stable ABI has since 3.10.

Cython uses it from 3.12 on only; before, each call makes a tuple of its arguments, which takes as long as encoding a
small record.
"""
from cpython.ref cimport PyObject

cdef extern from "Python.h":
    ctypedef void* PyCFunction
    ctypedef struct PyMethodDef:
        const char* ml_name
        PyCFunction ml_meth
        int ml_flags
        const char* ml_doc
    int METH_FASTCALL
    object PyCFunction_NewEx(PyMethodDef* definition, PyObject* itself, PyObject* module)


cdef inline object fast_function(PyMethodDef* definition, const char* name, void* function):
    """A function of (PyObject* module, PyObject** arguments, Py_ssize_t count), which returns an object. `definition`
    must live as long."""
    definition.ml_name, definition.ml_meth, definition.ml_flags = name, <PyCFunction>function, METH_FASTCALL
    return PyCFunction_NewEx(definition, NULL, NULL)
