"""Seeds and cases: a few files in memory, or other things that a file system can hold in their place."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

OUTSIDE = "../outside"
"""A directory beside that of the case, which reading must leave alone; relative to the directory of the case."""


@dataclass(frozen=True)
class Link:
    """A symbolic link."""

    target: str


@dataclass(frozen=True)
class Folder:
    """An empty directory."""


@dataclass(frozen=True)
class Pipe:
    """A pipe at whose other end is nobody."""


@dataclass(frozen=True)
class Unreadable:
    """A file without any permission."""

    content: bytes


Entry = bytes | Link | Folder | Pipe | Unreadable
Tree = dict[str, Entry]
"""Entries by their paths, relative to the directory of the case."""


@dataclass(frozen=True)
class Seed:
    """Files that are in order, and which of them, or which directory of them, is to be read."""

    files: Mapping[str, bytes]
    read: str


def write(tree: Mapping[str, Entry], folder: Path) -> None:
    """Write a tree. What cannot be written beside what is there already, such as a file below a file, is left out."""
    for name, entry in tree.items():
        try:
            _write(folder / name, entry)
        except (OSError, ValueError):
            continue


def _write(path: Path, entry: Entry) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    match entry:
        case bytes():
            path.write_bytes(entry)
        case Link(target):
            path.symlink_to(target)
        case Folder():
            path.mkdir(exist_ok=True)
        case Pipe():
            os.mkfifo(path)
        case Unreadable(content):
            path.write_bytes(content)
            path.chmod(0)
