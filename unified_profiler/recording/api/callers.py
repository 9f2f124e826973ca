"""Who made a call: the user's code, or a framework's."""

from __future__ import annotations

import sys
from types import FrameType

from unified_profiler.spi import ApiSurface

_OWN = "unified_profiler"


class Callers(dict[str, bool]):
    """Whether the code of a module is the user's, by the module's name."""

    def __init__(self) -> None:
        super().__init__()
        self._packages: set[str] = {_OWN}
        self._machinery: dict[str, int] = {}

    def add(self, surface: ApiSurface) -> None:
        """Take in the code of a framework."""
        self.clear()
        self._packages |= surface.packages
        self._machinery |= surface.machinery

    def __missing__(self, name: str) -> bool:
        """Find out for a module not seen before.

        The standard library acts on behalf of others, and code without a module was made by a framework.
        """
        package = name.partition(".")[0]
        known = package in self._packages or package in sys.stdlib_module_names or not package
        self[name] = package == "__main__" or not known
        return self[name]

    def by_user(self, depth: int) -> bool:
        """Say whether user code made the call, which is the given number of frames above the one that asks."""
        frame: FrameType | None = sys._getframe(depth + 1)
        while frame is not None:
            name = frame.f_globals.get("__name__") or ""
            up = 1 if name.startswith(_OWN) else self._machinery.get(name, 0)
            if not up:
                return self[name]
            for _ in range(up):
                frame = frame.f_back if frame is not None else None
        return True
