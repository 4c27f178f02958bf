/* What a code object is to the profile.
 *
 * Python is asked once a profile about each code object, and the answer kept in a scratch slot. */

#include "hooks.h"

/* Asks `classify`, with the neighbour off: its own frames must not be compiled. The kind, or -1
 * with an exception. */
static int
ask_classify(module_state *state, PyCodeObject *code)
{
    PyObject *classify = Py_NewRef(state->classify); /* owned: the profile may end meanwhile */
    PyObject *exchange = NULL, *former = NULL, *answer = NULL, *ignored = NULL; /* owned */
    long kind = -1;

    if (state->exchange != NULL) {
        exchange = Py_NewRef(state->exchange);
        former = set_callback(exchange, Py_None);
        if (former == NULL) {
            goto done;
        }
    }
    answer = call_unwatched(classify, (PyObject *)code);
    if (former != NULL) {
        ignored = set_callback(exchange, former);
        if (ignored == NULL) {
            goto done;
        }
    }
    if (answer == NULL) {
        goto done;
    }
    kind = PyLong_AsLong(answer);
    if (kind <= KIND_UNKNOWN || kind >= KIND_END) {
        if (!PyErr_Occurred()) {
            PyErr_Format(PyExc_ValueError,
                         "classify must return one of the KIND_ constants, not %R.", answer);
        }
        kind = -1;
    }
done:
    Py_XDECREF(ignored);
    Py_XDECREF(answer);
    Py_XDECREF(former);
    Py_XDECREF(exchange);
    Py_DECREF(classify);
    return (int)kind;
}

/* The slot holds the number of the profile beside the kind: that of the profile that asked, for
 * another may have begun when the answer is there. */
int
kind_of_code(module_state *state, PyCodeObject *code, uintptr_t profile, bool may_ask)
{
    uintptr_t known;
    void *content = NULL;
    int kind;

    if (compat_code_slot_get((PyObject *)code, hook.kind_slot, &content) < 0) {
        return -1;
    }
    known = (uintptr_t)content;
    if (known >> 3 == profile) {
        return (int)(known & 7);
    }
    if (!may_ask || state->classify == NULL) {
        return KIND_EAGER;
    }
    kind = ask_classify(state, code);
    if (kind < 0) {
        return -1;
    }
    content = (void *)(profile << 3 | (uintptr_t)kind);
    return compat_code_slot_set((PyObject *)code, hook.kind_slot, content) < 0 ? -1 : kind;
}

int
kind_of_wrapper(module_state *state, PyObject *function)
{
    PyObject *mark, *value; /* owned: the profile may end meanwhile */
    int same = 0;

    if (function == NULL || state->mark == NULL) {
        return KIND_PLUMBING;
    }
    mark = Py_NewRef(state->mark);
    value = PyObject_GetAttr(function, PyTuple_GET_ITEM(mark, 0));
    if (value == NULL && PyErr_ExceptionMatches(PyExc_AttributeError)) {
        PyErr_Clear();
    }
    else if (value == NULL) {
        same = -1;
    }
    else if (Py_IS_TYPE(value, Py_TYPE(PyTuple_GET_ITEM(mark, 1)))) { /* not a user's __eq__ */
        same = PyObject_RichCompareBool(value, PyTuple_GET_ITEM(mark, 1), Py_EQ);
    }
    Py_XDECREF(value);
    Py_DECREF(mark);
    return same < 0 ? -1 : same ? KIND_GRAPH : KIND_PLUMBING;
}
