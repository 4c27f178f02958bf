/* The ledger of a profile: an array of records, found through a hash table with open places. */

#include "ledger.h"

void
ledger_reset(ledger *book, size_t call_limit)
{
    ledger former = *book;

    *book = (ledger){.call_limit = call_limit}; /* a destructor may come back to us */
    for (size_t i = 0; i < former.record_count; i++) {
        Py_DECREF(former.records[i].code);
        Py_DECREF(former.records[i].cause);
    }
    PyMem_Free(former.records);
    PyMem_Free(former.places);
    PyMem_Free(former.calls);
}

/* Where a record is, or the empty place where it would be. There is always an empty place. */
static size_t *
find_place(const ledger *book, PyCodeObject *code, PyCodeObject *cause)
{
    uintptr_t mixed = ((uintptr_t)code >> 4) * 31 + ((uintptr_t)cause >> 4);
    size_t i = (size_t)(mixed ^ (mixed >> 15)) & (book->place_room - 1);

    while (book->places[i] != 0) {
        const record *here = &book->records[book->places[i] - 1];
        if (here->code == code && here->cause == cause) {
            break;
        }
        i = (i + 1) & (book->place_room - 1);
    }
    return &book->places[i];
}

/* Makes room for one more record, with at least half of the places empty. 0, or -1. */
static int
grow(ledger *book)
{
    size_t room = book->record_room == 0 ? 64 : book->record_room * 2;
    record *records;
    size_t *places;

    if (book->record_count < book->record_room) {
        return 0;
    }
    records = PyMem_Realloc(book->records, room * sizeof(record));
    if (records == NULL) {
        return -1;
    }
    book->records = records;
    places = PyMem_Calloc(room * 2, sizeof(size_t));
    if (places == NULL) {
        return -1;
    }
    PyMem_Free(book->places);
    book->places = places;
    book->place_room = room * 2;
    book->record_room = room;
    for (size_t i = 0; i < book->record_count; i++) {
        *find_place(book, records[i].code, records[i].cause) = i + 1;
    }
    return 0;
}

Py_ssize_t
ledger_record(ledger *book, PyCodeObject *code, PyCodeObject *cause, int kind)
{
    size_t *place;

    if (grow(book) < 0) {
        PyErr_NoMemory();
        return -1;
    }
    place = find_place(book, code, cause);
    if (*place == 0) {
        book->records[book->record_count] = (record){
            .code = (PyCodeObject *)Py_NewRef((PyObject *)code),
            .cause = (PyCodeObject *)Py_NewRef((PyObject *)cause),
            .kind = kind,
        };
        *place = ++book->record_count;
    }
    return (Py_ssize_t)(*place - 1);
}

/* Makes room for one more call. False past the limit, or without memory. */
static bool
has_room_for_call(ledger *book)
{
    size_t room = book->call_room == 0 ? 1024 : book->call_room * 2;
    call *calls;

    if (book->call_count < book->call_room) {
        return true;
    }
    room = room < book->call_limit ? room : book->call_limit;
    if (book->call_count >= room) {
        return false;
    }
    calls = PyMem_Realloc(book->calls, room * sizeof(call));
    if (calls == NULL) {
        return false;
    }
    book->calls = calls;
    book->call_room = room;
    return true;
}

void
ledger_add(ledger *book, size_t index, int64_t start, int64_t duration, int64_t own, bool recursive,
           int64_t thread)
{
    record *entry = &book->records[index];

    entry->calls++;
    entry->own += own;
    entry->total += recursive ? 0 : duration;
    if (!has_room_for_call(book)) {
        book->dropped++;
        return;
    }
    book->calls[book->call_count++] = (call){start, duration, thread, (int64_t)index};
}

PyObject *
ledger_as_dict(const ledger *book)
{
    PyObject *records = PyList_New(0); /* owned */
    PyObject *result = NULL;           /* owned */

    if (records == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < book->record_count; i++) {
        const record *entry = &book->records[i];
        PyObject *row = Py_BuildValue("(iOOKLL)", entry->kind, entry->code, entry->cause,
                                      entry->calls, (long long)entry->own,
                                      (long long)entry->total); /* owned */
        if (row == NULL || PyList_Append(records, row) < 0) {
            Py_XDECREF(row);
            goto done;
        }
        Py_DECREF(row);
    }
    result = Py_BuildValue("{sOsy#sK}", "records", records, "calls",
                           book->calls != NULL ? (const char *)book->calls : "",
                           (Py_ssize_t)(book->call_count * sizeof(call)), "dropped", book->dropped);
done:
    Py_DECREF(records);
    return result;
}
