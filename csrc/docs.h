/* The docstrings of the Python module's functions: one line of source for one line of text.
 *
 * Only module.c includes it. */

#ifndef GRAPHMEND_BC_DOCS_H
#define GRAPHMEND_BC_DOCS_H

#include "compat.h"

/* The formatter would align the text with the bracket. */
/* clang-format off */

PyDoc_STRVAR(install_doc,
"install(exchange=None, current=None)\n--\n\n"
"Make the frame hooks the interpreter's evaluator, below the neighbour's if that is installed.\n\n"
"exchange(callback) sets the neighbour's callback of this thread and returns the former one;\n"
"current() returns it; None means off, False on without a callback. Both should be C functions.\n"
"RuntimeError if the hooks are installed already.");

PyDoc_STRVAR(uninstall_doc,
"uninstall()\n--\n\n"
"Give the interpreter back the evaluator that install() found. Does nothing if not installed.\n"
"Where another tool has put its evaluator on top meanwhile, ours passes every frame on and\n"
"goes as soon as that one has gone.");

PyDoc_STRVAR(installed_doc,
"installed()\n--\n\nTell whether install() is in force.");

PyDoc_STRVAR(evaluator_doc,
"evaluator()\n--\n\n"
"Return the address of the interpreter's frame evaluator, whoever's it is.");

PyDoc_STRVAR(watch_doc,
"watch(code, enter)\n--\n\n"
"Call enter(code) before every frame of a code object, in place of a former enter.\n\n"
"enter returns None to leave the frame alone, or a pair (callback, leave): callback is set at\n"
"the neighbour while the frame runs (None: not touched), and leave(exception or None) is called\n"
"after it. What enter raises is raised by the frame before it begins; what leave raises takes\n"
"the place of its result. ValueError for generators and coroutines.");

PyDoc_STRVAR(unwatch_doc,
"unwatch(code)\n--\n\nForget a code object. The chooser, if there is one, may be asked again.");

PyDoc_STRVAR(set_chooser_doc,
"set_chooser(choose)\n--\n\n"
"Have choose(code, module_name) called once for every code object that is about to run and not\n"
"watched, generators and coroutines apart. It returns an enter, which is then watched, or None.\n"
"An exception is raised by the frame that was about to run, and counts as None; one that is no\n"
"Exception, such as KeyboardInterrupt, is no answer. Setting a chooser, or None for no chooser,\n"
"makes former answers void, and those that are still being given.");

PyDoc_STRVAR(profile_begin_doc,
"profile_begin(classify, mark, limit)\n--\n\n"
"Measure the frames that run inside compiled regions from now on, in all threads.\n\n"
"classify(code) is asked once about each code object and returns one of the KIND_ constants of\n"
"this module. mark is a pair (name, value): a function of kind WRAPPER that has this attribute\n"
"calls a graph. limit is how many calls are kept one by one; all are counted.\n"
"RuntimeError if a profile runs already or the hooks are not installed.");

PyDoc_STRVAR(profile_end_doc,
"profile_end()\n--\n\n"
"Stop measuring and return a dict. 'records' is a list of tuples (kind, code, cause, calls, own,\n"
"total), times in nanoseconds; cause is the code object of the generated code around it, or of\n"
"the outermost frame where there is none. 'calls' is a bytes object of records of four 64-bit\n"
"integers: start on the clock of time.perf_counter_ns(), duration, native thread id, and index\n"
"into 'records'. 'dropped' is how many calls were not kept.\n"
"RuntimeError if no profile runs.");

PyDoc_STRVAR(profile_cost_doc,
"profile_cost(code)\n--\n\n"
"Return how many nanoseconds it takes here and now to measure one call.");

PyDoc_STRVAR(counters_doc,
"counters()\n--\n\n"
"Return how many frames were evaluated through the hooks since the module was loaded\n"
"('frames'), how many watched ones an enter took ('handed') and how many were left alone\n"
"('left').");

#endif
