"""More surroundings of programs: what belongs to the process, and to who calls (see `surroundings.py`).

The oracle puts back what is changed here: the settings of text, the default dtype, the stance.
"""

from __future__ import annotations

from typing import Final

from tests.fuzz.surroundings import Surrounding

TEXTS: Final = Surrounding(
    definitions=(
        "import numpy",
        "import numpy\n\ndef told(x):\n    torch.set_printoptions(precision=1)\n"
        "    print('told', x.detach() / 3)\n    torch.set_printoptions(precision=3)\n    return x",
    ),
    vector=("torch.as_tensor(numpy.float32([1.0, 2.0, 3.0])) * {vector}",),
    statements=(
        "torch.set_printoptions(precision=2)\nprint({vector}.detach() / 3)\ntorch.set_printoptions(precision=4)",
        "print({vector}.detach() / 3)\ntorch.set_printoptions(precision=1)",
        "torch.set_printoptions(sci_mode=True)\nlogging.getLogger('program').info('%s', {vector}.detach())\n"
        "torch.set_printoptions(sci_mode=False)",
        "with torch._tensor_str.printoptions(precision=2):\n    print({vector}.detach() / 3)\n    <block>",
        "if {test}:\n    torch.set_printoptions(precision=3)\n    print({vector}.detach() / 7)\n"
        "    torch.set_printoptions(profile='default')",
        "torch.set_default_dtype(torch.float64)\nprint({vector}.detach())\ntorch.set_default_dtype(torch.float32)",
        "numpy.set_printoptions(precision=2)\nprint({vector}.detach().numpy() / 3)",
        "with numpy.printoptions(precision=1):\n    print({vector}.detach().numpy() / 3)",
        "print(f'{{{vector}.detach() / 3}}')\ntorch.set_printoptions(precision=2)",
    ),
    changes={
        "print options change": (
            "torch.set_printoptions(precision=2)",
            "torch.set_printoptions(profile='default')",
        ),
        "NumPy's print options change": ("numpy.set_printoptions(precision=3)",),
        "default dtype changes": (
            "torch.set_default_dtype(torch.float64)",
            "torch.set_default_dtype(torch.float32)",
        ),
    },
)

_STREAM = (
    "class Kept:\n    def __init__(self):\n        self.parts, self.total = [], torch.zeros(3)\n\n"
    "    def write(self, text):\n        {}\n\n    def flush(self):\n        pass\n\n"
    "kept, notes = Kept(), []\n\n"
    "class Counting(logging.Handler):\n    count = 0\n\n"
    "    def emit(self, record):\n        self.count += 1\n\n"
    "counting = Counting()\nwatched = logging.getLogger(__name__)\nwatched.propagate = False\n"
    "watched.setLevel(logging.INFO)\nwatched.addHandler(counting)\n"
    "watched.addFilter(lambda record: notes.append(record.levelno) or True)"
)

STREAMS: Final = Surrounding(
    name="kept",
    definitions=(
        _STREAM.format("self.parts.append(text)"),
        _STREAM.format("self.total.add_(1)"),
        _STREAM.format("self.total = self.total + len(text)"),
        _STREAM.format("self.parts += text.split()\n        return len(text)"),
        _STREAM.format("self.parts.append(text)") + "\nkept.write = kept.parts.append",
    ),
    vector=(
        "{vector} * len(kept.parts)",
        "{vector} + counting.count",
        "{vector} + kept.total",
        "{vector} - len(notes)",
    ),
    number=("len(kept.parts)", "counting.count"),
    test=("len(kept.parts) > 2", "counting.count > 1", "kept.total.sum() > 2"),
    statements=(
        "print({shown}, file=kept)\n{vector_old} = {vector} * len(kept.parts)",
        "print({shown}, file=kept)",
        "print({vector}.detach(), file=kept)\n{vector_old} = {vector} + kept.total",
        "watched.info('%s', {shown})\n{vector_old} = {vector} + counting.count",
        "watched.info({shown})",
        "kept.write('a b')\n{vector_old} = {vector} * len(kept.parts)",
        "with contextlib.redirect_stdout(kept):\n    print({shown})\n    <block>",
        "kept.parts.clear()\nprint({vector}.detach(), file=kept)",
        "print({vector}.detach(), file=kept)\nkept.parts.append({number})",
    ),
    changes={
        "stream is emptied": ("kept.parts.clear()",),
        "stream is another": ("kept.write = lambda text: None", "vars(kept).pop('write', None)"),
        "handler goes": ("watched.handlers.clear()",),
        "handler comes": ("watched.addHandler(counting)",),
        "level changes": ("watched.setLevel(logging.ERROR)", "watched.setLevel(logging.INFO)"),
    },
)

_ENDING = (
    "import weakref\n\nended = []\n\nclass Ends:\n    def __init__(self, mark):\n        self.mark = mark\n{}\n\n"
    "def used(x):\n    found = Ends(4)\n    return x * found.mark"
)

FINALISERS: Final = Surrounding(
    definitions=(
        _ENDING.format("\n    def __del__(self):\n        ended.append(self.mark)"),
        _ENDING.format("        weakref.finalize(self, ended.append, mark)"),
        _ENDING.format(
            "        self.seen = weakref.ref(self, lambda gone: ended.append(gone is None))"
        ),
        _ENDING.format("\n    def close(self):\n        ended.append(-self.mark)"),
    ),
    vector=("{vector} * Ends(3).mark", "used({vector})", "{vector} + len(ended)"),
    number=("len(ended)",),
    test=("len(ended) > 1",),
    statements=(
        "<i> = Ends(2)\n{vector_old} = {vector} * <i>.mark\ndel <i>\n{vector_old} = {vector_old} + len(ended)",
        "Ends(1)\n{vector_old} = {vector} * len(ended)",
        "<i> = Ends({number})\nif {test}:\n    <i> = None\n<block>",
        "with contextlib.closing(Ends(5)) as <i>:\n    {vector_old} = {vector} + <i>.mark\n    <block>",
        "for <i> in [Ends(n) for n in range(2)]:\n    {vector_old} = {vector} + <i>.mark",
    ),
    changes={"what has ended is forgotten": ("ended.clear()",)},
)

_APART = (
    "{}\ndef apart(x):\n    {}x = x + (100 if torch.compiler.is_compiling() else 1)\n    return x"
)

DISABLED: Final = Surrounding(
    definitions=tuple(
        _APART.format(mark, body)
        for mark in (
            "@torch._dynamo.disable(recursive=False)",
            "@torch._dynamo.disable",
            "@torch.compiler.disable(recursive=False)",
            "@torch.compiler.disable",
        )
        for body in (
            "",
            "if x.sum() > 0:\n        x = x * 2\n    ",
            "print('apart', x.detach())\n    ",
        )
    ),
    vector=("apart({vector})", "apart({vector}) + {vector}"),
    test=("apart({vector}).sum() > 2",),
    statements=(
        "if {test}:\n    {vector_old} = apart({vector})",
        "for <i> in range(2):\n    {vector_old} = apart({vector})",
    ),
    changes={
        "function is another": (
            "apart = torch._dynamo.disable(lambda x: x - 1)",
            "apart = torch.compiler.disable(apart, recursive=False)",
        )
    },
)

# Not `skip_guard_eval_unsafe`: it promises that nothing changes which other changes may change.
STANCES: Final = Surrounding(
    definitions=("rate = 2.0",),
    vector=("{vector} * rate", "({vector} if {test} else -{vector})"),
    statements=(
        "if {test}:\n    {vector_old} = {vector} * rate\n    <block>",
        "{number_new} = {vector}.sum().item()",
    ),
    changes={
        "stance": tuple(
            f"torch.compiler.set_stance({stance})"
            for stance in (
                "'default'",
                "'eager_on_recompile'",
                "'fail_on_recompile'",
                "'force_eager'",
            )
        ),
        "global is rebound": ("rate = 3.0",),
    },
)

AROUND: Final = Surrounding(
    definitions=(
        "def around():\n    return torch.no_grad()",
        "def around():\n    return torch.autocast('cpu', torch.bfloat16)",
        "def around():\n    return torch.inference_mode()",
        "from torch.utils._python_dispatch import TorchDispatchMode\n\nran = []\n\n"
        "class Listing(TorchDispatchMode):\n"
        "    def __torch_dispatch__(self, func, types, args=(), kwargs=None):\n"
        "        ran.append(str(func))\n        return func(*args, **kwargs or {})\n\n"
        "def around():\n    return Listing()",
        "from torch.overrides import TorchFunctionMode\n\ncalled = []\n\n"
        "class Noting(TorchFunctionMode):\n"
        "    def __torch_function__(self, func, types, args=(), kwargs=None):\n"
        "        called.append(func.__name__)\n        return func(*args, **kwargs or {})\n\n"
        "def around():\n    return Noting()",
    ),
    vector=("({vector} @ torch.ones(3, 3))", "({vector} if torch.is_grad_enabled() else {vector} + 1)"),
    test=("torch.is_inference_mode_enabled()", "torch.is_autocast_enabled('cpu')"),
    statements=("if {vector}.sum() > 0:\n    {vector_old} = {vector} * 2\n    <block>",),
    changes={
        "nothing is around": ("around = contextlib.nullcontext",),
        "no gradients are around": ("around = torch.no_grad",),
    },
)  # fmt: skip
"""The oracle makes each call inside what `around()` gives."""

GENERATORS: Final = Surrounding(
    name="rng",
    definitions=("import random\nrng, other = random.Random(3), random.Random(5)",),
    readers="def drawn(x):\n    inner = random.Random(4)\n    return x * inner.random()",
    vector=(
        "{vector} * rng.random()",
        "{vector} + rng.randint(0, 3)",
        "{vector} * random.Random(3).random()",
        "drawn({vector})",
        "{vector} * rng.choice((1, 2))",
    ),
    number=("rng.random()", "other.randint(1, 2)"),
    test=("rng.random() < 0.5",),
    statements=(
        "rng.setstate(other.getstate())",
        "<i> = rng.getstate()\n{vector_old} = {vector} * rng.random()\nrng.setstate(<i>)",
        "<i> = random.Random(7)\nif {test}:\n    {vector_old} = {vector} * <i>.random()",
        "if {test}:\n    rng.seed(2)",
        "<i> = random.Random(7)\n<i>.setstate(rng.getstate())\n{vector_old} = {vector} + <i>.random()",
    ),
    changes={
        "generator is seeded": ("rng.seed(1)", "other.seed(2)"),
        "generator is another": ("rng = random.Random(9)",),
        "generator is used": ("rng.random()",),
    },
)

SURROUNDINGS: Final[dict[str, Surrounding]] = {
    "texts": TEXTS,
    "streams": STREAMS,
    "finalisers": FINALISERS,
    "disabled": DISABLED,
    "stances": STANCES,
    "around": AROUND,
    "generators": GENERATORS,
}
"""By the name of their group of forms."""
