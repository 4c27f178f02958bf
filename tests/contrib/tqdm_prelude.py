"""What programs with progress bars begin with."""

from __future__ import annotations

import textwrap

PRELUDE = r"""
import re, threading
import tqdm.auto, tqdm.asyncio
auto, aio, module = tqdm.auto, tqdm.asyncio, tqdm
from tqdm import tqdm, trange

tqdm._instances.clear()  # stock Dynamo keeps some alive
tqdm.set_lock(threading.RLock())  # tqdm keeps it when a text cannot be made
texts = []
TIMES = re.compile(r"[0-9:]+(<[0-9:?]+)?, [^ ]*/s\]? *")

class Out:
    def write(self, text):
        texts.append(TIMES.sub("TIMES", text))

out = Out()
items = [1, 2, 3]

class Show:
    how = dict(file=out, mininterval=0, bar_format="{desc}{n}/{total}{postfix}|")

outer = tqdm(total=9, **Show.how)

class Meter:
    def __init__(self, n):
        self.bar = tqdm(total=n, **Show.how)
    def __call__(self, i):
        self.bar.update(i)

@torch._dynamo.disable
def disabled(bar):
    bar.update(2)

class Items:
    def __init__(self, n):
        self.n = n
    def __len__(self):
        print("length", file=out)
        return 3
    def __iter__(self):
        print("iterator", file=out)
        return self
    def __next__(self):
        self.n -= 1
        if self.n < 0:
            raise StopIteration
        print("next", file=out)
        return self.n
"""
LINES = PRELUDE.strip("\n").count("\n") + 3
"""The line on which a program begins."""


def program(body: str) -> str:
    body = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    return f"{PRELUDE}\ndef f(x):\n{body}\n"


def at(body: str, wanted: str) -> int:
    """The line of a program's body that has a text."""
    lines = textwrap.dedent(body).strip("\n").split("\n")
    return LINES + 1 + next(i for i, line in enumerate(lines) if wanted in line)
