"""The default Profiler of the process, for programs whose modules do not pass one to each other."""

from __future__ import annotations

import threading
from typing import Any

from unified_profiler.errors import UsageError
from unified_profiler.keywords import check_keywords, keywords_of
from unified_profiler.profiler import Profiler

_lock = threading.Lock()
_default: list[Profiler] = []
"""Contains the default Profiler once it exists."""


def default_profiler(**options: Any) -> Profiler:
    """Return the Profiler that all modules of a program share; the first call creates it.

    Args:
        **options: Options of `Profiler`, in the first call only. The others come from the environment and from
            pyproject.toml, as for every Profiler.

    Raises:
        UsageError: The default Profiler exists already, and options were given.
        ConfigurationError: An option is wrong.

    Example:
        >>> default_profiler(output_dir="profile").start()  # in the main program
        >>> with default_profiler().region("data"):  # anywhere else
        ...     load()
    """
    check_keywords("default_profiler", options, keywords_of(Profiler))
    with _lock:
        if not _default:
            _default.append(Profiler(**options))
        elif options:
            msg = (
                f"The default profiler exists already, so {', '.join(sorted(options))} would have no effect. Give "
                "options in the first call of default_profiler(...), or create another Profiler."
            )
            raise UsageError(msg)
        return _default[0]
