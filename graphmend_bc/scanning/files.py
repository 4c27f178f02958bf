"""The programs in files, directories and archives, within limits on their sizes and number."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from graphmend_bc.scanning.bytecode_files import UnreadableError, of_bytecode
from graphmend_bc.scanning.instructions import Code, of_source
from graphmend_bc.scanning.suspects import Suspect, suspects

LARGEST_FILE = 8 << 20
LARGEST_ARCHIVE = 512 << 20
"""Bytes that are unpacked of one archive at most."""
MOST_MEMBERS = 20_000
_ARCHIVES = (".whl", ".zip", ".egg", ".pyz")
_PROGRAMS = (".py", ".pyc")


@dataclass(frozen=True, slots=True)
class ScannedFile:
    """One file, or one member of an archive as `archive!member`.

    Attributes:
        name: its path.
        suspects: what looks like a graph break in it.
        trouble: why it could not be read, as a sentence; empty if it was.
    """

    name: str
    suspects: tuple[Suspect, ...] = ()
    trouble: str = ""


def scan(path: Path) -> Iterator[ScannedFile]:
    """Look for likely graph breaks; nothing that is found is imported or run.

    Args:
        path: a program, an archive, or a directory. Of a directory, hidden directories,
            `__pycache__` and links to directories are left out.

    Returns:
        The programs one after another; those that cannot be read too, with the reason.

    Example:
        >>> [one.trouble for one in scan(Path("missing.py"))]
        ['missing.py cannot be read: there is no such file.']
    """
    if path.is_dir():
        for directory, below, names in os.walk(path):
            below[:] = sorted(n for n in below if n[0] != "." and n != "__pycache__")
            for name in sorted(names):
                if name.endswith((*_PROGRAMS, *_ARCHIVES)):
                    yield from _file(Path(directory, name))
    else:
        yield from _file(path)


def _file(path: Path) -> Iterator[ScannedFile]:
    if not path.is_file():  # a pipe would keep us waiting
        what = "it is no regular file" if path.exists() else "there is no such file"
        yield _unread(str(path), what)
    elif path.suffix in _ARCHIVES:
        yield from _archive(path)
    elif path.suffix not in _PROGRAMS:
        yield _unread(str(path), "it is no .py, .pyc, .whl, .zip, .egg, .pyz or directory")
    else:
        try:
            with path.open("rb") as file:
                data = file.read(LARGEST_FILE + 1)
        except OSError as error:
            yield _unread(str(path), error.strerror or type(error).__name__)
        else:
            yield _program(str(path), data)


def _archive(path: Path) -> Iterator[ScannedFile]:
    try:
        archive = zipfile.ZipFile(path)
    except Exception as error:  # zipfile raises what damaged fields lead it to
        yield _unread(str(path), f"it is no intact archive ({error})")
        return
    with archive:
        members = [m for m in archive.infolist() if m.filename.endswith(_PROGRAMS)]
        left = LARGEST_ARCHIVE
        for member in members[:MOST_MEMBERS]:
            name = f"{path}!{member.filename}"
            try:
                with archive.open(member) as file:
                    data = file.read(min(LARGEST_FILE, left) + 1)
            except Exception as error:  # and each of its decompressors an error of its own
                yield _unread(name, f"the archive is broken there ({error})")
                continue
            left -= len(data)
            if left < 0:
                yield _unread(str(path), f"it has more than {LARGEST_ARCHIVE >> 20} MiB unpacked")
                return
            yield _program(name, data)
        if len(members) > MOST_MEMBERS:
            yield _unread(str(path), f"it has more than {MOST_MEMBERS} programs")


def _program(name: str, data: bytes) -> ScannedFile:
    if len(data) > LARGEST_FILE:
        return _unread(name, f"it is larger than {LARGEST_FILE >> 20} MiB")
    try:
        return ScannedFile(name, tuple(suspects(_codes(name, data))))
    except UnreadableError as error:
        return _unread(name, str(error))


def _codes(name: str, data: bytes) -> list[Code]:
    if name.endswith(".pyc"):
        return of_bytecode(data)
    try:
        return of_source(data)
    except SyntaxError as error:
        raise UnreadableError(f"{error.msg} (line {error.lineno or 1})") from None
    except (ValueError, RecursionError, MemoryError, OverflowError) as error:
        raise UnreadableError(f"Python cannot compile it ({type(error).__name__})") from None


def _unread(name: str, why: str) -> ScannedFile:
    return ScannedFile(name, trouble=f"{name} cannot be read: {why}.")
