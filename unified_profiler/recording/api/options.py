"""Options of the API tracer, with a check of the name patterns."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass

from unified_profiler.errors import ConfigurationError
from unified_profiler.keywords import did_you_mean


@dataclass(frozen=True, kw_only=True)
class TraceOptions:
    """Selects the calls to record and the details of each."""

    calls: bool = True
    modules: bool = False
    inside: bool = False
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    arguments: bool = True
    synchronize: bool = False

    def wants(self, name: str) -> bool:
        """Return whether to record calls of this API."""
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in self.exclude):
            return False
        return not self.include or any(fnmatch.fnmatchcase(name, pattern) for pattern in self.include)

    def check(self, names: Sequence[str]) -> None:
        """Check that every pattern matches a name.

        Raises:
            ConfigurationError: One does not.
        """
        for option, patterns in (("include", self.include), ("exclude", self.exclude)):
            for pattern in patterns:
                if not any(fnmatch.fnmatchcase(name, pattern) for name in names):
                    hint = did_you_mean(pattern, names, at_most=3)
                    msg = (
                        f"`{option}` has the pattern {pattern!r}, which matches no API of the frameworks traced.{hint} "
                        "A pattern covers the whole name, and * matches anything: 'torch.nn.functional.*'."
                    )
                    raise ConfigurationError(msg)
