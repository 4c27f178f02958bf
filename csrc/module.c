/* The functions and the life of the Python module. */

#include "docs.h"
#include "hooks.h"

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
    hook.choosing = state->choose != NULL;
    hook.module = Py_NewRef(module); /* before the first frame reaches evaluate() */
    if (change_evaluator(state, true) < 0) {
        Py_CLEAR(hook.module);
        return NULL;
    }
    Py_RETURN_NONE;
}

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

static PyObject *
hooks_installed(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyBool_FromLong(hook.module != NULL);
}

static PyObject *
hooks_evaluator(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromUnsignedLongLong((unsigned long long)(uintptr_t)get_evaluator());
}

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
    if (is_resumable(code)) {
        PyErr_Format(PyExc_ValueError,
                     "%U is a generator or a coroutine: its frame starts and stops many times, "
                     "so it has no single entry and exit to watch.",
                     code->co_qualname);
        return NULL;
    }
    if (store_enter(code, enter) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
hooks_unwatch(PyObject *Py_UNUSED(module), PyObject *code)
{
    if (!PyCode_Check(code)) {
        PyErr_Format(PyExc_TypeError, "unwatch() takes a code object, not %R.", code);
        return NULL;
    }
    if (store_enter((PyCodeObject *)code, NULL) < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyObject *
hooks_set_chooser(PyObject *module, PyObject *choose)
{
    module_state *state = PyModule_GetState(module);

    if (choose != Py_None && !PyCallable_Check(choose)) {
        PyErr_Format(PyExc_TypeError, "choose must be callable or None, not %R.", choose);
        return NULL;
    }
    hook.generation++;
    if (hook.module == module) {
        hook.choosing = choose != Py_None;
    }
    Py_XSETREF(state->choose, choose == Py_None ? NULL : Py_NewRef(choose));
    void_answers();
    Py_RETURN_NONE;
}

static PyObject *
hooks_profile_begin(PyObject *module, PyObject *args)
{
    PyObject *classify, *mark; /* borrowed */
    Py_ssize_t limit;

    if (!PyArg_ParseTuple(args, "OO!n:profile_begin", &classify, &PyTuple_Type, &mark, &limit)) {
        return NULL;
    }
    if (!PyCallable_Check(classify) || PyTuple_GET_SIZE(mark) != 2) {
        PyErr_SetString(PyExc_TypeError,
                        "profile_begin() takes a callable and a pair (name, value).");
        return NULL;
    }
    if (hook.profiling || hook.module != module) {
        PyErr_SetString(PyExc_RuntimeError,
                        hook.profiling
                            ? "A profile is running already."
                            : "The frame hooks are not installed, so nothing can be measured.");
        return NULL;
    }
    profile_begin(PyModule_GetState(module), classify, mark, limit);
    Py_RETURN_NONE;
}

static PyObject *
hooks_profile_end(PyObject *module, PyObject *Py_UNUSED(ignored))
{
    if (!hook.profiling) {
        PyErr_SetString(PyExc_RuntimeError, "No profile is running.");
        return NULL;
    }
    return profile_end(PyModule_GetState(module));
}

static PyObject *
hooks_profile_cost(PyObject *Py_UNUSED(module), PyObject *code)
{
    double cost;

    if (!PyCode_Check(code)) {
        PyErr_Format(PyExc_TypeError, "profile_cost() takes a code object, not %R.", code);
        return NULL;
    }
    cost = profile_cost((PyCodeObject *)code);
    return cost < 0 ? NULL : PyFloat_FromDouble(cost);
}

static PyObject *
hooks_counters(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return Py_BuildValue("{sKsKsK}", "frames", hook.frames, "handed", hook.handed, "left",
                         hook.left);
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
    {"profile_begin", hooks_profile_begin, METH_VARARGS, profile_begin_doc},
    {"profile_end", hooks_profile_end, METH_NOARGS, profile_end_doc},
    {"profile_cost", hooks_profile_cost, METH_O, profile_cost_doc},
    {"counters", hooks_counters, METH_NOARGS, counters_doc},
    {NULL, NULL, 0, NULL},
};

/* ---- the module's life ---- */

static int
add_kinds(PyObject *module)
{
    if (PyModule_AddIntConstant(module, "KIND_EAGER", KIND_EAGER) < 0
        || PyModule_AddIntConstant(module, "KIND_GENERATED", KIND_GENERATED) < 0
        || PyModule_AddIntConstant(module, "KIND_GRAPH", KIND_GRAPH) < 0
        || PyModule_AddIntConstant(module, "KIND_COMPILER", KIND_COMPILER) < 0
        || PyModule_AddIntConstant(module, "KIND_WRAPPER", KIND_WRAPPER) < 0
        || PyModule_AddIntConstant(module, "KIND_PLUMBING", KIND_PLUMBING) < 0) {
        return -1;
    }
    return 0;
}

static int
hooks_exec(PyObject *module)
{
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError,
                        "graphmend_bc's frame hooks work in the main interpreter only.");
        return -1;
    }
    hook.ours = evaluate;
    if (hook.slot < 0) {
        hook.slot = compat_request_code_slot(free_enter);
    }
    if (hook.kind_slot < 0) {
        hook.kind_slot = compat_request_code_slot(NULL);
    }
    if (hook.slot < 0 || hook.kind_slot < 0) {
        PyErr_SetString(PyExc_ImportError, "All scratch slots of code objects are taken.");
        return -1;
    }
    return add_kinds(module);
}

static int
hooks_traverse(PyObject *module, visitproc visit, void *arg)
{
    module_state *state = PyModule_GetState(module);

    Py_VISIT(state->exchange);
    Py_VISIT(state->current);
    Py_VISIT(state->choose);
    Py_VISIT(state->classify);
    Py_VISIT(state->mark);
    return 0;
}

static int
hooks_clear(PyObject *module)
{
    module_state *state = PyModule_GetState(module);

    Py_CLEAR(state->exchange);
    Py_CLEAR(state->current);
    Py_CLEAR(state->choose);
    Py_CLEAR(state->classify);
    Py_CLEAR(state->mark);
    return 0;
}

static void
hooks_free(void *module)
{
    (void)hooks_clear(module);
}

static PyModuleDef_Slot hooks_slots[] = {
    {Py_mod_exec, hooks_exec},
    COMPAT_MODULE_SLOTS /* ends with a comma */
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
    .m_free = hooks_free,
};

PyMODINIT_FUNC
PyInit__frame_hooks(void)
{
    return PyModuleDef_Init(&hooks_module);
}
