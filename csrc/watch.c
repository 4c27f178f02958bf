/* Which code objects are watched.
 *
 * A scratch slot of a code object holds NULL, a `watched`, or, told by its lowest bit, the
 * generation at which the chooser refused the code object. */

#include "hooks.h"

typedef struct watched {
    PyObject *enter;                /* owned, or NULL: the chooser's, which is void by now */
    struct watched *before, *after; /* in the ring of what was chosen; NULL outside of it */
} watched;

/* What the chooser in force has chosen, so that it can be made void at once. */
static watched chosen = {.before = &chosen, .after = &chosen};

static void
link_chosen(watched *item)
{
    item->before = &chosen;
    item->after = chosen.after;
    chosen.after->before = item;
    chosen.after = item;
}

static void
unlink_chosen(watched *item)
{
    if (item->after != NULL) {
        item->before->after = item->after;
        item->after->before = item->before;
        item->before = item->after = NULL;
    }
}

void
free_enter(void *content)
{
    watched *item = content;

    if (content != NULL && !is_refusal(content)) {
        PyObject *enter = item->enter; /* owned */
        unlink_chosen(item);
        PyMem_Free(item);
        Py_XDECREF(enter);
    }
}

/* The `enter` that a content holds, borrowed, or NULL. */
static PyObject *
enter_of(void *content)
{
    return content == NULL || is_refusal(content) ? NULL : ((watched *)content)->enter;
}

/* The content of a code object's slot. It fails for what is no code object only. */
static void *
content_of(PyCodeObject *code)
{
    void *content = NULL;

    (void)compat_code_slot_get((PyObject *)code, hook.slot, &content);
    return content;
}

/* Stores `content`, which is its own from here on. CPython frees the former content while the slot
 * still shows it, so its `enter` is kept alive until the slot is consistent. 0, or -1 with an
 * exception. */
static int
store(PyCodeObject *code, void *content)
{
    PyObject *former = Py_XNewRef(enter_of(content_of(code))); /* owned */
    int status = compat_code_slot_set((PyObject *)code, hook.slot, content);

    if (status < 0) {
        free_enter(content);
    }
    Py_XDECREF(former);
    return status;
}

/* A new content that holds a borrowed `enter`, or NULL with a MemoryError. */
static watched *
new_watched(PyObject *enter)
{
    watched *item = PyMem_Malloc(sizeof(watched));

    if (item == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    *item = (watched){.enter = Py_NewRef(enter)};
    return item;
}

int
store_enter(PyCodeObject *code, PyObject *enter)
{
    watched *item = enter == NULL ? NULL : new_watched(enter);

    return enter != NULL && item == NULL ? -1 : store(code, item);
}

void
void_answers(void)
{
    while (chosen.after != &chosen) {
        watched *item = chosen.after;
        unlink_chosen(item);
        Py_CLEAR(item->enter); /* what this runs may add to the ring, or take from it */
    }
}

/* Keeps what the chooser answered, NULL for no. 0, or -1 with an exception. */
static int
keep_answer(PyCodeObject *code, PyObject *answer)
{
    watched *item;

    if (answer == NULL) {
        return store(code, refusal());
    }
    item = new_watched(answer);
    if (item == NULL) {
        return -1;
    }
    link_chosen(item); /* before it is stored, which may run what unwatches the code object */
    return store(code, item);
}

/* As keep_answer() for a question that ended in an exception, which goes on. An interruption is no
 * answer. */
static void
keep_failure(PyCodeObject *code)
{
    PyObject *error; /* owned */

    if (PyErr_ExceptionMatches(PyExc_Exception)) {
        error = compat_take_exception();
        if (keep_answer(code, NULL) < 0) {
            PyErr_Clear(); /* no memory: it is asked again */
        }
        compat_raise_exception(error);
    }
}

/* The name of the module of a frame, a new reference: None where it has no proper one. */
static PyObject *
module_name(PyObject *globals)
{
    PyObject *name = PyDict_GetItemString(globals, "__name__"); /* borrowed */

    return Py_NewRef(name != NULL && PyUnicode_CheckExact(name) ? name : Py_None);
}

/* Asks the chooser about a code object. 1 with an owned `enter`, 0, or -1 with an exception. While
 * it thinks the code object may come to be watched, which goes before its answer, or another
 * chooser may take its place, which is then asked at the next frame. */
static int
ask_chooser(module_state *state, PyCodeObject *code, PyObject *globals, PyObject **enter)
{
    PyObject *name, *choose, *answer, *watching; /* owned, but for `watching` */
    uintptr_t generation;
    int status = 0, on;

    on = neighbour_is_on(state); /* the chooser's own frames must not be compiled */
    if (on != 0 || state->choose == NULL) {
        return on < 0 ? -1 : 0;
    }
    generation = hook.generation;
    choose = Py_NewRef(state->choose);
    name = module_name(globals);
    in_callback++;
    answer = PyObject_CallFunctionObjArgs(choose, (PyObject *)code, name, NULL);
    in_callback--;
    Py_DECREF(name);
    Py_DECREF(choose);
    if (answer == Py_None) {
        Py_CLEAR(answer);
    }
    else if (answer == NULL) {
        status = -1;
    }
    watching = enter_of(content_of(code));
    if (watching != NULL && status == 0) {
        Py_XSETREF(answer, Py_NewRef(watching));
    }
    else if (watching == NULL && hook.generation == generation) {
        if (status == 0) {
            status = keep_answer(code, answer);
        }
        else {
            keep_failure(code);
        }
    }
    if (status == 0 && answer != NULL) {
        *enter = answer;
        return 1;
    }
    Py_XDECREF(answer);
    return status;
}

int
find_enter(module_state *state, PyCodeObject *code, PyObject *globals, PyObject **enter)
{
    void *content = content_of(code);

    if (enter_of(content) != NULL) {
        *enter = Py_NewRef(enter_of(content));
        return 1;
    }
    if (state->choose == NULL) {
        return content == NULL || is_refusal(content) ? 0 : store(code, NULL);
    }
    if (content == refusal()) {
        return 0;
    }
    return is_resumable(code) ? store(code, refusal()) : ask_chooser(state, code, globals, enter);
}
