"""Decides whether a call was made by user code or by a framework."""

from __future__ import annotations

import sys
from types import FrameType

from unified_profiler.spi import ApiSurface

_OWN = "unified_profiler"


class Callers(dict[str, bool]):
    """Whether the code of a module is user code, by module name."""

    def __init__(self) -> None:
        super().__init__()
        self._packages: set[str] = {_OWN}
        self._machinery: dict[str, int] = {}

    def add(self, surface: ApiSurface) -> None:
        """Add the packages of a framework."""
        self.clear()
        self._packages |= surface.packages
        self._machinery |= surface.machinery

    def __missing__(self, name: str) -> bool:
        """Classify a new module: the standard library acts for others, code without a module comes from a framework."""
        package = name.partition(".")[0]
        is_foreign = package in self._packages or package in sys.stdlib_module_names or not package
        return self.setdefault(name, package == "__main__" or not is_foreign)

    def by_user(self, depth: int) -> bool:
        """Return whether user code made the call whose frame is `depth` frames above that of the caller."""
        frame: FrameType | None = sys._getframe(depth + 1)
        while frame is not None:
            name = frame.f_globals.get("__name__") or ""
            skipped = 1 if name.startswith(_OWN) else self._machinery.get(name, 0)
            if not skipped:
                return self[name]
            for _ in range(skipped):
                frame = frame.f_back if frame is not None else None
        return True
