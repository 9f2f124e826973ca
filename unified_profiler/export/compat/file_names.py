"""Numbered names for the files of an export, none of which exists yet."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

NAME_SPECS: Mapping[str, Callable[[], str]] = MappingProxyType(
    {
        "timestamp": lambda: f"_{time.time_ns()}",
        "datetime": lambda: time.strftime("_%Y%m%d-%H%M%S"),
        "serial": lambda: "",
    }
)
"""The part of the name that distinguishes the files of one export from those of others."""


def move_to_free_name(file: Path, names: Iterator[Path]) -> Path:
    """Rename a file to the first name that does not exist; safe if several processes do so at once."""
    for path in names:
        try:
            path.touch(exist_ok=False)
        except FileExistsError:
            continue
        return file.replace(path)
    raise AssertionError  # names never end


def numbered_names(folder: Path, stem: str, suffix: str, *, own_series: bool) -> Iterator[Path]:
    """Yield `stem_0001.suffix` and so on.

    Args:
        folder: An existing directory.
        stem: Start of the names.
        suffix: End of the names.
        own_series: Whether a stem in use is replaced by `stem.2` and so on; otherwise its numbers continue.
    """
    stems = (stem if number == 1 else f"{stem}.{number}" for number in itertools.count(1))
    series, last = next((s, n) for s in stems if not (n := _last_number(folder, s, suffix)) or not own_series)
    return (folder / f"{series}_{number:04d}{suffix}" for number in itertools.count(last + 1))


def _last_number(folder: Path, stem: str, suffix: str) -> int:
    pattern = re.compile(rf"{re.escape(stem)}_(\d{{4,}}){re.escape(suffix)}", re.ASCII)
    matches = (pattern.fullmatch(path.name) for path in folder.iterdir())
    return max((int(match[1]) for match in matches if match), default=0)
