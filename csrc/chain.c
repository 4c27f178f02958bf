/* Our evaluator's place in the interpreter.
 *
 * The neighbour. Dynamo's evaluator sits in the interpreter only while some thread is inside a
 * compiled region. It then remembers the evaluator it found, and puts that one back when the last
 * thread leaves. An evaluator placed on top of it would be lost at that moment, or, if Dynamo
 * were entered again first, become its own successor. So ours is only ever placed *below*: see
 * change_bottom(). The module knows its neighbour by two callables and names no torch. */

#include "hooks.h"

struct hook hook = {.below = _PyEval_EvalFrameDefault, .slot = -1, .kind_slot = -1};

COMPAT_THREAD_LOCAL int in_callback = 0;

_PyFrameEvalFunction
get_evaluator(void)
{
    return _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get());
}

void
set_evaluator(_PyFrameEvalFunction evaluator)
{
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), evaluator);
}

/* The one way for an evaluator to fail that leaves the clearing of the frame to CPython. */
PyObject *
raise_in_frame(PyThreadState *tstate, struct _PyInterpreterFrame *frame)
{
    return hook.below(tstate, frame, 1);
}

PyObject *
call_unwatched(PyObject *callable, PyObject *argument)
{
    PyObject *answer; /* owned */

    Py_INCREF(callable); /* another thread may drop it meanwhile */
    in_callback++;
    answer = argument == NULL ? PyObject_CallNoArgs(callable)
                              : PyObject_CallOneArg(callable, argument);
    in_callback--;
    Py_DECREF(callable);
    return answer;
}

/* Puts an exception, or NULL, in the place of the one that this thread is handling; steals the
 * reference and returns the former one. PyErr_SetHandledException() would not do: to put back what
 * PyErr_GetHandledException() tells would leave the exception of an outer frame in a generator. */
static PyObject *
exchange_handled(PyObject *error)
{
    _PyErr_StackItem *top = PyThreadState_Get()->exc_info;
    PyObject *former = top->exc_value; /* owned */

    top->exc_value = error;
    return former;
}

PyObject *
call_handling(PyObject *callable, PyObject *argument, PyObject *error)
{
    PyObject *handled, *answer; /* owned */

    if (error == NULL) {
        return call_unwatched(callable, argument);
    }
    handled = exchange_handled(Py_NewRef(error));
    answer = call_unwatched(callable, argument);
    Py_XDECREF(exchange_handled(handled));
    return answer;
}

PyObject *
set_callback(PyObject *exchange, PyObject *callback)
{
    PyObject *error = compat_take_exception(); /* owned */
    PyObject *former = call_handling(exchange, callback, error);

    if (former != NULL && error != NULL) {
        compat_raise_exception(error);
    }
    else {
        Py_XDECREF(error);
    }
    return former;
}

int
neighbour_is_on(module_state *state)
{
    PyObject *callback; /* owned */
    int on;

    if (state->current == NULL) {
        return 0;
    }
    callback = call_unwatched(state->current, NULL);
    if (callback == NULL) {
        return -1;
    }
    on = callback != Py_None;
    Py_DECREF(callback);
    return on;
}

/* Switches the neighbour on and off again in this thread, where it was off. That lifts it above
 * whatever is the interpreter's evaluator now, and tells its address; it stays there if other
 * threads have it on. 0, or -1 with an exception. */
static int
lift_neighbour(module_state *state, _PyFrameEvalFunction *neighbour)
{
    PyObject *previous; /* owned */

    previous = call_unwatched(state->exchange, Py_False);
    if (previous == NULL) {
        return -1;
    }
    Py_DECREF(previous);
    *neighbour = get_evaluator();
    previous = call_unwatched(state->exchange, Py_None);
    if (previous == NULL) {
        return -1;
    }
    Py_DECREF(previous);
    return 0;
}

/* Puts our evaluator at the bottom of the chain, or takes it away. The neighbour is off in this
 * thread. Where it is installed all the same, other threads are inside compiled regions: the
 * bottom is then swapped beneath it, by setting the new bottom and lifting the neighbour above.
 * No bytecode runs in between if the neighbour's callables are C functions, so no thread sees the
 * chain half done. What lay beneath it until then cannot be asked for, and is taken to be
 * CPython's own evaluator. 0, or -1 with an exception. */
static int
change_bottom(module_state *state, bool installing)
{
    _PyFrameEvalFunction seen = get_evaluator();
    _PyFrameEvalFunction neighbour = NULL;
    int status = 0;

    if (installing) {
        hook.below = seen;
    }
    set_evaluator(installing ? hook.ours : hook.below);
    if (state->exchange != NULL && seen != hook.ours) {
        status = lift_neighbour(state, &neighbour);
    }
    if (status < 0) {
        set_evaluator(seen);
    }
    else if (installing && seen == neighbour) {
        hook.below = _PyEval_EvalFrameDefault;
    }
    else if (!installing && seen != neighbour && seen != hook.ours) {
        set_evaluator(seen); /* another tool's, on top of ours; evaluate() goes when it surfaces */
    }
    return status;
}

/* 1 if frames of this thread reach our evaluator, 0 if not, -1 with an exception. Where another
 * evaluator is on top it asks by running a frame, since none tells which one it delegates to. */
static int
is_in_chain(void)
{
    unsigned long long before = hook.frames;
    PyObject *code = NULL, *globals = NULL, *value = NULL; /* owned */
    int found = -1;

    if (get_evaluator() == hook.ours) {
        found = 1;
        goto done;
    }
    code = Py_CompileString("None", "<graphmend_bc frame hook>", Py_eval_input);
    globals = PyDict_New();
    if (code == NULL || globals == NULL) {
        goto done;
    }
    in_callback++;
    value = PyEval_EvalCode(code, globals, globals);
    in_callback--;
    if (value != NULL) {
        found = hook.frames != before;
    }
done:
    Py_XDECREF(value);
    Py_XDECREF(globals);
    Py_XDECREF(code);
    return found;
}

/* Calls change_bottom() with the neighbour switched off in this thread. */
int
change_evaluator(module_state *state, bool installing)
{
    PyObject *callback = NULL, *former = NULL; /* owned */
    int found = 0, status = -1;

    if (state->exchange != NULL) {
        callback = call_unwatched(state->exchange, Py_None);
        if (callback == NULL) {
            return -1;
        }
    }
    if (installing) {
        found = is_in_chain(); /* left behind below another tool's evaluator: not again */
    }
    if (found >= 0) {
        status = found ? 0 : change_bottom(state, installing);
    }
    if (callback != NULL && callback != Py_None) {
        former = set_callback(state->exchange, callback);
        status = former == NULL ? -1 : status;
    }
    Py_XDECREF(former);
    Py_XDECREF(callback);
    return status;
}
