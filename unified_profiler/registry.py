"""Which backends there are: a name, where its descriptor lives, and how to install its framework.

First-party backends stand in a table, so that they work from a bare clone; the entry-point group
`unified_profiler.backends` serves third parties. Nothing here imports a framework.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib.metadata import entry_points

from unified_profiler.errors import BackendError, ConfigurationError, FrameworkNotInstalledError, UnknownBackendError
from unified_profiler.keywords import did_you_mean
from unified_profiler.spi import Backend, EventConventions, is_imported

GROUP = "unified_profiler.backends"

logger = logging.getLogger("unified_profiler")


@dataclass(frozen=True)
class Entry:
    """A backend that may be loaded."""

    name: str
    target: str
    """Its descriptor, as `module:attribute`."""
    module: str | None = None
    """The framework's top-level module; None where only the loaded descriptor knows it."""
    install_hint: str = ""
    """The command that installs what the backend needs."""


_FIRST_PARTY = tuple(
    Entry(name, f"unified_profiler_{name}:backend", name, f"pip install 'unified-profiler[{name}]'")
    for name in ("torch", "tensorflow", "mindspore")
)


def known() -> tuple[Entry, ...]:
    """Return all backends that are declared, loadable or not, sorted by name.

    Raises:
        ConfigurationError: Two packages claim the same name.
    """
    found = {entry.name: entry for entry in _FIRST_PARTY}
    for point in entry_points(group=GROUP):
        if point.name in found:
            msg = (
                f"Two backends are called {point.name!r}: {found[point.name].target} and {point.value}. "
                "Uninstall one of the two packages."
            )
            raise ConfigurationError(msg)
        package = point.dist.name if point.dist else point.value
        found[point.name] = Entry(point.name, point.value, None, f"pip install --upgrade {package}")
    return tuple(found[name] for name in sorted(found))


def get(name: str) -> Backend:
    """Load the backend of that name.

    Raises:
        UnknownBackendError: There is none; the message suggests the nearest name.
        BackendError: Its descriptor cannot be loaded.
    """
    entries = {entry.name: entry for entry in known()}
    if name not in entries:
        hint = did_you_mean(name, entries)
        msg = f"There is no backend {name!r}.{hint} Known backends: {', '.join(entries) or 'none'}."
        raise UnknownBackendError(msg)
    return _load(entries[name])


def require(name: str) -> Backend:
    """Load the backend of that name and make sure that its framework is installed.

    Raises:
        FrameworkNotInstalledError: It is not; the message holds the command that installs it.
    """
    backend = get(name)
    if backend.module not in sys.modules and importlib.util.find_spec(backend.module) is None:
        hint = next(entry.install_hint for entry in known() if entry.name == name)
        msg = f"Backend {name!r} needs {backend.module}, which is not installed. Install it with: {hint}"
        raise FrameworkNotInstalledError(msg)
    return backend


def backends() -> dict[str, Backend]:
    """Load every backend; one that cannot be loaded is logged and left out."""
    found = {}
    for entry in known():
        try:
            found[entry.name] = _load(entry)
        except BackendError as error:
            logger.warning("%s", error)
    return found


def conventions() -> dict[str, EventConventions]:
    """Return the conventions of every backend that can be loaded, by name."""
    return {name: backend.conventions for name, backend in backends().items()}


def detect(candidates: Iterable[Backend] | None = None) -> list[Backend]:
    """Return the backends whose framework this process has imported to the end."""
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
