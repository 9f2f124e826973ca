"""Records and logs the calls of the frameworks' API, without a schedule and without the native profilers."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from unified_profiler.delivery.delivery import Handler
from unified_profiler.errors import OutputDirectoryError
from unified_profiler.keywords import checked_keywords
from unified_profiler.profiler import Profiler


@checked_keywords
def trace_api(
    *,
    inside: bool = False,
    include: str | Sequence[str] = (),
    exclude: str | Sequence[str] = (),
    arguments: bool = True,
    synchronize: bool = False,
    with_modules: bool | None = None,
    backend: str | Sequence[str] | None = None,
    output_dir: str | os.PathLike[str] | None = None,
    on_trace_ready: Handler | Sequence[Handler] | None = None,
) -> Profiler:
    """Record the calls of the public API of every imported framework, nothing else.

    Use what it returns with `with`, as a decorator, or by `start()` and `stop()`; everything is undone at the end, and
    the calls are in its `run`: `api_table(tracer.run)`. With `output_dir` they are written as they come, in parts, so
    that memory stays bounded.

    Args:
        inside: Whether to record the calls that the frameworks make themselves, too, not only those of user code.
        include: Patterns of names to record, such as `torch.nn.functional.*`; all if not given.
        exclude: Patterns of names not to record.
        arguments: Whether to keep a short text of the arguments, `Tensor[4,16] float32 cpu`; never the values.
        synchronize: Whether to wait, at the end of a call, for the work that it queued.
        with_modules: Whether to record calls of modules (layers, Cells) with their paths in the model.
        backend: "auto" (every imported framework), or one or several names.
        output_dir: Where the run is written; without it the calls stay in memory.
        on_trace_ready: A function, or several, called with each finished Trace.

    Raises:
        ConfigurationError: An option is wrong. A pattern that matches nothing is told when tracing begins.
    """
    return Profiler(
        api={
            "inside": inside,
            "include": include,
            "exclude": exclude,
            "arguments": arguments,
            "synchronize": synchronize,
        },
        operators=False,
        hardware_hz=0,
        with_modules=with_modules,
        backend=backend,
        output_dir=output_dir,
        on_trace_ready=on_trace_ready,
    )


@contextmanager
@checked_keywords
def log_api_calls(path: str | os.PathLike[str] | None = None) -> Iterator[logging.Logger]:
    """Print every API call as it ends, and append it to a file.

    The calls are those of the tracers that start within the block. It gives the logger, by which a program can write
    lines of its own to both places.

    Args:
        path: The file; without it calls are printed only.

    Raises:
        OutputDirectoryError: The file cannot be opened.

    Example:
        >>> with log_api_calls("performance.log") as log, trace_api() as tracer:
        ...     log.info("epoch 1")
        ...     train()
    """
    logger = logging.getLogger("unified_profiler.api")
    handlers = [logging.StreamHandler(sys.stdout), *_appending_to(path)]
    level = logger.level
    for handler in handlers:
        logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        yield logger
    finally:
        logger.setLevel(level)
        for handler in handlers:
            logger.removeHandler(handler)
            handler.flush()
        for handler in handlers[1:]:
            handler.close()


def _appending_to(path: str | os.PathLike[str] | None) -> list[logging.Handler]:
    if path is None:
        return []
    try:
        return [logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")]
    except (OSError, ValueError) as error:
        msg = f"API calls cannot be logged to {os.fspath(path)!r}: {error}. Choose a file in a directory of your own."
        raise OutputDirectoryError(msg) from error
