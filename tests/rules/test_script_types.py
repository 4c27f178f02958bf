"""`torch.jit.isinstance`."""

from __future__ import annotations

import pytest
import torch

from tests.oracle import Change, agrees, check

X = torch.tensor([1.0, -2.0, 3.0])


@pytest.mark.parametrize(
    "kinds", ["str", "bool", "(str, bool)", "torch.Tensor", "(int, type(None))", "Option", "()"]
)
def test_it_is_asked_as_the_builtin(kinds: str) -> None:
    source = f"""
        class Option:
            pass

        class Special(Option):
            pass

        OPTIONS = ["window", True, 1, None, Special(), [1], torch.ones(())]

        def f(x, n):
            if torch.jit.isinstance(OPTIONS[n], {kinds}):
                return x * 2
            return x - 1
        """
    check(source, [(X, n) for n in range(7)], "polyfill@10", orders=1)


SPECTROGRAM = """
def norms(normalized):
    if torch.jit.isinstance(normalized, str):
        return normalized == "frame_length", normalized == "window"
    elif torch.jit.isinstance(normalized, bool):
        return False, normalized
    raise TypeError(f"Not a bool or a str: {normalized!r}")

def f(x, normalized):
    frame, window = norms(normalized)
    return x * 2 if frame else x - 1 if window else x.abs()
"""


def test_options_of_a_spectrogram() -> None:
    calls = [(X, option) for option in ("window", True, "frame_length", False)]
    check(SPECTROGRAM, calls, "polyfill@2 polyfill@4", orders=1)
    agrees(SPECTROGRAM, [(X, "window"), (X, 3), (X, False)])


@pytest.mark.parametrize(
    "kinds", ["typing.List[int]", "list", "typing.Optional[int]", "Colour", "(str, list)", "3"]
)
def test_what_looks_into_its_argument_is_left(kinds: str) -> None:
    source = f"""
        import enum, typing

        class Colour(enum.Enum):  # a container
            RED = 1

        def f(x, option):
            try:
                return x * 2 if torch.jit.isinstance(option, {kinds}) else x
            except Exception as error:
                return x, type(error)
        """
    calls = [(X, [1, 2]), (X, ["a"]), (X, 3), (X, "a")]
    assert "polyfill" not in agrees(source, calls).mends


def test_another_function_in_its_place() -> None:
    source = """
        import types
        jit = types.SimpleNamespace(isinstance=torch.jit.isinstance)

        def f(x, option):
            return x * 2 if jit.isinstance(option, str) else x
        """
    calls = [(X, "a"), (X, 1), Change("jit.isinstance = lambda a, b: True"), (X, "a"), (X, 1)]
    check(source, calls, "polyfill@5", orders=1)
