"""Small files in a directory that several processes share, and that nobody else can write to."""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

LARGEST: Final = 2**16
"""Bytes of the largest file that is read or written."""

_NAME: Final = re.compile(r"[0-9a-f]{64}\.json(\.[0-9a-f]{16})?")


@dataclass(slots=True)
class EntryFiles:
    """The files of one directory. Each method raises OSError where the file system refuses.

    Attributes:
        path: the directory; it is made when the first file is written.
        most: files that are kept, apart from those written since they were counted.
        most_bytes: of all of them.
        every: files that are written before all are counted again.
    """

    path: Path
    most: int = 4096
    most_bytes: int = 2**24
    every: int = 64
    written: int = 0

    def read(self, key: str) -> bytes | None:
        """A file's content, or None if there is no such file.

        Raises:
            OSError: it cannot be read, is too large or is somebody else's.
        """
        with suppress(FileNotFoundError), self._opened() as directory:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
            file = os.open(f"{key}.json", flags, dir_fd=directory)
            try:
                found = os.fstat(file)
                if not stat.S_ISREG(found.st_mode) or _is_others(found):
                    raise PermissionError(f"{key}.json is not a file that only this user writes.")
                content = os.read(file, LARGEST + 1)
            finally:
                os.close(file)
            if len(content) > LARGEST:
                raise OSError(f"{key}.json is larger than {LARGEST} bytes.")
            return content
        return None

    def write(self, key: str, content: bytes) -> None:
        """Put a file there as a whole: who reads it sees all of it, or what was there before."""
        if len(content) > LARGEST:
            return
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        with self._opened() as directory:
            name = f"{key}.json.{secrets.token_hex(8)}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
            file = os.open(name, flags, 0o600, dir_fd=directory)
            try:
                with open(file, "wb") as stream:
                    stream.write(content)
                os.replace(name, f"{key}.json", src_dir_fd=directory, dst_dir_fd=directory)
            except BaseException:
                _remove(name, directory)
                raise
            if self.written % self.every == 0:
                self._remove_oldest(directory)
            self.written += 1

    def drop(self, key: str) -> None:
        """Remove a file, if it is there."""
        with suppress(FileNotFoundError), self._opened() as directory:
            _remove(f"{key}.json", directory)

    def count(self) -> int:
        """How many files there are."""
        with suppress(FileNotFoundError), self._opened() as directory:
            return len(_files(directory))
        return 0

    def _remove_oldest(self, directory: int) -> None:
        count, size = 0, 0
        for _, name, length in sorted(_files(directory), reverse=True):
            count, size = count + 1, size + length
            if count > self.most or size > self.most_bytes:
                _remove(name, directory)

    @contextmanager
    def _opened(self) -> Iterator[int]:
        """The directory, opened: what is found under its name later does not matter.

        Raises:
            PermissionError: somebody else could write to it, or choose where it is.
        """
        if os.lstat(self.path).st_uid != os.getuid():
            raise PermissionError(f"{self.path} belongs to another user.")
        directory = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            if _is_others(os.fstat(directory)):
                raise PermissionError(f"Other users can write to {self.path}.")
            yield directory
        finally:
            os.close(directory)


def _is_others(found: os.stat_result) -> bool:
    """Whether another user, of the same group or not, owns it or can write to it."""
    writable = stat.S_IWGRP | stat.S_IWOTH
    return found.st_uid != os.getuid() or bool(found.st_mode & writable)


def _files(directory: int) -> list[tuple[int, str, int]]:
    """When each file was written, its name and its size; other files are nobody's business."""
    found = []
    with os.scandir(directory) as entries:
        for entry in entries:
            if not _NAME.fullmatch(entry.name):
                continue
            with suppress(FileNotFoundError):  # another process may have removed it
                known = entry.stat(follow_symlinks=False)
                found.append((known.st_mtime_ns, entry.name, known.st_size))
    return found


def _remove(name: str, directory: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=directory)
