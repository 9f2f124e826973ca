"""Registry of backends: their names, where their descriptors are, and how to install their frameworks.

First-party backends are listed in a table, so that they work from a clone without installation; third parties use the
entry-point group `unified_profiler.backends`. Nothing here imports a framework.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

from unified_profiler.errors import BackendError, ConfigurationError, FrameworkNotInstalledError, UnknownBackendError
from unified_profiler.installation import install_command
from unified_profiler.keywords import did_you_mean
from unified_profiler.spi import Backend, EventConventions, is_imported

GROUP = "unified_profiler.backends"

logger = logging.getLogger("unified_profiler")


@dataclass(frozen=True)
class Entry:
    """A declared backend."""

    name: str
    target: str
    """The location of its descriptor, as `module:attribute`."""
    module: str | None = None
    """The framework's top-level module; None if only the descriptor contains it."""
    install_hint: str = ""
    """The command that installs the backend's requirements."""


_FIRST_PARTY = ("torch", "tensorflow", "mindspore")


def known() -> tuple[Entry, ...]:
    """Return all declared backends, loadable or not, sorted by name.

    Raises:
        ConfigurationError: Two packages claim the same name.
    """
    entries = {
        name: Entry(name, f"unified_profiler_{name}:backend", name, install_command(name)) for name in _FIRST_PARTY
    }
    for point in _entry_points(tuple(map(_modified, sys.path))):
        if point.name in entries:
            msg = (
                f"Two backends are called {point.name!r}: {entries[point.name].target} and {point.value}. "
                "Uninstall one of the two packages."
            )
            raise ConfigurationError(msg)
        package = point.dist.name if point.dist else point.value
        entries[point.name] = Entry(point.name, point.value, None, f"pip install --upgrade {package}")
    return tuple(entries[name] for name in sorted(entries))


@lru_cache(maxsize=1)
def _entry_points(_: tuple[tuple[str, int], ...]) -> tuple[EntryPoint, ...]:
    """Return the entry points of third parties; looking for them reads a file of every installed package.

    Args:
        _: The directories of packages and when they were modified, so that a new package is noticed.
    """
    return tuple(entry_points(group=GROUP))


def _modified(folder: str) -> tuple[str, int]:
    try:
        return folder, os.stat(folder).st_mtime_ns  # noqa: PTH116  without a Path per call
    except OSError:
        return folder, 0


def get(name: str) -> Backend:
    """Load the backend of that name.

    Raises:
        UnknownBackendError: No backend has that name; the message suggests the nearest one.
        BackendError: The descriptor cannot be loaded.
    """
    entries = {entry.name: entry for entry in known()}
    if name not in entries:
        hint = did_you_mean(name, entries)
        msg = f"There is no backend {name!r}.{hint} Known backends: {', '.join(entries) or 'none'}."
        raise UnknownBackendError(msg)
    return _load(entries[name])


def require(name: str) -> Backend:
    """Load the backend of that name and check that its framework is installed.

    Raises:
        FrameworkNotInstalledError: The framework is missing; the message contains the command that installs it.
    """
    backend = get(name)
    if backend.module not in sys.modules and importlib.util.find_spec(backend.module) is None:
        hint = next(entry.install_hint for entry in known() if entry.name == name)
        msg = f"Backend {name!r} needs {backend.module}, which is not installed. Install it with: {hint}"
        raise FrameworkNotInstalledError(msg)
    return backend


def backends() -> dict[str, Backend]:
    """Load all backends; log and skip those that cannot be loaded."""
    loaded = {}
    for entry in known():
        try:
            loaded[entry.name] = _load(entry)
        except BackendError as error:
            logger.warning("%s", error)
    return loaded


def conventions() -> dict[str, EventConventions]:
    """Return the conventions of every backend that can be loaded, by name."""
    return {name: backend.abilities.event_conventions for name, backend in backends().items()}


def detect(candidates: Iterable[Backend] | None = None) -> list[Backend]:
    """Return the backends whose framework this process has fully imported."""
    available = backends().values() if candidates is None else candidates
    return [backend for backend in available if is_imported(backend.module)]


def _load(entry: Entry) -> Backend:
    module, _, attribute = entry.target.partition(":")
    try:
        backend: Backend = getattr(importlib.import_module(module), attribute)
    except Exception as error:
        msg = f"Backend {entry.name!r} ({entry.target}) cannot be loaded: {type(error).__name__}: {error}"
        raise BackendError(msg) from error
    return backend
