/* What is done with one frame.
 *
 * For a watched code object `enter` is called before the frame, the frame is delegated to another
 * evaluator, and `leave` is called after it. A frame is always delegated: from 3.12 on the
 * evaluator owns its frame, and to end one by hand takes functions that CPython does not export. */

#include "hooks.h"

/* The frames between their `enter` and their `leave`, of all threads: borrowed, compared and never
 * read. A set and not a stack, because greenlets end calls in another order than they began. */
static struct {
    struct _PyInterpreterFrame **frames;
    size_t count, room;
} handed_over;

static bool
is_handed_over(struct _PyInterpreterFrame *frame)
{
    for (size_t i = handed_over.count; i > 0; i--) { /* the newest is the likeliest */
        if (handed_over.frames[i - 1] == frame) {
            return true;
        }
    }
    return false;
}

/* 0, or -1 with a MemoryError. */
static int
add_handed_over(struct _PyInterpreterFrame *frame)
{
    size_t room = handed_over.room == 0 ? 64 : handed_over.room * 2;
    struct _PyInterpreterFrame **frames;

    if (handed_over.count == handed_over.room) {
        frames = PyMem_Realloc(handed_over.frames, room * sizeof(*frames));
        if (frames == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        handed_over.frames = frames;
        handed_over.room = room;
    }
    handed_over.frames[handed_over.count++] = frame;
    return 0;
}

static void
remove_handed_over(struct _PyInterpreterFrame *frame)
{
    for (size_t i = handed_over.count; i > 0; i--) {
        if (handed_over.frames[i - 1] == frame) {
            handed_over.frames[i - 1] = handed_over.frames[--handed_over.count];
            return;
        }
    }
}

/* Calls `enter`. 1 with an owned (callback, leave) pair, 0 where the frame is to be left alone,
 * -1 with an exception. */
static int
call_enter(module_state *state, PyObject *enter, PyCodeObject *code, PyObject **plan)
{
    int on = neighbour_is_on(state);

    if (on != 0) {
        return on < 0 ? -1 : 0; /* inside a compiled region: the frame is Dynamo's */
    }
    *plan = call_unwatched(enter, (PyObject *)code);
    if (*plan == NULL) {
        return -1;
    }
    if (*plan == Py_None) {
        Py_CLEAR(*plan);
        return 0;
    }
    if (!PyTuple_CheckExact(*plan) || PyTuple_GET_SIZE(*plan) != 2) {
        PyErr_Format(PyExc_TypeError,
                     "The enter callback of a watched code object must return None or a pair "
                     "(callback, leave), not %R.",
                     *plan);
        Py_CLEAR(*plan);
        return -1;
    }
    return 1;
}

/* Calls `leave` with the exception of the frame, or None. Steals `result`, which is NULL where
 * the frame raised; returns it, or NULL with the exception that is to go on. */
static PyObject *
call_leave(PyObject *leave, PyObject *result)
{
    PyObject *error = NULL, *answer = NULL; /* owned */

    if (result == NULL) {
        error = compat_take_exception();
    }
    answer = call_handling(leave, error != NULL ? error : Py_None, error);
    if (answer == NULL) {
        Py_CLEAR(result); /* what `leave` raised takes the place of what the frame gave */
        Py_CLEAR(error);
    }
    Py_XDECREF(answer);
    if (error != NULL) {
        compat_raise_exception(error);
    }
    return result;
}

/* Passes a frame on that nobody is to be asked about any more. */
static PyObject *
pass_on(module_state *state, PyThreadState *tstate, struct _PyInterpreterFrame *frame,
        int throwflag)
{
    if (hook.profiling && !in_callback) {
        return evaluate_measured(state, tstate, frame, throwflag);
    }
    return hook.below(tstate, frame, throwflag);
}

/* Delegates a frame. Once the callback is set, the interpreter's evaluator is the neighbour, which
 * compiles the frame or passes it down to us, where it is known as handed over. Where there is no
 * callback, a tool on top of us has seen the frame already. */
static PyObject *
delegate(module_state *state, PyThreadState *tstate, struct _PyInterpreterFrame *frame,
         bool has_callback)
{
    _PyFrameEvalFunction top = has_callback ? get_evaluator() : evaluate;
    PyObject *result; /* owned */

    if (top == evaluate) {
        return pass_on(state, tstate, frame, 0);
    }
    if (add_handed_over(frame) < 0) {
        return raise_in_frame(tstate, frame);
    }
    result = top(tstate, frame, 0);
    remove_handed_over(frame);
    return result;
}

/* Evaluates a watched frame between `enter` and `leave`. From 3.12 on the frame is gone once it
 * has been delegated. */
static PyObject *
evaluate_watched(module_state *state, PyThreadState *tstate, struct _PyInterpreterFrame *frame,
                 PyObject *enter)
{
    PyObject *callback, *leave;                                       /* borrowed from plan */
    PyObject *plan = NULL, *exchange = NULL, *former = NULL, *result; /* owned */
    int taken = call_enter(state, enter, compat_frame_code(frame), &plan);

    if (taken <= 0) {
        hook.left++;
        return taken < 0 ? raise_in_frame(tstate, frame) : pass_on(state, tstate, frame, 0);
    }
    hook.handed++;
    callback = PyTuple_GET_ITEM(plan, 0);
    leave = PyTuple_GET_ITEM(plan, 1);
    if (callback != Py_None && state->exchange != NULL) {
        exchange = Py_NewRef(state->exchange); /* the frame may uninstall us meanwhile */
        former = set_callback(exchange, callback);
    }
    if (exchange != NULL && former == NULL) {
        result = raise_in_frame(tstate, frame);
    }
    else {
        result = delegate(state, tstate, frame, exchange != NULL);
    }
    if (former != NULL) {
        Py_SETREF(former, set_callback(exchange, Py_None)); /* as call_enter() found it */
        if (former == NULL) {
            Py_CLEAR(result);
        }
    }
    result = call_leave(leave, result);
    Py_XDECREF(former);
    Py_XDECREF(exchange);
    Py_DECREF(plan);
    return result;
}

/* Finds the `enter` of a frame that is about to run; as find_enter(). */
static int
find_enter_of_frame(module_state *state, struct _PyInterpreterFrame *frame, PyObject **enter)
{
    PyCodeObject *code = compat_frame_code(frame); /* borrowed */
    int found;

    if (code == NULL || in_callback) {
        return 0;
    }
    found = find_enter(state, code, compat_frame_globals(frame), enter);
    if (found > 0 && is_handed_over(frame)) {
        Py_CLEAR(*enter); /* on its way back down the chain */
        return 0;
    }
    return found;
}

/* The quick answer for most frames while we are installed: nobody measures, nobody watches this
 * one, and there is nobody to ask about it, or it was refused. */
static inline bool
is_plain(struct _PyInterpreterFrame *frame)
{
    PyCodeObject *code = compat_frame_code(frame); /* borrowed */
    void *content = NULL;

    if (hook.module == NULL || hook.profiling) {
        return false;
    }
    if (code == NULL) {
        return true;
    }
    if (compat_code_has_slots(code)) {
        /* Fails for what is no code object only, and this is one. */
        (void)compat_code_slot_get((PyObject *)code, hook.slot, &content);
    }
    return content == NULL ? !hook.choosing
                           : is_refusal(content) && (!hook.choosing || content == refusal());
}

/* The interpreter's frame evaluator while installed. The result is owned, or NULL with an
 * exception, as of every evaluator. */
PyObject *
evaluate(PyThreadState *tstate, struct _PyInterpreterFrame *frame, int throwflag)
{
    PyObject *module;        /* owned: what runs here may uninstall us */
    PyObject *enter = NULL;  /* owned */
    PyObject *result = NULL; /* owned */
    module_state *state = NULL;
    int found = 0;

    hook.frames++;
    if (is_plain(frame)) {
        return hook.below(tstate, frame, throwflag);
    }
    if (hook.module == NULL) {
        if (get_evaluator() == evaluate) {
            set_evaluator(hook.below); /* uninstalled while below another tool's evaluator */
        }
        return hook.below(tstate, frame, throwflag);
    }
    if (compat_is_finalizing()) {
        return hook.below(tstate, frame, throwflag); /* what we would call is half taken apart */
    }
    module = Py_NewRef(hook.module);
    state = PyModule_GetState(module);
    if (!throwflag) {
        found = find_enter_of_frame(state, frame, &enter);
    }
    if (found == 0 && !hook.profiling) {
        Py_DECREF(module);
        return hook.below(tstate, frame, throwflag);
    }
    if (found < 0) {
        result = raise_in_frame(tstate, frame);
    }
    else if (found == 0) {
        result = pass_on(state, tstate, frame, throwflag);
    }
    else {
        result = evaluate_watched(state, tstate, frame, enter);
        Py_DECREF(enter);
    }
    Py_DECREF(module);
    return result;
}
