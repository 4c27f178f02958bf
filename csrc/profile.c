/* Measures the frames that run inside compiled regions.
 *
 * A region begins with generated code, with Dynamo compiling, or with a frame that Dynamo was
 * asked about and left as it is. Within it each frame is a span: on a thread's stack of spans while
 * it runs, added to the ledger when it ends. Its cause is the innermost generated code around it.
 * What runs beneath a graph, or beneath Dynamo compiling, is part of that span and costs one look
 * at the stack.
 *
 * Spans live on the heap and are counted: greenlets share a thread's stack of spans and end calls
 * in another order than they began. Their times are then sound, but may go to the wrong cause. */

#include "ledger.h"

typedef struct span {
    struct span *outer; /* owned, or NULL */
    size_t references;  /* the stack's, while it is the innermost, and those of spans beneath */
    bool ended;
    PyCodeObject *cause; /* borrowed from the ledger, which holds it while the profile runs */
    size_t record;
    uintptr_t profile; /* the profile it belongs to: another may run when it ends */
    int64_t start;
    int64_t inner; /* nanoseconds in spans directly beneath */
    int64_t thread;
    bool closed; /* frames beneath are part of it */
} span;

static ledger book;
static uintptr_t profiles = 0; /* how many have begun */
static COMPAT_THREAD_LOCAL span *innermost = NULL;

/* The innermost span of this thread in the current profile, borrowed, or NULL. One of a former
 * profile may still be beneath it: a call that has not ended, or a greenlet that never will. */
static span *
current_span(void)
{
    return innermost != NULL && innermost->profile == profiles ? innermost : NULL;
}

/* What a frame is to the profile, KIND_PLUMBING if it is not to be measured. -1 with an
 * exception. A frame that is being thrown into has an exception on its way, and is not asked
 * about. */
static int
kind_of_frame(module_state *state, struct _PyInterpreterFrame *frame, bool may_ask)
{
    PyCodeObject *code = compat_frame_code(frame); /* borrowed */
    int kind;

    if (code == NULL) {
        return KIND_PLUMBING;
    }
    kind = kind_of_code(state, code, profiles, may_ask);
    if (kind == KIND_WRAPPER) {
        kind = may_ask ? kind_of_wrapper(state, compat_frame_function(frame)) : KIND_PLUMBING;
    }
    if (current_span() != NULL || kind == KIND_GENERATED || kind == KIND_COMPILER) {
        return kind;
    }
    if (kind != KIND_EAGER || !may_ask || get_evaluator() == hook.ours) {
        return kind < 0 ? -1 : KIND_PLUMBING;
    }
    /* Not inside generated code. If Dynamo is on in this thread, it was asked about the frame. */
    kind = neighbour_is_on(state);
    return kind < 0 ? -1 : kind > 0 ? KIND_EAGER : KIND_PLUMBING;
}

/* ---- spans ---- */

static void
release_span(span *here)
{
    while (here != NULL && --here->references == 0) {
        span *outer = here->outer;
        PyMem_Free(here);
        here = outer;
    }
}

/* Puts a span on the stack: the caller's until end_span(). NULL with an exception. */
static span *
begin_span(PyCodeObject *code, int kind)
{
    span *around = current_span();
    PyCodeObject *cause = around == NULL || kind == KIND_GENERATED ? code : around->cause;
    Py_ssize_t index = ledger_record(&book, code, cause, kind);
    span *here = index < 0 ? NULL : PyMem_Malloc(sizeof(span));

    if (here == NULL) {
        return index < 0 ? NULL : (span *)PyErr_NoMemory();
    }
    *here = (span){
        .outer = innermost, /* its reference moves from the stack to us */
        .references = 2,    /* the stack's and the caller's */
        .cause = cause,
        .record = (size_t)index,
        .profile = profiles,
        .thread = around != NULL ? around->thread : (int64_t)PyThread_get_thread_native_id(),
        .closed = kind == KIND_GRAPH || kind == KIND_COMPILER,
        .start = compat_now(),
    };
    innermost = here;
    return here;
}

/* Takes the spans off the stack that have ended. */
static void
unwind(void)
{
    while (innermost != NULL && innermost->ended) {
        span *ended = innermost;
        innermost = ended->outer;
        if (innermost != NULL) {
            innermost->references++;
        }
        release_span(ended);
    }
}

/* Adds a span that ends now to the ledger, if that is still its own. */
static void
add_to_ledger(const span *here)
{
    int64_t duration = compat_now() - here->start;
    bool recursive = false;

    if (!hook.profiling || here->profile != profiles) {
        return;
    }
    for (span *outer = here->outer; outer != NULL && !recursive; outer = outer->outer) {
        recursive = outer->profile == here->profile && outer->record == here->record;
    }
    if (here->outer != NULL) {
        here->outer->inner += duration;
    }
    ledger_add(&book, here->record, here->start, duration, duration - here->inner, recursive,
               here->thread);
}

/* Ends a span, and releases the caller's hold of it. */
static void
end_span(span *here)
{
    add_to_ledger(here);
    here->ended = true;
    unwind();
    release_span(here);
}

PyObject *
evaluate_measured(module_state *state, PyThreadState *tstate, struct _PyInterpreterFrame *frame,
                  int throwflag)
{
    span *here;
    PyObject *result; /* owned */
    int kind;

    if (current_span() != NULL && innermost->closed) {
        return hook.below(tstate, frame, throwflag);
    }
    kind = kind_of_frame(state, frame, !throwflag);
    if (kind == KIND_PLUMBING || (kind < 0 && throwflag) || (kind > 0 && !hook.profiling)) {
        return hook.below(tstate, frame, throwflag);
    }
    here = kind < 0 ? NULL : begin_span(compat_frame_code(frame), kind);
    if (here == NULL) {
        return throwflag ? hook.below(tstate, frame, throwflag) : raise_in_frame(tstate, frame);
    }
    result = hook.below(tstate, frame, throwflag);
    end_span(here);
    return result;
}

/* ---- the profile's life ---- */

double
profile_cost(PyCodeObject *code)
{
    enum { ROUNDS = 2000 };
    ledger spare = {.call_limit = ROUNDS};
    int64_t start = compat_now();

    for (int i = 0; i < ROUNDS; i++) {
        int64_t begun = compat_now();
        Py_ssize_t index = ledger_record(&spare, code, code, KIND_EAGER);
        if (index < 0) {
            ledger_reset(&spare, 0);
            return -1.0;
        }
        ledger_add(&spare, (size_t)index, begun, compat_now() - begun, 0, false, 0);
    }
    start = compat_now() - start;
    ledger_reset(&spare, 0);
    return (double)start / ROUNDS;
}

void
profile_begin(module_state *state, PyObject *classify, PyObject *mark, Py_ssize_t limit)
{
    ledger_reset(&book, limit > 0 ? (size_t)limit : 0);
    Py_XSETREF(state->classify, Py_NewRef(classify));
    Py_XSETREF(state->mark, Py_NewRef(mark));
    profiles++;
    hook.profiling = true;
}

PyObject *
profile_end(module_state *state)
{
    ledger ended = book;
    PyObject *result; /* owned */

    hook.profiling = false; /* before anything runs that could add to the ledger, */
    book = (ledger){0};     /* or begin another profile: to allocate may run the collector */
    result = ledger_as_dict(&ended);
    ledger_reset(&ended, 0);
    Py_CLEAR(state->classify);
    Py_CLEAR(state->mark);
    return result;
}
