/* Which code objects are watched.
 *
 * A scratch slot of a code object holds NULL, an owned `enter`, or, told by its lowest bit, the
 * generation at which the chooser refused the code object. */

#include "hooks.h"

void
free_enter(void *content)
{
    if (content != NULL && !is_refusal(content)) {
        Py_DECREF((PyObject *)content);
    }
}

/* Stores `content`, whose reference it steals. CPython frees the former content while the slot
 * still shows it, so that one is kept alive until the slot is consistent. */
static int
store(PyCodeObject *code, void *content)
{
    void *former = NULL;
    int status = -1;

    if (compat_code_slot_get((PyObject *)code, hook.slot, &former) < 0) {
        free_enter(content);
        return -1;
    }
    if (former != NULL && !is_refusal(former)) {
        Py_INCREF((PyObject *)former);
    }
    status = compat_code_slot_set((PyObject *)code, hook.slot, content);
    if (status < 0) {
        free_enter(content);
    }
    free_enter(former);
    return status;
}

int
store_enter(PyCodeObject *code, PyObject *enter)
{
    return store(code, enter);
}

/* Asks the chooser about a code object. 1 with an owned `enter`, 0, or -1 with an exception. */
static int
ask_chooser(module_state *state, PyCodeObject *code, PyObject *globals, PyObject **enter)
{
    PyObject *name;                           /* borrowed */
    PyObject *choose = NULL, *answer = NULL;  /* owned */
    int status = -1, on;

    on = neighbour_is_on(state); /* the chooser's own frames must not be compiled */
    if (on != 0) {
        return on < 0 ? -1 : 0;
    }
    name = PyDict_GetItemString(globals, "__name__");
    choose = Py_NewRef(state->choose);
    in_callback++;
    answer = PyObject_CallFunctionObjArgs(choose, (PyObject *)code, name ? name : Py_None, NULL);
    in_callback--;
    if (answer == NULL) {
        goto done;
    }
    if (answer == Py_None) {
        status = store(code, refusal());
        goto done;
    }
    if (store(code, Py_NewRef(answer)) == 0) {
        *enter = Py_NewRef(answer);
        status = 1;
    }
done:
    Py_XDECREF(answer);
    Py_DECREF(choose);
    return status;
}

int
find_enter(module_state *state, PyCodeObject *code, PyObject *globals, PyObject **enter)
{
    void *content = NULL;

    if (compat_code_slot_get((PyObject *)code, hook.slot, &content) < 0) {
        return -1;
    }
    if (content != NULL && !is_refusal(content)) {
        *enter = Py_NewRef((PyObject *)content);
        return 1;
    }
    if (state->choose == NULL || content == refusal()) {
        return 0;
    }
    return ask_chooser(state, code, globals, enter);
}
