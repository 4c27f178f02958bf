/* graphmend_bc._frame_hooks: watches chosen code objects through a frame evaluator (PEP 523).
 *
 * For a watched code object the evaluator calls `enter` before the frame, delegates the frame to
 * another evaluator, and calls `leave` after it. A frame is always delegated: from 3.12 on the
 * evaluator owns its frame, and to end one by hand takes functions that CPython does not export.
 *
 * The neighbour. Dynamo's evaluator sits in the interpreter only while some thread is inside a
 * compiled region. It then remembers the evaluator it found, and puts that one back when the last
 * thread leaves. An evaluator placed on top of it would be lost at that moment, or, if Dynamo
 * were entered again first, become its own successor. So ours is only ever placed *below*: see
 * change_bottom(). The module knows its neighbour by two callables and names no torch.
 *
 * What is kept where. The evaluator is called without a module pointer, so what it reads lives in
 * `hook`, one a process; the module lives in the main interpreter only. Which code objects are
 * watched is kept in a scratch slot of each code object. What Python handed in is module state.
 * What belongs to the call in progress is thread-local. The GIL protects all of it. */

#include "compat.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    PyObject *exchange; /* owned, or NULL: sets the neighbour's callback of this thread */
    PyObject *current;  /* owned, or NULL: that callback, None where it is off */
    PyObject *choose;   /* owned, or NULL: decides about code objects not seen before */
} module_state;

static struct {
    PyObject *module;            /* owned while installed, else NULL */
    _PyFrameEvalFunction below;  /* what we found, and delegate to */
    Py_ssize_t slot;             /* scratch slot of code objects, -1 until requested */
    uintptr_t generation;        /* of the chooser: older refusals no longer count */
    unsigned long long frames;   /* evaluated through us, watched or not */
    unsigned long long handed;   /* watched frames that `enter` took */
    unsigned long long left;     /* watched frames left alone */
} hook = {.below = _PyEval_EvalFrameDefault, .slot = -1};

/* A frame between its `enter` and its `leave`. */
typedef struct activation {
    struct _PyInterpreterFrame *frame; /* borrowed; compared, never read */
    struct activation *outer;
} activation;

static COMPAT_THREAD_LOCAL activation *innermost = NULL;
static COMPAT_THREAD_LOCAL int in_callback = 0; /* our own callbacks' frames are never watched */

static PyObject *evaluate(PyThreadState *, struct _PyInterpreterFrame *, int);

/* ---- evaluators and the neighbour ---- */

static _PyFrameEvalFunction
get_evaluator(void)
{
    return _PyInterpreterState_GetEvalFrameFunc(PyInterpreterState_Get());
}

static void
set_evaluator(_PyFrameEvalFunction evaluator)
{
    _PyInterpreterState_SetEvalFrameFunc(PyInterpreterState_Get(), evaluator);
}

/* Calls back into Python, or into the neighbour, with the watching of frames suspended in this
 * thread. `argument` may be NULL. Returns a new reference, or NULL with an exception. */
static PyObject *
call_unwatched(PyObject *callable, PyObject *argument)
{
    PyObject *answer; /* owned */

    in_callback++;
    answer = argument == NULL ? PyObject_CallNoArgs(callable)
                              : PyObject_CallOneArg(callable, argument);
    in_callback--;
    return answer;
}

/* Sets the neighbour's callback in this thread, keeping an exception that is being raised.
 * Returns the former callback, owned, or NULL with an exception. */
static PyObject *
set_callback(PyObject *exchange, PyObject *callback)
{
    PyObject *error = compat_take_exception(); /* owned */
    PyObject *former = call_unwatched(exchange, callback);

    if (former != NULL && error != NULL) {
        compat_raise_exception(error);
    }
    else {
        Py_XDECREF(error);
    }
    return former;
}

/* 1 if the neighbour has a callback in this thread, 0 if not, -1 with an exception. */
static int
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
    set_evaluator(installing ? evaluate : hook.below);
    if (state->exchange != NULL && seen != evaluate) {
        status = lift_neighbour(state, &neighbour);
    }
    if (status < 0) {
        set_evaluator(seen);
    }
    else if (installing && seen == neighbour) {
        hook.below = _PyEval_EvalFrameDefault;
    }
    else if (!installing && seen != neighbour && seen != evaluate) {
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

    if (get_evaluator() == evaluate) {
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
static int
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

/* ---- which code objects are watched ---- */

/* A slot holds NULL, an owned `enter`, or, told by its lowest bit, the generation at which the
 * chooser refused the code object. */
static bool
is_refusal(void *content)
{
    return ((uintptr_t)content & 1) != 0;
}

static void *
refusal(void)
{
    return (void *)((hook.generation << 1) | 1);
}

static void
free_slot(void *content)
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
        free_slot(content);
        return -1;
    }
    if (former != NULL && !is_refusal(former)) {
        Py_INCREF((PyObject *)former);
    }
    status = compat_code_slot_set((PyObject *)code, hook.slot, content);
    if (status < 0) {
        free_slot(content);
    }
    free_slot(former);
    return status;
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

/* Finds the `enter` of a frame. 1 with an owned `enter`, 0 where there is none, -1 with an
 * exception. */
static int
find_enter(module_state *state, struct _PyInterpreterFrame *frame, PyObject **enter)
{
    PyCodeObject *code = compat_frame_code(frame); /* borrowed */
    void *content = NULL;

    if (code == NULL) {
        return 0;
    }
    if (compat_code_slot_get((PyObject *)code, hook.slot, &content) < 0) {
        return -1;
    }
    if (content != NULL && !is_refusal(content)) {
        if (in_callback || (innermost != NULL && innermost->frame == frame)) {
            return 0; /* ours, or handed over already and on its way back down the chain */
        }
        *enter = Py_NewRef((PyObject *)content);
        return 1;
    }
    if (state->choose == NULL || content == refusal() || in_callback) {
        return 0;
    }
    return ask_chooser(state, code, compat_frame_globals(frame), enter);
}

/* ---- one watched frame ---- */

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
                     "(callback, leave), not %R.", *plan);
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
    answer = call_unwatched(leave, error != NULL ? error : Py_None);
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

/* Delegates a frame to the evaluator that is the interpreter's once the callback is set: the
 * neighbour, which compiles it or passes it down to us, where `innermost` marks it as seen. */
static PyObject *
delegate(PyThreadState *tstate, struct _PyInterpreterFrame *frame)
{
    _PyFrameEvalFunction top = get_evaluator();
    activation here = {.frame = frame, .outer = innermost};
    PyObject *result; /* owned */

    innermost = &here;
    result = (top == evaluate ? hook.below : top)(tstate, frame, 0);
    innermost = here.outer;
    return result;
}

/* Ends a frame that has not begun by raising the current exception in it: the one way for an
 * evaluator to fail that leaves the clearing of the frame to CPython. */
static PyObject *
raise_in_frame(PyThreadState *tstate, struct _PyInterpreterFrame *frame)
{
    return hook.below(tstate, frame, 1);
}

/* Evaluates a watched frame between `enter` and `leave`. From 3.12 on the frame is gone once it
 * has been delegated. */
static PyObject *
evaluate_watched(module_state *state, PyThreadState *tstate, struct _PyInterpreterFrame *frame,
                 PyObject *enter)
{
    PyObject *callback, *leave;                                        /* borrowed from plan */
    PyObject *plan = NULL, *exchange = NULL, *former = NULL, *result;  /* owned */
    int taken = call_enter(state, enter, compat_frame_code(frame), &plan);

    if (taken <= 0) {
        hook.left++;
        return taken < 0 ? raise_in_frame(tstate, frame) : hook.below(tstate, frame, 0);
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
        result = delegate(tstate, frame);
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

static PyObject *
evaluate(PyThreadState *tstate, struct _PyInterpreterFrame *frame, int throwflag)
{
    PyObject *module = hook.module; /* owned from here on where a frame is watched */
    PyObject *enter = NULL;         /* owned */
    PyObject *result;
    int found;

    hook.frames++;
    if (module == NULL && get_evaluator() == evaluate) {
        set_evaluator(hook.below); /* uninstalled while below another tool's evaluator */
    }
    if (module == NULL || throwflag) {
        return hook.below(tstate, frame, throwflag);
    }
    found = find_enter(PyModule_GetState(module), frame, &enter);
    if (found == 0) {
        return hook.below(tstate, frame, throwflag);
    }
    if (found < 0) {
        return raise_in_frame(tstate, frame);
    }
    Py_INCREF(module);
    result = evaluate_watched(PyModule_GetState(module), tstate, frame, enter);
    Py_DECREF(enter);
    Py_DECREF(module);
    return result;
}

/* ---- the module's functions ---- */

PyDoc_STRVAR(install_doc,
"install(exchange=None, current=None)\n--\n\n"
"Make the frame hooks the interpreter's evaluator, below the neighbour's if that is installed.\n\n"
"exchange(callback) sets the neighbour's callback of this thread and returns the former one;\n"
"current() returns it; None means off, False on without a callback. Both should be C functions.\n"
"RuntimeError if the hooks are installed already.");

static PyObject *
hooks_install(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"exchange", "current", NULL};
    module_state *state = PyModule_GetState(module);
    PyObject *exchange = Py_None, *current = Py_None; /* borrowed */

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OO:install", names, &exchange, &current)) {
        return NULL;
    }
    if (hook.module != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "The frame hooks are installed already.");
        return NULL;
    }
    if ((exchange == Py_None) != (current == Py_None)) {
        PyErr_SetString(PyExc_TypeError, "install() takes exchange and current together.");
        return NULL;
    }
    Py_XSETREF(state->exchange, exchange == Py_None ? NULL : Py_NewRef(exchange));
    Py_XSETREF(state->current, current == Py_None ? NULL : Py_NewRef(current));
    hook.module = Py_NewRef(module); /* before the first frame reaches evaluate() */
    if (change_evaluator(state, true) < 0) {
        Py_CLEAR(hook.module);
        return NULL;
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(uninstall_doc,
"uninstall()\n--\n\n"
"Give the interpreter back the evaluator that install() found. Does nothing if not installed.\n"
"Where another tool has put its evaluator on top meanwhile, ours passes every frame on and\n"
"goes as soon as that one has gone.");

static PyObject *
hooks_uninstall(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    module_state *state = PyModule_GetState(module);

    if (hook.module != NULL && hook.module != module) {
        PyErr_SetString(PyExc_RuntimeError,
                        "The frame hooks were installed by another instance of this module.");
        return NULL;
    }
    if (hook.module != NULL) {
        if (change_evaluator(state, false) < 0) {
            return NULL;
        }
        Py_CLEAR(hook.module);
        Py_CLEAR(state->exchange);
        Py_CLEAR(state->current);
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(installed_doc,
"installed()\n--\n\nTell whether install() is in force.");

static PyObject *
hooks_installed(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyBool_FromLong(hook.module != NULL);
}

PyDoc_STRVAR(evaluator_doc,
"evaluator()\n--\n\n"
"Return the address of the interpreter's frame evaluator, whoever's it is.");

static PyObject *
hooks_evaluator(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromUnsignedLongLong((unsigned long long)(uintptr_t)get_evaluator());
}

PyDoc_STRVAR(watch_doc,
"watch(code, enter)\n--\n\n"
"Call enter(code) before every frame of a code object, in place of a former enter.\n\n"
"enter returns None to leave the frame alone, or a pair (callback, leave): callback is set at\n"
"the neighbour while the frame runs (None: not touched), and leave(exception or None) is called\n"
"after it. What enter raises is raised by the frame before it begins; what leave raises takes\n"
"the place of its result. ValueError for generators and coroutines.");

static PyObject *
hooks_watch(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyCodeObject *code; /* borrowed */
    PyObject *enter;    /* borrowed */

    if (!PyArg_ParseTuple(args, "O!O:watch", &PyCode_Type, &code, &enter)) {
        return NULL;
    }
    if (!PyCallable_Check(enter)) {
        PyErr_Format(PyExc_TypeError, "enter must be callable, not %R.", enter);
        return NULL;
    }
    if (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) {
        PyErr_Format(PyExc_ValueError,
                     "%U is a generator or a coroutine: its frame starts and stops many times, "
                     "so it has no single entry and exit to watch.", code->co_qualname);
        return NULL;
    }
    if (store(code, Py_NewRef(enter)) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(unwatch_doc,
"unwatch(code)\n--\n\nForget a code object. The chooser, if there is one, may be asked again.");

static PyObject *
hooks_unwatch(PyObject *Py_UNUSED(module), PyObject *code)
{
    if (!PyCode_Check(code)) {
        PyErr_Format(PyExc_TypeError, "unwatch() takes a code object, not %R.", code);
        return NULL;
    }
    if (store((PyCodeObject *)code, NULL) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

PyDoc_STRVAR(set_chooser_doc,
"set_chooser(choose)\n--\n\n"
"Have choose(code, module_name) called once for every code object that is about to run and not\n"
"watched. It returns an enter, which is then watched, or None. Setting a chooser, or None for\n"
"no chooser, makes former refusals void.");

static PyObject *
hooks_set_chooser(PyObject *module, PyObject *choose)
{
    module_state *state = PyModule_GetState(module);

    if (choose != Py_None && !PyCallable_Check(choose)) {
        PyErr_Format(PyExc_TypeError, "choose must be callable or None, not %R.", choose);
        return NULL;
    }
    hook.generation++;
    Py_XSETREF(state->choose, choose == Py_None ? NULL : Py_NewRef(choose));
    Py_RETURN_NONE;
}

PyDoc_STRVAR(counters_doc,
"counters()\n--\n\n"
"Return how many frames were evaluated through the hooks since the module was loaded\n"
"('frames'), how many watched ones an enter took ('handed') and how many were left alone\n"
"('left').");

static PyObject *
hooks_counters(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return Py_BuildValue("{sKsKsK}", "frames", hook.frames, "handed", hook.handed,
                         "left", hook.left);
}

static PyMethodDef hooks_methods[] = {
    {"install", (PyCFunction)(void (*)(void))hooks_install, METH_VARARGS | METH_KEYWORDS,
     install_doc},
    {"uninstall", hooks_uninstall, METH_NOARGS, uninstall_doc},
    {"installed", hooks_installed, METH_NOARGS, installed_doc},
    {"evaluator", hooks_evaluator, METH_NOARGS, evaluator_doc},
    {"watch", hooks_watch, METH_VARARGS, watch_doc},
    {"unwatch", hooks_unwatch, METH_O, unwatch_doc},
    {"set_chooser", hooks_set_chooser, METH_O, set_chooser_doc},
    {"counters", hooks_counters, METH_NOARGS, counters_doc},
    {NULL, NULL, 0, NULL},
};

/* ---- the module's life ---- */

static int
hooks_exec(PyObject *Py_UNUSED(module))
{
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError,
                        "graphmend_bc's frame hooks work in the main interpreter only.");
        return -1;
    }
    if (hook.slot < 0) {
        hook.slot = compat_request_code_slot(free_slot);
    }
    if (hook.slot < 0) {
        PyErr_SetString(PyExc_ImportError, "All scratch slots of code objects are taken.");
        return -1;
    }
    return 0;
}

static int
hooks_traverse(PyObject *module, visitproc visit, void *arg)
{
    module_state *state = PyModule_GetState(module);

    Py_VISIT(state->exchange);
    Py_VISIT(state->current);
    Py_VISIT(state->choose);
    return 0;
}

static int
hooks_clear(PyObject *module)
{
    module_state *state = PyModule_GetState(module);

    Py_CLEAR(state->exchange);
    Py_CLEAR(state->current);
    Py_CLEAR(state->choose);
    return 0;
}

static PyModuleDef_Slot hooks_slots[] = {
    {Py_mod_exec, hooks_exec},
    COMPAT_MODULE_SLOTS
    {0, NULL},
};

static struct PyModuleDef hooks_module = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_frame_hooks",
    .m_doc = "Watches chosen code objects through a PEP 523 frame evaluator.",
    .m_size = sizeof(module_state),
    .m_methods = hooks_methods,
    .m_slots = hooks_slots,
    .m_traverse = hooks_traverse,
    .m_clear = hooks_clear,
};

PyMODINIT_FUNC
PyInit__frame_hooks(void)
{
    return PyModuleDef_Init(&hooks_module);
}
