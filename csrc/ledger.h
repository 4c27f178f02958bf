/* The ledger of a profile: sums by code object and cause, and the calls one by one up to a limit.
 *
 * It knows nothing of frames or of Python beyond reference counts, so that it can be read alone.
 * Records are named by index, because the array moves as it grows. */

#ifndef GRAPHMEND_BC_LEDGER_H
#define GRAPHMEND_BC_LEDGER_H

#include "hooks.h"

typedef struct {
    PyCodeObject *code;  /* owned */
    PyCodeObject *cause; /* owned */
    int kind;
    unsigned long long calls;
    int64_t own;   /* nanoseconds outside of other records */
    int64_t total; /* nanoseconds of outermost calls */
} record;

typedef struct {
    int64_t start;
    int64_t duration;
    int64_t thread;
    int64_t record;
} call;

typedef struct {
    record *records;
    size_t *places; /* hash table: index + 1, or 0 for an empty place */
    call *calls;
    size_t record_count, record_room, place_room, call_count, call_room, call_limit;
    unsigned long long dropped;
} ledger;

/* Empties the ledger and sets how many calls it may keep. */
void ledger_reset(ledger *book, size_t call_limit);

/* The index of the record of a code object with a cause, made if there is none; both are
 * borrowed. -1 with a MemoryError. */
Py_ssize_t ledger_record(ledger *book, PyCodeObject *code, PyCodeObject *cause, int kind);

/* Adds one call that has ended. Past the limit, or without memory, it is only counted. */
void ledger_add(ledger *book, size_t index, int64_t start, int64_t duration, int64_t own,
                bool recursive, int64_t thread);

/* A new dict with all of it, or NULL with an exception. */
PyObject *ledger_as_dict(const ledger *book);

#endif
