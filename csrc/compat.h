/* What differs between CPython 3.11, 3.12, 3.13 and 3.14, and nothing else.
 *
 * Every version condition of the C sources is in this file. The evaluator API of PEP 523 is
 * private and its frame structure is laid out anew in every minor version, so an extension
 * built here fits the one minor version it was built for. */

#ifndef GRAPHMEND_BC_COMPAT_H
#define GRAPHMEND_BC_COMPAT_H

#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE /* pycore_frame.h refuses to be included without it */
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030F0000
#error "graphmend_bc's frame hooks are written for CPython 3.11, 3.12, 3.13 and 3.14."
#endif

#ifdef Py_GIL_DISABLED
#error "graphmend_bc's frame hooks rely on the GIL; free-threaded builds are not supported."
#endif

#if PY_VERSION_HEX >= 0x030E0000
#ifdef __GNUC__
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wunused-parameter" /* inline functions of these headers */
#endif
#include <internal/pycore_interpframe.h>
#include <internal/pycore_stackref.h>
#ifdef __GNUC__
#pragma GCC diagnostic pop
#endif
#else
#include <internal/pycore_frame.h>
#endif
#undef Py_BUILD_CORE

#include <stdint.h>

#if defined(_MSC_VER) && !defined(__clang__)
#define COMPAT_THREAD_LOCAL __declspec(thread)
#else
#define COMPAT_THREAD_LOCAL _Thread_local
#endif

/* The code object of a frame, borrowed, or NULL for a frame that runs none.
 * From 3.13 on the field holds any executable object, from 3.14 on as a stack reference. */
static inline PyCodeObject *
compat_frame_code(struct _PyInterpreterFrame *frame)
{
#if PY_VERSION_HEX >= 0x030E0000
    PyObject *executable = PyStackRef_AsPyObjectBorrow(frame->f_executable);
    return PyCode_Check(executable) ? (PyCodeObject *)executable : NULL;
#elif PY_VERSION_HEX >= 0x030D0000
    PyObject *executable = frame->f_executable;
    return PyCode_Check(executable) ? (PyCodeObject *)executable : NULL;
#else
    return frame->f_code;
#endif
}

/* The globals of a frame, borrowed. */
static inline PyObject *
compat_frame_globals(struct _PyInterpreterFrame *frame)
{
    return frame->f_globals;
}

/* The function of a frame, borrowed, or NULL for a frame that is not a function's. */
static inline PyObject *
compat_frame_function(struct _PyInterpreterFrame *frame)
{
#if PY_VERSION_HEX >= 0x030E0000
    PyObject *function = PyStackRef_AsPyObjectBorrow(frame->f_funcobj);
#elif PY_VERSION_HEX >= 0x030C0000
    PyObject *function = frame->f_funcobj;
#else
    PyObject *function = (PyObject *)frame->f_func;
#endif
    return function != NULL && PyFunction_Check(function) ? function : NULL;
}

/* Nanoseconds on the clock of time.perf_counter_ns(). It cannot fail once Python runs. */
static inline int64_t
compat_now(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    PyTime_t now = 0;
    (void)PyTime_PerfCounterRaw(&now);
    return now;
#else
    return _PyTime_GetPerfCounter();
#endif
}

/* Whether the interpreter has begun to take modules and their functions apart. */
static inline int
compat_is_finalizing(void)
{
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing();
#else
    return _Py_IsFinalizing();
#endif
}

/* Scratch slots of code objects lost their underscore in 3.12. */
#if PY_VERSION_HEX >= 0x030C0000
#define compat_request_code_slot PyUnstable_Eval_RequestCodeExtraIndex
#define compat_code_slot_get PyUnstable_Code_GetExtra
#define compat_code_slot_set PyUnstable_Code_SetExtra
#else
#define compat_request_code_slot _PyEval_RequestCodeExtraIndex
#define compat_code_slot_get _PyCode_GetExtra
#define compat_code_slot_set _PyCode_SetExtra
#endif

/* Whether anything was ever kept in the scratch slots of a code object: one look, no call. */
static inline int
compat_code_has_slots(const PyCodeObject *code)
{
    return code->co_extra != NULL;
}

/* Takes the exception that is being raised, as one new reference with its traceback set, or
 * NULL. Before 3.12 it was kept as three objects. */
static inline PyObject *
compat_take_exception(void)
{
#if PY_VERSION_HEX >= 0x030C0000
    return PyErr_GetRaisedException();
#else
    PyObject *type, *value, *traceback; /* owned */
    PyErr_Fetch(&type, &value, &traceback);
    if (type == NULL) {
        return NULL;
    }
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback != NULL) {
        PyException_SetTraceback(value, traceback);
    }
    Py_DECREF(type);
    Py_XDECREF(traceback);
    return value;
#endif
}

/* Raises again what compat_take_exception() took; steals the reference. */
static inline void
compat_raise_exception(PyObject *exception)
{
#if PY_VERSION_HEX >= 0x030C0000
    PyErr_SetRaisedException(exception);
#else
    PyErr_Restore(Py_NewRef(Py_TYPE(exception)), exception, PyException_GetTraceback(exception));
#endif
}

/* Module slots by which 3.12 and later learn that the module lives in the main interpreter and
 * under the GIL. 3.11 has no slot for the first: the module checks it as it is executed. */
#if PY_VERSION_HEX >= 0x030D0000
#define COMPAT_MODULE_SLOTS                                                     \
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED}, \
        {Py_mod_gil, Py_MOD_GIL_USED},
#elif PY_VERSION_HEX >= 0x030C0000
#define COMPAT_MODULE_SLOTS \
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#else
#define COMPAT_MODULE_SLOTS
#endif

#endif
