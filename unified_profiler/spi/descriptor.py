"""BackendDescriptor: a backend as data, whose parts are imported when they are first used."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from unified_profiler.spi.conventions import EventConventions
from unified_profiler.spi.protocols import Abilities, Capability, Normalizer, Recorder, RecordOptions


@dataclass(frozen=True, kw_only=True)
class BackendDescriptor:
    """A `Backend`; making one imports no framework if its parts are given by `lazy`."""

    name: str
    """The name by which users choose it, and which events, traces and manifests carry."""
    module: str
    """The framework's top-level module."""
    capabilities: frozenset[Capability]
    recorder: Callable[[RecordOptions, Path], Recorder]
    normalizer: Callable[[], Normalizer]
    abilities: Abilities = field(default_factory=Abilities)
    conventions: EventConventions = field(default_factory=EventConventions)


def lazy(target: str) -> Callable[..., Any]:
    """Return a function that imports its target when it is called, and passes the call on.

    Args:
        target: A function or class, as `package.module:name`.
    """
    module, _, name = target.partition(":")

    def call(*args: Any) -> Any:
        return getattr(importlib.import_module(module), name)(*args)

    return call
