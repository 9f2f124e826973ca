"""One Profiler for the whole process, for programs whose modules do not hand it to each other."""

from __future__ import annotations

import threading
from typing import Any

from unified_profiler.errors import UsageError
from unified_profiler.keywords import check_keywords, keywords_of
from unified_profiler.profiler import Profiler

_lock = threading.Lock()
_made: list[Profiler] = []
"""The Profiler, once there is one."""


def default_profiler(**options: Any) -> Profiler:
    """Return the Profiler that all modules of a program share; the first call makes it.

    Args:
        **options: Those of `Profiler`, in the first call only. What is not given comes from the environment and from
            pyproject.toml, as for every Profiler.

    Raises:
        UsageError: There is one already, and options were given.
        ConfigurationError: An option is wrong.

    Example:
        >>> default_profiler(output_dir="profile").start()  # in the main program
        >>> with default_profiler().region("data"):  # anywhere else
        ...     load()
    """
    check_keywords("default_profiler", options, keywords_of(Profiler))
    with _lock:
        if not _made:
            _made.append(Profiler(**options))
        elif options:
            msg = (
                f"The default profiler exists already, so {', '.join(sorted(options))} would have no effect. Give "
                "options in the first call of default_profiler(...), or make a Profiler of your own."
            )
            raise UsageError(msg)
        return _made[0]
