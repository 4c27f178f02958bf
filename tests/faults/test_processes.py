"""Threads, processes, signals and the end of Python, around mended functions."""

from __future__ import annotations

import textwrap

import pytest

from tests.processes import python

LIMIT = 120
"""Seconds after which a process counts as one that hangs."""

PRELUDE = """
import logging, os, signal, sys, threading, warnings
import torch
import graphmend_bc as gm
torch.set_num_threads(1)
gm.config.disk_cache = False
UP, DOWN = torch.tensor([1.0, 2.0]), torch.tensor([-1.0, -2.0])

def f(x):
    y = x * 2
    if y.sum() > 0:
        y = y + 1
        print("up", end=";")
    return y, 1 if y.max() > 3 else 2

def expected(x):
    return f(x)

def told(found):
    return [found[0].tolist(), found[1]]
"""


def run(program: str) -> str:
    """What a program prints; it must end well."""
    done = python("-c", PRELUDE + textwrap.dedent(program), limit=LIMIT)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


@pytest.mark.slow
def test_many_threads_compile_and_call_at_once() -> None:
    program = """
    from tests.releases import executed
    sys.setswitchinterval(1e-5)
    SOURCE = (
        "def f(x):\\n    y = x + {0}\\n    if y.sum() > 0:\\n        y = y * 2\\n"
        "    return y, 1 if y.max() > 20 else 2\\n"
    )
    functions = []
    for number in range(4):
        scope = {}
        executed(SOURCE.format(number), f"<{number}>", scope)
        functions.append(scope["f"])
    together, wrong = threading.Barrier(16), []

    def work(number):
        together.wait()
        for i in range(24):
            plain = functions[(number + i) % 4]
            x = (UP * (number + 1)) * (-1 if (number + i) % 3 == 0 else 1)
            if told(compiled[(number + i) % 4](x)) != told(plain(x)):
                wrong.append((number, i))

    gm.enable()
    compiled = [torch.compile(each, backend="eager") for each in functions]
    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    print(wrong, len(gm.report().declines) - sum(d.reason != "internal-error" for d in gm.report().declines))
    """
    assert run(program) == "[] 0\n"


@pytest.mark.slow
def test_fork_after_mending() -> None:
    program = """
    gm.enable()
    memory = torch.zeros(2)

    def counting(x):
        memory.add_(1)
        return f(x)

    compiled = torch.compile(counting, backend="eager")
    sys.stdout = open(os.devnull, "w")
    for i in range(4):
        compiled(UP), compiled(DOWN)
    child = os.fork()
    if child == 0:
        signal.alarm(60)
        late = torch.compile(lambda x: f(x + 1), backend="eager")
        fine = all(told(compiled(x)) == told(f(x)) for x in (UP, DOWN, UP))
        os._exit(0 if fine and told(late(UP)) == told(f(UP + 1)) else 3)
    sys.__stdout__.write(str(os.waitpid(child, 0)[1]))
    """
    assert run(program) == "0"


def test_locks_of_other_threads_are_free_in_a_forked_child() -> None:
    """Torch's own lock on compiled versions is not: a child of a thread that calls others may hang."""
    program = """
    warnings.simplefilter("ignore")  # of a child of a process with threads
    from graphmend_bc.runtime.forks import lock_over_forks
    theirs, own = lock_over_forks(), lock_over_forks()
    held, over = threading.Event(), threading.Event()

    def hold():
        with theirs:
            held.set()
            over.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    with own:
        child = os.fork()
        if child == 0:
            signal.alarm(20)
            theirs.acquire()
    if child == 0:
        os._exit(0)
    over.set()
    thread.join()
    print(os.waitpid(child, 0)[1])
    """
    assert run(program) == "0\n"


@pytest.mark.slow
def test_spawn_after_mending() -> None:
    program = """
    import multiprocessing
    from tests.faults.child import answers
    gm.enable()
    torch.compile(f, backend="eager")(UP)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.map(answers, [False, True])
    print(found[0] == found[1], len(found[0]))
    """
    assert run(program) == "up;True 4\n"


def test_calls_at_the_end_of_python() -> None:
    """Of functions that are mended already, and of one that is compiled then."""
    program = """
    import atexit

    class Last:
        def __del__(self):
            print("deleted", told(compiled(UP)), told(compiled(DOWN)))

    @atexit.register
    def at_exit():
        print("exit", told(compiled(UP)), told(compiled(DOWN)), told(late(UP)))
        globals().pop("last")

    gm.enable()
    compiled, late = torch.compile(f, backend="eager"), torch.compile(lambda x: f(x + 1), backend="eager")
    compiled(UP), compiled(DOWN)
    last = Last()
    print()
    """
    up, down = "up;", "[[-2.0, -4.0], 2]"
    lines = run(program).splitlines()
    assert lines[1:] == [
        f"{up}{up}exit [[3.0, 5.0], 1] {down} [[5.0, 7.0], 1]",
        f"{up}deleted [[3.0, 5.0], 1] {down}",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("where", ["compiling", "epilogue"])
def test_a_signal_raises(where: str) -> None:
    """While a frame is compiled, and while its deferred calls are made: it passes, and the next call is right."""
    program = f"""
    from graphmend_bc.legality.ranges import Ranges
    from graphmend_bc.runtime.deferral.effects import Effect

    class Late(Exception):
        pass

    def ring(signum, frame):
        raise Late

    signal.signal(signal.SIGALRM, ring)
    owner, name = (Ranges, "note") if {where!r} == "compiling" else (Effect, "run")
    stock, rung = getattr(owner, name), []

    def slow(*args, **kwargs):
        if rung:
            return stock(*args, **kwargs)
        rung.append(1)
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        while True:
            pass

    gm.enable()
    setattr(owner, name, slow)
    compiled = torch.compile(f, backend="eager")
    try:
        compiled(UP)
    except Late as error:
        print("late", error.__cause__, end=" ")
    print(told(compiled(UP)), told(compiled(DOWN)), [d.reason for d in gm.report().declines])
    """
    assert run(program) == "late None up;[[3.0, 5.0], 1] [[-2.0, -4.0], 2] []\n"
