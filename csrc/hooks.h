/* graphmend_bc._frame_hooks: what its files share. Each calls those above it only.
 *
 *     compat.h    what differs between versions of CPython
 *     chain.c     our evaluator's place among others: Dynamo's, another tool's, CPython's own
 *     watch.c     which code objects are watched, and who is asked about the others
 *     kinds.c     what a code object is to the profile
 *     ledger.c    the sums and calls of a profile
 *     profile.c   measures the frames that run inside compiled regions
 *     evaluate.c  what is done with one frame
 *     module.c    the functions and the life of the Python module; docs.h has their docstrings
 *
 * What is kept where. The evaluator is called without a module pointer, so what it reads lives in
 * `hook`, one a process; the module refuses to be imported by any interpreter but the main one.
 * Which code objects are watched is kept in a scratch slot of each code object. What Python handed
 * in is module state. What belongs to the call in progress is thread-local. The GIL protects all
 * of it.
 *
 * Every function that can fail returns NULL or -1 with an exception set. "Owned" and "borrowed"
 * are said wherever a reference is declared. */

#ifndef GRAPHMEND_BC_HOOKS_H
#define GRAPHMEND_BC_HOOKS_H

#include "compat.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    PyObject *exchange; /* owned, or NULL: sets the neighbour's callback of this thread */
    PyObject *current;  /* owned, or NULL: that callback, None where it is off */
    PyObject *choose;   /* owned, or NULL: decides about code objects not seen before */
    PyObject *classify; /* owned, or NULL while no profile runs: tells what a code object is */
    PyObject *mark;     /* owned, or NULL: (name, value) of the attribute that graphs have */
} module_state;

struct hook {
    PyObject *module;           /* owned while installed, else NULL */
    _PyFrameEvalFunction ours;  /* evaluate(), for the files that it calls */
    _PyFrameEvalFunction below; /* what we found, and delegate to */
    Py_ssize_t slot;            /* scratch slot for `enter`, -1 until requested */
    Py_ssize_t kind_slot;       /* scratch slot for what the profile knows, likewise */
    uintptr_t generation;       /* of the chooser: answers to older questions do not count */
    bool choosing;              /* there is a chooser to ask about code objects not seen yet */
    bool profiling;             /* frames inside compiled regions are measured */
    unsigned long long frames;  /* evaluated through us, watched or not */
    unsigned long long handed;  /* watched frames that `enter` took */
    unsigned long long left;    /* watched frames left alone */
};

extern struct hook hook;
extern COMPAT_THREAD_LOCAL int in_callback; /* our own callbacks' frames are never looked at */

/* ---- chain.c ---- */

_PyFrameEvalFunction get_evaluator(void);
void set_evaluator(_PyFrameEvalFunction evaluator);

/* Ends a frame that has not begun by raising the current exception in it. */
PyObject *raise_in_frame(PyThreadState *tstate, struct _PyInterpreterFrame *frame);

/* Calls back into Python, or into the neighbour, while nothing of this thread is watched or
 * measured. `argument` is borrowed and may be NULL. A new reference, or NULL with an exception. */
PyObject *call_unwatched(PyObject *callable, PyObject *argument);

/* The same as within `except` for `error`, which is borrowed and may be NULL: it is the context
 * of what the callable raises. */
PyObject *call_handling(PyObject *callable, PyObject *argument, PyObject *error);

/* Sets the neighbour's callback in this thread, keeping an exception that is being raised. The
 * former callback, a new reference, or NULL with an exception. */
PyObject *set_callback(PyObject *exchange, PyObject *callback);

/* 1 if the neighbour has a callback in this thread, 0 if not, -1 with an exception. */
int neighbour_is_on(module_state *state);

/* Puts our evaluator in the chain, or takes it out. 0, or -1 with an exception. */
int change_evaluator(module_state *state, bool installing);

/* ---- watch.c ---- */

/* Code whose frames start and stop many times: it has no single entry and exit to watch. */
static inline bool
is_resumable(const PyCodeObject *code)
{
    return (code->co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR)) != 0;
}

/* Whether the content of a slot says that the chooser once refused the code object. */
static inline bool
is_refusal(void *content)
{
    return ((uintptr_t)content & 1) != 0;
}

/* The content that says that the chooser in force has refused it. */
static inline void *
refusal(void)
{
    return (void *)((hook.generation << 1) | 1);
}

/* Watches a code object; `enter` is borrowed, and NULL unwatches. 0, or -1 with an exception. */
int store_enter(PyCodeObject *code, PyObject *enter);

/* Makes void what the chooser has answered so far: what it chose is no longer watched. */
void void_answers(void);

/* Finds the `enter` of a code object whose frame is about to run. 1 with a new reference, 0 where
 * there is none, -1 with an exception. */
int find_enter(module_state *state, PyCodeObject *code, PyObject *globals, PyObject **enter);

/* Frees the content of a slot: CPython's destructor for it. */
void free_enter(void *content);

/* ---- kinds.c ---- */

/* What a code object is to the profile. */
enum kind {
    KIND_UNKNOWN = 0, /* not asked about yet */
    KIND_EAGER,       /* a program's code, or a library's */
    KIND_GENERATED,   /* what Dynamo made of a frame: calls graphs and the code between them */
    KIND_GRAPH,       /* a graph; what runs beneath it is part of it */
    KIND_COMPILER,    /* Dynamo compiling; likewise */
    KIND_WRAPPER,     /* calls a graph if its function has the mark, else as PLUMBING */
    KIND_PLUMBING,    /* not measured by itself: its time is its caller's */
    KIND_END,
};

/* The kind of a code object, asked for once a profile where `may_ask`. -1 with an exception. */
int kind_of_code(module_state *state, PyCodeObject *code, uintptr_t profile, bool may_ask);

/* Tells a graph's wrapper from another, by the mark of its function. -1 with an exception. */
int kind_of_wrapper(module_state *state, PyObject *function);

/* ---- profile.c ---- */

/* Evaluates a frame and measures it if it runs inside a compiled region. */
PyObject *evaluate_measured(module_state *state, PyThreadState *tstate,
                            struct _PyInterpreterFrame *frame, int throwflag);

/* Begins to measure; all references are borrowed. */
void profile_begin(module_state *state, PyObject *classify, PyObject *mark, Py_ssize_t limit);

/* Ends it: a new dict of what was measured, or NULL with an exception. */
PyObject *profile_end(module_state *state);

/* Nanoseconds that measuring one call takes here and now, found by measuring; `code` is borrowed.
 * -1.0 with an exception. */
double profile_cost(PyCodeObject *code);

/* ---- evaluate.c ---- */

PyObject *evaluate(PyThreadState *tstate, struct _PyInterpreterFrame *frame, int throwflag);

#endif
